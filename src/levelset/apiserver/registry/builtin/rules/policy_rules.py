"""The rules of admission policies and their bindings; every expression is compiled, so that it can be evaluated."""

import re
from typing import TYPE_CHECKING, Any, Final

from levelset.apiserver.registry.builtin.rules.checks import (
    dns_subdomain,
    label_selector,
    one_of,
)
from levelset.apiserver.registry.builtin.rules.meta_rules import check_conditions
from levelset.apiserver.registry.builtin.rules.rule_tables import KindRules, Required, Table, always, given, required
from levelset.apiserver.registry.builtin.rules.webhook_rules import RULE, check_match_conditions
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object
from levelset.apiserver.schema import field_errors
from levelset.errors import Cause, Malformed
from levelset.objects.names import check_dns1035_label, check_dns1123_subdomain, check_label_key, check_path_segment

if TYPE_CHECKING:
    from levelset.apiserver.expressions.cel_programs import PolicyEnvironment

__all__ = ["MUTATING_BINDING", "MUTATING_POLICY", "VALIDATING_BINDING", "VALIDATING_POLICY"]

_ACTIONS: Final = ("Audit", "Deny", "Warn")
_EXCLUSIVE: Final = "name and selector are mutually exclusive"
_DENY_AND_WARN: Final = (
    "must not contain both Deny and Warn (repeating the same validation failure information in the API response and "
    "headers serves no purpose)"
)
_MUTATING_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "UPDATE")
_REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_MAX_ANNOTATIONS: Final = 20
_MAX_EXPRESSION_BYTES: Final = 5 * 1024
_IDENTIFIER: Final = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_EMPTY: Final = "must be non-empty if specified"


def _validating_policy(new: Any, _at: str, out: list[Cause], old: Any) -> None:
    spec = map_member(new, "spec")
    environment = _check_common(spec, map_member(old, "spec"), out, is_mutating=False)
    validations, annotations = list_member(spec, "validations"), list_member(spec, "auditAnnotations")
    if not validations and not annotations:
        detail = "validations or auditAnnotations must contain at least one item"
        out.extend([field_errors.required(f"spec.{word}", detail) for word in ("validations", "auditAnnotations")])
        return
    for index, one in enumerate(validations):
        out.extend(_check_validation(one, environment, f"spec.validations[{index}]"))
    if len(annotations) > _MAX_ANNOTATIONS:
        detail = f"must not have more than {_MAX_ANNOTATIONS} auditAnnotations"
        out.append(field_errors.invalid("spec.auditAnnotations", annotations, detail))
    keys: set[str] = set()
    for index, one in enumerate(annotations):
        at, key = f"spec.auditAnnotations[{index}]", str(one.get("key") or "")
        out.extend(_check_annotation(one, new["metadata"].get("name") or "", environment, at))
        if key in keys:
            out.append(field_errors.duplicate(f"{at}.key", key))
        keys.add(key)


def _mutating_policy(new: Any, _at: str, out: list[Cause], old: Any) -> None:
    spec = map_member(new, "spec")
    environment = _check_common(spec, map_member(old, "spec"), out, is_mutating=True)
    mutations = list_member(spec, "mutations")
    if not mutations:
        out.append(field_errors.required("spec.mutations", "mutations must contain at least one item"))
    for index, one in enumerate(mutations):
        out.extend(_check_mutation(one, environment, f"spec.mutations[{index}]"))
    REINVOCATION(spec, "spec", out, None)


def _resource_names(value: list[str], at: str, out: list[Cause], _context: Any) -> None:
    seen: set[str] = set()
    for index, name in enumerate(value):
        out.extend([field_errors.invalid(f"{at}[{index}]", name, one) for one in check_path_segment(name)])
        if name in seen:
            out.append(field_errors.duplicate(f"{at}[{index}]", name))
        seen.add(name)


_NAMED_RULE: Final = Table(("resourceNames", _resource_names), ("", RULE))
# The `matchConstraints` of a policy, and the `matchResources` of a binding.
MATCH: Final = Table(
    ("matchPolicy", given(one_of("Equivalent", "Exact"))),
    ("namespaceSelector", label_selector),
    ("objectSelector", label_selector),
    ("resourceRules[*]", _NAMED_RULE),
    ("excludeResourceRules[*]", _NAMED_RULE),
)
FAILURE: Final = Table(("failurePolicy", given(one_of("Fail", "Ignore"))))
REINVOCATION: Final = Table(("reinvocationPolicy", required, one_of("IfNeeded", "Never")))


def _check_common(spec: Object, old: Object, out: list[Cause], *, is_mutating: bool) -> "PolicyEnvironment":
    """Checks what both kinds of policies share; returns the environment of their expressions."""
    FAILURE(spec, "spec", out, None)
    kind, conditions = spec.get("paramKind"), list_member(spec, "matchConditions")
    if kind is not None:
        out.extend(_check_param_kind(map_member(spec, "paramKind"), "spec.paramKind"))
    if spec.get("matchConstraints") is None:
        out.append(field_errors.required("spec.matchConstraints"))
    else:
        _constraints(map_member(spec, "matchConstraints"), "spec.matchConstraints", out, is_mutating=is_mutating)
    # Unchanged match conditions are not validated again: a policy that an older server accepted stays writable.
    if not old or (kind, conditions) != (old.get("paramKind"), list_member(old, "matchConditions")):
        check_match_conditions(conditions, "spec.matchConditions", out, has_params=kind is not None)
    causes, environment = _check_variables(spec, is_mutating=is_mutating)
    out.extend(causes)
    return environment


def _constraints(match: Object, at: str, out: list[Cause], *, is_mutating: bool) -> None:
    MATCH(match, at, out, None)
    rules = list_member(match, "resourceRules")
    if not rules:
        out.append(field_errors.required(f"{at}.resourceRules"))
    if is_mutating:
        _mutating_operations(match, at, out, None)


def _mutating_operations(match: Any, at: str, out: list[Cause], _context: Any) -> None:
    for operation in (one for rule in list_member(match, "resourceRules") for one in list_member(rule, "operations")):
        if operation not in _MUTATING_OPERATIONS:
            where = f"{at}.resourceRules.operations"
            out.append(field_errors.not_supported(where, operation, _MUTATING_OPERATIONS))


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
    whole = f"{policy}/{key}"
    causes = [field_errors.invalid(f"{at}.key", whole, problem) for problem in check_label_key(whole)]
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


def _name_or_selector(ref: Any, at: str, out: list[Cause], _context: Any) -> None:
    name, selector = str(ref.get("name") or ""), ref.get("selector")
    out.extend([field_errors.invalid(f"{at}.name", name, one) for one in check_path_segment(name)])
    if name and selector is not None:
        out.append(field_errors.forbidden(f"{at}.name", _EXCLUSIVE))
    if selector is not None:
        label_selector(selector, f"{at}.selector", out, None)
    if name and selector is not None:
        out.append(field_errors.forbidden(f"{at}.selector", _EXCLUSIVE))
    if not name and selector is None:
        out.append(field_errors.required(at, "one of name or selector must be specified"))


def _actions(value: list[Any], at: str, out: list[Cause], _context: Any) -> None:
    for index, one in enumerate(value):
        if one not in _ACTIONS:
            out.append(field_errors.not_supported(f"{at}[{index}]", one, _ACTIONS))
        if one in value[:index]:
            out.append(field_errors.duplicate(f"{at}[{index}]", one))
    if "Deny" in value and "Warn" in value:
        out.append(field_errors.invalid(at, value, _DENY_AND_WARN))


PARAM_REFERENCE: Final = Table(
    ("", _name_or_selector),
    ("parameterNotFoundAction", required, one_of("Deny", "Allow")),
)
_BINDING: Final = (
    ("policyName", required, dns_subdomain),
    ("paramRef", PARAM_REFERENCE),
    ("matchResources", MATCH),
)


def _spec(table: Table) -> Any:
    return always(lambda value, at, out, context: table(value or {}, at, out, context))


_MUTATING: Final = (*_BINDING, ("matchResources", _mutating_operations))
MUTATING_BINDING: Final = KindRules(rules=Table(("spec", _spec(Table(*_MUTATING))), root=True))
_ACTION_LIST: Final = ("validationActions", Required("at least one validation action is required"), _actions)
VALIDATING_BINDING: Final = KindRules(rules=Table(("spec", _spec(Table(*_BINDING, _ACTION_LIST))), root=True))
MUTATING_POLICY: Final = KindRules(rules=Table(("", _mutating_policy), root=True))


def _expression_warning(one: Any, at: str, out: list[Cause], _context: Any) -> None:
    for name in ("warning", "fieldRef"):
        if not (one.get(name) or "").strip():
            out.append(field_errors.required(f"{at}.{name}"))


VALIDATING_POLICY: Final = KindRules(
    rules=Table(("", _validating_policy), root=True),
    status=Table(
        ("status.typeChecking.expressionWarnings[*]", _expression_warning),
        ("status.conditions", check_conditions),
        root=True,
    ),
)
