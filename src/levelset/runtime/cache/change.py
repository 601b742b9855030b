"""A change of one object in a cache, with the object before and after it."""

from typing import Any, Generic, TypeVar

import msgspec

from levelset.client.object_types import Item, View
from levelset.objects.cached_object import CachedObject
from levelset.objects.ref import Ref

__all__ = ["Change"]

K_co = TypeVar("K_co", covariant=True)


class Change(msgspec.Struct, Generic[K_co], frozen=True, gc=False):
    """A change of the object under one key; `old`, `new` and `item` decode nothing until their object is read.

    `old` is None for an object that was added, `new` for one that was deleted. `is_initial` marks an object that was
    cached before the subscriber joined, `is_resync` an unchanged object that is delivered again on request.
    """

    key: str
    before: CachedObject | None
    after: CachedObject | None
    view: View[K_co]
    is_initial: bool = False
    is_resync: bool = False

    @property
    def old(self) -> Item[K_co] | None:
        """The object as this subscriber last saw it; None if it was added."""
        return None if self.before is None else Item(self.before, self.view)

    @property
    def new(self) -> Item[K_co] | None:
        """The object as it is now; None if it was deleted."""
        return None if self.after is None else Item(self.after, self.view)

    @property
    def item(self) -> Item[K_co]:
        """The object as it is now, or its last state if it was deleted."""
        return Item(self.cached, self.view)

    @property
    def cached(self) -> CachedObject:
        """The cached form of `item`."""
        found = self.after if self.after is not None else self.before
        assert found is not None, "a change from nothing to nothing"
        return found

    @property
    def ref(self) -> Ref[K_co]:
        """The reference to the object."""
        return self.view.ref(self.cached)

    @property
    def is_recreated(self) -> bool:
        """Whether the object was deleted and another one of the same name created, conflated into one change."""
        return self.before is not None and self.after is not None and self.before.uid != self.after.uid

    def seen_as(self, view: View[Any]) -> "Change[Any]":
        """The same change for a subscriber that decodes with another class."""
        if view is self.view:
            return self
        return Change(self.key, self.before, self.after, view, self.is_initial, self.is_resync)

    def then(self, later: "Change[Any]") -> "Change[Any] | None":
        """Both changes conflated, from this `old` to the later `new`; None if the object was added and deleted."""
        if self.before is None and later.after is None:
            return None
        is_resync = self.is_resync and later.is_resync
        return Change(self.key, self.before, later.after, self.view, self.is_initial, is_resync)
