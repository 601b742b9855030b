"""Writes everything that an installation needs as YAML files: definitions, leave, workload, webhooks.

All functions here give a mapping from paths to texts, the same for the same installation, and touch no disk.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from levelset.codegen import workloads
from levelset.codegen.installation import Installation
from levelset.codegen.rbac import roles_of
from levelset.objects.codec import write_manifests

__all__ = ["documents_of", "kustomize_tree", "manifests_of", "split_image", "write_file"]


def documents_of(one: Installation) -> Mapping[str, list[dict[str, Any]]]:
    """All objects by the file that they stand in, in the order in which they are applied, definitions first."""
    made: dict[str, list[dict[str, Any]]] = {
        f"crds/{definition['metadata']['name']}.yaml": [dict(definition)] for definition in one.definitions
    }
    made["namespace.yaml"] = [workloads.namespace(one)]
    made["service-account.yaml"] = [workloads.service_account(one)]
    roles = roles_of(one.permissions, name=one.name, account=one.name, namespace=one.namespace, labels=one.labels)
    made |= {"rbac.yaml": roles} if roles else {}
    made["deployment.yaml"] = [workloads.deployment(one)]
    made["service.yaml"] = [workloads.service(one)]
    made["pod-disruption-budget.yaml"] = [workloads.disruption_budget(one)]
    made["network-policy.yaml"] = [workloads.network_policy(one)]
    hooks = [{**hook, "metadata": {**hook["metadata"], "labels": one.labels}} for hook in one.webhooks]
    return {**made, **({"webhooks.yaml": hooks} if hooks else {})}


def manifests_of(one: Installation) -> Mapping[str, str]:
    """One file for each subject, and `install.yaml`, which has all of them for `kubectl apply -f`."""
    documents = documents_of(one)
    files = {path: write_file(objects) for path, objects in documents.items()}
    return {**files, "install.yaml": write_file([obj for objects in documents.values() for obj in objects])}


def kustomize_tree(one: Installation) -> Mapping[str, str]:
    """A base with everything, and an overlay that says where it runs, from which image, and how many of it."""
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
        del overlay["namespace"]  # it would move the Roles of other namespaces here
    return {
        **base,
        "base/kustomization.yaml": write_file([listed]),
        "overlays/default/kustomization.yaml": write_file([overlay]),
    }


def write_file(objects: Iterable[Mapping[str, Any]]) -> str:
    """The YAML of some objects, one document for each, ending with a newline."""
    return write_manifests([dict(one) for one in objects])


def split_image(image: str) -> tuple[str, str]:
    """The name of an image, and its tag or its digest; a port of a registry is neither."""
    if "@" in image:
        name, _, digest = image.partition("@")
        return name, digest
    name, mark, tag = image.rpartition(":")
    return (image, "") if not mark or "/" in tag else (name, tag)


def _image(name: str, tag: str) -> dict[str, str]:
    return {"name": name, "newName": name, ("digest" if ":" in tag else "newTag"): tag}
