"""The events of a watch: the existing objects (Init, InitApply, InitDone), then each change (Apply, Delete).

A list begins with `Init`, has an `InitApply` for each object and ends with `InitDone`: a store then drops the objects
that were not listed. Between `Init` and `InitDone` there is never an `Apply` or `Delete`, and outside never an
`InitApply`. A list that fails halfway starts over with another `Init`; its earlier part must be discarded.
"""

from typing import Generic, TypeVar

import msgspec

from levelset.client.object_types import Item

__all__ = ["Apply", "Delete", "Event", "Init", "InitApply", "InitDone"]

K = TypeVar("K")
K_co = TypeVar("K_co", covariant=True)


class Init(msgspec.Struct, frozen=True, gc=False):
    """A list begins; the objects known so far stay valid until `InitDone`."""


class InitApply(msgspec.Struct, Generic[K_co], frozen=True, gc=False):
    """An object of a list; it may be new, changed or the same as before."""

    item: Item[K_co]


class InitDone(msgspec.Struct, frozen=True, gc=False):
    """The list is complete as of this version: objects that were not listed are deleted."""

    resource_version: str


class Apply(msgspec.Struct, Generic[K_co], frozen=True, gc=False):
    """An object was added or modified."""

    item: Item[K_co]


class Delete(msgspec.Struct, Generic[K_co], frozen=True, gc=False):
    """An object was deleted; the item is its last state, with the version of the deletion."""

    item: Item[K_co]


Event = Init | InitApply[K] | InitDone | Apply[K] | Delete[K]
"""One event of a watch."""
