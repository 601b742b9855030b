"""The stages that streams of events are made of; they hand on batches, since that is how events come.

As the stages of `levelset.aio.stages`, each has `aclose` and closes the one before it; the stream around them sees to
it that this happens exactly when the reading is over.
"""

from abc import abstractmethod
from collections.abc import AsyncIterator, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from levelset.aio.pump import close
from levelset.client.kinds import Item, Kind
from levelset.client.reading import Reading
from levelset.watching.events import Apply, Delete, Event, Init, InitApply, InitDone
from levelset.watching.watcher import Watcher, WatchOptions

__all__ = ["Batches", "Flat", "Reflected", "Reflects", "Single", "Touch", "Touches", "Watched"]

T = TypeVar("T")
K = TypeVar("K")
K_contra = TypeVar("K_contra", contravariant=True)

Batches = AsyncIterator[Sequence[Event[K]]]
"""Events as they come."""


class Reflects(Protocol[K_contra]):
    """What keeps the objects that a watch tells of, such as the writer of a store."""

    def apply(self, events: Sequence[Event[K_contra]], /) -> object:
        """Takes events in, in their order."""
        ...


class Touch(NamedTuple):
    """An object that is there, came, changed or went."""

    item: Item[Any]
    is_gone: bool


class Watched(AsyncIterator[Sequence[Event[K]]]):
    """The batches of a watcher, which can be made anew with other options until the reading has begun."""

    def __init__(self, client: Reading, kind: Kind[K], options: WatchOptions) -> None:
        self.options = options
        self.has_begun = False
        self._client, self._kind = client, kind
        self._watcher: Watcher[K] = Watcher(client, kind, **options)

    def remade(self, options: WatchOptions) -> "Watched[K]":
        """The same with other options."""
        return Watched(self._client, self._kind, options)

    async def __anext__(self) -> Sequence[Event[K]]:
        self.has_begun = True
        return await self._watcher.__anext__()

    async def aclose(self) -> None:
        """Ends the watch."""
        await self._watcher.aclose()


class Single(AsyncIterator[Sequence[Event[K]]]):
    """Events from anywhere, each as a batch of its own."""

    def __init__(self, source: AsyncIterator[Event[K]]) -> None:
        self._source = source

    async def __anext__(self) -> Sequence[Event[K]]:
        return (await anext(self._source),)

    async def aclose(self) -> None:
        """Closes the source."""
        await close(self._source)


class Reflected(AsyncIterator[Sequence[Event[K]]]):
    """Batches that a writer has taken in before they are handed on."""

    def __init__(self, source: Batches[K], writer: Reflects[K]) -> None:
        self._source = source
        self._writer = writer

    async def __anext__(self) -> Sequence[Event[K]]:
        batch = await anext(self._source)
        self._writer.apply(batch)
        return batch

    async def aclose(self) -> None:
        """Closes the source; the writer stays the caller's."""
        await close(self._source)


class _Each(AsyncIterator[T], Generic[T, K]):
    """What each event becomes, one by one."""

    def __init__(self, source: Batches[K]) -> None:
        self.source = source
        self._taken: list[T] = []

    @abstractmethod
    def take(self, batch: Sequence[Event[K]]) -> list[T]: ...

    async def __anext__(self) -> T:
        while not self._taken:
            self._taken = self.take(await anext(self.source))
            self._taken.reverse()
        return self._taken.pop()

    async def aclose(self) -> None:
        """Closes the source."""
        self._taken.clear()
        await close(self.source)


class Flat(_Each[Event[K], K]):
    """The events themselves."""

    def take(self, batch: Sequence[Event[K]]) -> list[Event[K]]:
        """All of them."""
        return list(batch)


class Touches(_Each[Touch, K]):
    """The objects that events are about."""

    def __init__(self, source: Batches[K], *, has_deletes: bool) -> None:
        super().__init__(source)
        self._has_deletes = has_deletes

    def take(self, batch: Sequence[Event[K]]) -> list[Touch]:
        """Those that are there or come, and those that go if they are wanted."""
        found: list[Touch] = []
        for event in batch:
            match event:
                case InitApply(item) | Apply(item):
                    found.append(Touch(item, is_gone=False))
                case Delete(item) if self._has_deletes:
                    found.append(Touch(item, is_gone=True))
                case Delete() | Init() | InitDone():
                    pass
        return found
