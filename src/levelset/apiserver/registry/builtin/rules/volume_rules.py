"""The rules of PersistentVolumes, PersistentVolumeClaims and StorageClasses."""

import posixpath
from typing import Any, Final

from levelset.apiserver.registry.builtin.rules.checks import (
    between,
    dns_label,
    dns_subdomain,
    label_key_problems,
    no_backsteps,
    one_of,
    quantity,
)
from levelset.apiserver.registry.builtin.rules.pods.pod_containers import check_quantity
from levelset.apiserver.registry.builtin.rules.pods.pod_scheduling import NODE_SELECTOR
from levelset.apiserver.registry.builtin.rules.pods.pod_volumes import (
    CLAIM_SPEC,
    VOLUME_SOURCES,
    check_access_modes,
    csi_driver_name,
    is_initiator,
)
from levelset.apiserver.registry.builtin.rules.rule_tables import (
    KindRules,
    Present,
    Table,
    always,
    given,
    if_set,
    immutable,
    required,
)
from levelset.apiserver.registry.builtin.written_members import equal
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.schema import field_errors
from levelset.errors import Cause

__all__ = ["CLAIM", "INLINE_VOLUME_SPEC", "STORAGE_CLASS", "VOLUME", "parameters", "provisioner"]

BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_SECRET: Final = Table(("name", required), ("namespace", required))
_DRIVER_SECRET: Final = Table(("name", required, dns_subdomain), ("namespace", required, dns_label))


def _named_or_empty(detail: str, *, is_required: bool) -> Any:
    def check(value: Any, at: str, out: list[Cause], _context: Any) -> None:
        if value == "":
            out.append(field_errors.required(at) if is_required else field_errors.invalid(at, "", detail))
        elif value and not is_required and not dns_label.is_valid(value):
            dns_label.report(value, at, out)

    return always(check)


def _initiator(value: str, at: str, out: list[Cause], _context: Any) -> None:
    if not is_initiator(value):
        out.append(field_errors.invalid(at, value, "must be valid format"))


def _initiator_name(value: Any, at: str, out: list[Cause], context: Any) -> None:
    _initiator(value["initiatorName"], f"{at}.initiatorname", out, context)  # upstream spells the path so


def _iscsi_secret(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    secret = value.get("secretRef")
    if (value.get("chapAuthDiscovery") or value.get("chapAuthSession")) and secret is None:
        out.append(field_errors.required(f"{at}.secretRef"))
    if secret is not None and not secret.get("name"):
        out.append(field_errors.required(f"{at}.secretRef.name"))


_ENDPOINTS_NAMESPACE: Final = "if the endpointnamespace is set, it must be a valid namespace name"
# The sources of a PersistentVolume in the order of their checks; most are those of a pod's volume.
SOURCES: Final[dict[str, Table]] = {
    "hostPath": VOLUME_SOURCES["hostPath"],
    "gcePersistentDisk": VOLUME_SOURCES["gcePersistentDisk"],
    "awsElasticBlockStore": VOLUME_SOURCES["awsElasticBlockStore"],
    "glusterfs": Table(
        ("endpoints", required),
        ("path", required),
        ("endpointsNamespace", _named_or_empty(_ENDPOINTS_NAMESPACE, is_required=False)),
    ),
    "flocker": VOLUME_SOURCES["flocker"],
    "nfs": VOLUME_SOURCES["nfs"],
    "rbd": VOLUME_SOURCES["rbd"],
    "quobyte": VOLUME_SOURCES["quobyte"],
    "cephfs": VOLUME_SOURCES["cephfs"],
    "iscsi": Table(
        ("targetPortal", required),
        ("iqn", required, _initiator),
        ("lun", between(0, 255)),
        ("", _iscsi_secret),
        ("initiatorName", Present(_initiator_name)),
    ),
    "cinder": Table(("volumeID", required), ("secretRef", _SECRET)),
    "fc": VOLUME_SOURCES["fc"],
    "flexVolume": VOLUME_SOURCES["flexVolume"],
    "azureFile": Table(
        ("secretName", required), ("shareName", required), ("secretNamespace", _named_or_empty("", is_required=True))
    ),
    "vsphereVolume": VOLUME_SOURCES["vsphereVolume"],
    "photonPersistentDisk": VOLUME_SOURCES["photonPersistentDisk"],
    "portworxVolume": VOLUME_SOURCES["portworxVolume"],
    "azureDisk": VOLUME_SOURCES["azureDisk"],
    "scaleIO": VOLUME_SOURCES["scaleIO"],
    "local": Table(("path", required, no_backsteps)),
    "storageos": Table(("volumeName", required, dns_label), ("volumeNamespace", dns_label), ("secretRef", _SECRET)),
    "csi": Table(
        ("driver", always(csi_driver_name)),
        ("volumeHandle", required),
        ("controllerPublishSecretRef", _DRIVER_SECRET),
        ("controllerExpandSecretRef", _DRIVER_SECRET),
        ("nodePublishSecretRef", _DRIVER_SECRET),
        ("nodeExpandSecretRef", _DRIVER_SECRET),
    ),
}
_REPORTED_AS: Final = {"gcePersistentDisk": "persistentDisk"}
_REPEATED_AS: Final = {"cephfs": "cephFS"}


def _capacity(spec: Any, at: str, out: list[Cause], _context: Any) -> None:
    capacity = map_member(spec, "capacity")
    if not capacity:
        out.append(field_errors.required(f"{at}.capacity"))
    if "storage" not in capacity or len(capacity) > 1:
        out.append(field_errors.not_supported(f"{at}.capacity", spec.get("capacity"), ("storage",)))
    for name in sorted(capacity):
        amount, where = quantity(capacity[name]), f"{at}.capacity[{name}]"
        if amount.nanos < 0:
            out.append(field_errors.invalid(where, -(-amount.nanos // 10**9), "must be a valid resource quantity"))
        if amount.nanos <= 0:
            out.append(field_errors.invalid(where, str(amount), "must be greater than zero"))


def _source(spec: Any, at: str, out: list[Cause], _context: Any) -> None:
    count = 0
    for name, table in SOURCES.items():
        if spec.get(name) is None:
            continue
        if count and name != "flexVolume":
            detail = "may not specify more than 1 volume type"
            out.append(field_errors.forbidden(f"{at}.{_REPEATED_AS.get(name, name)}", detail))
            continue
        count += 1
        table(spec[name], f"{at}.{_REPORTED_AS.get(name, name)}", out, None)
        if name == "local" and spec.get("nodeAffinity") is None:
            out.append(field_errors.required(f"{at}.nodeAffinity", "Local volume requires node affinity"))
    if not count:
        out.append(field_errors.required(at, "must specify a volume type"))
    path = map_member(spec, "hostPath").get("path")
    if path and posixpath.normpath(path) == "/" and spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        detail = "may not be 'recycle' for a hostPath mount of '/'"
        out.append(field_errors.forbidden(f"{at}.persistentVolumeReclaimPolicy", detail))


def _attributes_class(spec: Any, at: str, out: list[Cause], _context: Any) -> None:
    name = spec.get("volumeAttributesClassName")
    if name is None:
        return
    where = f"{at}.volumeAttributesClassName"
    if not name:
        out.append(field_errors.required(where, "an empty string is disallowed"))
    elif not dns_subdomain.is_valid(name):
        dns_subdomain.report(name, where, out)
    if spec.get("csi") is None:
        out.append(field_errors.required(f"{at}.csi", "has to be specified when using volumeAttributesClassName"))


def _required_nodes(value: Any, at: str, out: list[Cause], context: Any) -> None:
    if value is None:
        out.append(field_errors.required(at, "must specify required node constraints"))
    else:
        NODE_SELECTOR(value, at, out, context)


VOLUME_SPEC: Final = Table(
    ("accessModes", required, check_access_modes),
    ("", _capacity),
    ("persistentVolumeReclaimPolicy", one_of("Delete", "Recycle", "Retain")),
    (
        "nodeAffinity",
        Table(("required", always(_required_nodes))),
    ),
    ("", _source),
    ("storageClassName", dns_subdomain),
    ("volumeMode", if_set("volumeMode", one_of("Block", "Filesystem"))),
    ("", _attributes_class),
)


_INLINE: Final = "in the context of inline volumes"


def _not_inline(_value: Any, at: str, out: list[Cause], _context: Any) -> None:
    out.append(field_errors.forbidden(at, f"may not be specified {_INLINE}"))


def _no_inline_capacity(value: Any, at: str, out: list[Cause], context: Any) -> None:
    if value:  # an empty map is none in Go; the other members are pointers, where an empty struct counts
        _not_inline(value, at, out, context)


def _inline_only(value: str, detail: str) -> Any:
    """A check that accepts one value, which is the default of a PersistentVolume."""

    def check(given: Any, at: str, out: list[Cause], _context: Any) -> None:
        if given != value:
            out.append(field_errors.forbidden(at, f"{detail} {value} {_INLINE}"))

    return check


def _inline_driver(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    if value is None:
        out.append(field_errors.required(at, f"has to be specified {_INLINE}"))


INLINE_VOLUME_SPEC: Final = Table(
    ("claimRef", _not_inline),
    ("capacity", _no_inline_capacity),
    ("csi", always(_inline_driver)),
    ("accessModes", required, check_access_modes),
    ("persistentVolumeReclaimPolicy", _inline_only("Retain", "may only be")),
    ("nodeAffinity", _not_inline),
    ("", _source),
    ("storageClassName", _not_inline),
    ("volumeMode", _inline_only("Filesystem", "may not specify volumeMode other than")),
)


def _volume_changes(new: Any, old: Any, _at: str, out: list[Cause]) -> None:
    after, before = map_member(new, "spec"), map_member(old, "spec")
    VOLUME_SPEC(after, "spec", out, None)  # upstream validates an update twice, and reports all causes
    sources = {name: after.get(name) for name in SOURCES}
    if map_member(before, "csi") and map_member(before, "csi").get("controllerExpandSecretRef") is None:
        sources["csi"] = {**map_member(after, "csi"), "controllerExpandSecretRef": None}
    if not equal(sources, {name: before.get(name) for name in SOURCES}):
        detail = "spec.persistentvolumesource is immutable after creation"
        out.append(field_errors.forbidden("spec.persistentvolumesource", detail))
    if after.get("volumeMode") != before.get("volumeMode"):
        immutable(after.get("volumeMode"), None, "volumeMode", out)
    if before.get("nodeAffinity") is not None and not equal(after.get("nodeAffinity"), before["nodeAffinity"]):
        detail = "field is immutable, except for updating from beta label to GA"
        out.append(field_errors.invalid("nodeAffinity", after.get("nodeAffinity"), detail))
    if before.get("volumeAttributesClassName") is not None and after.get("volumeAttributesClassName") is None:
        detail = "update from non-nil value to nil is forbidden"
        out.append(field_errors.forbidden("spec.volumeAttributesClassName", detail))


VOLUME: Final = KindRules(
    rules=Table(
        ("spec", always(lambda value, at, out, context: VOLUME_SPEC(value or {}, at, out, context))), root=True
    ),
    changes=(("", _volume_changes),),
)


def _comparable_spec(new: Any, old: Any) -> tuple[Any, Any]:
    """The specs of a claim without what may change: the volume once, a first class, the size of a bound claim."""
    after, before = dict(map_member(new, "spec")), dict(map_member(old, "spec"))
    if not before.get("volumeName"):
        after.pop("volumeName", None)
    former = map_member(old["metadata"], "annotations").get(BETA_CLASS)
    if before.get("storageClassName") is None and former in (None, after.get("storageClassName")):
        after.pop("storageClassName", None)
    if map_member(new, "status").get("phase") == "Bound":
        for spec in (after, before):
            spec.pop("volumeAttributesClassName", None)
            resources = map_member(spec, "resources")
            requests = {name: one for name, one in map_member(resources, "requests").items() if name != "storage"}
            spec["resources"] = {**resources, "requests": requests}
    return after, before


def _claim_changes(new: Any, old: Any, _at: str, out: list[Cause]) -> None:
    spec, former = map_member(new, "spec"), map_member(old, "spec")
    _class_annotation(new, old, out)
    after, before = _comparable_spec(new, old)
    if not equal(after, before):
        detail = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
        )
        changed = sorted(name for name in after.keys() | before.keys() if not equal(after.get(name), before.get(name)))
        out.append(field_errors.forbidden("spec", f"{detail}\nchanged: {', '.join(changed)}"))
    held = map_member(map_member(old, "status"), "capacity").get("storage")
    if _size(spec) < _size(former) and _size(spec) <= quantity(held or "0"):
        detail = "field can not be less than status.capacity"
        out.append(field_errors.forbidden("spec.resources.requests.storage", detail))
    if spec.get("volumeMode") != former.get("volumeMode"):
        immutable(spec.get("volumeMode"), None, "volumeMode", out)
    if map_member(old, "status").get("currentVolumeAttributesClassName") is not None:
        name = spec.get("volumeAttributesClassName")
        if not name and former.get("volumeAttributesClassName") != name:
            what = "nil" if name is None else "empty string"
            detail = f"update to {what} is forbidden when status.currentVolumeAttributesClassName is not nil"
            out.append(field_errors.forbidden("spec.volumeAttributesClassName", detail))


def _class_annotation(new: Any, old: Any, out: list[Cause]) -> None:
    """The class in an annotation may not change, unless it moves to the field."""
    after = map_member(new["metadata"], "annotations").get(BETA_CLASS)
    before = map_member(old["metadata"], "annotations").get(BETA_CLASS)
    name = map_member(new, "spec").get("storageClassName")
    moves = (
        before is not None
        and map_member(old, "spec").get("storageClassName") is None
        and name == before
        and after in (None, before)
    )
    if not moves and (after or "") != (before or ""):
        where = f"metadata.annotations.{BETA_CLASS}"
        out.append(field_errors.invalid(where, after or "", "field is immutable"))


def _size(spec: Any) -> Any:
    return quantity(map_member(map_member(spec, "resources"), "requests").get("storage") or "0")


RESIZE_STATUSES: Final = (
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
)


def _resource_key(name: str, at: str, out: list[Cause]) -> bool:
    """Whether a name is a resource of a claim: `storage`, or one of another domain."""
    problems = label_key_problems(name)
    out.extend([field_errors.invalid(at, name, one) for one in problems])
    is_native = "/" not in name or "kubernetes.io/" in name
    if not problems and is_native and name != "storage":
        out.append(field_errors.not_supported(at, name, ("storage",)))
        return False
    return not problems


def _claim_status(status: Any, at: str, out: list[Cause], _context: Any) -> None:
    capacity = map_member(status, "capacity")
    for name in sorted(capacity):
        _basic_quantity(capacity[name], f"{at}.capacity[{name}]", out)
    statuses = map_member(status, "allocatedResourceStatuses")
    for name in sorted(statuses):
        where = f"{at}.allocatedResourceStatuses"
        _resource_key(name, where, out)
        if statuses[name] not in RESIZE_STATUSES:
            out.append(field_errors.not_supported(where, name, sorted(RESIZE_STATUSES)))
    amounts = map_member(status, "allocatedResources")
    for name in sorted(amounts):
        if _resource_key(name, f"{at}.allocatedResources", out):
            before, where = len(out), f"{at}.allocatedResources[{name}]"
            _basic_quantity(amounts[name], where, out)
            if len(out) == before:
                check_quantity("storage", amounts[name], where, out)


def _basic_quantity(value: Any, at: str, out: list[Cause]) -> None:
    amount = quantity(value)
    if amount.nanos < 0:
        out.append(field_errors.invalid(at, -(-amount.nanos // 10**9), "must be a valid resource quantity"))


CLAIM: Final = KindRules(
    rules=Table(("spec", always(lambda value, at, out, context: CLAIM_SPEC(value or {}, at, out, context))), root=True),
    changes=(("", _claim_changes),),
    status=Table(("status", _claim_status), root=True),
)


def provisioner(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    """The name of a provisioner or driver, in either case."""
    if not value:
        out.append(field_errors.required(at))
        return
    shown = value.lower()
    out.extend([field_errors.invalid(at, shown, one) for one in label_key_problems(shown)])


def parameters(value: dict[str, str], at: str, out: list[Cause], _context: Any) -> None:
    """Parameters for a provisioner or driver, which may not be too many."""
    if len(value) > MAX_PARAMETERS:
        out.append(field_errors.too_long(at, MAX_PARAMETERS))
        return
    if "" in value:
        out.append(field_errors.invalid(at, "", "field can not be empty."))
    if sum(len(key.encode()) + len((text or "").encode()) for key, text in value.items()) > MAX_PARAMETER_BYTES:
        out.append(field_errors.too_long(at, MAX_PARAMETER_BYTES))


MAX_PARAMETERS: Final = 512
MAX_PARAMETER_BYTES: Final = 256 * 1024


def _topologies(value: list[Any], at: str, out: list[Cause], _context: Any) -> None:
    # Upstream compares with as many empty terms first, so that an empty one is a duplicate.
    known: list[dict[str, set[str]]] = [{} for _ in value]
    for index, term in enumerate(value):
        where = f"{at}[{index}].matchLabelExpressions"
        found: dict[str, set[str]] = {}
        for number, one in enumerate(list_member(term, "matchLabelExpressions")):
            _topology(one, f"{where}[{number}]", out)
            key = one.get("key") or ""
            if key in found:
                out.append(field_errors.duplicate(f"{where}[{number}].key", key))
            found[key] = set(list_member(one, "values"))
        out.extend([field_errors.duplicate(where, "") for one in known if one == found])
        known.append(found)


def _topology(one: Any, at: str, out: list[Cause]) -> None:
    values, key, seen = list_member(one, "values"), one.get("key") or "", set[str]()
    if not values:
        out.append(field_errors.required(f"{at}.values"))
    for index, text in enumerate(values):
        if text in seen:
            out.append(field_errors.duplicate(f"{at}.values[{index}]", text))
        seen.add(text)
    out.extend([field_errors.invalid(f"{at}.key", key, one) for one in label_key_problems(key)])


STORAGE_CLASS: Final = KindRules(
    rules=Table(
        ("provisioner", always(provisioner)),
        ("parameters", parameters),
        ("reclaimPolicy", one_of("Delete", "Retain")),
        ("volumeBindingMode", given(one_of("Immediate", "WaitForFirstConsumer"))),
        ("allowedTopologies", _topologies),
        root=True,
    ),
    changes=(
        ("parameters", immutable),
        ("provisioner", immutable),
        ("reclaimPolicy", immutable),
        ("volumeBindingMode", immutable),
    ),
)
