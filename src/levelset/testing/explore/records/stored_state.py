"""The stored state at one revision, as invariants see it: objects by kind, and the world outside of the API."""

import builtins
from collections.abc import Iterator
from typing import Any, TypeVar, overload

from levelset.client.object_types import Kind, View, view_of
from levelset.client.requests import Labels, read_labels
from levelset.errors import NotFound
from levelset.objects import codec
from levelset.objects.ref import GroupVersionKind, Ref
from levelset.objects.unstructured import Unstructured

__all__ = ["Key", "State", "Tree"]

K = TypeVar("K")

Tree = dict[str, Any]
"""An object as plain JSON."""
Key = tuple[str, str, str, str]
"""An object by group, kind, namespace (empty if it has none) and name."""


class State:
    """All objects at one revision, read-only; no method awaits.

    `outside` is what the exploration's `outside` made for this run, if there is one. `at` is the virtual second.
    """

    def __init__(self, outside: Any = None) -> None:
        self.outside: Any = outside
        self.revision = 0
        self.at = 0.0
        self._trees: dict[Key, Tree] = {}
        self._read: dict[tuple[Key, str, type[Any] | None], Any] = {}

    @overload
    def list(
        self, kind: type[K], /, *, namespace: str | None = None, labels: Labels | None = None
    ) -> "builtins.list[K]": ...
    @overload
    def list(
        self, kind: GroupVersionKind, /, *, namespace: str | None = None, labels: Labels | None = None
    ) -> "builtins.list[Unstructured]": ...
    def list(self, kind: Any, /, *, namespace: str | None = None, labels: Labels | None = None) -> "builtins.list[Any]":
        """The objects of a kind, by namespace and name; of all namespaces unless one is named."""
        view, wanted = view_of(kind), None if labels is None else read_labels(labels)
        found = sorted(key for key in self._trees if key[:2] == (view.gvk.group, view.gvk.kind))
        return [
            self._decoded(view, key)
            for key in found
            if namespace in {None, key[2]} and (wanted is None or wanted.matches(_labels(self._trees[key])))
        ]

    def find(self, ref: Ref[K], /) -> K | None:
        """The object, or None if there is none; without a namespace in the reference, that of any namespace."""
        kind: Kind[Any] = ref.gvk if ref.class_ is None else ref.class_
        for key in self._trees:
            if key[:2] == (ref.gvk.group, ref.gvk.kind) and key[3] == ref.name and ref.namespace in {None, key[2]}:
                found: K = self._decoded(view_of(kind), key)
                return found
        return None

    def get(self, ref: Ref[K], /) -> K:
        """The object; NotFound if there is none."""
        found = self.find(ref)
        if found is None:
            raise NotFound(f"there is no {ref} at revision {self.revision}")
        return found

    def trees(self) -> Iterator[tuple[Key, Tree]]:
        """All objects as stored; callers must not change them."""
        yield from self._trees.items()

    def put(self, key: Key, tree: Tree | None) -> None:
        """Stores a changed object, or removes a deleted one (None)."""
        if tree is None:
            self._trees.pop(key, None)
        else:
            self._trees[key] = tree

    def _decoded(self, view: View[Any], key: Key) -> Any:
        tree = self._trees[key]
        mark = key, str(tree["metadata"]["resourceVersion"]), None if view.definition is None else view.class_
        if mark not in self._read:
            self._read[mark] = view.read(codec.encode_tree(tree))
        return self._read[mark]


def _labels(tree: Tree) -> dict[str, str]:
    found: dict[str, str] = tree["metadata"].get("labels") or {}
    return found
