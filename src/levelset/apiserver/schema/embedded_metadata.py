"""Embedded resources: the checks of their apiVersion, kind and metadata.

An embedded resource has its own `apiVersion`, `kind` and `metadata`. Unknown members of the metadata are dropped and
the known ones must have the right type; names are checked loosely, because the rules of the embedded kind are unknown.
"""

from levelset.apiserver.schema import field_errors
from levelset.apiserver.schema.json_values import join
from levelset.apiserver.schema.schema_nodes import Node, Tree, as_list, as_map, read_schema
from levelset.errors import Cause
from levelset.objects.lazy_pattern import Pattern
from levelset.objects.names import (
    check_dns1035_label,
    check_dns1123_label,
    check_label_key,
    check_label_value,
    check_path_segment,
)

__all__ = ["METADATA", "check_identity", "drop_empty", "is_plain_identity"]

_TEXT = {"type": "string"}
_TEXTS = {"type": "object", "additionalProperties": _TEXT}
_TIME = {"type": "string", "format": "date-time", "nullable": True}
_NUMBER = {"type": "integer", "format": "int64"}
_FLAG = {"type": "boolean"}
_FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

METADATA: Node = read_schema(
    {
        "type": "object",
        "properties": {
            **dict.fromkeys(
                ("name", "generateName", "namespace", "selfLink", "uid", "resourceVersion"),
                _TEXT,
            ),
            "generation": _NUMBER,
            "deletionGracePeriodSeconds": _NUMBER,
            "creationTimestamp": _TIME,
            "deletionTimestamp": _TIME,
            "labels": _TEXTS,
            "annotations": _TEXTS,
            "finalizers": {"type": "array", "items": _TEXT},
            "ownerReferences": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        **dict.fromkeys(("apiVersion", "kind", "name", "uid"), _TEXT),
                        **dict.fromkeys(("controller", "blockOwnerDeletion"), _FLAG),
                    },
                    "required": ["apiVersion", "kind", "name", "uid"],
                },
            },
            "managedFields": {"type": "array", "items": _FREE},
        },
    }
)

_KIND = Pattern(r"[a-zA-Z](?:[-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?")


def is_plain_identity(members: dict[str, Tree]) -> bool:
    """Whether an embedded object is certainly valid: typed, and with at most a name in its metadata."""
    version, kind, metadata = members.get("apiVersion"), members.get("kind"), members.get("metadata")
    if type(version) is not str or type(kind) is not str:
        return False
    if version.count("/") > 1 or not version or not _KIND.fullmatch(kind):
        return False
    if metadata is None:
        return "metadata" not in members
    known = as_map(metadata)
    return known is not None and (
        not known or (known.keys() == {"name"} and bool(known["name"]) and _is_segment(known["name"]))
    )


def _is_segment(name: Tree) -> bool:
    return type(name) is str and name not in (".", "..") and "/" not in name and "%" not in name


_EMPTY: dict[str, Tree] = {"object": {}, "array": [], "string": "", "integer": 0}


def drop_empty(metadata: dict[str, Tree]) -> None:
    """Removes what Go does not write of metadata: null, and what is empty, except for a grace period of zero."""
    for name in [name for name, value in metadata.items() if not value]:
        child = METADATA.properties.get(name)
        is_empty = child is not None and metadata[name] == _EMPTY[child.type] and name != "deletionGracePeriodSeconds"
        if is_empty or metadata[name] is None:
            del metadata[name]


def check_identity(members: dict[str, Tree], path: str) -> list[Cause]:
    """The errors in the apiVersion, kind and metadata of an embedded object, except for types of metadata."""
    causes = _check_type(members, path, "apiVersion") + _check_type(members, path, "kind")
    metadata = as_map(members.get("metadata"))
    if metadata is not None:
        causes += _check_metadata(metadata, join(path, "metadata"))
    return causes


def _check_type(members: dict[str, Tree], path: str, name: str) -> list[Cause]:
    field = join(path, name)
    if name not in members:
        return [field_errors.required(field)]
    value = members[name]
    if not isinstance(value, str):
        return [field_errors.undecodable(field, value, "must be a string")]
    if not value:
        return [field_errors.invalid(field, value, "must not be empty")]
    if name == "apiVersion" and value.count("/") > 1:
        return [field_errors.invalid(field, value, f"unexpected GroupVersion string: {value}")]
    if name == "kind" and not _KIND.fullmatch(value):
        problems = ",".join(check_dns1035_label(value.lower()))
        return [field_errors.invalid(field, value, f"may have mixed case, but should otherwise match: {problems}")]
    return []


def _check_metadata(metadata: dict[str, Tree], path: str) -> list[Cause]:
    name, prefix, namespace = (metadata.get(one) for one in ("name", "generateName", "namespace"))
    problems = [("name", one) for one in check_path_segment(name)] if isinstance(name, str) and name else []
    if isinstance(prefix, str) and prefix:
        problems += [("generateName", one) for one in check_path_segment(f"{prefix}a")]
    if isinstance(namespace, str) and namespace:
        problems += [("namespace", one) for one in check_dns1123_label(namespace)]
    generation = metadata.get("generation")
    if type(generation) is int and generation < 0:
        problems.append(("generation", "must be greater than or equal to 0"))
    causes = [field_errors.invalid(join(path, one), metadata[one], problem) for one, problem in problems]
    labels, annotations = as_map(metadata.get("labels")) or {}, as_map(metadata.get("annotations")) or {}
    finalizers = [one for one in as_list(metadata.get("finalizers")) or [] if isinstance(one, str)]
    causes += _check_names(list(labels), join(path, "labels"))
    causes += [
        field_errors.invalid(join(path, "labels"), value, problem)
        for value in labels.values()
        if isinstance(value, str)
        for problem in check_label_value(value)
    ]
    causes += _check_names([one.lower() for one in annotations], join(path, "annotations"))
    return causes + _check_names(finalizers, join(path, "finalizers"))


def _check_names(names: list[str], path: str) -> list[Cause]:
    return [field_errors.invalid(path, one, problem) for one in names for problem in check_label_key(one)]
