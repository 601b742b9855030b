"""Storage drivers, volume attachments and devices: defaults, what the server sets, and admin access to devices."""

from collections.abc import Callable
from functools import partial
from typing import Final

from levelset.apiserver.registry.builtin.normal_forms import canonical, set_canonical
from levelset.apiserver.registry.builtin.written_members import equal
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object
from levelset.apiserver.schema import field_errors
from levelset.errors import Cause
from levelset.objects import decode_tree
from levelset.storage import Item

__all__ = [
    "admin_access_checks",
    "prepare_attachment_create",
    "prepare_driver_update",
    "set_capacity_defaults",
    "set_claim_defaults",
    "set_claim_template_defaults",
    "set_driver_defaults",
    "set_slice_defaults",
    "set_slice_times",
]

_DRIVER_DEFAULTS: Final[Object] = {
    "attachRequired": True,
    "podInfoOnMount": False,
    "storageCapacity": False,
    "fsGroupPolicy": "ReadWriteOnceWithFSType",
    "requiresRepublish": False,
    "seLinuxMount": False,
}

_NAMESPACES: Final = "/registry/core/namespaces/"
_ADMIN_LABEL: Final = "resource.kubernetes.io/admin-access"
_GROUP: Final = "resource.k8s.io"

_Get = Callable[[str], Item | None]


def set_driver_defaults(driver: Object) -> None:
    """Sets the defaults of a CSIDriver."""
    spec = driver.setdefault("spec", {})
    for name, value in _DRIVER_DEFAULTS.items():
        spec.setdefault(name, value)
    if not spec.get("volumeLifecycleModes"):
        spec["volumeLifecycleModes"] = ["Persistent"]


def prepare_driver_update(new: Object, old: Object) -> None:
    """Counts the changes of a CSIDriver, of which a new one has none."""
    if not equal(new.get("spec"), old.get("spec")):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def set_capacity_defaults(capacity: Object) -> None:
    """Writes the quantities of a CSIStorageCapacity in their canonical form."""
    set_canonical(capacity, "capacity")
    set_canonical(capacity, "maximumVolumeSize")


def prepare_attachment_create(attachment: Object) -> None:
    """A new VolumeAttachment is not attached."""
    attachment["status"] = {"attached": False}


def set_claim_defaults(claim: Object) -> None:
    """Sets the defaults of a ResourceClaim."""
    _set_request_defaults(map_member(claim, "spec"))


def set_slice_defaults(resource_slice: Object) -> None:
    """Writes the quantities of a ResourceSlice in their canonical form."""
    spec = map_member(resource_slice, "spec")
    for device in list_member(spec, "devices"):
        for capacity in map_member(device, "capacity").values():
            _set_capacity(capacity)
        for consumed in list_member(device, "consumesCounters"):
            _set_counters(consumed)
    for counters in list_member(spec, "sharedCounters"):
        _set_counters(counters)


def _set_capacity(capacity: Object) -> None:
    capacity["value"] = canonical(capacity.get("value") or "0")
    policy = capacity.get("requestPolicy")
    if policy is None:
        return
    policy["default"] = canonical(policy.get("default"))
    if policy.get("validValues"):
        policy["validValues"] = [canonical(one) for one in policy["validValues"]]
    for name in ("min", "max", "step"):
        set_canonical(map_member(policy, "validRange"), name)


def _set_counters(owner: Object) -> None:
    for counter in map_member(owner, "counters").values():
        counter["value"] = canonical(counter.get("value") or "0")


def set_slice_times(resource_slice: Object, now: str) -> None:
    """The taints of devices that say nothing else are added now."""
    for device in list_member(map_member(resource_slice, "spec"), "devices"):
        for taint in list_member(device, "taints"):
            taint.setdefault("timeAdded", now)


def set_claim_template_defaults(template: Object) -> None:
    """Sets the defaults of a ResourceClaimTemplate."""
    _set_request_defaults(map_member(map_member(template, "spec"), "spec"))


def _set_request_defaults(spec: Object) -> None:
    for request in list_member(map_member(spec, "devices"), "requests"):
        for one in (request.get("exactly"), *list_member(request, "firstAvailable")):
            if one is not None:
                one["allocationMode"] = one.get("allocationMode") or "ExactCount"
                if one["allocationMode"] == "ExactCount":
                    one["count"] = one.get("count") or 1
                amounts = map_member(map_member(one, "capacity"), "requests")
                for name in amounts:
                    set_canonical(amounts, name)  # which is not rounded to thousandths
                for toleration in list_member(one, "tolerations"):
                    toleration["operator"] = toleration.get("operator") or "Equal"


def admin_access_checks(get: _Get) -> dict[tuple[str, str], list[Callable[[Object, Object | None], list[Cause]]]]:
    """The validators that refuse claims with admin access, unless a label of their namespace allows it."""
    return {
        (_GROUP, "ResourceClaim"): [partial(_refuse_admin_access, get, False)],
        (_GROUP, "ResourceClaimTemplate"): [partial(_refuse_admin_access, get, True)],
    }


def _refuse_admin_access(get: _Get, is_template: bool, new: Object, old: Object | None) -> list[Cause]:
    at = _new_admin_access(new, old, is_template)
    if at is None:
        return []
    item = get(_NAMESPACES + new["metadata"]["namespace"])
    labels = {} if item is None else map_member(decode_tree(item.value)["metadata"], "labels")
    if labels.get(_ADMIN_LABEL) == "true":
        return []
    needed = f"requires the `{_ADMIN_LABEL}: true` label on the containing namespace"
    return [field_errors.forbidden(f"{at}.adminAccess", f"admin access to devices {needed}")]


def _new_admin_access(new: Object, old: Object | None, is_template: bool) -> str | None:
    """The first request for admin access of a new claim, or the first result that an update of the status grants it."""
    if old is not None:
        granted = None if _first_admin(_results(old)) is not None else _first_admin(_results(new))
        return None if granted is None else f"status.allocation.devices.results[{granted}]"
    spec = map_member(map_member(new, "spec"), "spec") if is_template else map_member(new, "spec")
    requests = list_member(map_member(spec, "devices"), "requests")
    wanted = _first_admin([map_member(one, "exactly") for one in requests])
    return None if wanted is None else f"spec.devices.requests[{wanted}]"


def _results(claim: Object) -> list[Object]:
    return list_member(map_member(map_member(map_member(claim, "status"), "allocation"), "devices"), "results")


def _first_admin(items: list[Object]) -> int | None:
    return next((index for index, one in enumerate(items) if one.get("adminAccess") is True), None)
