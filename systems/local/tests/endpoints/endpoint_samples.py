"""Sample Services and Pods for tests of endpoints."""

from typing import Any

from levelset.kinds.core_v1 import Pod, Service
from levelset.objects import from_tree

__all__ = ["pod", "service"]


def service(name: str = "web", *, uid: str | None = None, labels: Any = None, **spec: Any) -> Service:
    """A Service with port 80 for the port `http` of the Pods with the label `app`, unless given otherwise."""
    metadata: dict[str, Any] = {"name": name, "labels": labels or {}}
    if uid is not None:
        metadata |= {"uid": uid, "namespace": "test"}
        spec = {"clusterIP": "127.96.0.1", **spec}
    whole = {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": "http"}], **spec}
    return from_tree(Service, {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": whole})


def pod(
    name: str,
    ip: str | None = None,
    *,
    ready: bool = True,
    deleting: bool = False,
    phase: str = "Running",
    labels: Any = None,
    ports: Any = (("http", 8080, "TCP"),),
    real: bool = False,
    more_ips: Any = (),
    **spec: Any,
) -> Pod:
    """A Pod with an address as the server returns it; if `real`, without the fields that only the server sets."""
    metadata: dict[str, Any] = {"name": name, "labels": labels or {"app": "web"}}
    if not real:
        metadata |= {"uid": f"uid-{name}", "namespace": "test"}
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    listed = [{"name": one, "containerPort": number, "protocol": protocol} for one, number, protocol in ports]
    tree = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [{"name": "main", "image": "web:1", "ports": listed}], "nodeName": "local", **spec},
        "status": {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            **({"podIP": ip, "podIPs": [{"ip": one} for one in (ip, *more_ips)]} if ip else {}),
        },
    }
    return from_tree(Pod, tree)
