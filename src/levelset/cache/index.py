"""Indexes as values: which objects a cache finds without looking at all of them.

`Index(Website, certificate)` finds websites by what a function gives for each, and decodes each object that is written.
`by_label("app")`, `by_owner()` and `by_namespace()` look at the head alone, for any kind. Whoever declares the same
index twice, equal by kind and function, gets one.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Generic, TypeVar

from levelset.client.kinds import Kind, View, view_of
from levelset.objects.kept import Head, Kept

__all__ = ["Index", "by_label", "by_namespace", "by_owner"]

K = TypeVar("K")

Found = Hashable | Iterable[Hashable] | None


class Index(Generic[K]):
    """The values under which an object is found: those that `function` gives for it.

    The function returns a value, several of them (any iterable that is no text), or None for no value. It is called
    once for each version of an object and must depend on nothing else. An object for which it raises has no values;
    the error is reported and harms nobody.
    """

    __slots__ = ("_identity", "_read", "name", "view")

    def __init__(self, kind: Kind[K], function: Callable[[K], Found], *, name: str | None = None) -> None:
        view = view_of(kind)
        self.view: View[K] | None = view
        self.name = name or _name_of(function)
        self._read: Callable[[Kept], Found] = lambda kept: function(view.read(kept.raw))
        self._identity: Hashable = (view.gvk, view.class_, function)

    @classmethod
    def of_head(
        cls, function: Callable[[Head], Found], *, name: str | None = None, same_as: Hashable = None
    ) -> "Index[Any]":
        """An index that needs only the head of an object, of whatever kind, and so decodes nothing.

        Two of them are equal if they are `same_as` the same value, which is the function unless said otherwise.
        """
        made: Index[Any] = cls.__new__(cls)
        made.view = None
        made.name = name or _name_of(function)
        made._read = function  # a kept object is its own head
        made._identity = function if same_as is None else same_as
        return made

    def values(self, kept: Kept) -> tuple[Hashable, ...]:
        """The values of one object, each once; raises what the function raises."""
        return _several(self._read(kept))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Index) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def __repr__(self) -> str:
        return f"Index({self.view.gvk}, {self.name})" if self.view is not None else f"Index({self.name})"


def _several(found: Any) -> tuple[Hashable, ...]:
    if found is None:
        return ()
    # A text is one value, not its letters; a tuple is several, as any other iterable is.
    if isinstance(found, str | bytes) or not hasattr(found, "__iter__"):
        return (found,)
    return tuple(dict.fromkeys(found))


def _name_of(function: Callable[..., object]) -> str:
    return str(getattr(function, "__name__", "index"))


def by_label(key: str) -> Index[Any]:
    """Finds objects by the value of this label."""
    return Index.of_head(lambda head: head.labels.get(key), name=f"label {key}", same_as=("label", key))


def by_owner(*, controller: bool = False) -> Index[Any]:
    """Finds objects by the uid of an owner; with `controller`, only of the owner that manages them."""

    def owners(head: Head) -> list[str]:
        return [owner.uid for owner in head.owners if owner.controller or not controller]

    return Index.of_head(owners, name="controller" if controller else "owner", same_as=("owner", controller))


def by_namespace() -> Index[Any]:
    """Finds objects by their namespace; those that are cluster-scoped have no value."""
    return Index.of_head(lambda head: head.namespace, name="namespace", same_as=("namespace",))
