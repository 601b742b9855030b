"""ConfigMaps and Secrets: defaults and validation."""

import base64
import re
from collections.abc import Iterator
from functools import lru_cache

from levelset.apiserver.resources.json_members import map_member
from levelset.apiserver.resources.served_resource import Object
from levelset.apiserver.schema import field_errors
from levelset.errors import Cause

__all__ = ["check_config_map", "check_secret", "set_secret_defaults"]

MAX_DATA_BYTES = 1024 * 1024
OPAQUE = "Opaque"
# The keys that a Secret of a type must have.
REQUIRED_KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_EMPTY: Object = {}
_MAX_KEY = 253
_KEY = re.compile(r"(?!\.$|\.\.)[-._a-zA-Z0-9]{1,253}")


def set_secret_defaults(tree: Object) -> None:
    """Sets the type of a Secret, and converts `stringData` to `data`."""
    texts = tree.pop("stringData", None)
    if texts:
        encoded = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
        tree["data"] = {**map_member(tree, "data"), **encoded}
    tree["type"] = tree.get("type") or OPAQUE


def check_config_map(new: Object, old: Object | None) -> list[Cause]:
    """Validates a ConfigMap: its keys, its total size, and that an immutable one does not change."""
    data = new.get("data") or _EMPTY  # a map of texts, by the schema
    causes = _check_keys("data", data)
    size = sum(map(len, data.values()))
    # UTF-8 takes up to four bytes per character: only above this bound the exact size is needed.
    if size * 4 > MAX_DATA_BYTES:
        size = sum(len(text.encode()) for text in data.values())
    if "binaryData" in new:
        binary = map_member(new, "binaryData")
        causes += _check_keys("binaryData", binary)
        twice = [key for key in data if key in binary]
        causes += [field_errors.invalid(f"data[{key}]", key, "duplicate of key present in binaryData") for key in twice]
        size += sum(map(_decoded_size, binary.values()))
    if size > MAX_DATA_BYTES:
        causes.append(field_errors.too_long("[]", MAX_DATA_BYTES))
    return causes if old is None else causes + list(_check_immutable(new, old, ("data", "binaryData")))


def check_secret(new: Object, old: Object | None) -> list[Cause]:
    """Validates a Secret: its keys and size, the keys that its type requires, and that its type does not change."""
    data = map_member(new, "data")
    causes = _check_keys("data", data)
    if sum(map(_decoded_size, data.values())) > MAX_DATA_BYTES:
        causes.append(field_errors.too_long("data", MAX_DATA_BYTES))
    for key in REQUIRED_KEYS.get(new["type"], ()):
        if key not in data:
            causes.append(field_errors.required(f"data[{key}]"))
    if old is not None and new["type"] != (old.get("type") or OPAQUE):
        causes.append(field_errors.invalid("type", new["type"], "field is immutable"))
    return causes + list(_check_immutable(new, old, ("data",)))


def _check_keys(field: str, data: Object) -> list[Cause]:
    if max(map(len, data), default=0) <= _MAX_KEY and all(map(_is_key, data)):
        return []
    bad = [key for key in data if not _KEY.fullmatch(key)]
    rule = "a valid key consists of at most 253 alphanumeric characters, '-', '_' or '.', and is neither '.' nor '..*'"
    return [field_errors.invalid(f"{field}[{key}]", key, rule) for key in bad]


@lru_cache(maxsize=1024)
def _is_key(key: str) -> bool:
    return _KEY.fullmatch(key) is not None


def _decoded_size(text: str) -> int:
    """The number of bytes that a base64 string decodes to."""
    return len(text) * 3 // 4 - text.count("=", -2)


def _check_immutable(new: Object, old: Object | None, fields: tuple[str, ...]) -> Iterator[Cause]:
    if old is None or not old.get("immutable"):
        return
    if not new.get("immutable"):
        yield field_errors.forbidden("immutable", "field is immutable when `immutable` is set")
    for field in fields:
        if (new.get(field) or {}) != (old.get(field) or {}):
            yield field_errors.forbidden(field, "field is immutable when `immutable` is set")
