"""Access reviews: TokenReview, SubjectAccessReview and the self-subject reviews, which are evaluated and never stored.

Without RBAC the members of `system:masters` may do everything and all other users nothing.
"""

from collections.abc import Callable
from typing import Any, Final

from levelset.apiserver.authn.request_attributes import RequestAttributes
from levelset.apiserver.authn.service_account_tokens import AUDIENCE
from levelset.apiserver.authn.users import MASTERS, User, user_info
from levelset.apiserver.authz.rbac import Decision, PolicyRule
from levelset.apiserver.registry.builtin.rules.checks import (
    check_label_requirement,
    is_set_operator,
    label_key_problems,
)
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.schema import field_errors
from levelset.apiserver.wire import status_errors
from levelset.errors import BadRequest, BadSelector, Cause, Invalid
from levelset.objects import FieldSelector, LabelSelector
from levelset.objects.names import is_label_value

__all__ = ["evaluate_review", "is_review"]

MAX_REVIEW_BYTES: Final = 128 * 1024
"""The largest body of a review: every authenticated user may send one, and none needs more."""
ALL_RULES: Final[Object] = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}
NO_RULES: Final[Object] = {"resourceRules": [], "nonResourceRules": [], "incomplete": False}
_OWN_METADATA: Final = frozenset({"namespace", "managedFields", "selfLink"})
"""The metadata of a review in a namespace: the namespace, and what the server has added."""
_IGNORED_METADATA: Final = frozenset({"managedFields", "selfLink"})
_OPERATORS: Final = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})
_RESOURCE_FIELDS: Final = ("verbs", "apiGroups", "resources", "resourceNames")


def is_review(served: ServedResource) -> bool:
    """Whether objects of this kind are evaluated rather than stored."""
    return served.verbs == ("create",) and bool(served.group)


def evaluate_review(state: ServerState, served: ServedResource, tree: Object, user: User) -> Object:
    """The review with its result in the status; `tree` was decoded by its schema and is not shared.

    Raises Invalid for a contradictory or incomplete spec, and BadRequest for a rules review without a namespace.
    """
    causes = _check(served, tree)
    if causes:
        raise _invalid_review(served, causes)
    evaluate = EVALUATORS.get(served.kind)
    status = {} if evaluate is None else evaluate(state, tree, user)
    ignored = _ignored_selectors(map_member(tree, "spec").get("resourceAttributes") or {})
    if ignored:
        status["evaluationError"] = "; ".join(f"{one} ignored due to parse error" for one in ignored)
    return {**tree, "metadata": map_member(tree, "metadata"), "status": status}


def _invalid_review(served: ServedResource, causes: list[Cause]) -> Invalid:
    """422, as upstream without the kind, which its reviews do not know."""
    found = status_errors.invalid(served, "", causes)
    details = {name: value for name, value in found.details.items() if name != "kind"}
    return Invalid(found.message.removeprefix(served.kind), details=details, causes=causes)


def _self_access(state: ServerState, tree: Object, user: User) -> Object:
    return _access_status(_decide(state, user, tree))


def _subject_access(state: ServerState, tree: Object, _user: User) -> Object:
    spec = map_member(tree, "spec")
    extra = tuple((name, tuple(values)) for name, values in sorted(map_member(spec, "extra").items()))
    subject = User(spec.get("user") or "", tuple(list_member(spec, "groups")), spec.get("uid") or "", extra)
    return _access_status(_decide(state, subject, tree))


def _decide(state: ServerState, user: User, tree: Object) -> Decision:
    if state.rbac is not None:
        return state.rbac.decide(user, _reviewed_attributes(map_member(tree, "spec")))
    return Decision(MASTERS in user.groups)


def _reviewed_attributes(spec: Object) -> RequestAttributes:
    path = spec.get("nonResourceAttributes")
    if path is not None:
        return RequestAttributes(path.get("verb") or "", path=path.get("path") or "")
    resource = map_member(spec, "resourceAttributes")
    words = ("verb", "group", "resource", "subresource", "namespace", "name")
    return RequestAttributes(*(resource.get(word) or "" for word in words))


def _access_status(decision: Decision) -> Object:
    reason = {"reason": decision.reason} if decision.reason else {}
    return {"allowed": decision.allowed, **reason}


def _self_rules(state: ServerState, tree: Object, user: User) -> Object:
    namespace = map_member(tree, "spec").get("namespace") or ""
    if not namespace:
        raise BadRequest("no namespace on request")
    if user.is_master:
        return ALL_RULES
    if state.rbac is None:
        return NO_RULES
    grants = state.rbac.grants(user, namespace)
    rules = [one.rule for one in grants.grants]
    error = {"evaluationError": ", ".join(grants.errors)} if grants.errors else {}
    return {
        "resourceRules": [_rule_tree(rule, _RESOURCE_FIELDS) for rule in rules if not rule.paths],
        "nonResourceRules": [_rule_tree(rule, ("verbs", "nonResourceURLs")) for rule in rules if rule.paths],
        "incomplete": bool(error),
        **error,
    }


def _rule_tree(rule: PolicyRule, words: tuple[str, ...]) -> Object:
    return {word: rule.tree[word] for word in words if rule.tree.get(word)}


def _self_user(_state: ServerState, _tree: Object, user: User) -> Object:
    return {"userInfo": user_info(user)}


def _token_review(state: ServerState, tree: Object, _user: User) -> Object:
    """Authenticates the token as a request would, for the audiences of the spec if it names any."""
    spec = map_member(tree, "spec")
    token, audiences = spec.get("token"), list_member(spec, "audiences")
    if not token:
        raise BadRequest("token is required for TokenReview in authentication")
    if state.authenticator is None:
        return {"user": {}}
    service_accounts = state.service_account_tokens
    own = service_accounts.audiences(token) if service_accounts is not None else []
    if service_accounts is not None and own:
        found = service_accounts.authenticate(token, tuple(audiences) or (AUDIENCE,))
        shared = [one for one in own if one in (audiences or [AUDIENCE])]
    else:
        # The tokens of the token file have one audience: this server.
        found = state.authenticator.authenticate_token(token) if not audiences or AUDIENCE in audiences else None
        shared = [AUDIENCE]
    if found is None:
        return {"user": {}, "error": "invalid bearer token"}
    return {"authenticated": True, "user": user_info(found), "audiences": shared}


def _check(served: ServedResource, tree: Object) -> list[Cause]:
    if not served.kind.endswith("AccessReview"):
        return []
    spec = map_member(tree, "spec")
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    causes: list[Cause] = []
    if resource is not None and path is not None:
        problem = "cannot be specified in combination with resourceAttributes"
        causes.append(field_errors.invalid("spec.nonResourceAttributes", path, problem))
    if resource is None and path is None:
        problem = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        causes.append(field_errors.invalid("spec.resourceAttributes", None, problem))
    if served.kind != "SelfSubjectAccessReview" and not spec.get("user") and not spec.get("groups"):
        causes.append(field_errors.invalid("spec.user", "", "at least one of user or group must be specified"))
    causes += _check_selectors(resource)
    others = {name for name, value in map_member(tree, "metadata").items() if value and name not in _IGNORED_METADATA}
    if others and not served.namespaced:
        causes.append(field_errors.invalid("metadata", tree["metadata"], "must be empty"))
    return causes + (_check_local(tree, resource, path) if served.kind.startswith("Local") else [])


def _check_selectors(resource: Any) -> list[Cause]:
    """A selector is either a text or requirements; their operators may be those of newer servers."""
    causes: list[Cause] = []
    for name in ("fieldSelector", "labelSelector"):
        at = f"spec.resourceAttributes.{name}"
        if resource is None or resource.get(name) is None:
            continue
        selector: Object = resource[name]
        text, requirements = selector.get("rawSelector"), list_member(selector, "requirements")
        if text and requirements:
            detail = "may not specified at the same time as requirements"
            causes.append(field_errors.invalid(f"{at}.rawSelector", text, detail))
        if not text and not requirements:
            detail = f"when {at} is specified, requirements or rawSelector is required"
            causes.append(field_errors.required(f"{at}.requirements", detail))
        for index, one in enumerate(requirements):
            where, key, values = f"{at}.requirements[{index}]", one.get("key") or "", list_member(one, "values")
            if name == "fieldSelector" and not key:
                causes.append(field_errors.required(f"{where}.key", "must be specified"))
            is_set_operator(one.get("operator") or "", values, where, causes)
            if name == "labelSelector":
                check_label_requirement(key, values, where, causes)
    return causes


def _ignored_selectors(resource: Object) -> list[str]:
    """The selectors that cannot be parsed, and whether a part of them can be: the access is decided without."""
    found: list[str] = []
    kinds: tuple[tuple[str, Callable[[str], object], Callable[[Object], bool]], ...] = (
        ("fieldSelector", FieldSelector.parse, _is_field_requirement),
        ("labelSelector", LabelSelector.parse, _is_label_requirement),
    )
    for name, parse, is_valid in kinds:
        selector, place = map_member(resource, name), f"spec.resourceAttributes.{name}"
        requirements = [is_valid(one) for one in list_member(selector, "requirements")]
        try:
            parse(selector.get("rawSelector") or "")
        except BadSelector:
            requirements = requirements or [False]
        if not all(requirements):  # such as those of a newer server
            found.append(f"{place} partially" if any(requirements) else place)
    return found


def _is_field_requirement(one: Object) -> bool:
    return one.get("operator") in ("In", "NotIn") and len(list_member(one, "values")) == 1


def _is_label_requirement(one: Object) -> bool:
    operator, values = one.get("operator"), list_member(one, "values")
    if operator not in _OPERATORS or label_key_problems(one.get("key") or ""):
        return False
    return bool(values) is (operator in ("In", "NotIn")) and all(map(is_label_value, values))


def _check_local(tree: Object, resource: Any, path: Any) -> list[Cause]:
    metadata = map_member(tree, "metadata")
    namespace = metadata.get("namespace") or ""
    causes: list[Cause] = []
    others = {name: value for name, value in metadata.items() if value and name not in _OWN_METADATA}
    if others:
        causes.append(field_errors.invalid("metadata", others, "must be empty except for namespace"))
    if resource is not None and (resource.get("namespace") or "") != namespace:
        given = resource.get("namespace") or ""
        causes.append(field_errors.invalid("spec.resourceAttributes.namespace", given, "must match metadata.namespace"))
    if path is not None:
        causes.append(field_errors.invalid("spec.nonResourceAttributes", path, "disallowed on this kind of request"))
    return causes


EVALUATORS: Final[dict[str, Callable[[ServerState, Object, User], Object]]] = {
    "LocalSubjectAccessReview": _subject_access,
    "SelfSubjectAccessReview": _self_access,
    "SelfSubjectReview": _self_user,
    "SelfSubjectRulesReview": _self_rules,
    "SubjectAccessReview": _subject_access,
    "TokenReview": _token_review,
}
