"""What a pod, or the template of one, means when it leaves something out, and what it must not leave out."""

from typing import Any

from levelset.apiserver.resources.json_members import items, part
from levelset.apiserver.resources.served_resource import Object
from levelset.apiserver.schema import field_errors
from levelset.errors import Cause
from levelset.objects.names import check_dns1123_label

__all__ = ["check_pod_spec", "check_pod_update", "fill_pod", "fill_pod_spec"]

FILE_MODE = 0o644
# What may change in the spec of a pod that exists; images of its containers may as well.
CHANGEABLE = ("activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations", "nodeName", "schedulingGates")


def fill_pod(pod: Object) -> None:
    """Fills in the defaults of a pod."""
    spec = pod.setdefault("spec", {})
    fill_pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    for container in [*spec.get("containers", ()), *spec.get("initContainers", ())]:
        limits = container["resources"].get("limits")
        if limits:
            requests = container["resources"].setdefault("requests", {})
            for name, value in limits.items():
                requests.setdefault(name, value)


def fill_pod_spec(spec: Object) -> None:
    """Fills in the defaults that a pod and a template of pods have in common."""
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
            _fill_container(container)
    for volume in items(spec, "volumes"):
        _fill_volume(volume)


def _fill_container(container: Object) -> None:
    container.setdefault("resources", {})
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", _pull_policy(container.get("image") or ""))
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(probe):
            _fill_probe(container[probe])
    for hook in ("postStart", "preStop"):
        _fill_http(part(part(container, "lifecycle"), hook))
    for variable in items(container, "env"):
        reference = part(variable, "valueFrom").get("fieldRef")
        if reference is not None:
            reference.setdefault("apiVersion", "v1")


def _pull_policy(image: str) -> str:
    """A tag that may move is pulled every time."""
    if "@" in image:
        return "IfNotPresent"
    tag = image.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def _fill_probe(probe: Object) -> None:
    for name, value in (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)):
        probe[name] = probe.get(name) or value
    _fill_http(probe)


def _fill_http(action: Object) -> None:
    http: Any = action.get("httpGet")
    if http is not None:
        http["path"] = http.get("path") or "/"
        http["scheme"] = http.get("scheme") or "HTTP"


def _fill_volume(volume: Object) -> None:
    if len(volume) == 1:
        volume["emptyDir"] = {}
    for source in ("secret", "configMap", "downwardAPI", "projected"):
        if volume.get(source) is not None:
            volume[source].setdefault("defaultMode", FILE_MODE)
    if volume.get("hostPath") is not None:
        volume["hostPath"].setdefault("type", "")


def check_pod_spec(spec: Object, path: str) -> list[Cause]:
    """What is wrong with the containers of a pod."""
    containers = items(spec, "containers")
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
    """A pod that exists keeps its spec, but for a few fields."""
    if _fixed(part(new, "spec")) == _fixed(part(old, "spec")):
        return []
    listed = ", ".join(("containers[*].image", "initContainers[*].image", *CHANGEABLE))
    return [field_errors.forbidden("spec", f"pod updates may not change fields other than {listed}")]


def _fixed(spec: Object) -> Object:
    kept = {name: value for name, value in spec.items() if name not in CHANGEABLE}
    for group in ("containers", "initContainers"):
        if group in kept:
            kept[group] = [{name: value for name, value in one.items() if name != "image"} for one in kept[group]]
    return kept
