"""Watches as streams: single events, then objects, then only those that matter, then references to them.

```python
sites = watch(client, Website).modify(without_fields("status")).reflect(writer).applied().changed(by.generation).refs()
async with sites:
    async for ref in sites:
        ...
```

All of them are ordinary async iterables for one reader, and close as a `levelset.aio.Stream` does: each owns what it
was made of.
"""

from collections.abc import AsyncIterable
from functools import partial
from typing import Any, TypeVar, Unpack, cast, overload

import msgspec

from levelset.aio.backoff import Backoff
from levelset.aio.streams import Stream
from levelset.client.keeping import Transform
from levelset.client.kinds import Item, Kind, OnlyMetadata
from levelset.client.reading import Reading
from levelset.errors import ConfigError
from levelset.objects.identity import GroupVersionKind
from levelset.objects.kept import keep
from levelset.objects.resource import PartialObjectMetadata
from levelset.objects.unstructured import Unstructured
from levelset.watching.batches import Batches, Flat, Reflected, Reflects, Single, Touches, Watched
from levelset.watching.events import Apply, Delete, Event, Init, InitApply, InitDone
from levelset.watching.objectstreams import ObjectStream
from levelset.watching.transforms import composed
from levelset.watching.troubles import OnTrouble
from levelset.watching.watcher import WatchOptions

__all__ = ["EventStream", "watch"]

K = TypeVar("K")


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
