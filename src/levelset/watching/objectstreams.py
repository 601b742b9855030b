"""Streams of objects: typed, filtered by what has changed, or as references."""

from collections.abc import AsyncIterator
from typing import Any, TypeVar

from levelset.aio import timing
from levelset.aio.pump import close
from levelset.aio.streams import Stream
from levelset.client.kinds import Item
from levelset.errors import Malformed
from levelset.objects.identity import Ref
from levelset.watching.batches import Touch
from levelset.watching.memory import Memory
from levelset.watching.predicates import Predicate, any_of, by
from levelset.watching.troubles import Complaints, OnTrouble, Trouble

__all__ = ["ObjectStream"]

K = TypeVar("K")


class ObjectStream(Stream[K]):
    """The objects that a watch tells of, one by one and decoded; one that its class cannot read is told and left out.

    `items` and `refs` decode nothing, so they leave nothing out.
    """

    def __init__(self, touches: AsyncIterator[Touch], on_trouble: OnTrouble | None = None) -> None:
        self._touches = touches
        self._on_trouble: OnTrouble = Complaints() if on_trouble is None else on_trouble
        super().__init__(_Decoded(touches, self._on_trouble))

    def changed(self, *predicates: Predicate, memory: float = 3600.0) -> "ObjectStream[K]":
        """Only what has changed by at least one of the predicates (none: by its version) since it was last seen.

        What goes always passes, and is forgotten; what was not seen for `memory` seconds passes as if it were new. A
        watch that begins again does not make old objects new.
        """
        judge = any_of(*(predicates or (by.resource_version,)))
        return ObjectStream(_Changed(self._touches, Memory(judge, memory)), self._on_trouble)

    def items(self) -> Stream[Item[K]]:
        """The same as items: the head at once, the object when it is asked for."""
        return Stream(self._touches).map(_item)

    def refs(self) -> Stream[Ref[K]]:
        """The references to the objects."""
        return Stream(self._touches).map(_ref)


class _Changed(AsyncIterator[Touch]):
    """What has changed since it was last seen."""

    def __init__(self, source: AsyncIterator[Touch], memory: Memory) -> None:
        self._source = source
        self._memory = memory

    async def __anext__(self) -> Touch:
        while True:
            touch = await anext(self._source)
            if touch.is_gone:
                self._memory.forget(touch.item)
                return touch
            if self._memory.passes(touch.item, timing.now()):
                return touch

    async def aclose(self) -> None:
        await close(self._source)


class _Decoded(AsyncIterator[K]):
    """The objects themselves."""

    def __init__(self, source: AsyncIterator[Touch], on_trouble: OnTrouble) -> None:
        self._source = source
        self._on_trouble = on_trouble

    async def __anext__(self) -> K:
        while True:
            item: Item[K] = (await anext(self._source)).item
            try:
                return item.object
            except Malformed as error:
                head = item.kept
                self._on_trouble(Trouble(error=error, gvk=item.view.gvk, namespace=head.namespace, name=head.name))

    async def aclose(self) -> None:
        await close(self._source)


def _item(touch: Touch) -> Item[Any]:
    return touch.item


def _ref(touch: Touch) -> Ref[Any]:
    return touch.item.ref
