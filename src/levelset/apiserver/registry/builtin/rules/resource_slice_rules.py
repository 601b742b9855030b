"""The rules of ResourceSlices, in which drivers publish their devices: placement, attributes, capacities, counters."""

import re
from itertools import pairwise
from typing import Any, Final

from levelset.apiserver.registry.builtin.rules.checks import (
    label_key_problems,
    label_value,
    quantity,
    subdomain_problems,
    unique,
)
from levelset.apiserver.registry.builtin.rules.device_rules import (
    EFFECT,
    at_most,
    binding_conditions,
    label_of,
    named_once,
    pool_name,
    qualified_name,
)
from levelset.apiserver.registry.builtin.rules.pods.pod_scheduling import NODE_SELECTOR
from levelset.apiserver.registry.builtin.rules.pods.pod_volumes import csi_driver_name
from levelset.apiserver.registry.builtin.rules.rule_tables import (
    KindRules,
    Table,
    always,
    immutable,
    required,
    value_at,
)
from levelset.apiserver.registry.builtin.written_members import equal
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.schema import field_errors
from levelset.errors import Cause

__all__ = ["SLICE"]

_MAX_DEVICES: Final = 128
_MAX_DEVICES_WITH_FEATURES: Final = 64  # if one has taints or consumes counters
_MAX_VALUES: Final = 48
_MAX_TEXT: Final = 64
_PART: Final = r"(0|[1-9]\d*)"
_BEFORE: Final = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_VERSION: Final = re.compile(
    rf"{_PART}\.{_PART}\.{_PART}(-{_BEFORE}(\.{_BEFORE})*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?", re.ASCII
)
_ONE_PLACE: Final = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
_ONE_DEVICE_PLACE: Final = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true"
    " in the ResourceSlice spec"
)
_NO_DEVICE_PLACE: Final = (
    "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the"
    " ResourceSlice spec"
)


def _pool(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    pool: dict[str, Any] = value or {}
    pool_name(pool.get("name"), f"{at}.name", out, None)
    count, generation = pool.get("resourceSliceCount") or 0, pool.get("generation") or 0
    if count <= 0:
        out.append(field_errors.invalid(f"{at}.resourceSliceCount", count, "must be greater than zero"))
    if generation < 0:
        detail = "must be greater than or equal to zero"
        out.append(field_errors.invalid(f"{at}.generation", generation, detail))


def _unchanged(tree: Any, _at: str, out: list[Cause], old: Any) -> None:
    for path in ("spec.pool.name", "spec.driver", "spec.nodeName") if old is not None else ():
        new, before = value_at(tree, path), value_at(old, path)
        if path == "spec.nodeName" and new is None and before is not None:  # a pointer
            out.append(field_errors.invalid(path, None, "field is immutable"))
        elif not equal(new, before):
            immutable(new, before, path, out)


def _places(owner: Any, at: str, out: list[Cause], *, flags: tuple[str, ...], empty: str) -> list[str]:
    """The members that say on which nodes devices are; reports those that are wrong."""
    found: list[str] = []
    node, selector = owner.get("nodeName"), owner.get("nodeSelector")
    if node == "":
        out.append(field_errors.invalid(f"{at}.nodeName", "", empty))
    elif node is not None:
        found.append("`nodeName`")
        out += [field_errors.invalid(f"{at}.nodeName", node, problem) for problem in subdomain_problems(node)]
    if selector is not None:
        found.append("`nodeSelector`")
        NODE_SELECTOR(selector, f"{at}.nodeSelector", out, None)
        terms = list_member(selector, "nodeSelectorTerms")
        if len(flags) > 1 and len(terms) != 1:
            where = f"{at}.nodeSelector.nodeSelectorTerms"
            shown = selector.get("nodeSelectorTerms")
            out.append(field_errors.invalid(where, shown, "must have exactly one node selector term"))
    for name in flags:
        if owner.get(name):
            found.append(f"`{name}`")
        elif owner.get(name) is not None:
            out.append(field_errors.invalid(f"{at}.{name}", False, "must be either unset or set to true"))
    return found


def _placement(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    spec: dict[str, Any] = value or {}
    empty = "must be either unset or set to a non-empty string"
    given = _places(spec, at, out, flags=("allNodes", "perDeviceNodeSelection"), empty=empty)
    if not given:
        out.append(field_errors.required(at, _ONE_PLACE))
    elif len(given) > 1:
        shown = "{" + ", ".join(given) + "}"
        out.append(field_errors.invalid(at, shown, f"{_ONE_PLACE}, but multiple fields are set"))
    if spec.get("sharedCounters") is not None and spec.get("devices") is not None:
        out.append(field_errors.invalid(at, "", "only one of `sharedCounters` or `devices` is allowed"))


def _device_placement(device: Any, at: str, out: list[Cause], *, is_per_device: bool) -> None:
    if is_per_device:
        given = _places(device, at, out, flags=("allNodes",), empty="must not be empty")
        if not given:
            out.append(field_errors.required(at, _ONE_DEVICE_PLACE))
        elif len(given) > 1:
            out.append(field_errors.invalid(at, "{" + ", ".join(given) + "}", _ONE_DEVICE_PLACE))
    elif any(device.get(name) is not None for name in ("nodeName", "nodeSelector", "allNodes")):
        out.append(field_errors.invalid(at, None, _NO_DEVICE_PLACE))


def _attribute(value: Any, at: str, out: list[Cause]) -> None:
    text, version = value.get("string"), value.get("version")
    if text is not None and len(text.encode()) > _MAX_TEXT:
        out.append(field_errors.too_long(f"{at}.string", _MAX_TEXT))
    if version is not None:
        if not _VERSION.fullmatch(version):
            detail = "must be a string compatible with semver.org spec 2.0.0"
            out.append(field_errors.invalid(f"{at}.version", version, detail))
        if len(version.encode()) > _MAX_TEXT:
            out.append(field_errors.too_long(f"{at}.version", _MAX_TEXT))
    given = sum(value.get(kind) is not None for kind in ("bool", "int", "string", "version"))
    if given != 1:
        out.append(field_errors.invalid(at, value if given else "", "exactly one value must be specified"))


def _key(name: str, limit: int) -> str:
    """The key of a map in a path: the middle of a long one is left out."""
    if len(name) <= limit:
        return name
    rest = limit - 3
    return f"{name[: (rest + 1) // 2]}...{name[len(name) - rest // 2 :]}"


def _capacity(value: Any, at: str, out: list[Cause], *, is_shared: bool) -> None:
    policy = value.get("requestPolicy")
    if policy is None:
        return
    at = f"{at}.requestPolicy"
    if not is_shared:
        out.append(field_errors.forbidden(at, "allowMultipleAllocations must be true"))
        return
    values, ranged, default = list_member(policy, "validValues"), policy.get("validRange"), policy.get("default")
    if values and ranged is not None:
        detail = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
        out.append(field_errors.forbidden(at, detail))
    elif values and default is None:
        out.append(field_errors.required(f"{at}.default", "required when validValues is defined"))
    elif values:
        _valid_values(values, str(default), str(value.get("value") or "0"), f"{at}.validValues", out)
    elif ranged is not None and default is None:
        out.append(field_errors.required(f"{at}.default", "required when validRange is defined"))
    elif ranged is not None:
        _valid_range(ranged, str(default), str(value.get("value") or "0"), f"{at}.validRange", out)


def _shown(value: Any) -> str:
    return str(quantity(value))


def _valid_values(values: list[Any], default: str, capacity: str, at: str, out: list[Cause]) -> None:
    for index, (one, following) in enumerate(pairwise(values), 1):
        if quantity(one) > quantity(following):
            detail = "values must be sorted in ascending order"
            out.append(field_errors.invalid(f"{at}[{index}]", _shown(following), detail))
    is_short = at_most(10, values, at, out)
    if is_short:
        for index, one in enumerate(values):
            if quantity(one) > quantity(capacity):
                detail = f"option is larger than capacity value: {_shown(capacity)}"
                out.append(field_errors.invalid(f"{at}[{index}]", _shown(one), detail))
        unique([str(int(quantity(one))) for one in values], at, out)  # as upstream, which compares whole numbers
    if not is_short or not any(quantity(one) == quantity(default) for one in values):
        detail = "default value is not valid according to the requestPolicy"
        out.append(field_errors.invalid(at, _shown(default), detail))


def _valid_range(ranged: Any, default: str, capacity: str, at: str, out: list[Cause]) -> None:
    low, high, step = ranged.get("min"), ranged.get("max"), ranged.get("step")
    if low is None:
        out.append(field_errors.required(f"{at}.min", "required when validRange is defined"))
        return
    if quantity(low) > quantity(capacity):
        detail = f"min is larger than capacity value: {_shown(capacity)}"
        out.append(field_errors.invalid(f"{at}.min", _shown(low), detail))
    if quantity(default) < quantity(low):
        out.append(field_errors.invalid(f"{at}.min", _shown(default), f"default is less than min: {_shown(low)}"))
    if high is not None:
        if quantity(low) > quantity(high):
            out.append(field_errors.invalid(f"{at}.max", _shown(low), f"min is larger than max: {_shown(high)}"))
        if quantity(high) > quantity(capacity):
            detail = f"max is larger than capacity value: {_shown(capacity)}"
            out.append(field_errors.invalid(f"{at}.max", _shown(high), detail))
        if quantity(default) > quantity(high):
            out.append(field_errors.invalid(f"{at}.max", _shown(default), f"default is more than max: {_shown(high)}"))
    if step is not None and quantity(low) + quantity(step) > quantity(capacity):
        detail = f"one step {quantity(low) + quantity(step)} is larger than capacity value: {_shown(capacity)}"
        out.append(field_errors.invalid(f"{at}.step", _shown(step), detail))
    if step is not None and int(quantity(step)):  # kube-apiserver divides by a step of 0
        _steps([default, *([high] if high is not None else [])], low, step, f"{at}.step", out)


def _steps(values: list[Any], low: Any, step: Any, at: str, out: list[Cause]) -> None:
    for one in values:
        if (int(quantity(one)) - int(quantity(low))) % int(quantity(step)):
            detail = f"value is not a multiple of a given step ({_shown(step)}) from ({_shown(low)})"
            out.append(field_errors.invalid(at, _shown(one), detail))


_TAINT: Final = Table(
    ("key", always(lambda value, at, out, _context: _taint_key(value or "", at, out))),
    ("value", label_value),
    ("effect", required, EFFECT),
)


def _taint_key(value: str, at: str, out: list[Cause]) -> None:
    out += [field_errors.invalid(at, value, problem) for problem in label_key_problems(value)]


def _counters(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    counters = map_member(value, "counters")
    if not counters:
        out.append(field_errors.required(f"{at}.counters"))
    elif len(counters) > 32:
        out.append(field_errors.too_many(f"{at}.counters", len(counters), 32))
    else:
        for name in counters:
            label_of(name, f"{at}.counters", out, None)


def _required_label(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    if value:
        label_of(value, at, out, None)
    else:
        out.append(field_errors.required(at))


_CONSUMPTION: Final = Table(("counterSet", always(_required_label)), ("", _counters))
_COUNTER_SET: Final = Table(("name", always(_required_label)), ("", _counters))


def _device(device: Any, at: str, out: list[Cause], before: Any, *, is_per_device: bool) -> None:
    label_of(device.get("name"), f"{at}.name", out, None)
    attributes, capacities = map_member(device, "attributes"), map_member(device, "capacity")
    if len(attributes) + len(capacities) > 32:
        detail = "the total number of attributes and capacities must not exceed 32"
        out.append(field_errors.invalid(at, len(attributes) + len(capacities), detail))
    if len(attributes) > _MAX_VALUES:
        detail = f"the total number of attribute values must not exceed {_MAX_VALUES}"
        out.append(field_errors.invalid(at, len(attributes), detail))
    for name, one in attributes.items():
        qualified_name(name, f"{at}.attributes", out)
        _attribute(one, f"{at}.attributes[{_key(name, 96)}]", out)
    for name, one in capacities.items():
        qualified_name(name, f"{at}.capacity", out)
        where = f"{at}.capacity[{_key(name, 96)}]"
        _capacity(one, where, out, is_shared=bool(device.get("allowMultipleAllocations")))
    taints, consumed = list_member(device, "taints"), list_member(device, "consumesCounters")
    if not equal(taints, list_member(before, "taints")) and at_most(16, taints, f"{at}.taints", out):
        for index, one in enumerate(taints):
            _TAINT(one, f"{at}.taints[{index}]", out, None)
    if at_most(2, consumed, f"{at}.consumesCounters", out):
        for index, one in enumerate(consumed):
            _CONSUMPTION(one, f"{at}.consumesCounters[{index}]", out, None)
        named_once(consumed, f"{at}.consumesCounters", out, "counterSet")
    _device_placement(device, at, out, is_per_device=is_per_device)
    binding_conditions(device, at, out, None)


def _devices(spec: Any, at: str, out: list[Cause], old: Any) -> None:
    devices, counters = list_member(spec, "devices"), list_member(spec, "sharedCounters")
    before = {one.get("name"): one for one in list_member(map_member(old, "spec"), "devices")}
    uses_features = any(one.get("taints") or one.get("consumesCounters") for one in devices)
    limit = _MAX_DEVICES_WITH_FEATURES if uses_features else _MAX_DEVICES
    is_per_device = bool(spec.get("perDeviceNodeSelection"))
    if at_most(limit, devices, f"{at}.devices", out):
        for index, one in enumerate(devices):
            _device(one, f"{at}.devices[{index}]", out, before.get(one.get("name")), is_per_device=is_per_device)
        named_once(devices, f"{at}.devices", out)
    if at_most(8, counters, f"{at}.sharedCounters", out):
        for index, one in enumerate(counters):
            _COUNTER_SET(one, f"{at}.sharedCounters[{index}]", out, None)
        named_once(counters, f"{at}.sharedCounters", out)


SLICE: Final = KindRules(
    rules=Table(
        ("spec.driver", always(csi_driver_name)),
        ("spec.pool", always(_pool)),
        ("", _unchanged),
        ("spec", always(_placement)),
        ("spec", _devices),
        root=True,
    ),
)
