"""A change of one object in a cache: how it was, and how it is."""

from typing import Any, Generic, TypeVar

import msgspec

from levelset.client.object_types import Item, View
from levelset.objects.cached_object import Kept
from levelset.objects.ref import Ref

__all__ = ["Change"]

K_co = TypeVar("K_co", covariant=True)


class Change(msgspec.Struct, Generic[K_co], frozen=True, gc=False):
    """What happened to the object under one key; nothing is decoded until somebody asks.

    `old` is None for an object that was not there, `new` for one that has gone. `is_initial` marks what was there
    before the reader came, and `is_resync` an object that has not changed and is shown once more on request.
    """

    key: str
    before: Kept | None
    after: Kept | None
    view: View[K_co]
    is_initial: bool = False
    is_resync: bool = False

    @property
    def old(self) -> Item[K_co] | None:
        """The object as this reader has last seen it."""
        return None if self.before is None else Item(self.before, self.view)

    @property
    def new(self) -> Item[K_co] | None:
        """The object as it is now."""
        return None if self.after is None else Item(self.after, self.view)

    @property
    def item(self) -> Item[K_co]:
        """The object as it is now, or as it was last if it has gone."""
        return Item(self.kept, self.view)

    @property
    def kept(self) -> Kept:
        """The bytes and the head of `item`."""
        found = self.after if self.after is not None else self.before
        assert found is not None, "a change from nothing to nothing"
        return found

    @property
    def ref(self) -> Ref[K_co]:
        """Which object it is."""
        return self.view.ref(self.kept)

    @property
    def is_recreated(self) -> bool:
        """Whether the object has gone and another one of the same name has come, seen as one change."""
        return self.before is not None and self.after is not None and self.before.uid != self.after.uid

    def seen_as(self, view: View[Any]) -> "Change[Any]":
        """The same change for a reader who wants another class."""
        if view is self.view:
            return self
        return Change(self.key, self.before, self.after, view, self.is_initial, self.is_resync)

    def then(self, later: "Change[Any]") -> "Change[Any] | None":
        """Both changes as one: from the first old to the latest new; None if that is nothing at all."""
        if self.before is None and later.after is None:
            return None
        is_resync = self.is_resync and later.is_resync
        return Change(self.key, self.before, later.after, self.view, self.is_initial, is_resync)
