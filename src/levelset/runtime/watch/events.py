"""What a watch tells: the objects that are there (Init to InitDone), and then each one that changes or goes.

A list of what is there begins with `Init`, brings an `InitApply` for each object and ends with `InitDone`: now whoever
keeps objects knows that what was not named is gone. In between there is never an `Apply` or `Delete`, and outside never
an `InitApply`. A list that breaks off is begun again with another `Init`; what came before that does not count.
"""

from typing import Generic, TypeVar

import msgspec

from levelset.client.object_types import Item
from levelset.objects.cached_object import Kept

__all__ = ["Apply", "Delete", "Event", "Init", "InitApply", "InitDone", "Told"]

K = TypeVar("K")
K_co = TypeVar("K_co", covariant=True)


class Init(msgspec.Struct, frozen=True, gc=False):
    """A list of everything begins; what is known stays valid until `InitDone`."""


class InitApply(msgspec.Struct, Generic[K_co], frozen=True, gc=False):
    """An object that is there, in a list of everything; it may be new, changed or the same as before."""

    item: Item[K_co]


class InitDone(msgspec.Struct, frozen=True, gc=False):
    """The list is complete as of this version: objects that it did not name are gone."""

    resource_version: str


class Apply(msgspec.Struct, Generic[K_co], frozen=True, gc=False):
    """An object was made or changed."""

    item: Item[K_co]


class Delete(msgspec.Struct, Generic[K_co], frozen=True, gc=False):
    """An object is gone; the item is its last state, with the version of its deletion."""

    item: Item[K_co]


Event = Init | InitApply[K] | InitDone | Apply[K] | Delete[K]
"""One thing that a watch tells."""

Told = Event[K] | Kept
"""What a cache is told: between `Init` and `InitDone` an object as it is kept stands for its `InitApply`, else for its
`Apply`."""
