"""The watch verb: parses the options, opens the event stream over HTTP or a WebSocket, and sends the events.

- Watchers with the same options share one storage watch, one encoding and one push: a `Topic` is what a watcher
  requests, a `Feed` the group of watchers of one topic; `Feeds` has all of a server.
- `Encoder` turns a committed change into the bytes of an event, once per topic, however many watchers there are.
- `InitialEvents` sends a new watcher what it has not seen, before it joins its feed: the current objects as of one
  revision, or the changes since its revision. Many objects are sent in slices, no faster than the client reads, and
  with other work of the event loop in between. What changes meanwhile follows from the history: no gaps, no duplicates.
- Writes push events into the sinks and never wait for a watcher. A client that does not read is disconnected when too
  many bytes are queued for it; it can resume from its last resourceVersion. Bookmarks carry the revision that was sent.
- `ConvertedWatch` serves kinds with a conversion webhook: a task per watch awaits one webhook call per batch. If a
  conversion fails, the watch ends with an ERROR event, as in Kubernetes, and the client relists.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from functools import partial
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from levelset.aio import timing
from levelset.apiserver.registry import conversion_webhook
from levelset.apiserver.registry.selectors import NOTHING, Selectors, read_selectors
from levelset.apiserver.registry.storage_codec import served_bytes, served_tree, set_resource_version
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.schema import field_errors
from levelset.apiserver.verbs import response_format
from levelset.apiserver.verbs.get_and_list import parse_cached_revision, wait_revision
from levelset.apiserver.verbs.response_format import Representation
from levelset.apiserver.wire.request_options import is_true, read_list_numbers
from levelset.apiserver.wire.status_errors import invalid_options, status_tree
from levelset.errors import ApiError, Cause, Expired
from levelset.http import Request, Response, Sink, WebSocket, accept_websocket, is_websocket
from levelset.objects import encode_tree
from levelset.storage import Change, FutureRevision, Item, NowaitReader, NowaitWatch, Page

__all__ = [
    "ConvertedWatch",
    "Encoder",
    "Feed",
    "Feeds",
    "InitialEvents",
    "Topic",
    "WatchQuery",
    "Watcher",
    "WebSocketSink",
    "error_event",
    "feeds_of",
    "parse_watch_options",
    "watch",
]

log = logging.getLogger(__name__)

_INITIAL_END: Final = "k8s.io/initial-events-end"
_KINDS: Final = ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR")
_EVENT_STARTS: Final = {kind: f'{{"type":"{kind}","object":'.encode() for kind in _KINDS}
"""The first bytes of an event, by its type."""
_MAX_SLICE_EVENTS: Final = 250
_MAX_SLICE_ROWS: Final = 100  # rendering a row is many times slower than sending stored bytes
_MAX_SLICE_BYTES: Final = 256 * 1024
_CONVERSION_BATCH: Final = 250
_BOOKMARK_SECONDS: Final = 60.0
_MANY_WATCHERS: Final = 32
_PAUSE_PER_WATCHER: Final = 0.0001  # a write with encryption takes 10 to 50 us
_LONGEST_PAUSE_SECONDS: Final = 0.025
_MAX_BACKLOG_BYTES: Final = 8 * 1024 * 1024

_Events = Generator[bytes, None, None]


class Topic(msgspec.Struct, frozen=True):
    """The options of a watch; watchers with equal topics get the same bytes."""

    served: ServedResource
    namespace: str | None
    selection: Selectors | None
    form: Representation | None = None

    @property
    def prefix(self) -> str:
        """The storage prefix of all objects that may match."""
        name = None if self.selection is None else self.selection.name
        if name and (self.namespace or not self.served.namespaced):
            return self.served.key(self.namespace, name)
        return self.served.prefix_in(self.namespace)


class Encoder:
    """Encodes changes as the events of one topic."""

    __slots__ = ("_is_plain", "_now", "_object", "_selection", "_served", "_topic", "is_table")

    def __init__(self, topic: Topic, now: Callable[[], datetime]) -> None:
        self._topic = topic
        self._served = topic.served
        self._selection = topic.selection
        self._now = now
        self.is_table = topic.form is not None and topic.form.kind == response_format.TABLE
        self._is_plain = topic.form is None
        self._object = served_bytes if topic.form is None else self._metadata

    def change(self, change: Change, *, with_header: bool = False) -> bytes | None:
        """Returns the event of a change; None if the topic does not include it."""
        before, after = change.before, change.after
        if self._selection is not None:
            before = before if self._matches(before) else None
            after = after if self._matches(after) else None
        if after is not None:
            kind = "ADDED" if before is None else "MODIFIED"
            if self._is_plain:  # inlined `_event`
                return b"%b%b}\n" % (_EVENT_STARTS[kind], served_bytes(self._served, after))
            return self._event(kind, after, with_header=with_header)
        # The last state with the resourceVersion of the deletion, so that the client can resume from there.
        if before is None:
            return None
        return self._event("DELETED", before, revision=change.revision, with_header=with_header)

    def added(self, item: Item, *, with_header: bool = False) -> bytes | None:
        """Returns the ADDED event of an existing object; None if the selector does not match it."""
        return (
            self._event("ADDED", item, with_header=with_header)
            if self._selection is None or self._matches(item)
            else None
        )

    def bookmark(self, revision: int, *, ends_initial: bool = False, with_header: bool = False) -> bytes:
        """Returns a BOOKMARK: everything up to this revision was sent."""
        served = self._served
        metadata: Object = {"resourceVersion": str(revision)}
        if ends_initial:
            metadata["annotations"] = {_INITIAL_END: "true"}
        tree: Object = {"kind": served.kind, "apiVersion": served.api_version, "metadata": metadata}
        rendered = self._table(tree, with_header=with_header) if self.is_table else self._represented(tree)
        return _line("BOOKMARK", encode_tree(rendered))

    def _matches(self, item: Item | None) -> bool:
        selection = self._selection
        return item is not None and selection is not None and selection.matches(self._served, item)

    def _event(self, kind: str, item: Item, *, revision: int | None = None, with_header: bool = False) -> bytes:
        if self.is_table:
            tree = served_tree(self._served, item)
            return _line(kind, encode_tree(self._table(_at(tree, revision), with_header=with_header)))
        if revision is None:
            return _line(kind, self._object(self._served, item))
        if item.revision < self._served.since:
            # An old object is converted according to its own revision, not that of its deletion.
            return _line(
                kind, encode_tree(self._represented(set_resource_version(served_tree(self._served, item), revision)))
            )
        return _line(kind, self._object(self._served, replace(item, revision=revision)))

    def _represented(self, tree: Object) -> Object:
        form = self._topic.form
        return tree if form is None else response_format.to_metadata(tree, form.api_version)

    def _metadata(self, served: ServedResource, item: Item) -> bytes:
        form = self._topic.form
        assert form is not None  # otherwise `served_bytes` is used
        return response_format.metadata_bytes(served, item, form.api_version)

    def _table(self, tree: Object, *, with_header: bool) -> Object:
        form = self._topic.form
        assert form is not None  # as above
        return response_format.render_table(self._served, form, tree, now=self._now(), with_header=with_header)


def error_event(error: ApiError) -> bytes:
    """Returns the ERROR event that ends a watch."""
    return _line("ERROR", encode_tree(status_tree(error)))


def _at(tree: Any, revision: int | None) -> Any:
    return tree if revision is None else set_resource_version(tree, revision)


def _line(kind: str, data: bytes) -> bytes:
    return b"%b%b}\n" % (_EVENT_STARTS[kind], data)


class InitialEvents:
    """The events up to now for one sink: the current objects, or all changes after a revision.

    Constructor and `send` raise `Expired` if changes that were not sent yet are compacted.
    """

    __slots__ = ("_encoder", "_events", "_reader", "_size", "has_header", "sink", "topic")

    def __init__(
        self,
        reader: NowaitReader,
        topic: Topic,
        encoder: Encoder,
        sink: Sink,
        *,
        after: int | None,
        ends_initial: bool = False,
    ) -> None:
        self.topic = topic
        self.sink = sink
        self.has_header = False
        """Whether the column definitions of a table were sent, with the first event."""
        self._reader = reader
        self._encoder = encoder
        self._size = _MAX_SLICE_ROWS if encoder.is_table else _MAX_SLICE_EVENTS
        if after is None:
            self._events = self._current(reader.list_nowait(topic.prefix), ends_initial=ends_initial)
        else:
            self._events = self._changes(reader.watch(topic.prefix, after=after))

    def send(self) -> bool:
        """Sends the next slice; returns whether it was the last, and everything up to now has been sent."""
        events: list[bytes] = []
        size, is_last = 0, True
        try:
            for number, event in enumerate(self._events, 1):
                events.append(event)
                size += len(event)
                if number >= self._size or size >= _MAX_SLICE_BYTES:
                    is_last = False
                    break
        finally:
            if size:
                self.sink.write(b"".join(events))
        return is_last

    def close(self) -> None:
        """Closes the storage watch."""
        self._events.close()

    def _current(self, page: Page, *, ends_initial: bool) -> _Events:
        for item in page.items:
            yield self._count(self._encoder.added(item, with_header=not self.has_header))
        if ends_initial:
            yield self._count(self._encoder.bookmark(page.revision, ends_initial=True, with_header=not self.has_header))
        # For a small kind this is still the revision of the page, and the history is empty.
        yield from self._changes(self._reader.watch(self.topic.prefix, after=page.revision))

    def _changes(self, history: NowaitWatch) -> _Events:
        try:
            while batch := history.batch_nowait():
                for change in batch:
                    yield self._count(self._encoder.change(change, with_header=not self.has_header))
        finally:
            history.close_nowait()

    def _count(self, event: bytes | None) -> bytes:
        """Returns the event, or empty bytes for an object that does not match: it counts for the slice too."""
        self.has_header = self.has_header or event is not None
        return event or b""


class ConvertedWatch:
    """One open watch of a kind with a conversion webhook; `run` sends its events until its sink is closed."""

    def __init__(self, state: ServerState, topic: Topic, sink: Sink, *, after: int | None, ends_initial: bool) -> None:
        self._state = state
        self._topic = topic
        self._sink = sink
        self._after = after
        self._ends_initial = ends_initial
        self._encoder = Encoder(topic, state.now)
        self._has_header = False
        self._timer: asyncio.TimerHandle | None = None
        self._revision = after or 0

    async def run(self, *, bookmarks: bool) -> None:
        """Sends the current objects (unless the watch starts after a revision), and then every change."""
        if bookmarks:
            self._schedule_bookmark()
        try:
            await self._send_all()
        except ApiError as error:
            # Compacted history, or a failed conversion.
            self._sink.write(error_event(error))
            self._sink.close()
        finally:
            if self._timer is not None:
                self._timer.cancel()

    def send_bookmark(self) -> None:
        """Sends a bookmark at the revision up to which everything was sent."""
        if self._revision and not self._sink.is_closed:
            self._sink.write(self._encoder.bookmark(self._revision, with_header=self._takes_header()))

    async def _send_all(self) -> None:
        if self._after is None:
            page = self._state.reader.list_nowait(self._topic.prefix)
            for start in range(0, len(page.items), _CONVERSION_BATCH):
                await self._send_current(page.items[start : start + _CONVERSION_BATCH])
            self._revision = page.revision
            if self._ends_initial:
                self._sink.write(
                    self._encoder.bookmark(page.revision, ends_initial=True, with_header=self._takes_header())
                )
        async with aclosing(self._batches()) as batches:
            async for batch in batches:
                await self._send_changes(batch)
                self._revision = batch[-1].revision

    async def _batches(self) -> AsyncGenerator[Sequence[Change], None]:
        async with self._state.storage.watch(self._topic.prefix, after=self._revision) as watch:
            async for batch in watch:
                if self._sink.is_closed:
                    return
                yield batch

    async def _send_current(self, items: Sequence[Item]) -> None:
        await self._send(items, [partial(self._encoder.added, item) for item in items])

    async def _send_changes(self, batch: Sequence[Change]) -> None:
        items = [item for change in batch for item in (change.before, change.after) if item is not None]
        await self._send(items, [partial(self._encoder.change, change) for change in batch])

    async def _send(self, items: Sequence[Item], events: Sequence[Callable[..., bytes | None]]) -> None:
        if self._sink.is_backed_up:
            await self._sink.wait_drained()
        if self._sink.is_closed:
            return
        await conversion_webhook.convert_items(self._topic.served, items)
        for event in events:
            data = event(with_header=not self._has_header)
            if data is not None:
                self._has_header = True
                self._sink.write(data)

    def _takes_header(self) -> bool:
        """Returns whether the next event is the first, which has the column definitions of a table."""
        is_first, self._has_header = not self._has_header, True
        return is_first

    def _schedule_bookmark(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_BOOKMARK_SECONDS, self._send_periodic_bookmark)

    def _send_periodic_bookmark(self) -> None:
        self._schedule_bookmark()  # first: one that cannot be sent must not be the last
        self.send_bookmark()


class Watcher:
    """One open watch: its sink, its options and its timers."""

    __slots__ = ("backlog", "bookmarks", "converted", "feed", "has_header", "sink", "timers")

    def __init__(self, sink: Sink, *, bookmarks: bool = False) -> None:
        self.sink = sink
        self.bookmarks = bookmarks
        self.feed: Feed | None = None
        self.backlog = 0
        """The bytes that were written since the sink is backed up."""
        self.has_header = False
        """Whether the column definitions of a table were sent, with the first event."""
        self.timers: list[asyncio.TimerHandle | asyncio.Task[None]] = []
        """Cancelled when the watch ends."""
        self.converted: ConvertedWatch | None = None
        """Sends the events, if a webhook must convert them; then there is no feed."""

    def send_bookmark(self) -> None:
        """Sends a bookmark, if the client allows bookmarks."""
        if self.converted is not None and self.bookmarks:
            self.converted.send_bookmark()
        elif self.feed is not None and self.bookmarks and not self.sink.is_closed:
            self.feed.send_bookmark(self)

    def end(self) -> None:
        """Ends the watch with a complete response."""
        self.sink.close()

    def on_closed(self) -> None:
        """Cleans up after the sink was closed."""
        for timer in self.timers:
            timer.cancel()
        self.timers.clear()
        if self.feed is not None:
            self.feed.discard(self)
            self.feed = None


class Feed:
    """The watchers of one topic, and the revision up to which all of them have been sent everything."""

    __slots__ = (
        "_due",
        "_encoder",
        "_is_waiting",
        "_on_empty",
        "_pause",
        "_timer",
        "_watch",
        "_watchers",
        "is_closed",
        "topic",
    )

    def __init__(self, topic: Topic, encoder: Encoder, watch: NowaitWatch, on_empty: Callable[["Feed"], None]) -> None:
        self.topic = topic
        self._encoder = encoder
        self._watch = watch
        self._on_empty = on_empty
        self._watchers: dict[Watcher, None] = {}
        self._is_waiting = False
        self.is_closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._pause: asyncio.TimerHandle | None = None

    @property
    def revision(self) -> int:
        """Everything up to this revision has been sent."""
        return self._watch.revision

    @property
    def size(self) -> int:
        """The number of watchers."""
        return len(self._watchers)

    def pump(self) -> None:
        """Sends all changes since the last call to all watchers."""
        try:
            while batch := self._watch.batch_nowait():
                self._send(batch)
        except Expired as error:
            self.fail(error)
            return
        except Exception:
            # The storage calls many feeds in turn: an error in one must not affect the others.
            log.exception("watches aborted: a change cannot be encoded", extra={"prefix": self.topic.prefix})
            self.abort()
            return
        if not self._is_waiting and not self.is_closed:
            self._is_waiting = True
            self._watch.call_when_ready(self._on_ready)

    def add(self, watcher: Watcher) -> None:
        """Adds a watcher, which must have been sent everything up to `revision`."""
        watcher.feed = self
        self._watchers[watcher] = None
        if watcher.bookmarks and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_BOOKMARK_SECONDS, self._send_bookmarks)

    def discard(self, watcher: Watcher) -> None:
        """Removes a watcher; the last one closes the feed."""
        self._watchers.pop(watcher, None)
        if not self._watchers:
            self.close()

    def send_bookmark(self, watcher: Watcher) -> None:
        """Sends a bookmark to one watcher."""
        self.pump()
        if not watcher.sink.is_closed:
            watcher.sink.write(self._bookmark(watcher))

    def fail(self, error: Expired) -> None:
        """Sends an ERROR event to all watchers and ends their watches."""
        self._end(error_event(error))

    def abort(self) -> None:
        """Aborts the connections of all watchers, so that they notice the failure."""
        for watcher in tuple(self._watchers):
            watcher.sink.abort()

    def end(self) -> None:
        """Ends the watches of all watchers with complete responses."""
        self._end(b"")

    def close(self) -> None:
        """Closes the storage watch."""
        for timer in (self._timer, self._pause):
            if timer is not None:
                timer.cancel()
        self._timer = self._pause = None
        self.is_closed = True
        self._on_empty(self)
        self._watch.close_nowait()

    def _end(self, last: bytes) -> None:
        for watcher in tuple(self._watchers):
            watcher.sink.write(last)
            watcher.end()

    def _on_ready(self) -> None:
        self._is_waiting = False
        if self.is_closed:
            return
        if len(self._watchers) < _MANY_WATCHERS:
            self.pump()
        elif self._pause is None:
            loop = asyncio.get_running_loop()
            if loop.time() >= self._due:
                self._pump_many(loop)
            else:
                self._pause = loop.call_at(self._due, self._pump_many, loop)

    def _pump_many(self, loop: asyncio.AbstractEventLoop) -> None:
        """Sends to many watchers, and then not again for a while: the longer, the more there are, up to 25 ms.

        Each write to a connection costs more than the event in it: changes that follow each other closely share one.
        """
        self._pause = None
        if self.is_closed:
            return
        self.pump()
        self._due = loop.time() + min(len(self._watchers) * _PAUSE_PER_WATCHER, _LONGEST_PAUSE_SECONDS)

    def _send(self, batch: Sequence[Change]) -> None:
        encode = self._encoder.change
        events: list[bytes] = []
        first: Change | None = None
        for change in batch:
            event = encode(change)
            if event is not None:
                first = first or change
                events.append(event)
        if first is None:
            return
        data = b"".join(events)
        if self._encoder.is_table:
            self._push_tables(data, first, events)
        else:
            self._push(data, self._watchers)

    def _push(self, data: bytes, watchers: Iterable[Watcher]) -> None:
        size = len(data)
        slow: list[Watcher] = []
        for watcher in watchers:
            sink = watcher.sink
            sink.write(data)
            if sink.is_backed_up:
                watcher.backlog += size
                if watcher.backlog > _MAX_BACKLOG_BYTES:
                    slow.append(watcher)
            elif watcher.backlog:
                watcher.backlog = 0
        for watcher in slow:
            log.warning("watch aborted: its client does not read; it can resume from its last resourceVersion")
            watcher.sink.abort()

    def _push_tables(self, data: bytes, first: Change, events: list[bytes]) -> None:
        """As `_push`, with the column definitions in the first event of each watcher."""
        new = [watcher for watcher in self._watchers if not watcher.has_header]
        known = [watcher for watcher in self._watchers if watcher.has_header]
        if new:
            head = self._encoder.change(first, with_header=True) or b""
            for watcher in new:
                watcher.has_header = True
            self._push(b"".join([head, *events[1:]]), new)
        self._push(data, known)

    def _send_bookmarks(self) -> None:
        receivers = [watcher for watcher in self._watchers if watcher.bookmarks]
        later = asyncio.get_running_loop().call_later
        # First: bookmarks that cannot be sent must not be the last.
        self._timer = later(_BOOKMARK_SECONDS, self._send_bookmarks) if receivers else None
        self.pump()
        for watcher in receivers:
            if watcher in self._watchers:
                watcher.sink.write(self._bookmark(watcher))

    def _bookmark(self, watcher: Watcher) -> bytes:
        with_header = not watcher.has_header
        watcher.has_header = True
        return self._encoder.bookmark(self.revision, with_header=with_header)


class Feeds:
    """All feeds of a server, by topic; ends those whose resource is removed or changed."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._feeds: dict[Topic, Feed] = {}
        self._opening: dict[Watcher, tuple[Topic, asyncio.Task[None]]] = {}
        self._is_closed = False
        self._unsubscribe = state.catalog.listen(self._on_catalog)

    @property
    def size(self) -> int:
        """The number of feeds."""
        return len(self._feeds)

    @property
    def watchers(self) -> int:
        """The number of open watches."""
        initial = sum(not watcher.sink.is_closed for watcher in self._opening)
        return initial + sum(feed.size for feed in self._feeds.values())

    def join(self, topic: Topic, watcher: Watcher, *, after: int | None, ends_initial: bool = False) -> None:
        """Sends the watcher the changes after a revision (None: the current objects first), and then all new ones.

        Many initial events are sent by a task, in slices. Raises `Expired` if the revision is compacted; then nothing
        was sent.
        """
        if self._is_closed:
            watcher.end()
            return
        watcher.sink.when_closed(watcher.on_closed)
        if topic.served.converts_by_webhook:
            self._convert(topic, watcher, after=after, ends_initial=ends_initial)
            return
        if after is None or after < self._state.storage.revision:
            encoder, sink = self._encoder(topic), watcher.sink
            initial = InitialEvents(self._state.reader, topic, encoder, sink, after=after, ends_initial=ends_initial)
            if not initial.send():
                work = self._finish(initial, watcher)
                task = asyncio.get_running_loop().create_task(work, name=f"initial events of {topic.prefix}")
                self._opening[watcher] = (topic, task)
                return
            watcher.has_header = initial.has_header
        self._add_to_feed(topic, watcher)

    def close(self) -> None:
        """Ends all watches; later ones end at once."""
        self._is_closed = True
        self._unsubscribe()
        for watcher in tuple(self._opening):
            watcher.end()
        for feed in tuple(self._feeds.values()):
            feed.end()

    def _feed(self, topic: Topic) -> Feed:
        """Returns the feed of a topic, at the current revision."""
        found = self._feeds.get(topic)
        if found is not None:
            found.pump()  # closes the feed if its position is compacted: then a new one is needed
        if found is None or found.is_closed:
            watch = self._state.reader.watch(topic.prefix, after=self._state.storage.revision)
            found = Feed(topic, self._encoder(topic), watch, self._forget)
            self._feeds[topic] = found
            found.pump()
        return found

    def _encoder(self, topic: Topic) -> Encoder:
        return Encoder(topic, self._state.now)

    def _forget(self, feed: Feed) -> None:
        if self._feeds.get(feed.topic) is feed:
            del self._feeds[feed.topic]

    def _add_to_feed(self, topic: Topic, watcher: Watcher) -> None:
        """Adds the watcher to its feed. It has been sent everything up to now; there is no await in between."""
        self._feed(topic).add(watcher)
        if watcher.sink.is_closed:
            watcher.on_closed()

    def _convert(self, topic: Topic, watcher: Watcher, *, after: int | None, ends_initial: bool) -> None:
        """Serves the watcher with its own task, which can await the conversion webhook."""
        watch = ConvertedWatch(self._state, topic, watcher.sink, after=after, ends_initial=ends_initial)
        watcher.converted = watch
        name = f"converted watch of {topic.prefix}"
        task = asyncio.get_running_loop().create_task(watch.run(bookmarks=watcher.bookmarks), name=name)
        self._opening[watcher] = (topic, task)
        task.add_done_callback(lambda _: self._opening.pop(watcher, None))
        watcher.timers.append(task)

    async def _finish(self, initial: InitialEvents, watcher: Watcher) -> None:
        """Sends the remaining initial events, no faster than the client reads, and adds the watcher to its feed."""
        sink = watcher.sink
        try:
            while not sink.is_closed:
                await asyncio.sleep(0)
                await timing.take_turn()  # hundreds of watches may begin at once
                if sink.is_backed_up:
                    await sink.wait_drained()
                if not sink.is_closed and initial.send():
                    watcher.has_header = initial.has_header
                    self._add_to_feed(initial.topic, watcher)
                    return
        except Expired as error:
            sink.write(error_event(error))
            sink.close()
        except Exception:
            log.exception("watch aborted: an object cannot be encoded", extra={"prefix": initial.topic.prefix})
            sink.abort()
        finally:
            initial.close()
            del self._opening[watcher]

    def _on_catalog(self, removed: tuple[ServedResource, ...], added: tuple[ServedResource, ...]) -> None:
        # A terminating CRD is served until its objects are gone, and watchers get their DELETED events.
        closing = {one.gvr for one in added if one.terminating}
        gone = {one.gvr for one in removed} - closing
        for feed in [one for one in self._feeds.values() if one.topic.served.gvr in gone]:
            feed.pump()
            feed.end()
        for watcher in [one for one, (topic, _) in self._opening.items() if topic.served.gvr in gone]:
            watcher.end()


def feeds_of(state: ServerState) -> Feeds:
    """Returns the feeds of a server, created by the first watch."""
    if state.feeds is None:
        state.feeds = Feeds(state)
    return state.feeds


_HEADERS: Final = (("Content-Type", "application/json"), ("Cache-Control", "no-cache, private"))
_MIN_TIMEOUT_SECONDS, _MAX_TIMEOUT_SECONDS = 1800.0, 3600.0
_FINAL_BOOKMARK_SECONDS: Final = 2.0
_NOT_OLDER: Final = "NotOlderThan"


class WatchQuery(msgspec.Struct, frozen=True):
    """A validated watch request."""

    selection: Selectors | None = None
    after: int | None = None
    """The revision that the client has seen; None to get the current objects first, -1 to start now."""
    bookmarks: bool = False
    ends_initial: bool = False
    """Whether to send the `initial-events-end` bookmark."""
    not_older: int = 0
    timeout: float | None = None

    @property
    def min_revision(self) -> int:
        """The revision that the storage must have reached before the watch can begin."""
        return max(self.not_older, self.after or 0)


def watch(
    state: ServerState,
    served: ServedResource,
    namespace: str | None,
    request: Request,
    *,
    form: Representation | None = None,
) -> Response:
    """Opens a watch: the response is a stream of events, one JSON object per line or WebSocket frame.

    Raises BadRequest or Invalid for invalid options. A resourceVersion that is expired, or that the storage does not
    reach within 3 s, is reported as an ERROR event.
    """
    query = parse_watch_options(served, request.parameters)
    topic = Topic(served, namespace, query.selection, form)
    if form is not None and form.kind == response_format.METADATA_LIST:
        topic = replace(topic, selection=NOTHING)  # as upstream: no event has this form
    timeout = query.timeout or state.random.uniform(_MIN_TIMEOUT_SECONDS, _MAX_TIMEOUT_SECONDS)
    start = _open if query.min_revision <= state.storage.revision else _open_when_reached
    if is_websocket(request):
        return accept_websocket(request, lambda socket: start(state, topic, query, timeout, WebSocketSink(socket)))
    return Response(200, _HEADERS, lambda sink: start(state, topic, query, timeout, sink))


def parse_watch_options(served: ServedResource, parameters: Mapping[str, tuple[str, ...]]) -> WatchQuery:
    """Parses the watch options of a query."""
    first = {name: values[0] for name, values in parameters.items()}
    timeout, _ = read_list_numbers(first)
    selectors = read_selectors(parameters)
    initial = is_true(first["sendInitialEvents"]) if "sendInitialEvents" in first else None
    match, given = first.get("resourceVersionMatch", ""), first.get("resourceVersion", "")
    if initial is None and not match and given in ("", "0"):  # as upstream, also for clients that do not know of it
        initial, match = True, _NOT_OLDER
    _check_match(initial, match, is_continued=bool(first.get("continue")))
    selection = None if selectors is None else selectors.resolve(served)
    revision = parse_cached_revision(served, given)
    bookmarks = is_true(first.get("allowWatchBookmarks"))
    if initial is None:
        return WatchQuery(selection, revision or None, bookmarks, timeout=timeout)
    if not initial:
        return WatchQuery(selection, revision or -1, bookmarks, timeout=timeout)
    return WatchQuery(selection, None, bookmarks, ends_initial=bookmarks, not_older=revision, timeout=timeout)


class WebSocketSink:
    """A sink that sends each line, one watch event, as a text frame of a WebSocket."""

    __slots__ = ("_socket",)

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket

    @property
    def is_closed(self) -> bool:
        """Whether the connection has ended."""
        return self._socket.sink.is_closed

    @property
    def is_backed_up(self) -> bool:
        """Whether the client reads too slowly."""
        return self._socket.sink.is_backed_up

    @property
    def backlog(self) -> int:
        """The number of bytes that are not sent yet."""
        return self._socket.sink.backlog

    def write(self, data: bytes, /) -> None:
        """Sends each line in its own frame."""
        for line in data.split(b"\n"):
            if line:
                self._socket.send_text(line)

    def close(self) -> None:
        """Sends a close frame and ends the connection."""
        self._socket.close()

    def abort(self) -> None:
        """Cuts the connection."""
        self._socket.sink.abort()

    def when_closed(self, callback: Callable[[], None], /) -> None:
        """Calls `callback` once when the connection ends."""
        self._socket.sink.when_closed(callback)

    async def wait_drained(self) -> None:
        """Waits until everything is sent, or the connection has ended."""
        await self._socket.sink.wait_drained()


def _open_when_reached(state: ServerState, topic: Topic, query: WatchQuery, timeout: float, sink: Sink) -> None:
    """Opens the watch once the storage has reached the revision that it begins at.

    A client of another server, or of one whose data was restored from an older copy, has a revision that is not reached
    for long. kube-apiserver lets its plain watches wait in silence, and the client serves stale objects meanwhile.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()

    async def wait_and_open() -> None:
        try:
            await wait_revision(state, query.min_revision)
        except FutureRevision as error:
            sink.write(error_event(error))
            sink.close()
        else:
            timer.cancel()
            _open(state, topic, query, timeout - (loop.time() - began), sink)

    def stop() -> None:
        timer.cancel()
        task.cancel()

    timer = loop.call_later(timeout, sink.close)
    task = loop.create_task(wait_and_open(), name=f"watch of {topic.prefix} in the future")
    sink.when_closed(stop)


def _open(state: ServerState, topic: Topic, query: WatchQuery, timeout: float, sink: Sink) -> None:
    watcher = Watcher(sink, bookmarks=query.bookmarks)
    revision = state.storage.revision
    after = revision if query.after == -1 else query.after
    loop = asyncio.get_running_loop()
    watcher.timers.append(loop.call_later(timeout, watcher.end))
    if query.bookmarks:
        watcher.timers.append(loop.call_later(max(0.0, timeout - _FINAL_BOOKMARK_SECONDS), watcher.send_bookmark))
    try:
        feeds_of(state).join(topic, watcher, after=after, ends_initial=query.ends_initial)
    except Expired as error:
        sink.write(error_event(_expired_error(query, state, error)))
        sink.close()


def _expired_error(query: WatchQuery, state: ServerState, error: Expired) -> Expired:
    known = state.storage.compacted
    expired = Expired(f"too old resource version: {query.after} ({known}); list again and watch from there")
    expired.__cause__ = error
    return expired


def _check_match(initial: bool | None, match: str, *, is_continued: bool) -> None:
    causes: list[Cause] = []
    if initial is not None and match != _NOT_OLDER:
        causes.append(_forbidden(f"sendInitialEvents requires setting resourceVersionMatch to {_NOT_OLDER}"))
    if match:
        if initial is None:
            causes.append(
                _forbidden("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
            )
        if match != _NOT_OLDER:
            causes.append(field_errors.not_supported("resourceVersionMatch", match, [_NOT_OLDER]))
        if is_continued:
            causes.append(_forbidden("resourceVersionMatch is forbidden when continue is provided"))
    if causes:
        raise invalid_options("ListOptions", causes)


def _forbidden(text: str) -> Cause:
    return Cause("resourceVersionMatch", "FieldValueForbidden", f"Forbidden: {text}")
