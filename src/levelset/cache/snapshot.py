"""The objects of a cache at one moment: a sequence that decodes an object when it is looked at."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar, overload

from levelset.client.kinds import Item, View
from levelset.objects.identity import Ref
from levelset.objects.kept import Kept

__all__ = ["Snapshot"]

K = TypeVar("K")


class Snapshot(Sequence[K]):
    """Typed objects, frozen and shared with other readers; what happens later does not show in it.

    Looking at an object that its class cannot read raises BadObject with its name; `items` gives all without decoding.
    """

    __slots__ = ("_kept", "_read", "view")

    def __init__(self, kept: list[Kept], view: View[K], read: Callable[[Kept], K]) -> None:
        self.view = view
        self._kept = kept
        self._read = read

    def __len__(self) -> int:
        return len(self._kept)

    @overload
    def __getitem__(self, index: int) -> K: ...
    @overload
    def __getitem__(self, index: slice) -> "Snapshot[K]": ...
    def __getitem__(self, index: int | slice) -> "K | Snapshot[K]":
        if isinstance(index, slice):
            return Snapshot(self._kept[index], self.view, self._read)
        return self._read(self._kept[index])

    def __iter__(self) -> Iterator[K]:
        return map(self._read, self._kept)

    def __repr__(self) -> str:
        return f"<Snapshot of {len(self)} {self.view.gvk.kind}>"

    @property
    def kept(self) -> Sequence[Kept]:
        """The heads and bytes, as they are kept."""
        return self._kept

    @property
    def items(self) -> "Sequence[Item[K]]":
        """The objects with their heads, not decoded."""
        return [Item(one, self.view) for one in self._kept]

    @property
    def refs(self) -> "Sequence[Ref[K]]":
        """The references to the objects."""
        return [self.view.ref(one) for one in self._kept]
