"""What must hold of a binding of an admission policy, and of what policies and bindings match; pure."""

from collections.abc import Sequence
from typing import Any, Final

from levelset.apiserver.members import items, part
from levelset.apiserver.name_checks import check_path_segment
from levelset.apiserver.schemas import wording
from levelset.apiserver.served import Object
from levelset.apiserver.webhook_checks import OPERATIONS, check_rule, check_selector
from levelset.errors import Cause
from levelset.objects.names import check_dns1123_subdomain

__all__ = ["check_match", "check_mutating_binding", "check_validating_binding"]

_ACTIONS: Final = ("Audit", "Deny", "Warn")
_EXCLUSIVE: Final = "name and selector are mutually exclusive"
_REPEATED: Final = (
    "must not contain both Deny and Warn (repeating the same validation failure information in the API response and "
    "headers serves no purpose)"
)


def check_validating_binding(new: Object, _old: Object | None) -> list[Cause]:
    """What is wrong with a ValidatingAdmissionPolicyBinding."""
    spec = part(new, "spec")
    return _check_binding(spec, OPERATIONS) + _check_actions(items(spec, "validationActions"), "spec.validationActions")


def check_mutating_binding(new: Object, _old: Object | None) -> list[Cause]:
    """What is wrong with a MutatingAdmissionPolicyBinding."""
    return _check_binding(part(new, "spec"), tuple(one for one in OPERATIONS if one != "DELETE"))


def check_match(match: Object, at: str, operations: Sequence[str]) -> list[Cause]:
    """What is wrong with the `matchConstraints` of a policy or the `matchResources` of a binding."""
    causes: list[Cause] = []
    policy = match.get("matchPolicy")
    if policy not in ("Equivalent", "Exact"):
        causes.append(wording.not_supported(f"{at}.matchPolicy", policy, ("Equivalent", "Exact")))
    for word in ("namespaceSelector", "objectSelector"):
        causes += check_selector(match.get(word), f"{at}.{word}")
    for word in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(items(match, word)):
            causes += _check_names(items(rule, "resourceNames"), f"{at}.{word}[{index}].resourceNames")
            causes += check_rule(rule, f"{at}.{word}[{index}]", operations)
    return causes


def _check_binding(spec: Object, operations: Sequence[str]) -> list[Cause]:
    name = str(spec.get("policyName") or "")
    causes = [wording.invalid("spec.policyName", name, one) for one in check_dns1123_subdomain(name)]
    if not name:
        causes = [wording.required("spec.policyName")]
    if spec.get("paramRef") is not None:
        causes += _check_params(part(spec, "paramRef"), "spec.paramRef")
    if spec.get("matchResources") is not None:
        # Kubernetes has this name for it, spelled like that, too.
        causes += check_match(part(spec, "matchResources"), "spec.matchResouces", operations)
    return causes


def _check_params(ref: Object, at: str) -> list[Cause]:
    name, selector = str(ref.get("name") or ""), ref.get("selector")
    causes: list[Cause] = [wording.invalid(f"{at}.name", name, one) for one in check_path_segment(name)]
    if name and selector is not None:
        causes += [wording.forbidden(f"{at}.{word}", _EXCLUSIVE) for word in ("name", "selector")]
    causes += check_selector(selector, f"{at}.selector")
    if not name and selector is None:
        causes.append(wording.required(at, "one of name or selector must be specified"))
    action = ref.get("parameterNotFoundAction")
    if not action:
        causes.append(wording.required(f"{at}.parameterNotFoundAction"))
    elif action not in ("Allow", "Deny"):
        causes.append(wording.not_supported(f"{at}.parameterNotFoundAction", action, ("Deny", "Allow")))
    return causes


def _check_actions(actions: list[Any], at: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, one in enumerate(actions):
        if one not in _ACTIONS:
            causes.append(wording.not_supported(f"{at}[{index}]", one, _ACTIONS))
        if one in actions[:index]:
            causes.append(wording.duplicate(f"{at}[{index}]", one))
    if "Deny" in actions and "Warn" in actions:
        causes.append(wording.invalid(at, actions, _REPEATED))
    return causes if actions else [wording.required(at, "at least one validation action is required")]


def _check_names(names: list[Any], at: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, name in enumerate(names):
        causes += [wording.invalid(f"{at}[{index}]", name, one) for one in check_path_segment(str(name))]
        if name in names[:index]:
            causes.append(wording.duplicate(f"{at}[{index}]", name))
    return causes
