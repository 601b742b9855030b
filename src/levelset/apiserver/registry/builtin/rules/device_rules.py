"""The rules of devices: their classes, claims for them, and the slices in which drivers publish them."""

from typing import Any, Final

from levelset.apiserver.registry.builtin.rules.checks import (
    dns_subdomain,
    label_problems,
    one_of,
    subdomain_problems,
)
from levelset.apiserver.registry.builtin.rules.pods.pod_volumes import csi_driver_name
from levelset.apiserver.registry.builtin.rules.rule_tables import KindRules, Table, always, immutable, required
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.schema import field_errors
from levelset.errors import Cause

__all__ = ["CLAIM", "CLAIM_TEMPLATE", "DEVICE_CLASS", "SLICE"]

_MAX: Final = 32
_REFERENCE: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)


def _label(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    out += [field_errors.invalid(at, value or "", problem) for problem in label_problems(value or "")]


def _at_most(limit: int, items: list[Any], at: str, out: list[Cause]) -> None:
    if len(items) > limit:
        out.append(field_errors.too_many(at, len(items), limit))


_SELECTOR: Final = Table(("cel", required, Table(("expression", required))))
_OPAQUE: Final = Table(("driver", always(csi_driver_name)), ("parameters", required))
_CONFIG: Final = Table(("opaque", required, _OPAQUE))
_TOLERATION: Final = Table(
    ("operator", one_of("Equal", "Exists")), ("effect", one_of("NoExecute", "NoSchedule", "None"))
)


def _allocation(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    mode, count = value.get("allocationMode"), value.get("count") or 0
    if mode == "All" and count:
        detail = "must not be specified when allocationMode is 'All'"
        out.append(field_errors.invalid(f"{at}.count", count, detail))
    elif mode == "ExactCount" and count <= 0:
        out.append(field_errors.invalid(f"{at}.count", count, "must be greater than zero"))
    elif mode not in ("All", "ExactCount"):
        out.append(field_errors.not_supported(f"{at}.allocationMode", mode or "", ("All", "ExactCount")))


_EXACT: Final = Table(
    ("deviceClassName", required, dns_subdomain),
    ("selectors[*]", _SELECTOR),
    ("", _allocation),
    ("tolerations[*]", _TOLERATION),
)
_SUBREQUEST: Final = Table(
    ("name", always(_label)),
    ("deviceClassName", required, dns_subdomain),
    ("selectors[*]", _SELECTOR),
    ("", _allocation),
    ("tolerations[*]", _TOLERATION),
)


def _request(value: Any, at: str, out: list[Cause], context: Any) -> None:
    _label(value.get("name"), f"{at}.name", out, None)
    exactly, first = value.get("exactly"), list_member(value, "firstAvailable")
    if exactly is None and not first:
        out.append(field_errors.required(at, "exactly one of `exactly` or `firstAvailable` is required"))
    elif exactly is not None and first:
        detail = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"
        out.append(field_errors.invalid(at, None, detail))
    elif exactly is not None:
        _EXACT(exactly, f"{at}.exactly", out, context)
    else:
        for index, one in enumerate(first):
            _SUBREQUEST(one, f"{at}.firstAvailable[{index}]", out, context)
        _named_once(first, f"{at}.firstAvailable", out)


def _named_once(items: list[Any], at: str, out: list[Cause]) -> None:
    seen: set[Any] = set()
    for index, one in enumerate(items):
        name = one.get("name") or ""
        if name in seen:
            out.append(field_errors.duplicate(f"{at}[{index}]", name))
        seen.add(name)


def _references(items: list[Any], devices: Any, at: str, out: list[Cause]) -> None:
    known: dict[str, set[str]] = {
        one.get("name") or "": {sub.get("name") or "" for sub in list_member(one, "firstAvailable")}
        for one in list_member(devices, "requests")
    }
    seen: set[str] = set()
    for index, name in enumerate(items):
        where = f"{at}[{index}]"
        first, *rest = name.split("/")
        if len(rest) > 1:
            out.append(field_errors.invalid(where, name, _REFERENCE))
        else:
            for part in (first, *rest):
                _label(part, where, out, None)
            if first not in known or (rest and rest[0] not in known[first]):
                out.append(field_errors.invalid(where, name, _REFERENCE))
        if name in seen:
            out.append(field_errors.duplicate(where, name))
        seen.add(name)


def _attribute_name(value: str, at: str, out: list[Cause]) -> None:
    domain, slash, name = value.rpartition("/")
    if not value:
        out.append(field_errors.required(at, "name required"))
    elif not slash:
        detail = "a valid C identifier must start with alphabetic character or '_'"
        out.append(field_errors.invalid(at, value, f"must include a domain; {detail}"))
    else:
        out += [field_errors.invalid(at, domain, problem) for problem in subdomain_problems(domain)]
        if not name:
            out.append(field_errors.required(at, "name required"))


def _constraint(one: Any, devices: Any, at: str, out: list[Cause]) -> None:
    _references(list_member(one, "requests"), devices, f"{at}.requests", out)
    if one.get("matchAttribute") is not None:
        _attribute_name(one["matchAttribute"], f"{at}.matchAttribute", out)
    elif one.get("distinctAttribute") is not None:
        _attribute_name(one["distinctAttribute"], f"{at}.distinctAttribute", out)
    else:
        detail = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
        out.append(field_errors.required(at, detail))


def _devices(devices: Any, at: str, out: list[Cause], context: Any) -> None:
    requests = list_member(devices, "requests")
    _at_most(_MAX, requests, f"{at}.requests", out)
    for index, one in enumerate(requests):
        _request(one, f"{at}.requests[{index}]", out, context)
    _named_once(requests, f"{at}.requests", out)
    constraints, configs = list_member(devices, "constraints"), list_member(devices, "config")
    _at_most(_MAX, constraints, f"{at}.constraints", out)
    for index, one in enumerate(constraints):
        _constraint(one, devices, f"{at}.constraints[{index}]", out)
    _at_most(_MAX, configs, f"{at}.config", out)
    for index, one in enumerate(configs):
        _references(list_member(one, "requests"), devices, f"{at}.config[{index}].requests", out)
        _CONFIG(one, f"{at}.config[{index}]", out, context)


def _new_devices(devices: Any, at: str, out: list[Cause], old: Any) -> None:
    if old is None:  # a claim that exists cannot be changed, and is not checked again
        _devices(devices, at, out, None)


CLAIM: Final = KindRules(rules=Table(("spec.devices", _new_devices), root=True), changes=(("spec", immutable),))
CLAIM_TEMPLATE: Final = KindRules(
    rules=Table(("spec.spec.devices", _new_devices), root=True), changes=(("spec", immutable),)
)


def _configs(value: list[Any], at: str, out: list[Cause], context: Any) -> None:
    _at_most(_MAX, value, at, out)
    for index, one in enumerate(value):
        _CONFIG(one, f"{at}[{index}]", out, context)


def _selectors(value: list[Any], at: str, out: list[Cause], context: Any) -> None:
    _at_most(_MAX, value, at, out)
    for index, one in enumerate(value):
        _SELECTOR(one, f"{at}[{index}]", out, context)


def _extended_resource(value: str, at: str, out: list[Cause], _context: Any) -> None:
    domain, slash, name = value.partition("/")
    is_native = not slash or domain.endswith("kubernetes.io") or domain.startswith("requests.")
    if is_native or subdomain_problems(domain) or not name or label_problems(name.lower().replace("_", "-")):
        out.append(field_errors.invalid(at, value, "must be a valid extended resource name"))


DEVICE_CLASS: Final = KindRules(
    rules=Table(
        ("spec.selectors", _selectors),
        ("spec.config", _configs),
        ("spec.extendedResourceName", _extended_resource),
        root=True,
    )
)


def _placement(spec: Any, at: str, out: list[Cause], _context: Any) -> None:
    names = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
    given = [name for name in names if spec.get(name) is not None]
    for name in ("allNodes", "perDeviceNodeSelection"):
        if spec.get(name) is False:
            out.append(field_errors.invalid(f"{at}.{name}", False, "must be either unset or set to true"))
    if spec.get("nodeName") == "":
        out.append(field_errors.invalid(f"{at}.nodeName", "", "must be either unset or set to a non-empty string"))
    rule = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
    if not given:
        out.append(field_errors.required(at, rule))
    elif len(given) > 1:
        shown = "{" + ", ".join(f"`{name}`" for name in given) + "}"
        out.append(field_errors.invalid(at, shown, f"{rule}, but multiple fields are set"))


def _pool_name(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    if not value:
        out.append(field_errors.required(at))
        return
    for part in value.split("/"):
        out += [field_errors.invalid(at, part, problem) for problem in subdomain_problems(part)]


def _pool(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    pool: dict[str, Any] = value or {}
    _pool_name(pool.get("name"), f"{at}.name", out, None)
    count, generation = pool.get("resourceSliceCount") or 0, pool.get("generation") or 0
    if count <= 0:
        out.append(field_errors.invalid(f"{at}.resourceSliceCount", count, "must be greater than zero"))
    if generation < 0:
        detail = "must be greater than or equal to zero"
        out.append(field_errors.invalid(f"{at}.generation", generation, detail))


def _slice_devices(value: list[Any], at: str, out: list[Cause], _context: Any) -> None:
    for index, one in enumerate(value):
        _label(one.get("name"), f"{at}[{index}].name", out, None)
        for name, attribute in map_member(one, "attributes").items():
            where = f"{at}[{index}].attributes[{name}]"
            given = [kind for kind in ("bool", "int", "string", "version") if attribute.get(kind) is not None]
            if not given:
                out.append(field_errors.required(where, "exactly one value must be specified"))
            elif len(given) > 1:
                out.append(field_errors.invalid(where, attribute, "exactly one value must be specified"))
    _named_once(value, at, out)


SLICE: Final = KindRules(
    rules=Table(
        ("spec.driver", always(csi_driver_name)),
        ("spec.pool", always(_pool)),
        ("spec", always(lambda value, at, out, context: _placement(value or {}, at, out, context))),
        ("spec.devices", _slice_devices),
        root=True,
    ),
    changes=(("spec.driver", immutable), ("spec.pool.name", immutable), ("spec.nodeName", immutable)),
)
