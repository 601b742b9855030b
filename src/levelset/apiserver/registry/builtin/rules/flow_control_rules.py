"""The rules of FlowSchemas and PriorityLevelConfigurations."""

import math
from typing import Any, Final

from levelset.apiserver.registry.builtin.rules.checks import (
    at_least,
    between,
    dns_label,
    dns_subdomain,
    label_problems,
)
from levelset.apiserver.registry.builtin.rules.rule_tables import (
    KindRules,
    Required,
    Table,
    Test,
    always,
    required,
)
from levelset.apiserver.registry.builtin.written_members import equal
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.schema import field_errors
from levelset.errors import Cause

__all__ = ["FLOW_SCHEMA", "PRIORITY_LEVEL"]

VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")
MAX_PRECEDENCE: Final = 10_000
MAX_QUEUES: Final = 10_000_000
MAX_HASH_BITS: Final = 60
SUBJECTS: Final = {"Group": "group", "ServiceAccount": "serviceAccount", "User": "user"}
_EVERYTHING: Final[dict[str, Any]] = {
    "resourceRules": [
        {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, "namespaces": ["*"]}
    ],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
}


def _groups(*names: str) -> list[Any]:
    return [{"kind": "Group", "group": {"name": name}} for name in names]


# The specs of the objects that a server needs, which may not be changed.
MANDATORY_SCHEMAS: Final[dict[str, Any]] = {
    "exempt": {
        "matchingPrecedence": 1,
        "priorityLevelConfiguration": {"name": "exempt"},
        "rules": [{"subjects": _groups("system:masters"), **_EVERYTHING}],
    },
    "catch-all": {
        "matchingPrecedence": 10_000,
        "priorityLevelConfiguration": {"name": "catch-all"},
        "distinguisherMethod": {"type": "ByUser"},
        "rules": [{"subjects": _groups("system:unauthenticated", "system:authenticated"), **_EVERYTHING}],
    },
}
MANDATORY_LEVELS: Final[dict[str, Any]] = {
    "exempt": {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}},
    "catch-all": {
        "type": "Limited",
        "limited": {"nominalConcurrencyShares": 5, "lendablePercent": 0, "limitResponse": {"type": "Reject"}},
    },
}


def _precedence(tree: Any, _at: str, out: list[Cause], _context: Any) -> None:
    value, at = map_member(tree, "spec").get("matchingPrecedence") or 0, "spec.matchingPrecedence"
    if value <= 0:
        out.append(field_errors.invalid(at, value, "must be a positive value"))
    if value > MAX_PRECEDENCE:
        out.append(field_errors.invalid(at, value, f"must not be greater than {MAX_PRECEDENCE}"))
    if value == 1 and tree["metadata"].get("name") != "exempt":
        detail = "only the schema named 'exempt' may have matchingPrecedence 1"
        out.append(field_errors.invalid(at, value, detail))


def _distinguisher(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    if value.get("type") not in ("ByNamespace", "ByUser"):
        shown = {"type": value.get("type") or ""}
        out.append(field_errors.not_supported(f"{at}.type", shown, ("ByNamespace", "ByUser")))


def _subject(subject: Any, at: str, out: list[Cause], _context: Any) -> None:
    kind = subject.get("kind") or ""
    if kind not in SUBJECTS:
        out.append(field_errors.not_supported(f"{at}.kind", kind, sorted(SUBJECTS)))
        return
    own = SUBJECTS[kind]
    if subject.get(own) is None:
        out.append(field_errors.required(f"{at}.{own}", f"{own} is required when subject kind is '{kind}'"))
    else:
        (SERVICE_ACCOUNT if kind == "ServiceAccount" else NAMED)(subject[own], f"{at}.{own}", out, None)
    for other in ("ServiceAccount", "User", "Group"):
        name = SUBJECTS[other]
        if name != own and subject.get(name) is not None:
            detail = f"{name} is forbidden when subject kind is not '{other}'"
            out.append(field_errors.forbidden(f"{at}.{name}", detail))


def _account_name(value: str, at: str, out: list[Cause], _context: Any) -> None:
    if value != "*" and not dns_subdomain.is_valid(value):
        dns_subdomain.report(value, at, out)


NAMED: Final = Table(("name", required))
SERVICE_ACCOUNT: Final = Table(
    ("name", required, _account_name),
    ("namespace", Required("must specify namespace for service account"), dns_label),
)


def _verbs(rule: Any, at: str, out: list[Cause], _context: Any) -> None:
    verbs = list_member(rule, "verbs")
    if not verbs:
        out.append(field_errors.required(f"{at}.verbs", "verbs must contain at least one value"))
    elif "*" in verbs:
        _alone(verbs, f"{at}.verbs", out, "verbs")
    elif not set(verbs) <= set(VERBS):
        out.append(field_errors.not_supported(f"{at}.verbs", verbs, VERBS))


def _alone(values: list[str], at: str, out: list[Cause], what: str) -> None:
    """A wildcard excludes other values."""
    if len(values) > 1 and "*" in values:
        out.append(field_errors.invalid(at, values, f"if '*' is present, must not specify other {what}"))


def _resources(rule: Any, at: str, out: list[Cause], _context: Any) -> None:
    for name, one, many in (("apiGroups", "api group", "api groups"), ("resources", "resource", "resources")):
        values = list_member(rule, name)
        if not values:
            out.append(field_errors.required(f"{at}.{name}", f"resource rules must supply at least one {one}"))
        _alone(values, f"{at}.{name}", out, many)
    namespaces = list_member(rule, "namespaces")
    if not namespaces and not rule.get("clusterScope"):
        detail = "resource rules that are not cluster scoped must supply at least one namespace"
        out.append(field_errors.required(f"{at}.namespaces", detail))
    elif "*" in namespaces:
        _alone(namespaces, f"{at}.namespaces", out, "namespaces")
    else:
        intro = "each member of this list must be '*' or a DNS-1123 label; "
        for index, name in enumerate(namespaces):
            where = f"{at}.namespaces[{index}]"
            out.extend([field_errors.invalid(where, name, intro + problem) for problem in label_problems(name)])


def _urls(rule: Any, at: str, out: list[Cause], _context: Any) -> None:
    urls = list_member(rule, "nonResourceURLs")
    if not urls:
        detail = "nonResourceURLs must contain at least one value"
        out.append(field_errors.required(f"{at}.nonResourceURLs", detail))
    elif "*" in urls:
        _alone(urls, f"{at}.nonResourceURLs", out, "non-resource URLs")
    else:
        for index, url in enumerate(urls):
            problem = _url_problem(url)
            if problem:
                out.append(field_errors.invalid(f"{at}.nonResourceURLs[{index}]", url, problem))


def _url_problem(url: str) -> str:
    if not url:
        return "must not be empty"
    if not url.startswith("/"):
        return "must start with slash"
    if " " in url:
        return "must not contain white-space"
    if "//" in url:
        return "must not contain double slash"
    if url.count("*") > 1 or ("*" in url and not url.endswith("/*")):
        return "wildcard can only do suffix matching"
    return ""


def _some_rules(rule: Any, at: str, out: list[Cause], _context: Any) -> None:
    if not rule.get("resourceRules") and not rule.get("nonResourceRules"):
        detail = "at least one of resourceRules and nonResourceRules has to be non-empty"
        out.append(field_errors.required(at, detail))


RULE: Final = Table(
    ("subjects[*]", _subject),
    ("subjects", Required("subjects must contain at least one value")),
    ("", _some_rules),
    ("resourceRules[*]", Table(("", _verbs, _resources))),
    ("nonResourceRules[*]", Table(("", _verbs, _urls))),
)
FLOW_SCHEMA_SPEC: Final = Table(
    ("distinguisherMethod", _distinguisher),
    ("priorityLevelConfiguration.name", Required("must reference a priority level"), dns_subdomain),
    ("rules[*]", RULE),
)


def _mandatory_schema(tree: Any, _at: str, out: list[Cause], _context: Any) -> None:
    name = tree["metadata"].get("name") or ""
    fixed = MANDATORY_SCHEMAS.get(name)
    if fixed is not None and not equal(tree.get("spec"), fixed):
        out.append(field_errors.invalid("spec", tree.get("spec"), f"spec of '{name}' must equal the fixed value"))


def _conditions(value: list[Any], at: str, out: list[Cause], _context: Any) -> None:
    seen: set[str] = set()
    for index, one in enumerate(value):
        kind, where = one.get("type") or "", f"{at}[{index}].type"
        if kind in seen:
            out.append(field_errors.duplicate(where, kind))
        seen.add(kind)
        if not kind:
            out.append(field_errors.required(where))


_STATUS: Final = Table(("status.conditions", _conditions), root=True)
FLOW_SCHEMA: Final = KindRules(
    rules=Table(
        ("", _precedence),
        ("spec", always(lambda value, at, out, context: FLOW_SCHEMA_SPEC(value or {}, at, out, context))),
        ("", _mandatory_schema),
        root=True,
    ),
    status=_STATUS,
)


def _level(tree: Any, _at: str, out: list[Cause], _context: Any) -> None:
    spec, name = map_member(tree, "spec"), tree["metadata"].get("name") or ""
    kind = spec.get("type") or ""
    if (name == "exempt") != (kind == "Exempt"):
        out.append(field_errors.invalid("spec.type", kind, "must be 'Exempt' if and only if `name` is 'exempt'"))
    if kind == "Exempt":
        if spec.get("limited") is not None:
            out.append(field_errors.forbidden("spec.limited", "must be nil if the type is not Limited"))
        if spec.get("exempt") is not None:
            EXEMPT(spec["exempt"], "spec.exempt", out, None)
    elif kind == "Limited":
        if spec.get("exempt") is not None:
            out.append(field_errors.forbidden("spec.exempt", "must be nil if the type is Limited"))
        if spec.get("limited") is None:
            out.append(field_errors.required("spec.limited", "must not be empty when type is Limited"))
        else:
            LIMITED(spec["limited"], "spec.limited", out, None)
    elif not kind:
        out.append(field_errors.required("spec.type"))
    else:
        out.append(field_errors.not_supported("spec.type", kind, ("Exempt", "Limited")))


def _limit_response(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    response: dict[str, Any] = value or {}
    kind, queuing = response.get("type") or "", response.get("queuing")
    if kind == "Reject":
        if queuing is not None:
            detail = "must be nil if limited.limitResponse.type is not Limited"
            out.append(field_errors.forbidden(f"{at}.queuing", detail))
    elif kind == "Queue":
        if queuing is None:
            detail = "must not be empty if limited.limitResponse.type is Limited"
            out.append(field_errors.required(f"{at}.queuing", detail))
        else:
            QUEUING(queuing, f"{at}.queuing", out, None)
    elif not kind:
        out.append(field_errors.required(f"{at}.type"))
    else:
        out.append(field_errors.not_supported(f"{at}.type", kind, ("Queue", "Reject")))


def _hand(queuing: Any, at: str, out: list[Cause], _context: Any) -> None:
    queues, hand, where = queuing.get("queues") or 0, queuing.get("handSize") or 0, f"{at}.handSize"
    if queues > MAX_QUEUES:
        out.append(field_errors.invalid(f"{at}.queues", queues, f"must not be greater than {MAX_QUEUES}"))
    if hand <= 0:
        out.append(field_errors.invalid(where, hand, "must be positive"))
    elif hand > queues:
        out.append(field_errors.invalid(where, hand, f"should not be greater than queues ({queues})"))
    elif math.ceil(math.log2(queues) * hand) > MAX_HASH_BITS:
        detail = f"required entropy bits of deckSize {queues} and handSize {hand} should not be greater than"
        out.append(field_errors.invalid(where, hand, f"{detail} {MAX_HASH_BITS}"))


_POSITIVE: Final = at_least(1, "must be positive")
_SHARES: Final = at_least(0, "must be a non-negative integer")
_LENDABLE: Final[Test] = between(0, 100)
QUEUING: Final = Table(("queueLengthLimit", _POSITIVE), ("queues", _POSITIVE), ("", _hand))
EXEMPT: Final = Table(("nominalConcurrencyShares", _SHARES), ("lendablePercent", _LENDABLE))
LIMITED: Final = Table(
    ("nominalConcurrencyShares", _SHARES),
    ("limitResponse", always(_limit_response)),
    ("lendablePercent", _LENDABLE),
    ("borrowingLimitPercent", at_least(0, "if specified, must be a non-negative integer")),
)


def _mandatory_level(tree: Any, _at: str, out: list[Cause], _context: Any) -> None:
    name, spec = tree["metadata"].get("name") or "", tree.get("spec")
    fixed = MANDATORY_LEVELS.get(name)
    if fixed is None:
        return
    if name == "exempt":
        if not equal({**(spec or {}), "exempt": None}, {**fixed, "exempt": None}):
            detail = "spec of 'exempt' except the 'spec.exempt' field must equal the fixed value"
            out.append(field_errors.invalid("spec", spec, detail))
    elif not equal(spec, fixed):
        out.append(field_errors.invalid("spec", spec, f"spec of '{name}' must equal the fixed value"))


PRIORITY_LEVEL: Final = KindRules(rules=Table(("", _level, _mandatory_level), root=True), status=_STATUS)
