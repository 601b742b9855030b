"""Namespaces: the default label, the phase, and the spec finalizer that blocks removal until a namespace is empty.

The contents of a terminating namespace are deleted by `controllers/namespaces.py`.
"""

from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object
from levelset.errors import Forbidden

__all__ = [
    "has_namespace_finalizers",
    "prepare_namespace_create",
    "prepare_namespace_delete",
    "prepare_namespace_part",
    "prepare_namespace_update",
    "set_namespace_defaults",
]

NAME_LABEL = "kubernetes.io/metadata.name"


def set_namespace_defaults(tree: Object) -> None:
    """Sets the label with the name of the Namespace, which namespace selectors can match."""
    name = tree["metadata"].get("name")
    if name:
        labels = map_member(tree["metadata"], "labels")
        tree["metadata"]["labels"] = {**labels, NAME_LABEL: name}


def prepare_namespace_create(tree: Object) -> None:
    """Sets the phase of a new Namespace, and the finalizer in its spec that blocks its removal until it is empty."""
    spec = tree.setdefault("spec", {})
    finalizers = list_member(spec, "finalizers")
    spec["finalizers"] = finalizers if "kubernetes" in finalizers else [*finalizers, "kubernetes"]
    tree["status"] = {"phase": "Active"}


def prepare_namespace_update(new: Object, old: Object) -> None:
    """Keeps spec and status: the finalizers in the spec can only be changed through the `finalize` subresource."""
    new["spec"] = map_member(old, "spec")
    new["status"] = map_member(old, "status")


def prepare_namespace_part(new: Object, _old: Object, subresource: str, _now: str) -> None:
    """Sets the phase of a status without one, and null for the times of conditions; `finalize` keeps the status."""
    set_namespace_defaults(new)
    if subresource != "status":
        return
    status = new["status"] = map_member(new, "status")
    status["phase"] = status.get("phase") or "Active"
    for condition in list_member(status, "conditions"):
        condition.setdefault("lastTransitionTime", None)


def prepare_namespace_delete(tree: Object) -> None:
    """Sets the phase of a Namespace that is being deleted; raises Forbidden for the built-in ones."""
    name = tree["metadata"]["name"]
    if name in ("default", "kube-system", "kube-public"):
        text = f'namespaces "{name}" is forbidden: this namespace may not be deleted'
        raise Forbidden(text, details={"name": name, "kind": "namespaces"})
    tree["status"] = {**map_member(tree, "status"), "phase": "Terminating"}


def has_namespace_finalizers(tree: Object) -> bool:
    """Whether the Namespace may still have contents to delete."""
    return bool(map_member(tree, "spec").get("finalizers"))
