"""Storage drivers, volume attachments and devices: defaults, and what the server sets in a new object."""

from typing import Final

from levelset.apiserver.registry.builtin.normal_forms import set_canonical
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object

__all__ = [
    "prepare_attachment_create",
    "prepare_driver_update",
    "set_capacity_defaults",
    "set_claim_defaults",
    "set_claim_template_defaults",
    "set_driver_defaults",
]

_DRIVER_DEFAULTS: Final[Object] = {
    "attachRequired": True,
    "podInfoOnMount": False,
    "storageCapacity": False,
    "fsGroupPolicy": "ReadWriteOnceWithFSType",
    "requiresRepublish": False,
    "seLinuxMount": False,
}


def set_driver_defaults(driver: Object) -> None:
    """Sets the defaults of a CSIDriver."""
    spec = driver.setdefault("spec", {})
    for name, value in _DRIVER_DEFAULTS.items():
        spec.setdefault(name, value)
    if not spec.get("volumeLifecycleModes"):
        spec["volumeLifecycleModes"] = ["Persistent"]


def prepare_driver_update(new: Object, old: Object) -> None:
    """Counts the changes of a CSIDriver, of which a new one has none."""
    if new.get("spec") != old.get("spec"):
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
