"""The rules of ConfigMaps, Secrets, LimitRanges, ResourceQuotas, PriorityClasses and RuntimeClasses."""

import base64
from typing import Any, Final

import msgspec

from levelset.apiserver.registry.builtin.pods import SYSTEM_PRIORITIES
from levelset.apiserver.registry.builtin.rules.checks import (
    config_key_problems,
    dns_label,
    is_config_key,
    label_key_problems,
    labels,
    quantity,
)
from levelset.apiserver.registry.builtin.rules.pods.pod_containers import (
    check_container_resource_name,
    check_quantity,
    check_resource_list,
    check_resource_name,
    is_overcommit_allowed,
)
from levelset.apiserver.registry.builtin.rules.pods.pod_scheduling import check_tolerations
from levelset.apiserver.registry.builtin.rules.rule_tables import (
    KindRules,
    Required,
    Table,
    immutable,
    on_create,
)
from levelset.apiserver.registry.builtin.written_members import equal
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.schema import field_errors
from levelset.errors import Cause
from levelset.objects.quantity import Quantity

__all__ = [
    "CONFIG_MAP",
    "LIMIT_RANGE",
    "PRIORITY_CLASS",
    "RESOURCE_QUOTA",
    "RUNTIME_CLASS",
    "SECRET",
]

_MAX_MILLI: Final = (2**63 - 1) // 1000
LIMIT_TYPES: Final = ("Pod", "Container", "PersistentVolumeClaim")
CONTAINER_BOUNDS: Final = ("default", "defaultRequest")
BOUNDS: Final = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


def _limits(spec: Any, at: str, out: list[Cause], _context: Any) -> None:
    seen: set[str] = set()
    for index, limit in enumerate(list_member(spec, "limits")):
        where, kind = f"{at}.limits[{index}]", limit.get("type") or ""
        if problems := label_key_problems(kind):
            out.extend([field_errors.invalid(f"{where}.type", kind, one) for one in problems])
        elif "/" not in kind and kind not in LIMIT_TYPES:
            detail = "must be a standard limit type or fully qualified"
            out.append(field_errors.invalid(f"{where}.type", kind, detail))
        if kind in seen:
            out.append(field_errors.duplicate(f"{where}.type", kind))
        seen.add(kind)
        _limit(limit, where, out, kind)


def _limit(limit: Any, at: str, out: list[Cause], kind: str) -> None:
    check_name: Any = check_container_resource_name if kind in ("Container", "Pod") else check_resource_name
    for name in BOUNDS:
        if kind == "Pod" and name in CONTAINER_BOUNDS:
            if limit.get(name):
                out.append(field_errors.forbidden(f"{at}.{name}", "may not be specified when `type` is 'Pod'"))
            continue
        sized = "storage" in map_member(limit, "min") or "storage" in map_member(limit, "max")
        if name == "maxLimitRequestRatio" and kind == "PersistentVolumeClaim" and not sized:
            detail = "either minimum or maximum storage value is required, but neither was provided"
            out.append(field_errors.required(f"{at}.limits", detail))
        for key in sorted(map_member(limit, name)):
            check_name(key, f"{at}.{name}[{key}]", out)
    keys = sorted({key for name in BOUNDS for key in map_member(limit, name)})
    for key in keys:
        names = [name for name in BOUNDS if kind != "Pod" or name not in CONTAINER_BOUNDS]
        _compare_bounds({name: map_member(limit, name).get(key) for name in names}, key, at, out)


def _ratio(most: Quantity, least: Quantity, allowed: Quantity) -> float:
    """The ratio of two quantities; as upstream, of whole units if one of them or of the allowed ratio is very large."""
    if all(-(-one.nanos // 10**9) < _MAX_MILLI for one in (most, least, allowed)):
        return most.nanos / least.nanos
    return float(-(-most.nanos // 10**9)) / float(-(-least.nanos // 10**9))


def _compare_bounds(given: Any, key: str, at: str, out: list[Cause]) -> None:
    known = {name: quantity(value) for name, value in given.items() if value is not None}
    pairs = (
        ("min", "max", "min", "min value {} is greater than max value {}"),
        ("min", "defaultRequest", "defaultRequest", "min value {} is greater than default request value {}"),
        ("defaultRequest", "max", "defaultRequest", "default request value {} is greater than max value {}"),
        (
            "defaultRequest",
            "default",
            "defaultRequest",
            "default request value {} is greater than default limit value {}",
        ),
        ("min", "default", "default", "min value {} is greater than default value {}"),
        ("default", "max", "default", "default value {} is greater than max value {}"),
    )
    for low, high, named, text in pairs:
        if low in known and high in known and known[low] > known[high]:
            shown = known[named] if named != "default" else known["max" if high == "max" else "min"]
            out.append(field_errors.invalid(f"{at}.{named}[{key}]", str(shown), text.format(known[low], known[high])))
    ratio = known.get("maxLimitRequestRatio")
    if ratio is not None and ratio.nanos < 10**9:
        out.append(
            field_errors.invalid(f"{at}.maxLimitRequestRatio[{key}]", str(ratio), f"ratio {ratio} is less than 1")
        )
    if ratio is not None and known.get("min") and "max" in known:
        most = _ratio(known["max"], known["min"], ratio)
        if ratio.nanos / 10**9 > most:
            detail = f"ratio {ratio} is greater than max/min = {most:f}"
            out.append(field_errors.invalid(f"{at}.maxLimitRequestRatio[{key}]", str(ratio), detail))
    if (
        not is_overcommit_allowed(key)
        and "default" in known
        and known["default"] != known.get("defaultRequest", known["default"])
    ):
        detail = (
            f"default value {known['default']} must equal to defaultRequest value {known['defaultRequest']} in {key}"
        )
        out.append(field_errors.invalid(f"{at}.defaultRequest[{key}]", str(known["defaultRequest"]), detail))


LIMIT_RANGE: Final = KindRules(rules=Table(("spec", Table(("", _limits))), root=True))
POD_RESOURCES: Final = frozenset(
    ("pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory")
)
QUOTA_RESOURCES: Final = frozenset(
    (
        *("cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory", "requests.storage"),
        *("requests.ephemeral-storage", "limits.cpu", "limits.memory", "limits.ephemeral-storage", "pods"),
        *("resourcequotas", "services", "replicationcontrollers", "secrets", "persistentvolumeclaims", "configmaps"),
        *("services.nodeports", "services.loadbalancers"),
    )
)
SCOPES: Final = {
    "Terminating": POD_RESOURCES,
    "NotTerminating": POD_RESOURCES,
    "BestEffort": frozenset(("pods",)),
    "NotBestEffort": POD_RESOURCES,
    "PriorityClass": POD_RESOURCES,
    "CrossNamespacePodAffinity": POD_RESOURCES,
    "VolumeAttributesClass": frozenset(("persistentvolumeclaims", "requests.storage")),
}


def _hard(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    for name in sorted(value):
        where = f"{at}[{name}]"
        check_resource_name(name, where, out)
        if (
            "/" not in name
            and name not in QUOTA_RESOURCES
            and not name.startswith(("hugepages-", "requests.hugepages-"))
        ):
            out.append(field_errors.invalid(where, name, "must be a standard resource for quota"))
        check_quantity(name, value[name], where, out)


def _scopes(spec: Any, at: str, out: list[Cause], _context: Any) -> None:
    scopes, hard = list_member(spec, "scopes"), sorted(map_member(spec, "hard"))
    for scope in scopes:
        if scope not in SCOPES:
            out.append(field_errors.invalid(f"{at}.scopes", scopes, "unsupported scope"))
        for name in hard:
            if name in QUOTA_RESOURCES and scope in SCOPES and name not in SCOPES[scope]:
                out.append(field_errors.invalid(f"{at}.scopes", scopes, "unsupported scope applied to resource"))
    for pair in (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")):
        if set(pair) <= set(scopes):
            out.append(field_errors.invalid(f"{at}.scopes", scopes, "conflicting scopes"))


def _scope_selector(spec: Any, at: str, out: list[Cause], _context: Any) -> None:
    selector, where = spec.get("scopeSelector"), f"{at}.scopeSelector.matchExpressions"
    if selector is None:
        return
    hard, given = sorted(map_member(spec, "hard")), list_member(selector, "matchExpressions")
    for one in given:
        scope, operator = one.get("scopeName") or "", one.get("operator") or ""
        if scope not in SCOPES:
            out.append(field_errors.invalid(f"{where}.scopeName", scope, "unsupported scope"))
        for name in hard:
            if name in QUOTA_RESOURCES and scope in SCOPES and name not in SCOPES[scope]:
                out.append(field_errors.invalid(where, selector, "unsupported scope applied to resource"))
        if scope in EXISTING_SCOPES and operator != "Exists":
            listed = ", ".join(f"ResourceQuotaScope{name}" for name in EXISTING_SCOPES[:4])
            detail = f"must be 'Exists' when scope is any of {listed} or ResourceQuotaScope{EXISTING_SCOPES[4]}"
            out.append(field_errors.invalid(f"{where}.operator", operator, detail))
        _scope_values(operator, list_member(one, "values"), where, out)
    named = {one.get("scopeName") for one in given}
    for pair in (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")):
        if named.issuperset(pair):
            out.append(field_errors.invalid(where, spec.get("scopes"), "conflicting scopes"))


def _scope_values(operator: str, values: list[Any], at: str, out: list[Cause]) -> None:
    if operator in ("In", "NotIn"):
        if not values:
            detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            out.append(field_errors.required(f"{at}.values", detail))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            out.append(field_errors.invalid(f"{at}.values", values, detail))
    else:
        out.append(field_errors.invalid(f"{at}.operator", operator, "not a valid selector operator"))


EXISTING_SCOPES: Final = ("Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "CrossNamespacePodAffinity")
RESOURCE_QUOTA: Final = KindRules(
    rules=Table(("spec", Table(("hard", _hard), ("", _scopes, _scope_selector))), root=True),
    changes=(("spec.scopes", immutable),),
    status=Table(("status", Table(("hard", _hard), ("used", _hard))), root=True),
)
SYSTEM_PRIORITY: Final = 1_000_000_000


def _priority(tree: Any, _at: str, out: list[Cause], _context: Any) -> None:
    name, value = tree["metadata"].get("name") or "", tree.get("value") or 0
    if name.startswith("system-"):
        problem = _system_problem(name, value, is_default=tree.get("globalDefault") is True)
        if problem:
            shown = "priority class names with 'system-' prefix are reserved for system use only"
            out.append(field_errors.forbidden("metadata.name", f"{shown}. error: {problem}"))
    elif value > SYSTEM_PRIORITY:
        detail = f"maximum allowed value of a user defined priority is {SYSTEM_PRIORITY}"
        out.append(field_errors.forbidden("value", detail))


def _system_problem(name: str, value: int, *, is_default: bool) -> str:
    fixed = SYSTEM_PRIORITIES.get(name)
    if fixed is None:
        return f"{name} is not a known system priority class"
    if value != fixed:
        return f"value of {name} PriorityClass must be {fixed}"
    return f"globalDefault of {name} PriorityClass must be false" if is_default else ""


def _priority_changes(new: Any, old: Any, _at: str, out: list[Cause]) -> None:
    if (new.get("value") or 0) != (old.get("value") or 0):
        out.append(field_errors.forbidden("value", "may not be changed in an update."))
    if new.get("preemptionPolicy") != old.get("preemptionPolicy"):
        out.append(field_errors.invalid("preemptionPolicy", new.get("preemptionPolicy"), "field is immutable"))


def _preemption(tree: Any, _at: str, out: list[Cause], _context: Any) -> None:
    value, at = tree.get("preemptionPolicy"), "preemptionPolicy"
    if value == "":
        out.append(field_errors.required(at))
    elif value is not None and value not in ("PreemptLowerPriority", "Never"):
        out.append(field_errors.not_supported(at, value, ("PreemptLowerPriority", "Never")))


PRIORITY_CLASS: Final = KindRules(
    rules=Table(
        ("", on_create(_priority)),
        ("", on_create(_preemption)),
        root=True,
    ),
    changes=(("", _priority_changes),),
)


def _overhead(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    check_resource_list(map_member(value, "podFixed"), f"{at}.limits", out)


def _tolerations(value: list[Any], at: str, out: list[Cause], context: Any) -> None:
    check_tolerations(value, at, out, context)
    seen: set[tuple[Any, ...]] = set()
    for index, one in enumerate(value):
        key = tuple(one.get(name) or "" for name in ("key", "operator", "value", "effect"))
        if key in seen:
            out.append(field_errors.duplicate(f"{at}[{index}]", one))
        seen.add(key)


RUNTIME_CLASS: Final = KindRules(
    rules=Table(
        ("handler", Required(), dns_label),
        ("overhead", _overhead),
        ("scheduling", Table(("nodeSelector", labels), ("tolerations", _tolerations))),
        root=True,
    ),
    changes=(("handler", immutable),),
)


MAX_DATA: Final = 1024 * 1024


_EMPTY: Final[dict[str, Any]] = {}


def _data_keys(data: dict[str, Any], name: str, out: list[Cause]) -> None:
    if all(map(is_config_key, data)):
        return
    for key in sorted(data):
        out.extend([field_errors.invalid(f"{name}[{key}]", key, one) for one in config_key_problems(key)])


def _config_map(tree: Any, _at: str, out: list[Cause], _context: Any) -> None:
    data, binary = tree.get("data") or _EMPTY, tree.get("binaryData")  # maps of texts, by the schema
    _data_keys(data, "data", out)
    size = sum(map(len, data.values()))
    # UTF-8 takes up to four bytes per character: only above this bound the exact size is needed.
    if size * 4 > MAX_DATA:
        size = sum(len(one.encode()) for one in data.values())
    if binary:
        for key in sorted(data.keys() & binary.keys()):
            out.append(field_errors.invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
        _data_keys(binary, "binaryData", out)
        size += sum(_decoded_size(one) for one in binary.values())
    if size > MAX_DATA:
        out.append(field_errors.too_long("[]", MAX_DATA))


def _decoded_size(text: str | None) -> int:
    return 0 if not text else len(text) * 3 // 4 - text.count("=", -2)


def _immutable_texts(new: Any, old: Any, _at: str, out: list[Cause]) -> None:
    _immutable_data(new, old, out, of_bytes="binaryData")


def _immutable_bytes(new: Any, old: Any, _at: str, out: list[Cause]) -> None:
    _immutable_data(new, old, out, of_bytes="data")


def _immutable_data(new: Any, old: Any, out: list[Cause], *, of_bytes: str) -> None:
    if not old.get("immutable"):
        return
    detail = "field is immutable when `immutable` is set"
    if not new.get("immutable"):
        out.append(field_errors.forbidden("immutable", detail))
    for name in ("data", "binaryData"):
        # As upstream, which compares maps of bytes by their memory: an empty one differs from an absent one.
        is_emptied = name == of_bytes and (name in new) is not (name in old)
        if is_emptied or not equal(new.get(name), old.get(name)):
            out.append(field_errors.forbidden(name, detail))


CONFIG_MAP: Final = KindRules(
    rules=Table(("", _config_map), root=True), changes=(("", _immutable_texts),), changes_first=True
)
# The keys that a type of Secret needs.
SECRET_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}


def _secret(tree: Any, _at: str, out: list[Cause], _context: Any) -> None:
    data, kind = map_member(tree, "data"), tree.get("type")
    _data_keys(data, "data", out)
    if sum(_decoded_size(one) for one in data.values()) > MAX_DATA:
        out.append(field_errors.too_long("data", MAX_DATA))
    account = "kubernetes.io/service-account.name"
    if kind == "kubernetes.io/service-account-token" and not map_member(tree["metadata"], "annotations").get(account):
        out.append(field_errors.required(f"metadata.annotations[{account}]"))
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & data.keys():
        out.extend([field_errors.required(f"data[{one}]") for one in ("username", "password")])
    for key in SECRET_KEYS.get(kind or "", ()):
        if key not in data or (key == "ssh-privatekey" and not data[key]):
            out.append(field_errors.required(f"data[{key}]"))
        elif key.startswith(".docker"):
            _docker_config(data[key], f"data[{key}]", out)


def _docker_config(text: str, at: str, out: list[Cause]) -> None:
    raw = base64.b64decode(text or "", validate=False)
    try:
        msgspec.json.decode(raw, type=dict[str, Any])
    except msgspec.DecodeError:
        first = raw[:1].decode(errors="replace")
        problem = (
            f"invalid character '{first}' looking for beginning of value" if first else "unexpected end of JSON input"
        )
        out.append(field_errors.invalid(at, "<secret contents redacted>", problem))


SECRET: Final = KindRules(
    rules=Table(("", _secret), root=True),
    changes=(("type", immutable), ("", _immutable_bytes)),
    changes_first=True,
)
