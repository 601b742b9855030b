"""The rules of a pod spec about scheduling: affinity, tolerations, topology spread, and selectors of nodes."""

from typing import Any, Final

from levelset.apiserver.registry.builtin.rules.checks import (
    between,
    dns_label,
    is_set_operator,
    label_key_problems,
    label_selector,
    label_value_problems,
    one_of,
    positive,
    subdomain_problems,
)
from levelset.apiserver.registry.builtin.rules.rule_tables import Required, Table, always, if_set, remembered, zero
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.schema import field_errors
from levelset.errors import Cause

__all__ = [
    "AFFINITY",
    "NODE_SELECTOR",
    "TAINT_EFFECTS",
    "check_scheduling_gates",
    "check_spread_constraints",
    "check_tolerations",
]

WEIGHT: Final = between(1, 100, "must be in the range 1-100")
TAINT_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def _key(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    out.extend([field_errors.invalid(at, value or "", one) for one in label_key_problems(value or "")])


def _node_requirement(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    operator, values = value.get("operator") or "", list_member(value, "values")
    if is_set_operator(operator, values, at, out):
        pass
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            out.append(field_errors.required(f"{at}.values", detail))
    else:
        out.append(field_errors.invalid(f"{at}.operator", operator, "not a valid selector operator"))
    _key(value.get("key"), f"{at}.key", out, None)
    for index, text in enumerate(values):
        where = f"{at}.values[{index}]"
        out.extend([field_errors.invalid(where, text, one) for one in label_value_problems(text)])


def _preferred_requirement(value: Any, at: str, out: list[Cause], context: Any) -> None:
    """As a required one, but its values are not checked."""
    found: list[Cause] = []
    _node_requirement(value, at, found, context)
    out.extend([one for one in found if not one.field.startswith(f"{at}.values[")])


def _node_field(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    operator, values, key = value.get("operator") or "", list_member(value, "values"), value.get("key") or ""
    if operator not in ("In", "NotIn"):
        out.append(field_errors.invalid(f"{at}.operator", operator, "not a valid selector operator"))
    elif len(values) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        out.append(field_errors.required(f"{at}.values", detail))
    if key != "metadata.name":
        out.append(field_errors.invalid(f"{at}.key", key, "not a valid field selector key"))
        return
    for index, text in enumerate(values):
        where = f"{at}.values[{index}]"
        out.extend([field_errors.invalid(where, text, one) for one in subdomain_problems(text)])


NODE_TERM: Final = Table(("matchExpressions[*]", _node_requirement), ("matchFields[*]", _node_field))
PREFERRED_TERM: Final = Table(("matchExpressions[*]", _preferred_requirement), ("matchFields[*]", _node_field))
NODE_SELECTOR: Final = Table(
    ("nodeSelectorTerms", Required("must have at least one node selector term")), ("nodeSelectorTerms[*]", NODE_TERM)
)


def _label_keys(value: Any, at: str, out: list[Cause]) -> None:
    """The label keys of a term, which need a selector, and must not be in it."""
    selector = value.get("labelSelector")
    for name in ("matchLabelKeys", "mismatchLabelKeys"):
        keys = list_member(value, name)
        if keys and selector is None:
            detail = "must not be specified when labelSelector is not set"
            out.append(field_errors.forbidden(f"{at}.{name}", detail))
            continue
        for index, key in enumerate(keys):
            _key(key, f"{at}.{name}[{index}]", out, None)
    matching = list_member(value, "matchLabelKeys")
    seen = set(map_member(selector, "matchLabels"))
    for expression in list_member(selector, "matchExpressions"):
        key = expression.get("key")
        if key in matching and key in seen:
            detail = "exists in both matchLabelKeys and labelSelector"
            out.append(field_errors.invalid(f"{at}[{matching.index(key)}]", key, detail))
        seen.add(key)
    for index, key in enumerate(matching):
        if key in list_member(value, "mismatchLabelKeys"):
            detail = "exists in both matchLabelKeys and mismatchLabelKeys"
            out.append(field_errors.invalid(f"{at}.matchLabelKeys[{index}]", key, detail))


def _term_keys(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    for name in list_member(value, "namespaces"):
        if not dns_label.is_valid(name):
            dns_label.report(name, f"{at}.namespace", out)
    _label_keys(value, at, out)


POD_TERM: Final = Table(
    ("labelSelector", label_selector),
    ("namespaceSelector", label_selector),
    ("", _term_keys),
    ("topologyKey", Required("can not be empty")),
    ("topologyKey", always(_key)),
)


def _pod_term(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    POD_TERM(value or {}, at, out, None)


WEIGHTED_TERM: Final = Table(("weight", zero, WEIGHT), ("podAffinityTerm", always(_pod_term)))
POD_AFFINITY: Final = Table(
    ("requiredDuringSchedulingIgnoredDuringExecution[*]", POD_TERM),
    ("preferredDuringSchedulingIgnoredDuringExecution[*]", WEIGHTED_TERM),
)
NODE_AFFINITY: Final = Table(
    ("requiredDuringSchedulingIgnoredDuringExecution", NODE_SELECTOR),
    (
        "preferredDuringSchedulingIgnoredDuringExecution[*]",
        Table(("weight", zero, WEIGHT), ("preference", PREFERRED_TERM)),
    ),
)
AFFINITY: Final = Table(
    ("nodeAffinity", NODE_AFFINITY), ("podAffinity", POD_AFFINITY), ("podAntiAffinity", POD_AFFINITY)
)


@remembered
def check_tolerations(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    """Checks tolerations: keys, operators, values and effects fit together."""
    for index, one in enumerate(value):
        _toleration(one, f"{at}[{index}]", out)


def _toleration(one: Any, at: str, out: list[Cause]) -> None:
    key, operator, text = one.get("key") or "", one.get("operator") or "", one.get("value") or ""
    effect = one.get("effect") or ""
    if key:
        _key(key, f"{at}.key", out, None)
    elif operator != "Exists":
        detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        out.append(field_errors.invalid(f"{at}.operator", operator, detail))
    if one.get("tolerationSeconds") is not None and effect != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        out.append(field_errors.invalid(f"{at}.effect", effect, detail))
    if operator in ("Equal", ""):
        problems = ";".join(label_value_problems(text))
        if problems:
            out.append(field_errors.invalid(f"{at}.operator", text, problems))
    elif operator == "Exists":
        if text:
            out.append(field_errors.invalid(f"{at}.operator", text, "value must be empty when `operator` is 'Exists'"))
    else:
        listed = ("Equal", "Exists", "Lt", "Gt") if operator in ("Lt", "Gt") else ("Equal", "Exists")
        out.append(field_errors.not_supported(f"{at}.operator", operator, listed))
    if effect and effect not in TAINT_EFFECTS:
        out.append(field_errors.not_supported(f"{at}.effect", effect, TAINT_EFFECTS))


def _min_domains(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    domains, action = value.get("minDomains"), value.get("whenUnsatisfiable") or ""
    if domains is None:
        return
    if domains <= 0:
        positive.report(domains, f"{at}.minDomains", out)
    if action != "DoNotSchedule":
        detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        out.append(field_errors.invalid(f"{at}.minDomains", domains, detail))


def _spread_keys(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    _label_keys({**value, "mismatchLabelKeys": None}, at, out)


_ACTIONS: Final = one_of("DoNotSchedule", "ScheduleAnyway")
_POLICY: Final = one_of("Honor", "Ignore")
_SPREAD_FIRST: Final = Table(
    ("maxSkew", zero, positive),
    ("topologyKey", Required("can not be empty")),
    ("whenUnsatisfiable", always(lambda value, at, out, _context: _action(value or "", at, out))),
)
_SPREAD_THEN: Final = Table(
    ("", _min_domains),
    ("nodeAffinityPolicy", if_set("nodeAffinityPolicy", _POLICY)),
    ("nodeTaintsPolicy", if_set("nodeTaintsPolicy", _POLICY)),
    ("", _spread_keys),
    ("labelSelector", label_selector),
)


def _action(value: str, at: str, out: list[Cause]) -> None:
    if not _ACTIONS.is_valid(value):
        _ACTIONS.report(value, at, out)


def check_spread_constraints(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    """Checks topology spread constraints; a key and an action may occur together once."""
    pairs = [(one.get("topologyKey") or "", one.get("whenUnsatisfiable") or "") for one in value]
    last = {pair: index for index, pair in enumerate(pairs)}
    for index, one in enumerate(value):
        where = f"{at}[{index}]"
        _SPREAD_FIRST(one, where, out, None)
        if last[pairs[index]] > index:
            shown = f"{{{pairs[index][0]}, {pairs[index][1]}}}"
            out.append(field_errors.duplicate(f"{where}.{{topologyKey, whenUnsatisfiable}}", shown))
        _SPREAD_THEN(one, where, out, None)


def check_scheduling_gates(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    """Checks scheduling gates: qualified names, each once."""
    seen: set[str] = set()
    for index, gate in enumerate(value):
        name = gate.get("name") or ""
        _key(name, f"{at}[{index}]", out, None)
        if name in seen:
            out.append(field_errors.duplicate(f"{at}[{index}]", name))
        seen.add(name)
