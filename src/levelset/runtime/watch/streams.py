"""Watches as async streams: events, objects, filtered objects, references.

```python
sites = watch(client, Website).modify(without_fields("status")).reflect(writer).applied().changed(by.generation).refs()
async with sites:
    async for ref in sites:
        ...
```

`watch` opens an `EventStream`; `applied` and `touched` turn it into an `ObjectStream`, and `changed` filters that by
predicates. All of them are async iterables for one reader and close as a `levelset.aio.Stream` does: each owns its
source. Inside, events travel in batches, as they arrive; the stages have `aclose`, which closes the stage before.
"""

from abc import abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from functools import partial
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, Unpack, cast, overload

import msgspec

from levelset.aio import timing
from levelset.aio.backoff import Backoff
from levelset.aio.streams import Stream, close_source
from levelset.client.client import Client
from levelset.client.lists import Transform
from levelset.client.object_types import Item, Kind, OnlyMetadata
from levelset.errors import ConfigError, Malformed
from levelset.objects.cached_object import decode_cached
from levelset.objects.ref import GroupVersionKind, Ref
from levelset.objects.resource import PartialObjectMetadata
from levelset.objects.unstructured import Unstructured
from levelset.runtime.watch.events import Apply, Delete, Event, Init, InitApply, InitDone
from levelset.runtime.watch.predicates import Predicate, any_of, by
from levelset.runtime.watch.transforms import compose_transforms
from levelset.runtime.watch.watcher import ErrorLogger, OnError, Watcher, WatchError, WatchOptions

__all__ = [
    "EventBatches",
    "EventStream",
    "EventWriter",
    "FlatEvents",
    "ObjectEvent",
    "ObjectEvents",
    "ObjectStream",
    "ReflectedBatches",
    "SeenObjects",
    "SingleEventBatches",
    "WatchBatches",
    "watch",
]

T = TypeVar("T")
K = TypeVar("K")
K_contra = TypeVar("K_contra", contravariant=True)

EventBatches = AsyncIterator[Sequence[Event[K]]]
"""Batches of events, as they arrive."""


class EventWriter(Protocol[K_contra]):
    """What stores the objects of a watch, such as the `Writer` of a store."""

    def apply(self, events: Sequence[Event[K_contra]], /) -> object:
        """Applies the events, in order."""
        ...


class ObjectEvent(NamedTuple):
    """An object that exists, was added, modified or deleted."""

    item: Item[Any]
    is_gone: bool


class WatchBatches(AsyncIterator[Sequence[Event[K]]]):
    """The batches of a watcher, which can be recreated with other options until the first read."""

    def __init__(self, client: Client, kind: Kind[K], options: WatchOptions) -> None:
        self.options = options
        self.has_begun = False
        self._client, self._kind = client, kind
        self._watcher: Watcher[K] = Watcher(client, kind, **options)

    def with_options(self, options: WatchOptions) -> "WatchBatches[K]":
        """The same watch with other options."""
        return WatchBatches(self._client, self._kind, options)

    async def __anext__(self) -> Sequence[Event[K]]:
        self.has_begun = True
        return await self._watcher.__anext__()

    async def aclose(self) -> None:
        """Ends the watch."""
        await self._watcher.aclose()


class SingleEventBatches(AsyncIterator[Sequence[Event[K]]]):
    """The events of another stream, each as a batch of its own."""

    def __init__(self, source: AsyncIterator[Event[K]]) -> None:
        self._source = source

    async def __anext__(self) -> Sequence[Event[K]]:
        return (await anext(self._source),)

    async def aclose(self) -> None:
        """Closes the source."""
        await close_source(self._source)


class ReflectedBatches(AsyncIterator[Sequence[Event[K]]]):
    """Batches that are applied to a writer before they are passed on."""

    def __init__(self, source: EventBatches[K], writer: EventWriter[K]) -> None:
        self._source = source
        self._writer = writer

    async def __anext__(self) -> Sequence[Event[K]]:
        batch = await anext(self._source)
        self._writer.apply(batch)
        return batch

    async def aclose(self) -> None:
        """Closes the source; the writer belongs to the caller."""
        await close_source(self._source)


class _Flattened(AsyncIterator[T], Generic[T, K]):
    """The elements of batches, one by one, after `take` has converted each batch."""

    def __init__(self, source: EventBatches[K]) -> None:
        self.source = source
        self._taken: list[T] = []  # reversed, so that the next element is popped from the end

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
        await close_source(self.source)


class FlatEvents(_Flattened[Event[K], K]):
    """The events one by one."""

    def take(self, batch: Sequence[Event[K]]) -> list[Event[K]]:
        """All events of the batch."""
        return list(batch)


class ObjectEvents(_Flattened[ObjectEvent, K]):
    """The objects of the events, one by one."""

    def __init__(self, source: EventBatches[K], *, has_deletes: bool) -> None:
        super().__init__(source)
        self._has_deletes = has_deletes

    def take(self, batch: Sequence[Event[K]]) -> list[ObjectEvent]:
        """The existing, added and modified objects, and with `has_deletes` the deleted ones."""
        found: list[ObjectEvent] = []
        for event in batch:
            match event:
                case InitApply(item) | Apply(item):
                    found.append(ObjectEvent(item, is_gone=False))
                case Delete(item) if self._has_deletes:
                    found.append(ObjectEvent(item, is_gone=True))
                case Delete() | Init() | InitDone():
                    pass
        return found


_Key = tuple[object, str | None, str, str]


class SeenObjects:
    """Applies a predicate to each object and its last trace.

    An object is identified by kind, namespace, name and uid: one that was deleted and recreated is another. A trace
    expires `limit` seconds after it was last seen, so that objects whose deletion was missed do not stay for ever. A
    relist passes nothing that has not changed.
    """

    def __init__(self, predicate: Predicate, limit: float) -> None:
        if not limit > 0:
            raise ConfigError(f"memory={limit!r}: must be a positive number of seconds")
        self._predicate = predicate
        self._limit = limit
        self._seen: dict[_Key, tuple[Any, float]] = {}
        self._swept: float | None = None

    def __len__(self) -> int:
        return len(self._seen)

    def passes(self, item: Item[Any], now: float) -> bool:
        """Whether this state of the object passes the predicate; its trace is stored either way."""
        self._sweep(now)
        key = _key(item)
        found = self._seen.get(key)
        trace = self._predicate.trace(item)
        before = None if found is None or now - found[1] >= self._limit else found[0]
        self._seen[key] = trace, now
        return self._predicate.differs(before, trace)

    def forget(self, item: Item[Any]) -> None:
        """Removes the trace of a deleted object."""
        self._seen.pop(_key(item), None)

    def _sweep(self, now: float) -> None:
        if self._swept is None:
            self._swept = now
        if now - self._swept < self._limit:
            return
        self._swept = now
        self._seen = {key: found for key, found in self._seen.items() if now - found[1] < self._limit}


def _key(item: Item[Any]) -> _Key:
    head = item.cached
    return item.view.gvk, head.namespace, head.name, head.uid


class ObjectStream(Stream[K]):
    """The objects of a watch, decoded one by one; an object that its class cannot decode is reported and skipped.

    `items` and `refs` decode nothing, so they skip nothing.
    """

    def __init__(self, events: AsyncIterator[ObjectEvent], on_error: OnError | None = None) -> None:
        self._events = events
        self._on_error: OnError = ErrorLogger() if on_error is None else on_error
        super().__init__(_Decoded(events, self._on_error))

    def changed(self, *predicates: Predicate, memory: float = 3600.0) -> "ObjectStream[K]":
        """Only objects that changed by at least one of the predicates (default: by resourceVersion).

        Deleted objects always pass. An object that was not seen for `memory` seconds passes as if it were new; a relist
        does not make known objects new.
        """
        predicate = any_of(*(predicates or (by.resource_version,)))
        return ObjectStream(_Changed(self._events, SeenObjects(predicate, memory)), self._on_error)

    def items(self) -> Stream[Item[K]]:
        """The same objects as items: the head at once, the object decoded on access."""
        return Stream(self._events).map(_item)

    def refs(self) -> Stream[Ref[K]]:
        """The references to the objects."""
        return Stream(self._events).map(_ref)


class _Changed(AsyncIterator[ObjectEvent]):
    """The objects that changed since they were last seen."""

    def __init__(self, source: AsyncIterator[ObjectEvent], seen: SeenObjects) -> None:
        self._source = source
        self._seen = seen

    async def __anext__(self) -> ObjectEvent:
        while True:
            event = await anext(self._source)
            if event.is_gone:
                self._seen.forget(event.item)
                return event
            if self._seen.passes(event.item, timing.now()):
                return event

    async def aclose(self) -> None:
        await close_source(self._source)


class _Decoded(AsyncIterator[K]):
    """The decoded objects; those that cannot be decoded are reported."""

    def __init__(self, source: AsyncIterator[ObjectEvent], on_error: OnError) -> None:
        self._source = source
        self._on_error = on_error

    async def __anext__(self) -> K:
        while True:
            item: Item[K] = (await anext(self._source)).item
            try:
                return item.object
            except Malformed as error:
                head = item.cached
                self._on_error(WatchError(error=error, gvk=item.view.gvk, namespace=head.namespace, name=head.name))

    async def aclose(self) -> None:
        await close_source(self._source)


def _item(event: ObjectEvent) -> Item[Any]:
    return event.item


def _ref(event: ObjectEvent) -> Ref[Any]:
    return event.item.ref


@overload
def watch(client: Client, kind: type[K], **options: Unpack[WatchOptions]) -> "EventStream[K]": ...
@overload
def watch(client: Client, kind: GroupVersionKind, **options: Unpack[WatchOptions]) -> "EventStream[Unstructured]": ...
@overload
def watch(
    client: Client, kind: OnlyMetadata, **options: Unpack[WatchOptions]
) -> "EventStream[PartialObjectMetadata]": ...
def watch(client: Client, kind: Kind[Any], **options: Unpack[WatchOptions]) -> "EventStream[Any]":
    """An endless stream of the events of a kind: first the existing objects, then the changes.

    The options are those of `Watcher`. No request is sent before the first read. The watch recovers from errors by
    itself and reports them to `on_error`.
    """
    return EventStream(FlatEvents(WatchBatches(client, kind, options)), on_error=options.get("on_error"))


class EventStream(Stream[Event[K]]):
    """Events one by one, from `watch` or any other async iterable of events."""

    def __init__(self, source: AsyncIterable[Event[K]], *, on_error: OnError | None = None) -> None:
        flat = (
            cast("FlatEvents[K]", source)
            if isinstance(source, FlatEvents)
            else FlatEvents(SingleEventBatches(aiter(source)))
        )
        super().__init__(flat)
        self._batches: EventBatches[K] = flat.source
        self._on_error = on_error

    def backoff(self, policy: Backoff) -> "EventStream[K]":
        """The same watch with this backoff policy for retries; ConfigError except directly after `watch`."""
        watched = self._fresh()
        if watched is None:
            raise ConfigError("backoff(...) configures the watch: call it directly after watch(...)")
        return self._with_options(watched, {**watched.options, "backoff": policy})

    def modify(self, transform: Transform) -> "EventStream[K]":
        """The same events, with the JSON of each object transformed.

        Directly after `watch` the transform is part of the watch, so each object is decoded once; several are applied
        in order. On other streams each object is decoded again.
        """
        watched = self._fresh()
        if watched is None:
            return EventStream(self.map(partial(_modified, transform)))
        before = watched.options.get("transform")
        both = compose_transforms([transform] if before is None else [before, transform])
        return self._with_options(watched, {**watched.options, "transform": both})

    def reflect(self, writer: EventWriter[K]) -> "EventStream[K]":
        """The same events, each batch applied to a writer first: an event is in the store before it is yielded."""
        return EventStream(FlatEvents(ReflectedBatches(self._batches, writer)), on_error=self._on_error)

    def applied(self) -> ObjectStream[K]:
        """The existing, added and modified objects; not the deleted ones."""
        return ObjectStream(ObjectEvents(self._batches, has_deletes=False), self._on_error)

    def touched(self) -> ObjectStream[K]:
        """The existing, added, modified and deleted objects."""
        return ObjectStream(ObjectEvents(self._batches, has_deletes=True), self._on_error)

    def _fresh(self) -> WatchBatches[K] | None:
        """The watch behind the stream, if it has not been read yet."""
        batches: object = self._batches
        if not isinstance(batches, WatchBatches):
            return None
        watched = cast("WatchBatches[K]", batches)
        return None if watched.has_begun else watched

    def _with_options(self, watched: WatchBatches[K], options: WatchOptions) -> "EventStream[K]":
        return EventStream(FlatEvents(watched.with_options(options)), on_error=self._on_error)


def _modified(transform: Transform, event: Event[K]) -> Event[K]:
    match event:
        case Init() | InitDone():
            return event
        case InitApply(item) | Apply(item) | Delete(item):
            return msgspec.structs.replace(event, item=Item(decode_cached(transform(item.cached.raw)), item.view))
