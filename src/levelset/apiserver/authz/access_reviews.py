"""Reviews: questions in the form of objects, answered and never stored ("may I?", "who am I?", "whose token is this?").

Without roles the answers are short: whoever is let in as a master may do everything, and everybody else nothing.
"""

from collections.abc import Callable
from typing import Any, Final

from levelset.apiserver.authn.request_attributes import Attempt
from levelset.apiserver.authn.service_account_tokens import AUDIENCE
from levelset.apiserver.authn.users import MASTERS, Caller, user_info
from levelset.apiserver.authz.rbac import Decision, Rule
from levelset.apiserver.resources.json_members import items, part
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import World
from levelset.apiserver.schema import field_errors
from levelset.apiserver.wire import status_errors
from levelset.errors import BadRequest, Cause

__all__ = ["answer_review", "is_review"]

LARGEST: Final = 128 * 1024
"""The body of a review: everybody may ask, and nobody's question is that long."""
REASON: Final = "members of system:masters may do everything"
EVERYTHING: Final[Object] = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}
NOTHING: Final[Object] = {"resourceRules": [], "nonResourceRules": [], "incomplete": False}
_RESOURCE_WORDS: Final = ("verbs", "apiGroups", "resources", "resourceNames")


def is_review(served: ServedResource) -> bool:
    """Whether objects of this kind are answered rather than stored."""
    return served.verbs == ("create",)


def answer_review(world: World, served: ServedResource, tree: Object, caller: Caller) -> Object:
    """The review with its answer in the status; it has been decoded by its schema, and belongs to this call.

    Raises Invalid for a question that makes no sense, and BadRequest for one that lacks what it is about.
    """
    causes = _check(served, tree)
    if causes:
        raise status_errors.invalid(served, part(tree, "metadata").get("name") or "", causes)
    answer = ANSWERS.get(served.kind)
    status = {} if answer is None else answer(world, tree, caller)
    return {**tree, "metadata": {**part(tree, "metadata"), "creationTimestamp": None}, "status": status}


def _own_access(world: World, tree: Object, caller: Caller) -> Object:
    return _told(_decide(world, caller, tree))


def _access(world: World, tree: Object, _caller: Caller) -> Object:
    spec = part(tree, "spec")
    extra = tuple((name, tuple(values)) for name, values in sorted(part(spec, "extra").items()))
    subject = Caller(spec.get("user") or "", tuple(items(spec, "groups")), spec.get("uid") or "", extra)
    return _told(_decide(world, subject, tree))


def _decide(world: World, caller: Caller, tree: Object) -> Decision:
    if world.rbac is not None:
        return world.rbac.decide(caller, _asked(part(tree, "spec")))
    return Decision(True, REASON) if MASTERS in caller.groups else Decision(False)


def _asked(spec: Object) -> Attempt:
    path = spec.get("nonResourceAttributes")
    if path is not None:
        return Attempt(path.get("verb") or "", path=path.get("path") or "")
    asked = part(spec, "resourceAttributes")
    words = ("verb", "group", "resource", "subresource", "namespace", "name")
    return Attempt(*(asked.get(word) or "" for word in words))


def _told(decision: Decision) -> Object:
    reason = {"reason": decision.reason} if decision.reason else {}
    return {"allowed": decision.allowed, **reason}


def _own_rules(world: World, tree: Object, caller: Caller) -> Object:
    namespace = part(tree, "spec").get("namespace") or ""
    if caller.is_master:
        return EVERYTHING
    if world.rbac is None:
        return NOTHING
    if not namespace:
        raise BadRequest("no namespace on request")
    grants = world.rbac.grants(caller, namespace)
    rules = [one.rule for one in grants.grants]
    problem = {"evaluationError": ", ".join(grants.problems)} if grants.problems else {}
    return {
        "resourceRules": [_shown(rule, _RESOURCE_WORDS) for rule in rules if not rule.paths],
        "nonResourceRules": [_shown(rule, ("verbs", "nonResourceURLs")) for rule in rules if rule.paths],
        "incomplete": bool(problem),
        **problem,
    }


def _shown(rule: Rule, words: tuple[str, ...]) -> Object:
    return {word: rule.tree[word] for word in words if rule.tree.get(word)}


def _own_self(_world: World, _tree: Object, caller: Caller) -> Object:
    return {"userInfo": user_info(caller)}


def _token(world: World, tree: Object, _caller: Caller) -> Object:
    """Whose token this is, as if it had come with a request; for which of the audiences, if any are named."""
    spec = part(tree, "spec")
    token, wanted = spec.get("token"), items(spec, "audiences")
    if not token or world.access is None:
        return {"authenticated": False}
    accounts = world.accounts
    own = accounts.audiences(token) if accounts is not None else []
    if accounts is not None and own:
        found = accounts.caller(token, tuple(wanted) or (AUDIENCE,))
        shared = [one for one in own if one in (wanted or [AUDIENCE])]
    else:
        # The tokens of people are for this server alone.
        found = world.access.token_caller(token) if not wanted or AUDIENCE in wanted else None
        shared = [AUDIENCE]
    if found is None:
        return {"authenticated": False, "error": "invalid bearer token"}
    return {"authenticated": True, "user": user_info(found), "audiences": shared}


def _check(served: ServedResource, tree: Object) -> list[Cause]:
    if not served.kind.endswith("AccessReview"):
        return []
    spec = part(tree, "spec")
    asked, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    causes: list[Cause] = []
    if asked is not None and path is not None:
        problem = "cannot be specified in combination with resourceAttributes"
        causes.append(field_errors.invalid("spec.nonResourceAttributes", path, problem))
    if asked is None and path is None:
        problem = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        causes.append(field_errors.invalid("spec.resourceAttributes", None, problem))
    if served.kind != "SelfSubjectAccessReview" and not spec.get("user") and not spec.get("groups"):
        causes.append(field_errors.invalid("spec.user", "", "at least one of user or group must be specified"))
    return causes + (_check_local(tree, asked, path) if served.kind.startswith("Local") else [])


def _check_local(tree: Object, asked: Any, path: Any) -> list[Cause]:
    namespace = part(tree, "metadata").get("namespace") or ""
    causes: list[Cause] = []
    if asked is not None and (asked.get("namespace") or "") != namespace:
        given = asked.get("namespace") or ""
        causes.append(field_errors.invalid("spec.resourceAttributes.namespace", given, "must match metadata.namespace"))
    if path is not None:
        causes.append(field_errors.invalid("spec.nonResourceAttributes", path, "disallowed on this kind of request"))
    return causes


ANSWERS: Final[dict[str, Callable[[World, Object, Caller], Object]]] = {
    "LocalSubjectAccessReview": _access,
    "SelfSubjectAccessReview": _own_access,
    "SelfSubjectReview": _own_self,
    "SelfSubjectRulesReview": _own_rules,
    "SubjectAccessReview": _access,
    "TokenReview": _token,
}
