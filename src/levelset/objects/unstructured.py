"""`Unstructured`: an object of a kind without a class, as a JSON tree."""

from collections.abc import Mapping
from typing import Any

import msgspec

from levelset.errors import BadObject
from levelset.objects.meta import ObjectMeta
from levelset.objects.ref import GroupVersionKind, Ref

__all__ = ["Unstructured"]


class Unstructured:
    """An object as a JSON tree: complete, and not validated.

    It has `name`, `namespace`, `metadata` and `ref` as a typed object does. The tree belongs to the caller; after a
    change create `Unstructured(tree)` again, because the metadata are decoded only once.
    """

    __slots__ = ("_metadata", "tree")

    def __init__(self, tree: Mapping[str, Any]) -> None:
        if not isinstance(tree, Mapping):
            raise BadObject(f"an object is a map of members, not {type(tree).__name__}", field="")
        self.tree: dict[str, Any] = dict(tree)
        self._metadata: ObjectMeta | None = None

    @property
    def api_version(self) -> str:
        """The `apiVersion`, or an empty string."""
        return str(self.tree.get("apiVersion") or "")

    @property
    def kind(self) -> str:
        """The `kind`, or an empty string."""
        return str(self.tree.get("kind") or "")

    @property
    def gvk(self) -> GroupVersionKind:
        """The kind with its group and version; BadName if the tree has none."""
        return GroupVersionKind.of(self.api_version, self.kind)

    @property
    def metadata(self) -> ObjectMeta:
        """The metadata, typed."""
        if self._metadata is None:
            self._metadata = _read_metadata(self.tree.get("metadata"))
        return self._metadata

    @property
    def name(self) -> str:
        """The name in the metadata."""
        return self.metadata.name

    @property
    def namespace(self) -> str | None:
        """The namespace in the metadata; None for a cluster-scoped object, or if it is not set yet."""
        return self.metadata.namespace

    @property
    def ref(self) -> Ref[Any]:
        """The reference to this object."""
        return Ref(self.gvk, self.name, self.namespace)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unstructured) and self.tree == other.tree

    __hash__ = None  # type: ignore[assignment]  # the tree may change

    def __repr__(self) -> str:
        return f"Unstructured({self.tree!r})"


def _read_metadata(tree: Any) -> ObjectMeta:
    if tree is None:
        return ObjectMeta()
    try:
        members = {name: value for name, value in tree.items() if value is not None and name != "managedFields"}
        return msgspec.convert(members, ObjectMeta)
    except (msgspec.ValidationError, AttributeError, RecursionError) as error:
        raise BadObject(f"the metadata cannot be read: {error}", field="metadata") from error
