"""ConfigMaps, Secrets and Namespaces: what they mean when they leave something out, and what must hold of them."""

import base64
import re
from collections.abc import Iterator
from functools import lru_cache

from levelset.apiserver.resources.json_members import items, part
from levelset.apiserver.resources.served_resource import Object
from levelset.apiserver.schema import field_errors
from levelset.errors import Cause, Forbidden

__all__ = [
    "check_config_map",
    "check_secret",
    "fill_namespace",
    "fill_secret",
    "is_held_namespace",
    "keep_namespace",
    "start_namespace",
    "terminate_namespace",
]

LARGEST = 1024 * 1024
OPAQUE = "Opaque"
# Types of secrets that promise certain keys.
PROMISED = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_KEY = re.compile(r"(?!\.$|\.\.)[-._a-zA-Z0-9]{1,253}")
NAME_LABEL = "kubernetes.io/metadata.name"


def fill_secret(tree: Object) -> None:
    """Fills in the type of a secret and turns `stringData` into data."""
    texts = tree.pop("stringData", None)
    if texts:
        encoded = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
        tree["data"] = {**part(tree, "data"), **encoded}
    tree["type"] = tree.get("type") or OPAQUE


def check_config_map(new: Object, old: Object | None) -> list[Cause]:
    """The keys are file names, each used once; all together are not too large; an immutable one does not change."""
    data = part(new, "data")
    causes = [] if all(map(_is_key, data)) else _check_keys("data", data)
    size = sum(map(len, data.values()))
    if size * 4 > LARGEST:  # as many bytes as there may be at most: only then they are counted exactly
        size = sum(len(text.encode()) for text in data.values())
    if "binaryData" in new:
        binary = part(new, "binaryData")
        causes += _check_keys("binaryData", binary)
        twice = [key for key in data if key in binary]
        causes += [field_errors.invalid(f"data[{key}]", key, "duplicate of key present in binaryData") for key in twice]
        size += sum(map(_decoded, binary.values()))
    if size > LARGEST:
        causes.append(field_errors.too_long("[]", LARGEST))
    return causes if old is None else causes + list(_check_frozen(new, old, ("data", "binaryData")))


def check_secret(new: Object, old: Object | None) -> list[Cause]:
    """The keys are file names, those that its type promises are there, and its type never changes."""
    data = part(new, "data")
    causes = _check_keys("data", data)
    if sum(map(_decoded, data.values())) > LARGEST:
        causes.append(field_errors.too_long("data", LARGEST))
    for key in PROMISED.get(new["type"], ()):
        if key not in data:
            causes.append(field_errors.required(f"data[{key}]"))
    if old is not None and new["type"] != (old.get("type") or OPAQUE):
        causes.append(field_errors.invalid("type", new["type"], "field is immutable"))
    return causes + list(_check_frozen(new, old, ("data",)))


def _check_keys(field: str, data: Object) -> list[Cause]:
    if all(map(_is_key, data)):
        return []
    bad = [key for key in data if not _KEY.fullmatch(key)]
    rule = "a valid key consists of at most 253 alphanumeric characters, '-', '_' or '.', and is neither '.' nor '..*'"
    return [field_errors.invalid(f"{field}[{key}]", key, rule) for key in bad]


@lru_cache(maxsize=1024)
def _is_key(key: str) -> bool:
    return _KEY.fullmatch(key) is not None


def _decoded(text: str) -> int:
    """The number of bytes that a base64 text stands for."""
    return len(text) * 3 // 4 - text.count("=", -2)


def _check_frozen(new: Object, old: Object | None, fields: tuple[str, ...]) -> Iterator[Cause]:
    if old is None or not old.get("immutable"):
        return
    if not new.get("immutable"):
        yield field_errors.forbidden("immutable", "field is immutable when `immutable` is set")
    for field in fields:
        if (new.get(field) or {}) != (old.get(field) or {}):
            yield field_errors.forbidden(field, "field is immutable when `immutable` is set")


def fill_namespace(tree: Object) -> None:
    """Gives a namespace the label with its own name, by which selectors find it."""
    name = tree["metadata"].get("name")
    if name:
        labels = part(tree["metadata"], "labels")
        tree["metadata"]["labels"] = {**labels, NAME_LABEL: name}


def start_namespace(tree: Object) -> None:
    """Makes a new namespace active; the finalizer in its spec keeps it while it has contents."""
    spec = tree.setdefault("spec", {})
    finalizers = items(spec, "finalizers")
    spec["finalizers"] = finalizers if "kubernetes" in finalizers else [*finalizers, "kubernetes"]
    tree["status"] = {"phase": "Active"}


def keep_namespace(new: Object, old: Object) -> None:
    """An update changes neither the finalizers in the spec (that is for `finalize`) nor the status."""
    new["spec"] = part(old, "spec")
    new["status"] = part(old, "status")


def terminate_namespace(tree: Object) -> None:
    """Marks a namespace whose deletion has begun; raises Forbidden for those that must always be there."""
    name = tree["metadata"]["name"]
    if name in ("default", "kube-system", "kube-public"):
        text = f'namespaces "{name}" is forbidden: this namespace may not be deleted'
        raise Forbidden(text, details={"name": name, "kind": "namespaces"})
    tree["status"] = {**part(tree, "status"), "phase": "Terminating"}


def is_held_namespace(tree: Object) -> bool:
    """Whether there may still be contents to be cleared away."""
    return bool(part(tree, "spec").get("finalizers"))
