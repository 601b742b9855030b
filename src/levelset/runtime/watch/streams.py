"""Watches as streams: single events, then objects, then only those that matter, then references to them.

```python
sites = watch(client, Website).modify(without_fields("status")).reflect(writer).applied().changed(by.generation).refs()
async with sites:
    async for ref in sites:
        ...
```

All of them are ordinary async iterables for one reader, and close as a `levelset.aio.Stream` does: each owns what it
was made of.

The stages that streams of events are made of; they hand on batches, since that is how events come.

As the stages of `levelset.aio.streams`, each has `aclose` and closes the one before it; the stream around them sees to
it that this happens exactly when the reading is over.

Remembers what was last seen of each object, so that what has not changed need not be looked at again.

Streams of objects: typed, filtered by what has changed, or as references.
"""

from abc import abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from functools import partial
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, Unpack, cast, overload

import msgspec

from levelset.aio import timing
from levelset.aio.backoff import Backoff
from levelset.aio.streams import Stream, close
from levelset.client.client import Reading
from levelset.client.lists import Transform
from levelset.client.object_types import Item, Kind, OnlyMetadata
from levelset.errors import ConfigError, Malformed
from levelset.objects.cached_object import keep
from levelset.objects.ref import GroupVersionKind, Ref
from levelset.objects.resource import PartialObjectMetadata
from levelset.objects.unstructured import Unstructured
from levelset.runtime.watch.events import Apply, Delete, Event, Init, InitApply, InitDone
from levelset.runtime.watch.predicates import Predicate, any_of, by
from levelset.runtime.watch.transforms import composed
from levelset.runtime.watch.watcher import Complaints, OnTrouble, Trouble, Watcher, WatchOptions

__all__ = [
    "Batches",
    "EventStream",
    "Flat",
    "Memory",
    "ObjectStream",
    "Reflected",
    "Reflects",
    "Single",
    "Touch",
    "Touches",
    "Watched",
    "watch",
]

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


_Key = tuple[object, str | None, str, str]


class Memory:
    """Judges changes by a predicate against the last trace of the same object.

    An object is the same if kind, namespace, name and uid are: one that was deleted and made again is another. What was
    not seen for `limit` seconds is forgotten, so that objects whose end nobody told do not stay for ever. A watch that
    begins again changes nothing: a list of what is known already passes nothing.
    """

    def __init__(self, predicate: Predicate, limit: float) -> None:
        if not limit > 0:
            raise ConfigError(f"memory={limit!r}: objects must be remembered for a positive number of seconds")
        self._predicate = predicate
        self._limit = limit
        self._seen: dict[_Key, tuple[Any, float]] = {}
        self._swept: float | None = None

    def __len__(self) -> int:
        return len(self._seen)

    def passes(self, item: Item[Any], now: float) -> bool:
        """Whether this state of the object matters; it is remembered either way."""
        self._sweep(now)
        key = _key(item)
        found = self._seen.get(key)
        trace = self._predicate.trace(item)
        before = None if found is None or now - found[1] >= self._limit else found[0]
        self._seen[key] = trace, now
        return self._predicate.differs(before, trace)

    def forget(self, item: Item[Any]) -> None:
        """The object is gone."""
        self._seen.pop(_key(item), None)

    def _sweep(self, now: float) -> None:
        if self._swept is None:
            self._swept = now
        if now - self._swept < self._limit:
            return
        self._swept = now
        self._seen = {key: found for key, found in self._seen.items() if now - found[1] < self._limit}


def _key(item: Item[Any]) -> _Key:
    head = item.kept
    return item.view.gvk, head.namespace, head.name, head.uid


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


@overload
def watch(client: Reading, kind: type[K], **options: Unpack[WatchOptions]) -> "EventStream[K]": ...
@overload
def watch(client: Reading, kind: GroupVersionKind, **options: Unpack[WatchOptions]) -> "EventStream[Unstructured]": ...
@overload
def watch(
    client: Reading, kind: OnlyMetadata, **options: Unpack[WatchOptions]
) -> "EventStream[PartialObjectMetadata]": ...
def watch(client: Reading, kind: Kind[Any], **options: Unpack[WatchOptions]) -> "EventStream[Any]":
    """Everything about the objects of a kind, for ever: first what is there, then what changes.

    The options are those of `Watcher`. Nothing is asked before somebody reads; what goes wrong heals by itself, and is
    told to `on_trouble`.
    """
    return EventStream(Flat(Watched(client, kind, options)), on_trouble=options.get("on_trouble"))


class EventStream(Stream[Event[K]]):
    """Events one by one; any async iterable of events will do as a source."""

    def __init__(self, source: AsyncIterable[Event[K]], *, on_trouble: OnTrouble | None = None) -> None:
        flat = cast("Flat[K]", source) if isinstance(source, Flat) else Flat(Single(aiter(source)))
        super().__init__(flat)
        self._batches: Batches[K] = flat.source
        self._on_trouble = on_trouble

    def backoff(self, policy: Backoff) -> "EventStream[K]":
        """The same watch, which waits by this policy before it tries again; ConfigError except right after `watch`."""
        watched = self._fresh()
        if watched is None:
            raise ConfigError("backoff(...) is about how to watch: say it right after watch(...)")
        return self._remade(watched, {**watched.options, "backoff": policy})

    def modify(self, transform: Transform) -> "EventStream[K]":
        """The same events, with the JSON of each object changed.

        Right after `watch` this is a part of reading, so that each object is read once; several are done in their
        order. On other streams each object is read again.
        """
        watched = self._fresh()
        if watched is None:
            return EventStream(self.map(partial(_modified, transform)))
        before = watched.options.get("transform")
        both = composed([transform] if before is None else [before, transform])
        return self._remade(watched, {**watched.options, "transform": both})

    def reflect(self, writer: Reflects[K]) -> "EventStream[K]":
        """The same events, each batch of them given to a writer first: who sees an event finds it in the store."""
        return EventStream(Flat(Reflected(self._batches, writer)), on_trouble=self._on_trouble)

    def applied(self) -> ObjectStream[K]:
        """The objects that are there, come or change; not those that go."""
        return ObjectStream(Touches(self._batches, has_deletes=False), self._on_trouble)

    def touched(self) -> ObjectStream[K]:
        """The objects that are there, come, change or go."""
        return ObjectStream(Touches(self._batches, has_deletes=True), self._on_trouble)

    def _fresh(self) -> Watched[K] | None:
        """The watch behind the stream, if nothing has come of it yet."""
        batches: object = self._batches
        if not isinstance(batches, Watched):
            return None
        watched = cast("Watched[K]", batches)
        return None if watched.has_begun else watched

    def _remade(self, watched: Watched[K], options: WatchOptions) -> "EventStream[K]":
        return EventStream(Flat(watched.remade(options)), on_trouble=self._on_trouble)


def _modified(transform: Transform, event: Event[K]) -> Event[K]:
    match event:
        case Init() | InitDone():
            return event
        case InitApply(item) | Apply(item) | Delete(item):
            return msgspec.structs.replace(event, item=Item(keep(transform(item.kept.raw)), item.view))
