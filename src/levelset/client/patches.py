"""The patches that `Client.patch` accepts: merge patch, JSON patch and strategic merge patch.

`MergePatch` has the shape of the object, and null removes. `JsonPatch` is a list of operations. `StrategicPatch` merges
some lists of the built-in kinds by key. `between` computes the patch from one object to another; with `lock` it applies
only to the resource version of the first (otherwise Conflict, or Invalid for a JSON patch).
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import msgspec

from levelset.errors import BadObject, BadPatch
from levelset.objects import codec
from levelset.objects.json_tree import is_map
from levelset.objects.ref import GroupVersionKind
from levelset.patch.json_patch import diff_operations
from levelset.patch.merge_patch import make_merge

__all__ = ["JsonPatch", "MergePatch", "Patch", "StrategicPatch"]


class MergePatch(msgspec.Struct, frozen=True):
    """A merge patch (RFC 7396): `MergePatch({"spec": {"replicas": 2}})`."""

    content_type: ClassVar[str] = "application/merge-patch+json"

    tree: Any

    @classmethod
    def between(cls, before: Any, after: Any, *, lock: bool = False) -> Self:
        """The patch from one object to the other; BadPatch if a merge patch cannot express it."""
        old = _tree(before)
        return cls(_locked(make_merge(old, _tree(after)), _version(old, lock=lock)))

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to change."""
        return not self.tree

    def body(self) -> bytes:
        """The JSON of the patch."""
        return codec.encode_tree(self.tree)


class StrategicPatch(msgspec.Struct, frozen=True):
    """A strategic merge patch, for built-in kinds: lists of containers, ports and the like are merged by key."""

    content_type: ClassVar[str] = "application/strategic-merge-patch+json"

    tree: Any

    @classmethod
    def between(cls, before: Any, after: Any, *, lock: bool = False) -> Self:
        """The patch from one object of a built-in kind to the other; BadPatch for other kinds."""
        # Imported late: the merge schemas take a while to load, and few programs compute such patches.
        from levelset.patch.merge_schema import builtin_shape  # noqa: PLC0415
        from levelset.patch.strategic_merge import make_strategic  # noqa: PLC0415

        old = _tree(before)
        gvk = GroupVersionKind.of(old.get("apiVersion", ""), old.get("kind", ""))
        shape = builtin_shape(gvk.group, gvk.version, gvk.kind)
        if shape is None:
            raise BadPatch(f"a strategic patch needs a built-in kind, not {gvk}; use MergePatch or JsonPatch")
        return cls(_locked(make_strategic(old, _tree(after), shape), _version(old, lock=lock)))

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to change."""
        return not self.tree

    def body(self) -> bytes:
        """The JSON of the patch."""
        return codec.encode_tree(self.tree)


class JsonPatch(msgspec.Struct, frozen=True):
    """A JSON patch (RFC 6902): `JsonPatch([{"op": "replace", "path": "/spec/replicas", "value": 2}])`."""

    content_type: ClassVar[str] = "application/json-patch+json"

    operations: Sequence[Any]

    @classmethod
    def between(cls, before: Any, after: Any, *, lock: bool = False) -> Self:
        """The patch from one object to the other."""
        old = _tree(before)
        version = _version(old, lock=lock)
        test = {"op": "test", "path": "/metadata/resourceVersion", "value": version}
        return cls([*([] if version is None else [test]), *diff_operations(old, _tree(after))])

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to change."""
        return not self.operations

    def body(self) -> bytes:
        """The JSON of the patch."""
        return codec.encode_tree(list(self.operations))


Patch = MergePatch | JsonPatch | StrategicPatch
"""What `client.patch` takes."""


def _tree(obj: Any) -> dict[str, Any]:
    tree = codec.to_tree(obj)
    if not is_map(tree):
        raise BadObject(f"cannot compute a patch of a {type(obj).__name__}: give two objects")
    return tree


def _version(tree: dict[str, Any], *, lock: bool) -> str | None:
    if not lock:
        return None
    metadata = tree.get("metadata")
    found = metadata.get("resourceVersion") if is_map(metadata) else None
    if not isinstance(found, str) or not found:
        raise BadPatch("lock=True needs metadata.resourceVersion, and the object has none; read it first")
    return found


def _locked(patch: Any, version: str | None) -> Any:
    if version is None:
        return patch
    metadata = patch.get("metadata")
    return {**patch, "metadata": {**(metadata if is_map(metadata) else {}), "resourceVersion": version}}
