"""Generates the manifests of an installation: CRDs, RBAC, Deployment, Service, NetworkPolicy, webhooks; or kustomize.

The result is a mapping from paths to contents, deterministic for an installation; nothing is written to disk.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from levelset.codegen.installation import Installation
from levelset.codegen.rbac import roles_of
from levelset.objects.codec import write_manifests

__all__ = [
    "deployment",
    "disruption_budget",
    "documents_of",
    "kustomize_tree",
    "manifests_of",
    "metadata",
    "namespace",
    "network_policy",
    "service",
    "service_account",
    "split_image",
    "write_file",
]

_USER: Final = 65532
_API_PORTS: Final = (443, 6443, 8443)


def metadata(one: Installation, *, is_placed: bool = True) -> dict[str, Any]:
    """The name, namespace and labels of its objects."""
    namespaced = {"namespace": one.namespace} if is_placed else {}
    return {"name": one.name, **namespaced, "labels": one.labels}


def namespace(one: Installation) -> dict[str, Any]:
    """The namespace, with the restricted Pod security standard."""
    labels = {**one.labels, "pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": one.namespace, "labels": labels}}


def service_account(one: Installation) -> dict[str, Any]:
    """The ServiceAccount."""
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(one)}


def deployment(one: Installation) -> dict[str, Any]:
    """The Deployment: non-root, read-only root filesystem except `/tmp`, with liveness and readiness probes."""
    pod: dict[str, Any] = {
        "serviceAccountName": one.name,
        "terminationGracePeriodSeconds": 40,  # longer than the grace period of the manager
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(one)],
        "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}}],
    }
    if one.replicas > 1:
        spread = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
        pod["topologySpreadConstraints"] = [{**spread, "labelSelector": {"matchLabels": one.selector}}]
    spec = {
        "replicas": one.replicas,
        "selector": {"matchLabels": one.selector},
        "template": {"metadata": {"labels": one.labels}, "spec": pod},
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata(one), "spec": spec}


def _container(one: Installation) -> dict[str, Any]:
    ports = [{"name": "health", "containerPort": one.health_port}]
    if one.has_webhooks:
        ports.append({"name": "webhooks", "containerPort": one.webhook_port})
    variables = [{"name": name, "value": value} for name, value in sorted(one.environment.items())]
    return {
        "name": "operator",
        "image": one.image,
        **({"command": list(one.command)} if one.command else {}),
        **({"args": list(one.arguments)} if one.arguments else {}),
        **({"env": variables} if variables else {}),
        "ports": ports,
        "livenessProbe": {**_probe("/livez"), "initialDelaySeconds": 10, "periodSeconds": 20},
        "readinessProbe": {**_probe("/readyz"), "initialDelaySeconds": 2, "periodSeconds": 5},
        "resources": {name: dict(amounts) for name, amounts in one.resources.items()},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108  # a path in the container
    }


def _probe(path: str) -> dict[str, Any]:
    return {"httpGet": {"path": path, "port": "health"}}


def service(one: Installation) -> dict[str, Any]:
    """The Service for metrics and webhooks."""
    ports: list[dict[str, Any]] = [{"name": "health", "port": one.health_port, "targetPort": "health"}]
    if one.has_webhooks:
        ports.insert(0, {"name": "webhooks", "port": 443, "targetPort": "webhooks"})
    spec = {"selector": one.selector, "ports": ports}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata(one), "spec": spec}


def disruption_budget(one: Installation) -> dict[str, Any]:
    """The PodDisruptionBudget: one replica at a time."""
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": one.selector}}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata(one), "spec": spec}


def network_policy(one: Installation) -> dict[str, Any]:
    """The NetworkPolicy: ingress to health, metrics and webhooks; egress to the API server and DNS."""
    entrances = [one.health_port, *([one.webhook_port] if one.has_webhooks else [])]
    names = [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]
    spec = {
        "podSelector": {"matchLabels": one.selector},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"ports": [{"protocol": "TCP", "port": port} for port in entrances]}],
        "egress": [{"ports": names}, {"ports": [{"protocol": "TCP", "port": port} for port in _API_PORTS]}],
    }
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata(one), "spec": spec}


def documents_of(one: Installation) -> Mapping[str, list[dict[str, Any]]]:
    """All objects by file, in the order in which they are applied, CRDs first."""
    made: dict[str, list[dict[str, Any]]] = {
        f"crds/{definition['metadata']['name']}.yaml": [dict(definition)] for definition in one.definitions
    }
    made["namespace.yaml"] = [namespace(one)]
    made["service-account.yaml"] = [service_account(one)]
    roles = roles_of(one.permissions, name=one.name, account=one.name, namespace=one.namespace, labels=one.labels)
    made |= {"rbac.yaml": roles} if roles else {}
    made["deployment.yaml"] = [deployment(one)]
    made["service.yaml"] = [service(one)]
    made["pod-disruption-budget.yaml"] = [disruption_budget(one)]
    made["network-policy.yaml"] = [network_policy(one)]
    hooks = [{**hook, "metadata": {**hook["metadata"], "labels": one.labels}} for hook in one.webhooks]
    return {**made, **({"webhooks.yaml": hooks} if hooks else {})}


def manifests_of(one: Installation) -> Mapping[str, str]:
    """One file per topic, and `install.yaml` with everything for `kubectl apply -f`."""
    documents = documents_of(one)
    files = {path: write_file(objects) for path, objects in documents.items()}
    return {**files, "install.yaml": write_file([obj for objects in documents.values() for obj in objects])}


def kustomize_tree(one: Installation) -> Mapping[str, str]:
    """A kustomize base, and an overlay with the namespace, image and replicas."""
    documents = documents_of(one)
    base = {f"base/{path}": write_file(objects) for path, objects in documents.items()}
    name, tag = split_image(one.image)
    overlay: dict[str, Any] = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": one.namespace,
        "resources": ["../../base"],
        "images": [_image(name, tag or one.version)],
        "replicas": [{"name": one.name, "count": one.replicas}],
    }
    listed = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": list(documents),
    }
    if any(permission.namespace not in (None, one.namespace) for permission in one.permissions):
        del overlay["namespace"]  # it would move Roles of other namespaces into this one
    return {
        **base,
        "base/kustomization.yaml": write_file([listed]),
        "overlays/default/kustomization.yaml": write_file([overlay]),
    }


def write_file(objects: Iterable[Mapping[str, Any]]) -> str:
    """The YAML of some objects, one document for each, ending with a newline."""
    return write_manifests([dict(one) for one in objects])


def split_image(image: str) -> tuple[str, str]:
    """The name of an image, and its tag or digest; empty if it has neither."""
    if "@" in image:
        name, _, digest = image.partition("@")
        return name, digest
    name, mark, tag = image.rpartition(":")
    return (image, "") if not mark or "/" in tag else (name, tag)


def _image(name: str, tag: str) -> dict[str, str]:
    return {"name": name, "newName": name, ("digest" if ":" in tag else "newTag"): tag}
