"""What a list gives: a sequence of objects that are decoded when somebody looks at them, and then shared."""

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar, cast, overload

from levelset.client.kinds import Item, View
from levelset.client.paging import KeptPage
from levelset.objects.identity import Ref
from levelset.objects.kept import Kept

__all__ = ["Items"]

K_co = TypeVar("K_co", covariant=True)


class Items(Sequence[K_co]):
    """The objects of one page of a list, in the server's order, with the version that the list is of.

    An object is decoded at the first look, so that one which its class cannot hold (BadObject) spoils no other; the
    heads and references of all are there without decoding any.
    """

    __slots__ = ("_objects", "continue_", "kept", "remaining", "resource_version", "view")

    def __init__(self, page: KeptPage, view: View[K_co]) -> None:
        self.kept: list[Kept] = page.items
        self.resource_version = page.resource_version
        self.continue_ = page.continue_
        """Asks for the next page; None at the end."""
        self.remaining = page.remaining
        """How many objects are left for later pages; None if the server does not say."""
        self.view = view
        self._objects: dict[int, K_co] = {}

    def __len__(self) -> int:
        return len(self.kept)

    @overload
    def __getitem__(self, index: int) -> K_co: ...
    @overload
    def __getitem__(self, index: slice) -> list[K_co]: ...
    def __getitem__(self, index: int | slice) -> K_co | list[K_co]:
        if isinstance(index, slice):
            return [self._object(place) for place in range(*index.indices(len(self.kept)))]
        place = index + len(self.kept) if index < 0 else index
        if not 0 <= place < len(self.kept):
            raise IndexError(f"there are {len(self.kept)} objects, and none with the number {index}")
        return self._object(place)

    def __iter__(self) -> Iterator[K_co]:
        return map(self._object, range(len(self.kept)))

    def items(self) -> list[Item[K_co]]:
        """The objects with their heads, not decoded yet."""
        return [Item(kept, self.view) for kept in self.kept]

    def refs(self) -> list[Ref[K_co]]:
        """The references to the objects, also where only their metadata were asked for."""
        return [self.view.ref(kept) for kept in self.kept]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Items | list):
            return NotImplemented
        return list[Any](self) == list[Any](cast("Sequence[Any]", other))

    __hash__ = None  # type: ignore[assignment]  # it compares as a list does

    def __repr__(self) -> str:
        more = "" if self.continue_ is None else ", and more to come"
        return f"Items({len(self.kept)} {self.view.gvk.kind}, resource_version={self.resource_version!r}{more})"

    def _object(self, place: int) -> K_co:
        found = self._objects.get(place)
        if found is None:
            found = self._objects[place] = self.view.read(self.kept[place].raw)
        return found
