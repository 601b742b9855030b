"""Pods and pod templates: defaults, what the server sets in a new Pod, profiles in annotations, outlines of specs."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from levelset.apiserver.registry.builtin.normal_forms import set_canonical, set_canonical_list
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object
from levelset.objects import encode_tree
from levelset.objects.json_tree import copy_tree
from levelset.objects.lazy_pattern import Pattern
from levelset.objects.quantity import Quantity

__all__ = [
    "APP_ARMOR_CONTAINER",
    "SECCOMP_CONTAINER",
    "SECCOMP_POD",
    "KnownOutlines",
    "pod_outline",
    "prepare_pod_create",
    "prepare_pod_part",
    "prepare_pod_update",
    "qos_class",
    "set_app_armor_profiles",
    "set_pod_defaults",
    "set_pod_spec_defaults",
    "set_source_defaults",
    "set_tolerations",
    "warn_of_container_profiles",
    "warn_of_new_pod",
    "warn_of_pod_profile",
    "with_ephemeral_containers",
    "with_resources",
]

DEFAULT_FILE_MODE: Final = 0o644
SYSTEM_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""The priorities that every cluster has, by the name of their class."""
_CONTAINER_GROUPS: Final = ("containers", "initContainers", "ephemeralContainers")
# The defaults of volume sources.
_SOURCE_DEFAULTS: Final[dict[str, Object]] = {
    "secret": {"defaultMode": DEFAULT_FILE_MODE},
    "configMap": {"defaultMode": DEFAULT_FILE_MODE},
    "downwardAPI": {"defaultMode": DEFAULT_FILE_MODE},
    "projected": {"defaultMode": DEFAULT_FILE_MODE},
    "hostPath": {"type": ""},
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "azureDisk": {"cachingMode": "ReadWrite", "kind": "Shared", "fsType": "ext4", "readOnly": False},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}
_ON_LOST_NODES: Final[tuple[Object, ...]] = tuple(
    {"key": f"node.kubernetes.io/{state}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for state in ("not-ready", "unreachable")
)


def set_pod_defaults(pod: Object) -> None:
    """Sets the defaults of a Pod."""
    spec = pod.setdefault("spec", {})
    set_pod_spec_defaults(spec)
    spec.setdefault("enableServiceLinks", True)
    for group in ("containers", "initContainers"):
        if group not in spec:
            continue
        for container in spec[group] or ():
            limits = container["resources"].get("limits")
            if limits:
                requests = container["resources"].setdefault("requests", {})
                for name, value in limits.items():
                    requests.setdefault(name, value)
            if spec.get("hostNetwork"):
                for port in container.get("ports") or ():
                    if not port.get("hostPort") and port.get("containerPort"):
                        port["hostPort"] = port["containerPort"]
    if spec.get("resources"):
        _set_pod_requests(spec)


def _set_pod_requests(spec: Object) -> None:
    """The requests of a Pod default to the sum of its containers', and then to its limits."""
    resources = spec["resources"]
    limits, requests = map_member(resources, "limits"), map_member(resources, "requests")
    if not limits:
        return
    for name in ("cpu", "memory"):
        given = [map_member(one["resources"], "requests").get(name) for one in spec.get("containers") or ()]
        found = [Quantity.from_tree(one) for one in given if one is not None]
        if found and name not in requests:
            requests[name] = str(sum(found[1:], found[0]))
    for name, value in limits.items():
        if name in ("cpu", "memory") or name.startswith("hugepages-"):
            requests.setdefault(name, value)
    if requests:
        resources["requests"] = requests


def set_pod_spec_defaults(spec: Object) -> None:
    """Sets the defaults of the spec of a Pod or a pod template."""
    spec["restartPolicy"] = spec.get("restartPolicy") or "Always"
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec["dnsPolicy"] = spec.get("dnsPolicy") or "ClusterFirst"
    spec.setdefault("securityContext", {})
    spec["schedulerName"] = spec.get("schedulerName") or "default-scheduler"
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for name in _CONTAINER_GROUPS:
        if name in spec:
            for container in spec[name] or ():
                _set_container_defaults(container)
    for volume in spec.get("volumes") or ():
        _set_volume_defaults(volume)
    if "overhead" in spec:
        set_canonical_list(spec["overhead"])
    if spec.get("resources"):
        _set_canonical_resources(spec["resources"])


def _set_container_defaults(container: Object) -> None:
    resources = container.get("resources")
    if not resources:
        container["resources"] = {} if resources is None else resources
    else:
        _set_canonical_resources(resources)
    container["terminationMessagePath"] = container.get("terminationMessagePath") or "/dev/termination-log"
    container["terminationMessagePolicy"] = container.get("terminationMessagePolicy") or "File"
    container["imagePullPolicy"] = container.get("imagePullPolicy") or _pull_policy(container.get("image") or "")
    for port in container.get("ports") or ():
        port["protocol"] = port.get("protocol") or "TCP"
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if probe in container and container[probe] is not None:
            _set_probe_defaults(container[probe])
    if "lifecycle" in container:
        _set_lifecycle_defaults(container)
    for variable in container.get("env") or ():
        if variable.get("valueFrom"):
            _set_reference_defaults(variable["valueFrom"])


def _set_lifecycle_defaults(container: Object) -> None:
    lifecycle = map_member(container, "lifecycle")
    for hook in ("postStart", "preStop"):
        _set_http_defaults(map_member(lifecycle, hook))


def _set_canonical_resources(resources: Object) -> None:
    set_canonical_list(resources.get("limits"))
    set_canonical_list(resources.get("requests"))


def _set_reference_defaults(source: Object) -> None:
    """The defaults of a reference to a field or a resource, in a variable or in a file."""
    if source.get("fieldRef") is not None:
        source["fieldRef"]["apiVersion"] = source["fieldRef"].get("apiVersion") or "v1"
    if source.get("resourceFieldRef") is not None:
        source["resourceFieldRef"].setdefault("divisor", "0")
        set_canonical(source["resourceFieldRef"], "divisor")
    if source.get("fileKeyRef") is not None:
        source["fileKeyRef"].setdefault("optional", False)


_IMAGE: Final = Pattern(
    r"(?:[a-zA-Z0-9.-]+(?::[0-9]+)?/)?(?:[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*"
    r"(?::(\w[\w.-]{0,127}))?(@\w+:[0-9a-fA-F]+)?"
)


_IDENTIFIER: Final = Pattern("[0-9a-f]{64}")  # which is no name of an image


def _pull_policy(image: str) -> str:
    """The default imagePullPolicy: an image without a fixed tag is always pulled."""
    tag = image.rpartition(":")[2]
    if len(image) > MAX_IMAGE or (tag not in ("latest", image) and "/" not in tag):
        return "IfNotPresent"  # whatever is before the tag, or the digest: also of what is no name of an image
    found = None if _IDENTIFIER.fullmatch(image) else _IMAGE.fullmatch(image)
    return "Always" if found is not None and not found[2] and found[1] in (None, "latest") else "IfNotPresent"


MAX_IMAGE: Final = 255


_PROBE_DEFAULTS: Final = (
    ("timeoutSeconds", 1),
    ("periodSeconds", 10),
    ("successThreshold", 1),
    ("failureThreshold", 3),
)


def _set_probe_defaults(probe: Object) -> None:
    for name, value in _PROBE_DEFAULTS:
        if not probe.get(name):
            probe[name] = value
    _set_http_defaults(probe)
    if probe.get("grpc") is not None:
        probe["grpc"].setdefault("service", "")


def _set_http_defaults(action: Object) -> None:
    http: Any = action.get("httpGet")
    if http is not None:
        http["path"] = http.get("path") or "/"
        http["scheme"] = http.get("scheme") or "HTTP"


def _set_volume_defaults(volume: Object) -> None:
    if dict not in map(type, volume.values()):
        volume["emptyDir"] = {}
        return
    set_source_defaults(volume)
    if volume.get("emptyDir"):
        set_canonical(volume["emptyDir"], "sizeLimit")
    if volume.get("downwardAPI"):
        _set_projection_defaults(volume["downwardAPI"])
    for source in list_member(volume.get("projected"), "sources"):
        _set_projection_defaults(source or {})
    if volume.get("ephemeral"):
        claim = map_member(map_member(volume, "ephemeral"), "volumeClaimTemplate")
        claim.setdefault("metadata", {})
        spec = claim.setdefault("spec", {})
        spec.setdefault("volumeMode", "Filesystem")
        _set_canonical_resources(spec.setdefault("resources", {}))
        if spec.get("dataSourceRef") is not None:
            spec["dataSourceRef"].setdefault("apiGroup", None)  # as Go writes it, which the writer owns
    if volume.get("image") is not None:
        image = volume["image"]
        image["pullPolicy"] = image.get("pullPolicy") or _pull_policy(image.get("reference") or "")


def set_source_defaults(volume: Object) -> None:
    """Sets the defaults of the sources of a volume, or of a PersistentVolume's spec."""
    for name, value in volume.items():
        if value.__class__ is not dict:
            continue
        if name in _SOURCE_DEFAULTS:
            for member, default in _SOURCE_DEFAULTS[name].items():
                value[member] = default if value.get(member) is None else value[member]


def _set_projection_defaults(source: Object) -> None:
    for item in [*list_member(source, "items"), *list_member(source.get("downwardAPI"), "items")]:
        _set_reference_defaults(item)
    if source.get("serviceAccountToken") is not None:
        source["serviceAccountToken"].setdefault("expirationSeconds", 3600)


def qos_class(spec: Object) -> str:
    """The quality-of-service class of a Pod: from the requests and limits of cpu and memory."""
    own = spec.get("resources")
    if own is not None:
        parts = [own]
    else:
        parts = [one["resources"] for group in ("containers", "initContainers") for one in spec.get(group) or ()]
    guaranteed, used = True, False
    for resources in parts:
        limits, requests = resources.get("limits") or _NOTHING, resources.get("requests") or _NOTHING
        for name in ("cpu", "memory"):
            limit = limits.get(name)
            request = requests.get(name, limit)
            used = used or limit not in _NO_AMOUNTS or request not in _NO_AMOUNTS
            guaranteed = guaranteed and request == limit and limit not in _NO_AMOUNTS
    if not used:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


_NOTHING: Final[Object] = {}
_NO_AMOUNTS: Final = (None, "0", 0)


def prepare_pod_create(pod: Object) -> None:
    """Sets what the server decides for a new Pod: its status, and matched label keys."""
    spec = pod["spec"]
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    given = pod.get("status")
    status: Object = {"phase": "Pending", "qosClass": (given and given.get("qosClass")) or qos_class(spec)}
    pod["status"] = status
    if spec.get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
                "lastProbeTime": None,
                "lastTransitionTime": pod["metadata"].get("creationTimestamp"),
            }
        ]
    if "affinity" in spec or "topologySpreadConstraints" in spec:
        _merge_label_keys(spec, map_member(pod["metadata"], "labels"))
    if pod["metadata"].get("annotations"):
        set_app_armor_profiles(pod)


# Annotations that name profiles, which fields have replaced: AppArmor's still set that of a new Pod.
SECCOMP_POD: Final = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_CONTAINER: Final = "container.seccomp.security.alpha.kubernetes.io/"
APP_ARMOR_CONTAINER: Final = "container.apparmor.security.beta.kubernetes.io/"
_LONGEST_PROFILE: Final = 4095  # the longest name of a profile
_SECCOMP_IGNORED: Final = 'non-functional in v1.27+; use the "seccompProfile" field instead'
_APP_ARMOR_DEPRECATED: Final = 'deprecated since v1.30; use the "appArmorProfile" field instead'


def warn_of_new_pod(pod: Object) -> Iterable[str]:
    """What the AppArmor annotations of a new Pod are warned of, even if it is refused."""
    notes = pod["metadata"].get("annotations")
    return _warn_of_profiles(map_member(pod, "spec"), notes) if notes else ()  # most have none


def _warn_of_profiles(spec: Object, notes: Object) -> Iterator[str]:
    if not _is_windows(spec):
        for container, note in _without_profile(spec, notes):
            profile = _valid_profile(note)
            if profile is None or profile != _pod_profile(spec):
                yield f"metadata.annotations[{APP_ARMOR_CONTAINER}{container.get('name')}]: {_APP_ARMOR_DEPRECATED}"


def set_app_armor_profiles(pod: Object) -> None:
    """Sets the profiles that only the annotations of a new Pod's containers say, unless they are that of the Pod."""
    notes, spec = map_member(pod["metadata"], "annotations"), map_member(pod, "spec")
    if notes and not _is_windows(spec):
        for container, note in _without_profile(spec, notes):
            profile = _valid_profile(note)
            if profile is not None and profile != _pod_profile(spec):
                context = map_member(container, "securityContext")
                container["securityContext"] = {**context, "appArmorProfile": profile}


def warn_of_pod_profile(spec: Object, notes: Object, at: str) -> Iterator[str]:
    """The seccomp annotation of a pod without the field; `at` is the path of the annotations."""
    if SECCOMP_POD in notes and map_member(spec, "securityContext").get("seccompProfile") is None:
        yield f"{at}[{SECCOMP_POD}]: {_SECCOMP_IGNORED}"


def warn_of_container_profiles(
    container: Object, spec: Object, notes: Object, at: str, *, is_template: bool
) -> Iterator[str]:
    """The annotations of a container without the fields; those of AppArmor in a Pod were warned of before."""
    context, name = map_member(container, "securityContext"), container.get("name")
    seccomp, app_armor = f"{SECCOMP_CONTAINER}{name}", f"{APP_ARMOR_CONTAINER}{name}"
    if seccomp in notes and context.get("seccompProfile") is None:
        yield f"{at}[{seccomp}]: {_SECCOMP_IGNORED}"
    if not is_template or app_armor not in notes or context.get("appArmorProfile") is not None:
        return
    if _pod_profile(spec) is None or _named_profile(notes[app_armor]) != _pod_profile(spec):
        yield f"{at}[{app_armor}]: {_APP_ARMOR_DEPRECATED}"


def _without_profile(spec: Object, notes: Object) -> Iterator[tuple[Object, str]]:
    """The containers with an annotation of AppArmor and without the field."""
    for group in ("initContainers", "containers", "ephemeralContainers"):
        for container in list_member(spec, group):
            note = notes.get(f"{APP_ARMOR_CONTAINER}{container.get('name')}")
            if note is not None and map_member(container, "securityContext").get("appArmorProfile") is None:
                yield container, note


def _pod_profile(spec: Object) -> Object | None:
    found: Object | None = map_member(spec, "securityContext").get("appArmorProfile")
    return found


def _is_windows(spec: Object) -> bool:
    return bool(map_member(spec, "os").get("name") == "windows")


def _named_profile(note: str) -> Object | None:
    """The profile that an annotation names; None if it is none."""
    if note.startswith("localhost/") and note != "localhost/":
        return {"type": "Localhost", "localhostProfile": note.removeprefix("localhost/")}
    kind = {"unconfined": "Unconfined", "runtime/default": "RuntimeDefault"}.get(note)
    return None if kind is None else {"type": kind}


def _valid_profile(note: str) -> Object | None:
    """The profile that an annotation names, if a field may have it."""
    found = _named_profile(note)
    name: str = (found or {}).get("localhostProfile", "a")
    return found if name.strip() == name and name and len(name.encode()) <= _LONGEST_PROFILE else None


def prepare_pod_update(new: Object, old: Object) -> None:
    """The tolerations of lost nodes cannot be removed, and the priority stays when it is left out."""
    set_tolerations(new["spec"])
    for name in ("priority", "preemptionPolicy"):
        if name in old["spec"]:
            new["spec"].setdefault(name, old["spec"][name])


def with_ephemeral_containers(spec: Object, given: Object) -> Object:
    """The spec with the ephemeral containers of another one: all that their endpoint changes."""
    others = {name: value for name, value in spec.items() if name != "ephemeralContainers"}
    containers = given.get("ephemeralContainers")
    return {**others, "ephemeralContainers": containers} if containers else others


def with_resources(spec: Object, given: Object) -> Object:
    """The spec with the resources of the containers of another one: all that a resize changes.

    Containers that are added, removed, renamed or in another order stay, so that they are refused.
    """
    groups = ("containers", "initContainers")
    if any(len(list_member(spec, group)) != len(list_member(given, group)) for group in groups):
        return given
    found = [group for group in groups if group in spec]
    return {**spec, **{group: _resized(list_member(spec, group), list_member(given, group)) for group in found}}


def _resized(containers: list[Any], given: list[Any]) -> list[Any]:
    if any(one.get("name") != other.get("name") for one, other in zip(containers, given, strict=True)):
        return given
    return [_with_fields(one, other) for one, other in zip(containers, given, strict=True)]


def _with_fields(container: Object, given: Object) -> Object:
    others = {name: value for name, value in container.items() if name not in ("resources", "resizePolicy")}
    return {**others, **{name: given[name] for name in ("resources", "resizePolicy") if name in given}}


def prepare_pod_part(new: Object, old: Object, subresource: str, _now: str) -> None:
    """Completes a status: its class, the first address and the list of addresses, and the states of containers."""
    former = map_member(old, "status")
    if subresource in ("ephemeralcontainers", "resize"):
        new["spec"] = copy_tree(new.get("spec") or {})  # parts of it are shared with the old one
        set_pod_defaults(new)
        return
    if subresource == "status":
        new["metadata"].pop("ownerReferences", None)
        new["metadata"].pop("deletionTimestamp", None)
        for name in ("ownerReferences", "deletionTimestamp"):
            if name in old["metadata"]:
                new["metadata"][name] = old["metadata"][name]
    if subresource != "status":
        return
    status = new["status"] = map_member(new, "status")
    for name in ("qosClass", "observedGeneration"):
        if not status.get(name) and former.get(name):
            status[name] = former[name]
    if status.get("podIPs") and not status.get("podIP"):
        status["podIP"] = status["podIPs"][0].get("ip", "")
    elif status.get("podIP") and not status.get("podIPs"):
        status["podIPs"] = [{"ip": status["podIP"]}]
    for group in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        for container in status.get(group) or ():
            _complete_container_status(container)


def _complete_container_status(container: Object) -> None:
    zeros: Object = {"image": "", "imageID": "", "ready": False, "restartCount": 0}
    for name, zero in zeros.items():
        container.setdefault(name, zero)
    for name in ("state", "lastState"):
        state = container.setdefault(name, {})
        if state.get("terminated") is not None:
            state["terminated"].setdefault("exitCode", 0)
            state["terminated"].setdefault("startedAt", None)
            state["terminated"].setdefault("finishedAt", None)
        if state.get("running") is not None:
            state["running"].setdefault("startedAt", None)


def set_tolerations(spec: Object) -> None:
    """Pods stay on a node that is lost for five minutes, unless they say otherwise."""
    given = list_member(spec, "tolerations")
    missing = [{**one} for one in _ON_LOST_NODES if not (given and _tolerates(given, one["key"]))]
    if missing:
        spec["tolerations"] = [*given, *missing]


def _tolerates(tolerations: list[Any], key: str) -> bool:
    return any(
        one.get("key") in (key, None, "") and one.get("effect") in ("NoExecute", None, "") for one in tolerations
    )


def _merge_label_keys(spec: Object, labels: Object) -> None:
    affinity = map_member(spec, "affinity")
    terms = list(list_member(spec, "topologySpreadConstraints"))
    for group in (map_member(affinity, "podAffinity"), map_member(affinity, "podAntiAffinity")):
        terms += list_member(group, "requiredDuringSchedulingIgnoredDuringExecution")
        preferred = list_member(group, "preferredDuringSchedulingIgnoredDuringExecution")
        terms += [map_member(one, "podAffinityTerm") for one in preferred]
    for term in terms:
        selector = term.get("labelSelector")
        for name, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
            for key in list_member(term, name):
                if selector is not None and key in labels:
                    found = {"key": key, "operator": operator, "values": [labels[key]]}
                    selector.setdefault("matchExpressions", []).append(found)


# What decides about a pod spec: whether it is valid, who owns its fields and whether it is as Go writes it. Controllers
# create many pods from one template, with another image, argument or name: each is found once for an outline.
_MASKED: Final = ("image", "args", "command")
_OUTLINED: Final = ("containers", "initContainers")  # the rules of ephemeral containers read the image
_TOKEN_VOLUME: Final = b"kube-api-access-"
_TOKEN_VOLUMES: Final = Pattern(rb'"kube-api-access-[a-z0-9]{5}"')
_MAX_OUTLINES: Final = 256
_LONGEST_OUTLINE: Final = 8_192  # bytes


class KnownOutlines:
    """A bounded set of outlines for which something holds."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: set[bytes] = set()

    def __contains__(self, outline: bytes) -> bool:
        return outline in self._known

    def add(self, outline: bytes) -> None:
        """Remembers the outline, unless it is long."""
        if len(outline) <= _LONGEST_OUTLINE:
            if len(self._known) >= _MAX_OUTLINES:
                self._known.clear()
            self._known.add(outline)


def pod_outline(spec: Any) -> bytes:
    """The spec, encoded, without what decides nothing: images, arguments, values of variables, and amounts.

    Of these it has only whether they are empty. Amounts are valid or not by themselves.
    """
    groups = {name: [_container_outline(one) for one in spec[name] or ()] for name in _OUTLINED if name in spec}
    outline = encode_tree({**spec, **groups})
    return _without_token_name(outline) if _TOKEN_VOLUME in outline else outline


def _container_outline(container: Any) -> Any:
    if container.__class__ is not dict:
        return container
    outline: dict[str, Any] = container.copy()
    for name in _MASKED:
        if outline.get(name):
            outline[name] = True
    # The names of the members of a variable or amounts, in their order: comprehensions, since calls would cost most.
    variables, resources = outline.get("env"), outline.get("resources")
    if variables:
        outline["env"] = [
            (*one, one["name"]) if one and len(one) == 2 and "name" in one and one.get("value") else one
            for one in variables
        ]
    if resources and "claims" not in resources:
        outline["resources"] = [
            (part, tuple(amounts)) if amounts and all(amounts.values()) else (part, amounts)
            for part, amounts in resources.items()
        ]
    return outline


def _without_token_name(outline: bytes) -> bytes:
    """The outline without the random part of the name of the volume that has the token of the service account."""
    names = set(_TOKEN_VOLUMES.findall(outline))
    return outline.replace(names.pop(), b'"kube-api-access-?"') if len(names) == 1 else outline
