"""Reviews: questions in the form of objects, answered and never stored ("may I?", "who am I?").

Whoever is let in as a master may do everything and everybody else nothing, so the answers are short.
"""

from collections.abc import Callable

from levelset.apiserver.access import MASTERS, Caller
from levelset.apiserver.members import items, part
from levelset.apiserver.served import Object, Served
from levelset.apiserver.world import World

__all__ = ["answer_review", "is_review"]

REASON = "members of system:masters may do everything"
EVERYTHING: Object = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}
NOTHING: Object = {"resourceRules": [], "nonResourceRules": [], "incomplete": False}


def is_review(served: Served) -> bool:
    """Whether objects of this kind are answered rather than stored."""
    return served.verbs == ("create",)


def answer_review(world: World, served: Served, tree: Object, caller: Caller) -> Object:
    """The review with its answer in the status; it has been decoded by its schema, and belongs to this call."""
    answer = ANSWERS.get(served.kind)
    status = {} if answer is None else answer(world, tree, caller)
    return {**tree, "metadata": {**part(tree, "metadata"), "creationTimestamp": None}, "status": status}


def _own_access(_world: World, _tree: Object, caller: Caller) -> Object:
    return _allowed(caller.is_master)


def _access(_world: World, tree: Object, _caller: Caller) -> Object:
    return _allowed(MASTERS in items(part(tree, "spec"), "groups"))


def _allowed(yes: bool) -> Object:
    return {"allowed": True, "reason": REASON} if yes else {"allowed": False}


def _own_rules(_world: World, _tree: Object, caller: Caller) -> Object:
    return EVERYTHING if caller.is_master else NOTHING


def _own_self(_world: World, _tree: Object, caller: Caller) -> Object:
    return {"userInfo": _user(caller)}


def _token(world: World, tree: Object, _caller: Caller) -> Object:
    """Whose token this is, as if it had come with a request."""
    token = part(tree, "spec").get("token")
    found = world.access.token_caller(token) if token and world.access is not None else None
    return {"authenticated": False} if found is None else {"authenticated": True, "user": _user(found)}


def _user(caller: Caller) -> Object:
    user: Object = {"username": caller.name, "groups": list(caller.groups)}
    return {**user, "uid": caller.uid} if caller.uid else user


ANSWERS: dict[str, Callable[[World, Object, Caller], Object]] = {
    "LocalSubjectAccessReview": _access,
    "SelfSubjectAccessReview": _own_access,
    "SelfSubjectReview": _own_self,
    "SelfSubjectRulesReview": _own_rules,
    "SubjectAccessReview": _access,
    "TokenReview": _token,
}
