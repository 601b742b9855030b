"""Pods and pod templates: defaults and validation."""

from typing import Any

from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object
from levelset.apiserver.schema import field_errors
from levelset.errors import Cause
from levelset.objects.names import check_dns1123_label

__all__ = ["check_pod_spec", "check_pod_update", "set_pod_defaults", "set_pod_spec_defaults"]

DEFAULT_FILE_MODE = 0o644
# The spec fields of an existing Pod that may change, besides the images of its containers.
MUTABLE_FIELDS = (
    "activeDeadlineSeconds",
    "terminationGracePeriodSeconds",
    "tolerations",
    "nodeName",
    "schedulingGates",
)


def set_pod_defaults(pod: Object) -> None:
    """Sets the defaults of a Pod."""
    spec = pod.setdefault("spec", {})
    set_pod_spec_defaults(spec)
    spec.setdefault("enableServiceLinks", True)
    for container in [*spec.get("containers", ()), *spec.get("initContainers", ())]:
        limits = container["resources"].get("limits")
        if limits:
            requests = container["resources"].setdefault("requests", {})
            for name, value in limits.items():
                requests.setdefault(name, value)


def set_pod_spec_defaults(spec: Object) -> None:
    """Sets the defaults of the spec of a Pod or a pod template."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for name in ("containers", "initContainers", "ephemeralContainers"):
        for container in spec.get(name) or ():
            _set_container_defaults(container)
    for volume in list_member(spec, "volumes"):
        _set_volume_defaults(volume)


def _set_container_defaults(container: Object) -> None:
    container.setdefault("resources", {})
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", _pull_policy(container.get("image") or ""))
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(probe):
            _set_probe_defaults(container[probe])
    for hook in ("postStart", "preStop"):
        _set_http_defaults(map_member(map_member(container, "lifecycle"), hook))
    for variable in list_member(container, "env"):
        reference = map_member(variable, "valueFrom").get("fieldRef")
        if reference is not None:
            reference.setdefault("apiVersion", "v1")


def _pull_policy(image: str) -> str:
    """The default imagePullPolicy: an image without a fixed tag is always pulled."""
    if "@" in image:
        return "IfNotPresent"
    tag = image.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def _set_probe_defaults(probe: Object) -> None:
    for name, value in (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)):
        probe[name] = probe.get(name) or value
    _set_http_defaults(probe)


def _set_http_defaults(action: Object) -> None:
    http: Any = action.get("httpGet")
    if http is not None:
        http["path"] = http.get("path") or "/"
        http["scheme"] = http.get("scheme") or "HTTP"


def _set_volume_defaults(volume: Object) -> None:
    if len(volume) == 1:
        volume["emptyDir"] = {}
    for source in ("secret", "configMap", "downwardAPI", "projected"):
        if volume.get(source) is not None:
            volume[source].setdefault("defaultMode", DEFAULT_FILE_MODE)
    if volume.get("hostPath") is not None:
        volume["hostPath"].setdefault("type", "")


def check_pod_spec(spec: Object, path: str) -> list[Cause]:
    """Validates the containers of a pod spec."""
    containers = list_member(spec, "containers")
    if not containers:
        return [field_errors.required(f"{path}.containers")]
    causes: list[Cause] = []
    seen: set[str] = set()
    for group in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(group) or ()):
            causes += _check_container(container, f"{path}.{group}[{index}]", seen)
    return causes


def _check_container(container: Object, path: str, seen: set[str]) -> list[Cause]:
    name = container.get("name") or ""
    causes = [] if name else [field_errors.required(f"{path}.name")]
    if name and check_dns1123_label(name):
        causes.append(field_errors.invalid(f"{path}.name", name, "; ".join(check_dns1123_label(name))))
    if name and name in seen:
        causes.append(field_errors.duplicate(f"{path}.name", name))
    seen.add(name)
    if not container.get("image"):
        causes.append(field_errors.required(f"{path}.image"))
    return causes


def check_pod_update(new: Object, old: Object) -> list[Cause]:
    """Validates that an update changes only the mutable fields of the spec."""
    if _immutable_fields(map_member(new, "spec")) == _immutable_fields(map_member(old, "spec")):
        return []
    listed = ", ".join(("containers[*].image", "initContainers[*].image", *MUTABLE_FIELDS))
    return [field_errors.forbidden("spec", f"pod updates may not change fields other than {listed}")]


def _immutable_fields(spec: Object) -> Object:
    fields = {name: value for name, value in spec.items() if name not in MUTABLE_FIELDS}
    for group in ("containers", "initContainers"):
        if group in fields:
            fields[group] = [{name: value for name, value in one.items() if name != "image"} for one in fields[group]]
    return fields
