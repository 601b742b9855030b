"""The rules of volumes in a pod spec, and of the claims that they or a StatefulSet describe."""

import re
from typing import Any, Final

from levelset.apiserver.registry.builtin.rules.checks import (
    absolute_path,
    annotations,
    between,
    dns_label,
    dns_subdomain,
    file_mode,
    label_key_problems,
    label_selector,
    labels,
    local_path,
    no_backsteps,
    non_reserved_path,
    one_of,
    quantity,
    subdomain_problems,
)
from levelset.apiserver.registry.builtin.rules.rule_tables import (
    Present,
    Required,
    Table,
    Whole,
    always,
    given,
    if_set,
    remembered,
    required,
)
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.schema import field_errors
from levelset.errors import Cause
from levelset.objects.lazy_pattern import Pattern

__all__ = [
    "CLAIM_SPEC",
    "DIVISORS",
    "FIELD_REFERENCE",
    "RESOURCE_PREFIXES",
    "TEMPLATE_METADATA",
    "VOLUME_SOURCES",
    "check_access_modes",
    "check_field_reference",
    "check_resource_reference",
    "check_volumes",
    "csi_driver_name",
    "is_initiator",
]

RESOURCES: Final = (
    *("limits.cpu", "limits.ephemeral-storage", "limits.memory"),
    *("requests.cpu", "requests.ephemeral-storage", "requests.memory"),
)
RESOURCE_PREFIXES: Final = ("limits.hugepages-", "requests.hugepages-")
DIVISORS: Final = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
VOLUME_FIELDS: Final = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
POD_FIELDS: Final = frozenset(
    (
        *VOLUME_FIELDS,
        *("spec.nodeName", "spec.restartPolicy", "spec.serviceAccountName", "spec.schedulerName", "spec.host"),
        *("status.phase", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"),
    )
)
PULL_POLICIES: Final = one_of("Always", "IfNotPresent", "Never")
KEY_TYPES: Final = one_of("RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")


def check_field_reference(value: Any, at: str, out: list[Cause], allowed: tuple[str, ...]) -> None:
    """A field of the Pod: `allowed` are those without a subscript."""
    path = value.get("fieldPath") or ""
    if not path:
        out.append(field_errors.required(f"{at}.fieldPath"))
        return
    subscripted = re.fullmatch(r"([^\[]+)\['(.*)'\]", path, re.DOTALL)
    known = subscripted[1] in ("metadata.annotations", "metadata.labels") if subscripted else path in POD_FIELDS
    version = value.get("apiVersion") or "v1"
    if version != "v1" or not known:
        problem = (
            f"field label does not support subscript: {path}" if subscripted else f"field label not supported: {path}"
        )
        problem = problem if version == "v1" else f"unsupported pod version: {version}"
        out.append(field_errors.invalid(f"{at}.fieldPath", path, f"error converting fieldPath: {problem}"))
    elif subscripted:
        key = subscripted[2].lower() if subscripted[1] == "metadata.annotations" else subscripted[2]
        out.extend([field_errors.invalid(at, key, one) for one in label_key_problems(key)])
    elif path not in allowed:
        out.append(field_errors.not_supported(f"{at}.fieldPath", path, allowed))


def check_resource_reference(value: Any, at: str, out: list[Cause], *, volume: bool) -> None:
    """A resource of a container, and the divisor of its amount."""
    resource = value.get("resource") or ""
    if volume and not value.get("containerName"):
        out.append(field_errors.required(f"{at}.containerName"))
    elif not resource:
        out.append(field_errors.required(f"{at}.resource"))
    elif resource not in RESOURCES and not resource.startswith(RESOURCE_PREFIXES):
        out.append(field_errors.not_supported(f"{at}.resource", resource, RESOURCES))
    divisor = quantity(value.get("divisor") or "0")
    if not divisor:
        return
    kind = resource.partition(".")[2]
    allowed, named = (("1m", "1"), "1m and 1") if kind == "cpu" else (DIVISORS, ", ".join(DIVISORS))
    what = {"cpu": "cpu", "memory": "memory", "ephemeral-storage": "local ephemeral storage"}.get(kind, "hugepages")
    if (resource in RESOURCES or resource.startswith(RESOURCE_PREFIXES)) and str(divisor) not in allowed:
        detail = f"only divisor's values {named} are supported with the {what} resource"
        out.append(field_errors.invalid(f"{at}.divisor", resource, detail))


def csi_driver_name(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    """The name of a CSI driver: a domain of at most 63 characters, in either case."""
    if not value:
        out.append(field_errors.required(at))
        return
    if len(value) > 63:
        out.append(field_errors.too_long(at, 63))
    out.extend([field_errors.invalid(at, value, one) for one in subdomain_problems(value.lower())])


def _file_path(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    if not value:
        out.append(field_errors.required(at))
    else:
        non_reserved_path(value, at, out, None)


KEY_TO_PATH: Final = Table(("key", required), ("path", always(_file_path)), ("mode", file_mode))


def _downward_file(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    _file_path(value.get("path"), f"{at}.path", out, None)
    field, resource = value.get("fieldRef"), value.get("resourceFieldRef")
    if field is not None:
        check_field_reference(field, f"{at}.fieldRef", out, VOLUME_FIELDS)
        if resource is not None:
            detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
            out.append(field_errors.invalid(at, "resource", detail))
    elif resource is not None:
        check_resource_reference(resource, f"{at}.resourceFieldRef", out, volume=True)
    else:
        out.append(field_errors.required(at, "one of fieldRef and resourceFieldRef is required"))
    if value.get("mode") is not None and not file_mode.is_valid(value["mode"]):
        file_mode.report(value["mode"], f"{at}.mode", out)


def _downward_files(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    for one in list_member(value, "items"):
        _downward_file(one, at, out, None)  # upstream names the volume, not the item


class _Paths:
    """The paths of a projected volume, each of which may occur once."""

    def __init__(self, at: str, out: list[Cause]) -> None:
        self._at, self._out = at, out
        self._seen: set[str] = set()

    def add(self, path: str, named: str) -> None:
        if path and path in self._seen:
            self._out.append(field_errors.invalid(self._at, named, "conflicting duplicate paths"))
        self._seen.add(path)


def _projected(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    paths = _Paths(at, out)
    for index, source in enumerate(list_member(value, "sources")):
        where = f"{at}.sources[{index}]"
        for name in ("secret", "configMap"):
            if source.get(name) is not None:
                _projected_keys(source[name], f"{where}.{name}", out, paths)
        if source.get("downwardAPI") is not None:
            for one in list_member(source["downwardAPI"], "items"):
                _downward_file(one, f"{where}.downwardAPI", out, None)
                paths.add(one.get("path") or "", one.get("path") or "")
        if source.get("serviceAccountToken") is not None:
            _projected_token(source["serviceAccountToken"], at, f"{where}.serviceAccountToken", out)
        if sum(source.get(name) is not None for name in PROJECTIONS) > 1:
            out.append(field_errors.forbidden(where, "may not specify more than 1 volume type per source"))


PROJECTIONS: Final = (
    "secret",
    "configMap",
    "downwardAPI",
    "serviceAccountToken",
    "podCertificate",
)


def _projected_keys(value: Any, at: str, out: list[Cause], paths: _Paths) -> None:
    if not value.get("name"):
        out.append(field_errors.required(f"{at}.name"))
    for index, item in enumerate(list_member(value, "items")):
        KEY_TO_PATH(item, f"{at}.items[{index}]", out, None)
        paths.add(item.get("path") or "", value.get("name") or "")


def _projected_token(value: Any, volume: str, at: str, out: list[Cause]) -> None:
    seconds = value.get("expirationSeconds") or 0
    if seconds < 600:
        detail = "may not specify a duration less than 10 minutes"
        out.append(field_errors.invalid(f"{at}.expirationSeconds", seconds, detail))
    if seconds > 1 << 32:
        detail = "may not specify a duration larger than 2^32 seconds"
        out.append(field_errors.invalid(f"{at}.expirationSeconds", seconds, detail))
    _file_path(value.get("path"), f"{volume}.path", out, None)  # upstream names the volume, not the source


def check_access_modes(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    """Known access modes, of which ReadWriteOncePod excludes the others."""
    for mode in value:
        if mode not in ACCESS_MODES:
            out.append(field_errors.not_supported(at, mode, ACCESS_MODES))
    if "ReadWriteOncePod" in value and len(set(value).intersection(ACCESS_MODES)) > 1:
        out.append(field_errors.forbidden(at, "may not use ReadWriteOncePod with other access modes"))


ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")


def _storage_request(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    requests = map_member(map_member(value, "resources"), "requests")
    if "storage" not in requests:
        out.append(field_errors.required(f"{at}.resources[storage]"))
        return
    if quantity(requests["storage"]).nanos <= 0:
        out.append(field_errors.invalid(f"{at}.resources[storage]", requests["storage"], "must be greater than zero"))


def _data_source(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    for name in ("name", "kind"):
        if not value.get(name):
            out.append(field_errors.required(f"{at}.{name}"))
    group = value.get("apiGroup") or ""
    if not group and value.get("kind") != "PersistentVolumeClaim":
        detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        out.append(field_errors.invalid(at, value.get("kind") or "", detail))
    if group:
        out.extend([field_errors.invalid(f"{at}.apiGroup", group, one) for one in subdomain_problems(group)])


def _same_sources(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    source, reference = value.get("dataSource"), value.get("dataSourceRef")
    if source is None or reference is None:
        return
    if reference.get("namespace"):
        detail = "may not be specified when dataSourceRef.namespace is specified"
        out.append(field_errors.invalid(at, {}, detail))  # upstream shows an empty struct, here and below
    elif any(source.get(name) != reference.get(name) for name in ("apiGroup", "kind", "name")):
        out.append(field_errors.invalid(at, {}, "must match dataSourceRef"))


CLAIM_SPEC: Final = Table(
    ("accessModes", Required("at least 1 access mode is required")),
    ("selector", label_selector),
    ("accessModes", check_access_modes),
    ("", _storage_request),
    ("storageClassName", dns_subdomain),
    ("volumeMode", given(one_of("Block", "Filesystem"))),
    ("dataSource", _data_source),
    ("dataSourceRef", _data_source, Table(("namespace", dns_label))),
    ("", _same_sources),
    ("volumeAttributesClassName", dns_subdomain),
)


def _only_labels_and_annotations(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    metadata: dict[str, Any] = value or {}
    for name, one in metadata.items():
        # As Go tells what is set: a list or a map that is empty, and a pointer to zero.
        is_set = one or isinstance(one, (list, dict)) or (name == "deletionGracePeriodSeconds" and one is not None)
        if is_set and name not in ("annotations", "labels"):
            shown = "uID" if name == "uid" else name  # as upstream, which takes the name from that in Go
            out.append(field_errors.forbidden(f"{at}.{shown}", "cannot be set"))


def _host_path_type(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    """The type of a path; without a path it is not checked."""
    if value.get("type") and value["type"] not in HOST_PATH_TYPES:
        out.append(field_errors.not_supported(f"{at}.type", value["type"], HOST_PATH_TYPES))


def _publish_secret(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    name = value["nodePublishSecretRef"].get("name")
    if name and not dns_subdomain.is_valid(name):
        dns_subdomain.report(name, f"{at}.name", out)  # as upstream, which names it so


TEMPLATE_METADATA: Final = Table(("annotations", annotations), ("labels", labels), ("", _only_labels_and_annotations))
CLAIM_TEMPLATE: Final = Table(
    ("metadata", TEMPLATE_METADATA),
    ("spec", always(lambda value, at, out, context: CLAIM_SPEC(value or {}, at, out, context))),
)

_IQN: Final = Pattern(r"iqn\.\d{4}-\d{2}\.([\w.-]+)(:[^,;*&$|\s]+)$|eui\.[0-9a-fA-F]{16}$|naa\.[0-9a-fA-F]{32}$")


def is_initiator(text: str) -> bool:
    """Whether this is the name of an iSCSI initiator or target."""
    return _IQN.match(text) is not None


def _iqn(value: str, at: str, out: list[Cause], _context: Any) -> None:
    if not value.startswith(("iqn", "eui", "naa")):
        out.append(field_errors.invalid(at, value, "must be valid format starting with iqn, eui, or naa"))
    elif not is_initiator(value):
        out.append(field_errors.invalid(at, value, "must be valid format"))


def _iscsi_secret(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    if (value.get("chapAuthDiscovery") or value.get("chapAuthSession")) and value.get("secretRef") is None:
        out.append(field_errors.required(f"{at}.secretRef"))
    if value.get("initiatorName") is not None:
        _iqn(value["initiatorName"], f"{at}.initiatorname", out, None)


def _fibre_channel(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    names, ids, lun = value.get("targetWWNs"), value.get("wwids"), value.get("lun")
    if not names and not ids:
        out.append(field_errors.required(f"{at}.targetWWNs", "must specify either targetWWNs or wwids, but not both"))
    if names and ids:
        detail = "targetWWNs and wwids can not be specified simultaneously"
        out.append(field_errors.invalid(f"{at}.targetWWNs", names, detail))
    if names and lun is None:
        out.append(field_errors.required(f"{at}.lun", "lun is required if targetWWNs is specified"))
    elif names and not 0 <= lun <= 255:
        out.append(field_errors.invalid(f"{at}.lun", lun, "must be between 0 and 255, inclusive"))


def _flocker(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    name, uid = value.get("datasetName") or "", value.get("datasetUUID") or ""
    if not name and not uid:
        out.append(field_errors.required(at, "one of datasetName and datasetUUID is required"))
    if name and uid:
        out.append(
            field_errors.invalid(at, "resource", "datasetName and datasetUUID can not be specified simultaneously")
        )
    if "/" in name:
        out.append(field_errors.invalid(f"{at}.datasetName", name, "must not contain '/'"))


def _flex_options(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    for key in sorted(value):
        if f".{key.partition('/')[0].lower()}".endswith((".kubernetes.io", ".k8s.io")):
            detail = "kubernetes.io and k8s.io namespaces are reserved"
            out.append(field_errors.invalid(f"{at}[{key}]", key, detail))


def _size_limit(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    if quantity(value).nanos < 0:
        out.append(field_errors.forbidden(at, "SizeLimit field must be a valid resource quantity"))


def _disk_uri(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    uri, managed = value.get("diskURI") or "", value["kind"] == "Managed"
    if not uri.startswith("/subscriptions/" if managed else "https://"):
        subscription = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
        blob = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
        out.append(field_errors.not_supported(f"{at}.diskURI", uri, (subscription if managed else blob,)))


def _quobyte_registry(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    registry, detail = value.get("registry") or "", "must be a host:port pair or multiple pairs separated by commas"
    if not registry:
        out.append(field_errors.required(f"{at}.registry", detail))
    elif len(value.get("tenant") or "") > 64:
        tenant = "must be a UUID and may not exceed a length of 64 characters"
        out.append(field_errors.required(f"{at}.tenant", tenant))
    else:
        wrong = [one for one in registry.split(",") if not _HOST_AND_PORT.fullmatch(one)]
        out.extend([field_errors.invalid(f"{at}.registry", registry, detail) for _ in wrong])


_HOST_AND_PORT: Final = Pattern(r"(?:[^:\[\]]*|\[[^\[\]]*\]):[^:\[\]]*")
_PARTITION: Final = between(0, 255, "must be between 1 and 255, inclusive")
HOST_PATH_TYPES: Final = (
    *("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"),
)
FIELD_REFERENCE: Final = VOLUME_FIELDS
# The sources of a volume in the order of their checks; a second one is refused without being checked.
VOLUME_SOURCES: Final[dict[str, Table]] = {
    "emptyDir": Table(("sizeLimit", _size_limit)),
    "hostPath": Table(("path", required, no_backsteps, Whole(_host_path_type))),
    "gitRepo": Table(("repository", required), ("directory", local_path)),
    "gcePersistentDisk": Table(("pdName", required), ("partition", _PARTITION)),
    "awsElasticBlockStore": Table(("volumeID", required), ("partition", _PARTITION)),
    "secret": Table(("secretName", required), ("defaultMode", file_mode), ("items[*]", KEY_TO_PATH)),
    "nfs": Table(
        ("server", required),
        ("path", required),
        ("path", always(lambda v, at, out, c: absolute_path(v or "", at, out, c))),
    ),
    "iscsi": Table(("targetPortal", required), ("iqn", required, _iqn), ("lun", between(0, 255)), ("", _iscsi_secret)),
    "glusterfs": Table(("endpoints", required), ("path", required)),
    "flocker": Table(("", _flocker)),
    "persistentVolumeClaim": Table(("claimName", required)),
    "rbd": Table(("monitors", required), ("image", required)),
    "cinder": Table(("volumeID", required), ("secretRef", Table(("name", required)))),
    "cephfs": Table(("monitors", required)),
    "quobyte": Table(("", _quobyte_registry), ("volume", required)),
    "downwardAPI": Table(("defaultMode", file_mode), ("", _downward_files)),
    "fc": Table(("", _fibre_channel)),
    "flexVolume": Table(("driver", required), ("options", _flex_options)),
    "configMap": Table(("name", required), ("defaultMode", file_mode), ("items[*]", KEY_TO_PATH)),
    "azureFile": Table(("secretName", required), ("shareName", required)),
    "vsphereVolume": Table(("volumePath", required)),
    "photonPersistentDisk": Table(("pdID", required)),
    "portworxVolume": Table(("volumeID", required)),
    "azureDisk": Table(
        ("diskName", required),
        ("diskURI", required),
        ("cachingMode", if_set("cachingMode", one_of("None", "ReadOnly", "ReadWrite"))),
        ("kind", if_set("kind", one_of("Dedicated", "Managed", "Shared"))),
        ("kind", Present(_disk_uri)),
    ),
    "storageos": Table(
        ("volumeName", required, dns_label),
        ("volumeNamespace", dns_label),
        ("secretRef", Table(("name", required))),
    ),
    "projected": Table(("defaultMode", file_mode), ("", _projected)),
    "scaleIO": Table(("gateway", required), ("system", required), ("volumeName", required)),
    "csi": Table(
        ("driver", always(csi_driver_name)),
        ("nodePublishSecretRef", Table(("name", required)), Whole(_publish_secret)),
    ),
    "ephemeral": Table(("volumeClaimTemplate", required, CLAIM_TEMPLATE)),
    "image": Table(("pullPolicy", PULL_POLICIES)),
}
# Where upstream reports a source under another name.
_REPORTED_AS: Final = {"gcePersistentDisk": "persistentDisk"}
_REPEATED_AS: Final = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}


def check_volumes(volumes: list[Any], at: str, out: list[Cause], pod: Any) -> dict[str, Any]:
    """Checks the volumes of a pod; returns the valid ones by name."""
    found: dict[str, Any] = {}
    created = [f"{pod.name}-{one.get('name')}" for one in volumes if pod.name and one.get("ephemeral") is not None]
    for index, volume in enumerate(volumes):
        where, name, before = f"{at}[{index}]", volume.get("name") or "", len(out)
        check = _check_volume if "ephemeral" in volume or "image" in volume else _plain_volume
        check(volume, where, out, pod)
        if name in found:
            out.append(field_errors.duplicate(f"{where}.name", name))
        if len(out) == before:
            found[name] = volume
        claim = map_member(volume, "persistentVolumeClaim").get("claimName") if created else None
        if created and claim in created:
            detail = "must not reference a PVC that gets created for an ephemeral volume"
            out.append(field_errors.invalid(f"{where}.persistentVolumeClaim.claimName", claim, detail))
    return found


def _check_volume(volume: Any, at: str, out: list[Cause], pod: Any) -> None:
    name = volume.get("name") or ""
    _check_source(volume, at, out, pod)
    if not name:
        out.append(field_errors.required(f"{at}.name"))
    elif not dns_label.is_valid(name):
        dns_label.report(name, f"{at}.name", out)


_plain_volume: Final = remembered(_check_volume)


def _check_source(volume: Any, at: str, out: list[Cause], pod: Any) -> None:
    count = 0
    for name in volume if len(volume) == 2 else VOLUME_SOURCES:
        if name == "name" or volume.get(name) is None:
            continue
        table = VOLUME_SOURCES.get(name)
        if table is None:
            continue
        if count:
            detail = "may not specify more than 1 volume type"
            out.append(field_errors.forbidden(f"{at}.{_REPEATED_AS.get(name, name)}", detail))
            continue
        count += 1
        table(volume[name], f"{at}.{_REPORTED_AS.get(name, name)}", out, pod)
        if name == "image" and pod.is_pod and not volume[name].get("reference"):
            out.append(field_errors.required(f"{at}.image.reference"))
        if name == "ephemeral" and pod.name and volume.get("name"):
            claim = f"{pod.name}-{volume['name']}"
            problems = [f'PVC name "{claim}": {one}' for one in subdomain_problems(claim)]
            out.extend([field_errors.invalid(f"{at}.name", volume["name"], one) for one in problems])
