"""Validation of admission policies and their bindings, with the messages of kube-apiserver.

Every expression is compiled, so that a stored policy can be evaluated.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from levelset.apiserver.registry.builtin.webhook_configurations import (
    OPERATIONS,
    check_match_conditions,
    check_rule,
    check_selector,
)
from levelset.apiserver.registry.metadata import check_path_segment
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object
from levelset.apiserver.schema import field_errors
from levelset.errors import Cause, Malformed
from levelset.objects.names import check_dns1035_label, check_dns1123_subdomain, check_label_key

if TYPE_CHECKING:
    from levelset.apiserver.expressions.cel_programs import PolicyEnvironment

__all__ = [
    "check_match_resources",
    "check_mutating_binding",
    "check_mutating_policy",
    "check_validating_binding",
    "check_validating_policy",
]

_ACTIONS: Final = ("Audit", "Deny", "Warn")
_EXCLUSIVE: Final = "name and selector are mutually exclusive"
_DENY_AND_WARN: Final = (
    "must not contain both Deny and Warn (repeating the same validation failure information in the API response and "
    "headers serves no purpose)"
)
_MUTATING_OPERATIONS: Final = tuple(one for one in OPERATIONS if one != "DELETE")
_REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_MAX_ANNOTATIONS: Final = 20
_MAX_EXPRESSION_BYTES: Final = 5 * 1024
_IDENTIFIER: Final = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_EMPTY: Final = "must be non-empty if specified"


def check_validating_policy(new: Object, old: Object | None) -> list[Cause]:
    """Validates a ValidatingAdmissionPolicy."""
    spec = map_member(new, "spec")
    causes, environment = _check_common(spec, map_member(old, "spec"), OPERATIONS, is_mutating=False)
    validations, annotations = list_member(spec, "validations"), list_member(spec, "auditAnnotations")
    if not validations and not annotations:
        detail = "validations or auditAnnotations must contain at least one item"
        return [
            *causes,
            *(field_errors.required(f"spec.{word}", detail) for word in ("validations", "auditAnnotations")),
        ]
    for index, one in enumerate(validations):
        causes += _check_validation(one, environment, f"spec.validations[{index}]")
    if len(annotations) > _MAX_ANNOTATIONS:
        detail = f"must not have more than {_MAX_ANNOTATIONS} auditAnnotations"
        causes.append(field_errors.invalid("spec.auditAnnotations", annotations, detail))
    keys: set[str] = set()
    for index, one in enumerate(annotations):
        at, key = f"spec.auditAnnotations[{index}]", str(one.get("key") or "")
        causes += _check_annotation(one, new["metadata"].get("name") or "", environment, at)
        if key in keys:
            causes.append(field_errors.duplicate(f"{at}.key", key))
        keys.add(key)
    return causes


def check_mutating_policy(new: Object, old: Object | None) -> list[Cause]:
    """Validates a MutatingAdmissionPolicy."""
    spec = map_member(new, "spec")
    causes, environment = _check_common(spec, map_member(old, "spec"), _MUTATING_OPERATIONS, is_mutating=True)
    mutations = list_member(spec, "mutations")
    if not mutations:
        causes.append(field_errors.required("spec.mutations", "mutations must contain at least one item"))
    for index, one in enumerate(mutations):
        causes += _check_mutation(one, environment, f"spec.mutations[{index}]")
    return causes + _check_enum(spec, "reinvocationPolicy", ("IfNeeded", "Never"))


def check_validating_binding(new: Object, _old: Object | None) -> list[Cause]:
    """Validates a ValidatingAdmissionPolicyBinding."""
    spec = map_member(new, "spec")
    return _check_binding(spec, OPERATIONS) + _check_actions(
        list_member(spec, "validationActions"), "spec.validationActions"
    )


def check_mutating_binding(new: Object, _old: Object | None) -> list[Cause]:
    """Validates a MutatingAdmissionPolicyBinding."""
    return _check_binding(map_member(new, "spec"), tuple(one for one in OPERATIONS if one != "DELETE"))


def check_match_resources(match: Object, at: str, operations: Sequence[str]) -> list[Cause]:
    """Validates the `matchConstraints` of a policy or the `matchResources` of a binding."""
    causes: list[Cause] = []
    policy = match.get("matchPolicy")
    if policy not in ("Equivalent", "Exact"):
        causes.append(field_errors.not_supported(f"{at}.matchPolicy", policy, ("Equivalent", "Exact")))
    for word in ("namespaceSelector", "objectSelector"):
        causes += check_selector(match.get(word), f"{at}.{word}")
    for word in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(list_member(match, word)):
            causes += _check_names(list_member(rule, "resourceNames"), f"{at}.{word}[{index}].resourceNames")
            causes += check_rule(rule, f"{at}.{word}[{index}]", operations)
    return causes


def _check_common(
    spec: Object, old: Object, operations: Sequence[str], *, is_mutating: bool
) -> "tuple[list[Cause], PolicyEnvironment]":
    """Validates what both kinds of policies share; also returns the environment of their expressions."""
    causes = _check_enum(spec, "failurePolicy", ("Fail", "Ignore"))
    kind, conditions = spec.get("paramKind"), list_member(spec, "matchConditions")
    if kind is not None:
        causes += _check_param_kind(map_member(spec, "paramKind"), "spec.paramKind")
    if spec.get("matchConstraints") is None:
        causes.append(field_errors.required("spec.matchConstraints"))
    else:
        causes += check_match_resources(map_member(spec, "matchConstraints"), "spec.matchConstraints", operations)
        if not list_member(map_member(spec, "matchConstraints"), "resourceRules"):
            causes.append(field_errors.required("spec.matchConstraints.resourceRules"))
    # Unchanged match conditions are not validated again: a policy that an older server accepted stays writable.
    if not old or (kind, conditions) != (old.get("paramKind"), list_member(old, "matchConditions")):
        causes += check_match_conditions(conditions, "spec.matchConditions", has_params=kind is not None)
    more, environment = _check_variables(spec, is_mutating=is_mutating)
    return causes + more, environment


def _check_variables(spec: Object, *, is_mutating: bool) -> "tuple[list[Cause], PolicyEnvironment]":
    # Imported late: the CEL compiler takes a while to load, and most servers never store a policy.
    from levelset.apiserver.expressions.cel_programs import PolicyEnvironment  # noqa: PLC0415

    causes: list[Cause] = []
    environment = PolicyEnvironment(spec.get("paramKind") is not None, is_mutating=is_mutating)
    for index, one in enumerate(list_member(spec, "variables")):
        at, name, text = f"spec.variables[{index}]", str(one.get("name") or ""), str(one.get("expression") or "")
        if not name.strip():
            causes.append(field_errors.required(f"{at}.name", "name is not specified"))
        elif not _is_identifier(name):
            causes.append(field_errors.invalid(f"{at}.name", name, "must be a valid CEL identifier"))
        if not text.strip():
            causes.append(field_errors.required(f"{at}.expression", "expression is not specified"))
            continue
        environment = environment.with_variable(name, text)
        problem = environment.compile_error(name)
        if problem is not None:
            causes.append(field_errors.invalid(f"{at}.expression", text, str(problem)))
    return causes, environment


def _check_validation(tree: Object, environment: "PolicyEnvironment", at: str) -> list[Cause]:
    from levelset.cel import BOOL, STRING  # noqa: PLC0415 - as above

    causes: list[Cause] = []
    text, message_text, message = (str(tree.get(word) or "") for word in ("expression", "messageExpression", "message"))
    if not text.strip():
        causes.append(field_errors.required(f"{at}.expression", "expression is not specified"))
    else:
        causes += _check_expression(environment, f"{at}.expression", text, BOOL)
    if message_text and not message_text.strip():
        causes.append(field_errors.invalid(f"{at}.messageExpression", message_text, _EMPTY))
    elif message_text:
        causes += _check_expression(environment, f"{at}.messageExpression", message_text, STRING, has_authorizer=False)
    if message and not message.strip():
        causes.append(field_errors.invalid(f"{at}.message", message, _EMPTY))
    elif "\n" in message.strip() or "\r" in message.strip():
        causes.append(field_errors.invalid(f"{at}.message", message, "must not contain line breaks"))
    reason = tree.get("reason")
    if reason is not None and reason not in _REASONS:
        causes.append(field_errors.not_supported(f"{at}.reason", reason, _REASONS))
    return causes


def _check_annotation(tree: Object, policy: str, environment: "PolicyEnvironment", at: str) -> list[Cause]:
    from levelset.cel import NULL, STRING  # noqa: PLC0415 - as above

    key, text = str(tree.get("key") or ""), str(tree.get("valueExpression") or "")
    if policy:
        whole = f"{policy}/{key}"
        causes = [field_errors.invalid(f"{at}.key", whole, problem) for problem in check_label_key(whole)]
    else:
        causes = [field_errors.invalid(f"{at}.key", key, "requires metadata.name be non-empty")]
    where = f"{at}.valueExpression"
    if not text.strip():
        return [*causes, field_errors.required(where, "valueExpression is not specified")]
    if len(text.strip().encode(errors="replace")) > _MAX_EXPRESSION_BYTES:
        return [*causes, field_errors.required(where, f"must not exceed {_MAX_EXPRESSION_BYTES} bytes in length")]
    return causes + _check_expression(environment, where, text.strip(), STRING, NULL)


def _check_mutation(tree: Object, environment: "PolicyEnvironment", at: str) -> list[Cause]:
    from levelset.cel import APPLIED, PATCHES  # noqa: PLC0415 - as above

    kinds = {"ApplyConfiguration": ("applyConfiguration", APPLIED), "JSONPatch": ("jsonPatch", PATCHES)}
    kind = str(tree.get("patchType") or "")
    if not kind:
        return [field_errors.required(f"{at}.patchType")]
    if kind not in kinds:
        return [field_errors.not_supported(f"{at}.patchType", kind, kinds)]
    field, expected_type = kinds.pop(kind)
    ((other, _),) = kinds.values()
    causes: list[Cause] = []
    if tree.get(field) is None:
        causes.append(field_errors.required(f"{at}.{field}", f"must be specified when patchType is {kind}"))
    else:
        text = str(map_member(tree, field).get("expression") or "").strip()
        where = f"{at}.{field}.expression"
        causes += _check_expression(environment, where, text, expected_type) if text else [field_errors.required(where)]
    if tree.get(other) is not None:
        detail = f"must not be specified when patchType is {kind}"
        causes.append(field_errors.invalid(f"{at}.{other}", f"{{{other}}}", detail))
    return causes


def _check_expression(
    environment: "PolicyEnvironment", at: str, text: str, *types: Any, has_authorizer: bool = True
) -> list[Cause]:
    try:
        environment.compile(text, *types, has_authorizer=has_authorizer)
    except Malformed as error:
        return [field_errors.invalid(at, text, str(error))]
    return []


def _check_enum(spec: Object, word: str, known: Sequence[str]) -> list[Cause]:
    value = spec.get(word)
    if not value:
        return [field_errors.required(f"spec.{word}")]
    return [] if value in known else [field_errors.not_supported(f"spec.{word}", value, known)]


def _check_param_kind(tree: Object, at: str) -> list[Cause]:
    version, kind = str(tree.get("apiVersion") or ""), str(tree.get("kind") or "")
    causes: list[Cause] = []
    if not version:
        causes.append(field_errors.required(f"{at}.apiVersion"))
    elif version.count("/") > 1:
        problem = f"unexpected GroupVersion string: {version}"
        causes.append(field_errors.invalid(f"{at}.apiVersion", version, problem))
    else:
        causes += _check_version(version, f"{at}.apiVersion")
    if not kind:
        causes.append(field_errors.required(f"{at}.kind"))
    elif problems := check_dns1035_label(kind.lower()):
        detail = f"may have mixed case, but should otherwise match: {','.join(problems)}"
        causes.append(field_errors.invalid(f"{at}.kind", kind, detail))
    return causes


def _check_version(text: str, at: str) -> list[Cause]:
    group, _, version = text.rpartition("/")
    causes: list[Cause] = []
    if group and (problems := check_dns1123_subdomain(group)):
        causes.append(field_errors.invalid(at, group, ",".join(problems)))
    if not version:
        causes.append(field_errors.invalid(at, text, "version must be specified"))
    elif problems := check_dns1035_label(version):
        causes.append(field_errors.invalid(at, version, ",".join(problems)))
    return causes


def _is_identifier(name: str) -> bool:
    from levelset.cel import RESERVED  # noqa: PLC0415 - as above

    return _IDENTIFIER.fullmatch(name) is not None and name not in {*RESERVED, "true", "false", "null", "in"}


def _check_binding(spec: Object, operations: Sequence[str]) -> list[Cause]:
    name = str(spec.get("policyName") or "")
    causes = [field_errors.invalid("spec.policyName", name, one) for one in check_dns1123_subdomain(name)]
    if not name:
        causes = [field_errors.required("spec.policyName")]
    if spec.get("paramRef") is not None:
        causes += _check_params(map_member(spec, "paramRef"), "spec.paramRef")
    if spec.get("matchResources") is not None:
        # The misspelled field name is that of kube-apiserver.
        causes += check_match_resources(map_member(spec, "matchResources"), "spec.matchResouces", operations)
    return causes


def _check_params(ref: Object, at: str) -> list[Cause]:
    name, selector = str(ref.get("name") or ""), ref.get("selector")
    causes: list[Cause] = [field_errors.invalid(f"{at}.name", name, one) for one in check_path_segment(name)]
    if name and selector is not None:
        causes += [field_errors.forbidden(f"{at}.{word}", _EXCLUSIVE) for word in ("name", "selector")]
    causes += check_selector(selector, f"{at}.selector")
    if not name and selector is None:
        causes.append(field_errors.required(at, "one of name or selector must be specified"))
    action = ref.get("parameterNotFoundAction")
    if not action:
        causes.append(field_errors.required(f"{at}.parameterNotFoundAction"))
    elif action not in ("Allow", "Deny"):
        causes.append(field_errors.not_supported(f"{at}.parameterNotFoundAction", action, ("Deny", "Allow")))
    return causes


def _check_actions(actions: list[Any], at: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, one in enumerate(actions):
        if one not in _ACTIONS:
            causes.append(field_errors.not_supported(f"{at}[{index}]", one, _ACTIONS))
        if one in actions[:index]:
            causes.append(field_errors.duplicate(f"{at}[{index}]", one))
    if "Deny" in actions and "Warn" in actions:
        causes.append(field_errors.invalid(at, actions, _DENY_AND_WARN))
    return causes if actions else [field_errors.required(at, "at least one validation action is required")]


def _check_names(names: list[Any], at: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, name in enumerate(names):
        causes += [field_errors.invalid(f"{at}[{index}]", name, one) for one in check_path_segment(str(name))]
        if name in names[:index]:
            causes.append(field_errors.duplicate(f"{at}[{index}]", name))
    return causes
