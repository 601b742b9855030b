"""The rules of devices: their classes, and claims for them. Those of slices are in `resource_slice_rules.py`."""

import json
import re
import uuid
from typing import Any, Final

from levelset.apiserver.registry.builtin.rules.checks import (
    bytes_at_most,
    canonical_interface_address,
    dns_subdomain,
    label_key,
    label_key_problems,
    label_problems,
    label_value_problems,
    one_of,
    subdomain_problems,
    unique,
)
from levelset.apiserver.registry.builtin.rules.meta_rules import check_conditions
from levelset.apiserver.registry.builtin.rules.pods.pod_containers import is_extended_resource
from levelset.apiserver.registry.builtin.rules.pods.pod_scheduling import NODE_SELECTOR
from levelset.apiserver.registry.builtin.rules.pods.pod_volumes import TEMPLATE_METADATA, csi_driver_name
from levelset.apiserver.registry.builtin.rules.rule_tables import (
    Check,
    KindRules,
    Table,
    always,
    immutable,
    immutable_struct,
    required,
    value_at,
)
from levelset.apiserver.registry.builtin.written_members import equal
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.schema import field_errors
from levelset.errors import Cause

__all__ = [
    "CLAIM",
    "CLAIM_TEMPLATE",
    "DEVICE_CLASS",
    "EFFECT",
    "at_most",
    "binding_conditions",
    "label_of",
    "named_once",
    "pool_name",
    "qualified_name",
]

_MAX: Final = 32
_MAX_BYTES: Final = 10 * 1024  # of an expression, and of opaque parameters
_REFERENCE: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)
_IDENTIFIER: Final = "[A-Za-z_][A-Za-z0-9_]*"
EFFECT: Final = one_of("NoExecute", "NoSchedule", "None")


def label_of(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    """A DNS label; an absent one is reported as an empty one."""
    out += [field_errors.invalid(at, value or "", problem) for problem in label_problems(value or "")]


def at_most(limit: int, items: list[Any], at: str, out: list[Cause]) -> bool:
    """Whether a list is short enough for its items to be checked, too."""
    if len(items) > limit:
        out.append(field_errors.too_many(at, len(items), limit))
    return len(items) <= limit


def _items(limit: int, check: Check) -> Check:
    """The check of a list with at most so many items."""

    def run(value: list[Any], at: str, out: list[Cause], context: Any) -> None:
        if at_most(limit, value, at, out):
            for index, one in enumerate(value):
                check(one, f"{at}[{index}]", out, context)

    return run


def named_once(items: list[Any], at: str, out: list[Cause], member: str = "name") -> None:
    """Reports the items whose name occurs before."""
    seen: set[Any] = set()
    for index, one in enumerate(items):
        name = one.get(member) or ""
        if name in seen:
            out.append(field_errors.duplicate(f"{at}[{index}]", name))
        seen.add(name)


def _expression(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    # Imported late: the CEL compiler takes a while to load.
    from levelset.apiserver.expressions.device_selectors import TOO_COMPLEX, selector_problem  # noqa: PLC0415

    text = value or ""
    if len(text.encode()) > _MAX_BYTES:
        out.append(field_errors.too_long(at, _MAX_BYTES))
    elif (problem := selector_problem(text)) == TOO_COMPLEX:
        out.append(field_errors.forbidden(at, TOO_COMPLEX))
    elif problem:
        out.append(field_errors.invalid(at, text, problem))


def _parameters(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    if value is None:
        out.append(field_errors.required(at))
    elif len(json.dumps(value, separators=(",", ":")).encode()) > _MAX_BYTES:
        out.append(field_errors.too_long(at, _MAX_BYTES))
    elif not isinstance(value, dict):
        out.append(field_errors.invalid(at, "<value omitted>", "must be a valid JSON object"))


def _selector(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    if value.get("cel") is None:
        out.append(field_errors.required(f"{at}.cel"))
    else:
        _expression(value["cel"].get("expression"), f"{at}.cel.expression", out, None)


_OPAQUE: Final = Table(("driver", always(csi_driver_name)), ("parameters", always(_parameters)))


def _config(value: Any, at: str, out: list[Cause], context: Any) -> None:
    if value.get("opaque") is None:
        out.append(field_errors.required(f"{at}.opaque"))
    else:
        _OPAQUE(value["opaque"], f"{at}.opaque", out, context)


def _toleration_value(one: Any, at: str, out: list[Cause], _context: Any) -> None:
    operator, value = one.get("operator"), one.get("value") or ""
    if operator == "Exists" and value:
        out.append(field_errors.invalid(f"{at}.value", value, "must be empty for operator `Exists`"))
    elif operator == "Equal":
        out += [field_errors.invalid(f"{at}.value", value, problem) for problem in label_value_problems(value)]


_TOLERATION: Final = Table(
    ("key", label_key),
    ("", _toleration_value),
    ("operator", required, one_of("Equal", "Exists")),
    ("effect", EFFECT),
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


_SELECTORS: Final = _items(_MAX, _selector)
_EXACT: Final = Table(
    ("deviceClassName", required, dns_subdomain),
    ("selectors", _SELECTORS),
    ("", _allocation),
    ("tolerations[*]", _TOLERATION),
)
_SUBREQUEST: Final = Table(("name", always(label_of)), ("", _EXACT))


def _request(value: Any, at: str, out: list[Cause], context: Any) -> None:
    label_of(value.get("name"), f"{at}.name", out, None)
    exactly, first = value.get("exactly"), list_member(value, "firstAvailable")
    if exactly is None and not first:
        out.append(field_errors.required(at, "exactly one of `exactly` or `firstAvailable` is required"))
    elif exactly is not None and first:
        detail = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"
        out.append(field_errors.invalid(at, None, detail))
    elif exactly is not None:
        _EXACT(exactly, f"{at}.exactly", out, context)
    elif at_most(8, first, f"{at}.firstAvailable", out):
        for index, one in enumerate(first):
            _SUBREQUEST(one, f"{at}.firstAvailable[{index}]", out, context)
        named_once(first, f"{at}.firstAvailable", out)


def _references(items: list[Any], devices: Any, at: str, out: list[Cause]) -> None:
    if not at_most(_MAX, items, at, out):
        return
    seen: set[str] = set()
    for index, name in enumerate(items):
        _reference(name, devices, f"{at}[{index}]", out)
    for index, name in enumerate(items):
        if name in seen:
            out.append(field_errors.duplicate(f"{at}[{index}]", name))
        seen.add(name)


def _reference(name: str, devices: Any, at: str, out: list[Cause]) -> None:
    known: dict[str, set[str]] = {
        one.get("name") or "": {sub.get("name") or "" for sub in list_member(one, "firstAvailable")}
        for one in list_member(devices, "requests")
    }
    first, *rest = name.split("/")
    if len(rest) > 1:
        out.append(field_errors.invalid(at, name, _REFERENCE))
        return
    for part in (first, *rest):
        label_of(part, at, out, None)
    if first not in known or (rest and rest[0] not in known[first]):
        out.append(field_errors.invalid(at, name, _REFERENCE))


def _identifier(value: str, at: str, out: list[Cause]) -> None:
    if len(value) > 32:
        out.append(field_errors.too_long(at, 32))
    if not re.fullmatch(_IDENTIFIER, value):
        rule = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric"
        shown = "characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is"
        out.append(field_errors.invalid(at, value, f"{rule} {shown} '{_IDENTIFIER}')"))


def qualified_name(value: str, at: str, out: list[Cause]) -> None:
    """The name of an attribute or a capacity: an identifier, maybe with a domain before it."""
    parts = value.split("/")
    if len(parts) == 1:
        _identifier(value, at, out)
    elif len(parts) == 2:
        domain, name = parts
        if domain:
            csi_driver_name(domain, at, out, None)
        else:
            out.append(field_errors.invalid(at, "", "the domain must not be empty"))
        if name:
            _identifier(name, at, out)
        else:
            out.append(field_errors.invalid(at, "", "the name must not be empty"))


def _full_name(value: str, at: str, out: list[Cause]) -> None:
    qualified_name(value, at, out)
    if "/" not in value:
        detail = "a fully qualified name must be a domain and a name separated by a slash"
        out.append(field_errors.invalid(at, value, detail))


def _constraint(one: Any, devices: Any, at: str, out: list[Cause]) -> None:
    _references(list_member(one, "requests"), devices, f"{at}.requests", out)
    if one.get("matchAttribute") is not None:
        _full_name(one["matchAttribute"], f"{at}.matchAttribute", out)
    elif one.get("distinctAttribute") is not None:
        _full_name(one["distinctAttribute"], f"{at}.distinctAttribute", out)
    else:
        detail = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
        out.append(field_errors.required(at, detail))


def _devices(devices: Any, at: str, out: list[Cause], context: Any) -> None:
    requests = list_member(devices, "requests")
    if at_most(_MAX, requests, f"{at}.requests", out):
        for index, one in enumerate(requests):
            _request(one, f"{at}.requests[{index}]", out, context)
        named_once(requests, f"{at}.requests", out)
    constraints, configs = list_member(devices, "constraints"), list_member(devices, "config")
    if at_most(_MAX, constraints, f"{at}.constraints", out):
        for index, one in enumerate(constraints):
            _constraint(one, devices, f"{at}.constraints[{index}]", out)
    if at_most(_MAX, configs, f"{at}.config", out):
        for index, one in enumerate(configs):
            _references(list_member(one, "requests"), devices, f"{at}.config[{index}].requests", out)
            _config(one, f"{at}.config[{index}]", out, context)


def pool_name(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    """The name of a pool: domains, separated by slashes."""
    if not value:
        out.append(field_errors.required(at))
        return
    if len(value) > 253:
        out.append(field_errors.too_long(at, 253))
    for part in value.split("/"):
        out += [field_errors.invalid(at, part, problem) for problem in subdomain_problems(part)]


def _share(value: str | None, at: str, out: list[Cause], _context: Any) -> None:
    if value is None:
        return
    try:
        found = str(uuid.UUID(value))
    except ValueError:
        length = f"invalid UUID length: {len(value)}" if len(value) != 36 else "invalid UUID format"
        out.append(field_errors.invalid(at, value, f"error validating uid: {length}"))
        return
    if found != value:
        form = "`xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters"
        out.append(field_errors.invalid(at, value, f"uid must be in RFC 4122 normalized form, {form}"))


def binding_conditions(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    """The conditions that must hold before a pod is bound, and those by which binding fails: both or neither."""
    wanted, failed = list_member(value, "bindingConditions"), list_member(value, "bindingFailureConditions")
    for name, items in (("bindingConditions", wanted), ("bindingFailureConditions", failed)):
        if at_most(4, items, f"{at}.{name}", out):
            for index, one in enumerate(items):
                where = f"{at}.{name}[{index}]"
                out += [field_errors.invalid(where, one, problem) for problem in label_key_problems(one)]
    for name, items in (("bindingConditions", wanted), ("bindingFailureConditions", failed)):
        seen: set[str] = set()
        for index, one in enumerate(items):
            where = f"{at}.{name}[{index}]"
            if one in seen:
                out.append(field_errors.duplicate(where, one))
            seen.add(one)
            if items is failed and one in wanted:
                detail = "bindingFailureConditions must not overlap with bindingConditions"
                out.append(field_errors.invalid(where, one, detail))
    for name, items, other in (
        ("bindingConditions", wanted, failed),
        ("bindingFailureConditions", failed, wanted),
    ):
        if other and not items:
            needed = "bindingFailureConditions" if other is failed else "bindingConditions"
            detail = f"{name} are required to use {needed}"
            out.append(field_errors.invalid(f"{at}.{name}", value.get(name), detail))


_CONSUMER: Final = Table(("resource", required), ("name", required), ("uid", required))
_RESULT: Final = Table(
    ("driver", always(csi_driver_name)),
    ("pool", always(pool_name)),
    ("device", always(label_of)),
    ("", binding_conditions),
    ("shareID", always(_share)),
)
_DEVICE_STATUS: Final = Table(
    ("driver", always(csi_driver_name)),
    ("pool", always(pool_name)),
    ("device", always(label_of)),
    ("shareID", always(_share)),
)
_CONFIG_SOURCE: Final = Table(("source", required, one_of("FromClaim", "FromClass")))


def _allocation_result(value: Any, at: str, out: list[Cause], devices: Any) -> None:
    found = map_member(value, "devices")
    results, configs = list_member(found, "results"), list_member(found, "config")
    if at_most(_MAX, results, f"{at}.devices.results", out):
        for index, one in enumerate(results):
            where = f"{at}.devices.results[{index}]"
            _reference(one.get("request") or "", devices, f"{where}.request", out)
            _RESULT(one, where, out, None)
    if at_most(2 * _MAX, configs, f"{at}.devices.config", out):
        for index, one in enumerate(configs):
            where = f"{at}.devices.config[{index}]"
            _CONFIG_SOURCE(one, where, out, None)
            _references(list_member(one, "requests"), devices, f"{where}.requests", out)
            _config(one, where, out, None)
    if value.get("nodeSelector") is not None:
        NODE_SELECTOR(value["nodeSelector"], f"{at}.nodeSelector", out, None)


def _device_id(one: Any) -> dict[str, str]:
    """What tells an allocated device from others, as Go shows it."""
    return {name[0].upper() + name[1:]: one.get(name) or "" for name in ("driver", "pool", "device", "shareID")}


def _interface_address(value: str, at: str, out: list[Cause], _context: Any) -> None:
    canonical = canonical_interface_address(value)
    if canonical is None:
        detail = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
        out.append(field_errors.invalid(at, value, detail))
    elif canonical != value:
        out.append(field_errors.invalid(at, value, f'must be in canonical form ("{canonical}")'))


def _each_once(value: list[Any], at: str, out: list[Cause], _context: Any) -> None:
    unique(value, at, out)


_NETWORK_DATA: Final = Table(
    ("interfaceName", bytes_at_most(256)),
    ("hardwareAddress", bytes_at_most(128)),
    ("ips", _items(16, _interface_address), _each_once),
)


def _device_statuses(status: Any, at: str, out: list[Cause]) -> None:
    items = list_member(status, "devices")
    results = list_member(map_member(map_member(status, "allocation"), "devices"), "results")
    allocated = [_device_id(one) for one in results]
    for index, one in enumerate(items):
        where = f"{at}[{index}]"
        _DEVICE_STATUS(one, where, out, None)
        if _device_id(one) not in allocated:
            shown = {"DeviceID": _device_id(one)}  # upstream shows the struct
            out.append(field_errors.invalid(where, shown, "must be an allocated device in the claim"))
        conditions, data = list_member(one, "conditions"), one.get("data")
        at_most(8, conditions, f"{where}.conditions", out)
        check_conditions(conditions, f"{where}.conditions", out, None)
        if data is not None:
            _parameters(data, f"{where}.data", out, None)
        _NETWORK_DATA(map_member(one, "networkData"), f"{where}.networkData", out, None)
    seen: list[dict[str, str]] = []
    for index, one in enumerate(items):
        if _device_id(one) in seen:
            out.append(field_errors.duplicate(f"{at}[{index}]", _device_id(one)))
        seen.append(_device_id(one))


def _claim_status(claim: Any, _at: str, out: list[Cause], old: Any) -> None:
    status, devices = map_member(claim, "status"), value_at(claim, "spec.devices")
    reserved, allocation = list_member(status, "reservedFor"), status.get("allocation")
    if at_most(256, reserved, "status.reservedFor", out):
        for index, one in enumerate(reserved):
            _CONSUMER(one, f"status.reservedFor[{index}]", out, None)
        named_once(reserved, "status.reservedFor", out, "uid")
    _device_statuses(status, "status.devices", out)
    if reserved and allocation is None:
        detail = "may not be specified when `allocated` is not set"
        out.append(field_errors.forbidden("status.reservedFor", detail))
    elif map_member(claim, "metadata").get("deletionTimestamp"):
        former = list_member(map_member(old, "status"), "reservedFor")
        if any(one not in former for one in reserved):
            detail = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
            out.append(field_errors.forbidden("status.reservedFor", detail))
    before = value_at(old, "status.allocation")
    if allocation is not None and before is None:
        _allocation_result(allocation, "status.allocation", out, devices)
    elif allocation is not None and not equal(allocation, before):
        immutable(allocation, before, "status.allocation", out)


def _new_devices(devices: Any, at: str, out: list[Cause], old: Any) -> None:
    if old is None:  # a claim that exists cannot be changed, and is not checked again
        _devices(devices, at, out, None)


CLAIM: Final = KindRules(
    rules=Table(("spec.devices", _new_devices), root=True),
    changes=(("spec", immutable_struct),),
    status=Table(("", _claim_status), root=True),
)
CLAIM_TEMPLATE: Final = KindRules(
    rules=Table(("spec.metadata", TEMPLATE_METADATA), ("spec.spec.devices", _devices), root=True),
    changes=(("spec", immutable_struct),),
)


def _extended_resource(value: str | None, at: str, out: list[Cause], _context: Any) -> None:
    if value is None:
        return
    if not is_extended_resource(value):
        out.append(field_errors.invalid(at, value, "must be a valid extended resource name"))


DEVICE_CLASS: Final = KindRules(
    rules=Table(
        ("spec.selectors", _SELECTORS),
        ("spec.config", _items(_MAX, _config)),
        ("spec.extendedResourceName", always(_extended_resource)),
        root=True,
    )
)
