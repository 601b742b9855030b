"""PersistentVolumes and PersistentVolumeClaims: defaults, phases, protection finalizers and data sources."""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from levelset.apiserver.registry.builtin.normal_forms import set_canonical_list
from levelset.apiserver.registry.builtin.pods import set_source_defaults
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object
from levelset.errors import Cause, Forbidden
from levelset.objects.quantity import Quantity

__all__ = [
    "CLAIM_PROTECTION",
    "VOLUME_PROTECTION",
    "ClaimAdmission",
    "prepare_claim_create",
    "prepare_claim_part",
    "prepare_claim_update",
    "prepare_volume_create",
    "prepare_volume_part",
    "set_claim_defaults",
    "set_source_groups",
    "set_volume_defaults",
]

CLAIM_PROTECTION: Final = "kubernetes.io/pvc-protection"
VOLUME_PROTECTION: Final = "kubernetes.io/pv-protection"
STORAGE_CLASSES: Final = "/registry/storage.k8s.io/storageclasses/"


def set_volume_defaults(tree: Object) -> None:
    """Sets the defaults of a PersistentVolume."""
    spec = tree.setdefault("spec", {})
    spec["persistentVolumeReclaimPolicy"] = spec.get("persistentVolumeReclaimPolicy") or "Retain"
    spec.setdefault("volumeMode", "Filesystem")
    set_canonical_list(spec.get("capacity"))
    set_source_defaults(spec)
    if spec.get("azureFile"):
        spec["azureFile"].setdefault("secretNamespace", None)


def set_claim_defaults(tree: Object) -> None:
    """Sets the defaults of a PersistentVolumeClaim."""
    spec = tree.setdefault("spec", {})
    spec.setdefault("volumeMode", "Filesystem")
    resources = spec.setdefault("resources", {})
    set_canonical_list(resources.get("requests"))
    set_canonical_list(resources.get("limits"))
    set_source_groups(spec)


def set_source_groups(spec: Object) -> None:
    """Sets null as the group of a data source without one, which Go always writes."""
    for name in ("dataSource", "dataSourceRef"):
        if spec.get(name) is not None:
            spec[name].setdefault("apiGroup", None)


def prepare_volume_create(tree: Object) -> None:
    """Sets the phase of a new PersistentVolume, and the finalizer that holds it while it is bound."""
    _protect(tree, VOLUME_PROTECTION)
    tree["status"] = {"phase": "Pending", "lastPhaseTransitionTime": tree["metadata"]["creationTimestamp"]}


def prepare_claim_create(tree: Object) -> None:
    """Sets the phase of a new claim, the finalizer that holds it while a Pod uses it, and its data source."""
    _protect(tree, CLAIM_PROTECTION)
    tree["status"] = {"phase": "Pending"}
    _normalize_sources(tree["spec"], {})


def prepare_claim_update(new: Object, old: Object) -> None:
    """Makes both references to the data source agree, as those of a new claim."""
    _normalize_sources(new.setdefault("spec", {}), map_member(old, "spec"))


def prepare_volume_part(new: Object, old: Object, _subresource: str, now: str) -> None:
    """Sets the phase of a PersistentVolume without one, and the time at which the phase changed."""
    status = new["status"] = map_member(new, "status")
    former = map_member(old, "status")
    status["phase"] = status.get("phase") or "Pending"
    time, before = status.get("lastPhaseTransitionTime"), former.get("lastPhaseTransitionTime")
    if status["phase"] == former.get("phase"):
        if time is None and before is not None:
            status["lastPhaseTransitionTime"] = before
    elif time is None or time == before:
        status["lastPhaseTransitionTime"] = now


def prepare_claim_part(new: Object, _old: Object, _subresource: str, _now: str) -> None:
    """Sets the phase of a claim without one, and canonical amounts."""
    set_source_groups(map_member(new, "spec"))  # decoding has dropped null
    status = new["status"] = map_member(new, "status")
    status["phase"] = status.get("phase") or "Pending"
    for name in ("capacity", "allocatedResources"):
        set_canonical_list(status.get(name))
    for condition in status.get("conditions") or ():
        condition.setdefault("lastProbeTime", None)
        condition.setdefault("lastTransitionTime", None)


class ClaimAdmission:
    """What an update of a claim depends on in other objects: only a class that allows it lets a claim grow."""

    def __init__(self, validate: Callable[[Object, Object | None], list[Cause]]) -> None:
        self._validate = validate
        self.get_item: Callable[[str], Any] | None = None

    def validate(self, new: Object, old: Object | None) -> list[Cause]:
        """The causes of the rules of claims; raises Forbidden if one grows and its class does not allow it."""
        causes = self._validate(new, old)
        if old is not None and not causes and _size(new) > _size(old) and not self._may_grow(new, old):
            name = new["metadata"].get("name", "")
            detail = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc"
            text = f'persistentvolumeclaims "{name}" is forbidden: {detail} must support resize'
            raise Forbidden(text, details={"name": name, "kind": "persistentvolumeclaims"})
        return causes

    def _may_grow(self, new: Object, old: Object) -> bool:
        name = map_member(new, "spec").get("storageClassName") or map_member(old, "spec").get("storageClassName")
        item = None if self.get_item is None or not name else self.get_item(f"{STORAGE_CLASSES}{name}")
        return item is not None and msgspec.json.decode(item.value).get("allowVolumeExpansion") is True


def _size(claim: Object) -> Quantity:
    amount = map_member(map_member(map_member(claim, "spec"), "resources"), "requests").get("storage")
    return Quantity.from_tree(amount or "0")


def _protect(tree: Object, finalizer: str) -> None:
    finalizers = list_member(tree["metadata"], "finalizers")
    if finalizer not in finalizers:
        tree["metadata"]["finalizers"] = [*finalizers, finalizer]


def _normalize_sources(spec: Object, former: Object) -> None:
    """Drops a data source of a kind that is not supported, and makes both references to it agree."""
    set_source_groups(spec)
    if map_member(spec, "dataSourceRef").get("namespace") and former.get("dataSourceRef") is None:
        del spec["dataSourceRef"]  # references across namespaces are an alpha feature
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and reference is None:
        kind = (source.get("apiGroup") or "", source.get("kind") or "")
        is_known = kind in (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))
        if not is_known and former.get("dataSource") is None:
            del spec["dataSource"]
            return
        spec["dataSourceRef"] = dict(source)
    elif reference is not None and source is None and not reference.get("namespace"):
        spec["dataSource"] = {name: value for name, value in reference.items() if name != "namespace"}
