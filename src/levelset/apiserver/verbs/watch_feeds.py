"""Watchers in groups: those who ask for the same share one look at the store, one encoding and one push.

A watcher that joins is first brought to where its group is, so that it misses nothing and gets nothing twice: at once
if that is little, otherwise in slices and no faster than it reads. From then on it is a sink that events are written
to. Nobody ever waits for a watcher: one that does not take its events is cut when too many bytes wait for it, and can
go on later from the last version it has seen.

Watch events as bytes: what a change in the store looks like to those who watch a kind with a selector in a form.

One `Encoder` serves all watchers that ask for the same, so each event is made once, however many there are.

What a watcher is sent before it joins the others: what is there, and what has changed since, a slice at a time.

A kind may have a hundred thousand objects, and the loop serves others besides: between two slices they have their turn.
The objects are those of one moment; what changes while they are sent comes after them, out of the history.

Watches of kinds that a webhook converts: each has a task of its own, which waits for conversions as they are needed.

Others are pushed by whoever writes (`feeds`), and nobody may wait there. Here the changes of a batch are converted with
one call, and then sent in their order. A change that cannot be converted ends the watch with an error, as it does in
Kubernetes: the client lists again.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from levelset.apiserver.registry import conversion_webhook
from levelset.apiserver.registry.selectors import Selection
from levelset.apiserver.registry.storage_codec import served_bytes, served_tree, with_version
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import World
from levelset.apiserver.verbs import response_format
from levelset.apiserver.verbs.response_format import Form
from levelset.apiserver.wire.status_errors import status_tree
from levelset.errors import ApiError, ConfigError, Expired
from levelset.http import Sink
from levelset.objects import encode_tree
from levelset.storage import Change, Item, NowaitReader, NowaitWatch, Page

__all__ = ["ConvertedWatch", "Encoder", "Feed", "Feeds", "Opening", "Topic", "Watcher", "error_event", "feeds_of"]

_INITIAL_END: Final = "k8s.io/initial-events-end"
_KINDS: Final = ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR")
_HEADS: Final = {kind: f'{{"type":"{kind}","object":'.encode() for kind in _KINDS}
"""What a line begins with, by the type of its event."""


@dataclass(frozen=True, slots=True)
class Topic:
    """What a watcher asks for; watchers with equal topics get the same bytes.

    `floor` is a revision from the future that the watcher knows already: nothing is sent until it has passed.
    """

    served: ServedResource
    namespace: str | None
    selection: Selection | None
    form: Form | None = None
    floor: int = 0

    @property
    def prefix(self) -> str:
        """What the keys of all objects that can be meant begin with."""
        name = None if self.selection is None else self.selection.name
        if name and (self.namespace or not self.served.namespaced):
            return self.served.key(self.namespace, name)
        return self.served.prefix_in(self.namespace)


class Encoder:
    """Turns changes into the events of one topic."""

    __slots__ = ("_floor", "_is_plain", "_now", "_object", "_selection", "_served", "_topic", "is_table")

    def __init__(self, topic: Topic, now: Callable[[], datetime]) -> None:
        self._topic = topic
        self._served = topic.served
        self._selection = topic.selection
        self._floor = topic.floor
        self._now = now
        self.is_table = topic.form is not None and topic.form.kind == response_format.TABLE
        self._is_plain = topic.form is None
        self._object = served_bytes if topic.form is None else self._metadata

    def change(self, change: Change, *, headed: bool = False) -> bytes | None:
        """The event that a change is; None if nobody who watches this is concerned."""
        if change.revision <= self._floor:
            return None
        before, after = change.before, change.after
        if self._selection is not None:
            before = before if self._matches(before) else None
            after = after if self._matches(after) else None
        if after is not None:
            kind = "ADDED" if before is None else "MODIFIED"
            if self._is_plain:  # as `_event`, in one step
                return b"%b%b}\n" % (_HEADS[kind], served_bytes(self._served, after))
            return self._event(kind, after, headed=headed)
        # The last state, under the version of the change that took it away: watching can go on from there.
        return None if before is None else self._event("DELETED", before, revision=change.revision, headed=headed)

    def added(self, item: Item, *, headed: bool = False) -> bytes | None:
        """The event that tells of an object which is there already; None if it is not meant."""
        return self._event("ADDED", item, headed=headed) if self._selection is None or self._matches(item) else None

    def bookmark(self, revision: int, *, ends_initial: bool = False, headed: bool = False) -> bytes:
        """The event that says: up to this revision you have seen everything."""
        served = self._served
        metadata: Object = {"resourceVersion": str(revision), "creationTimestamp": None}
        if ends_initial:
            metadata["annotations"] = {_INITIAL_END: "true"}
        tree: Object = {"kind": served.kind, "apiVersion": served.api_version, "metadata": metadata}
        made = self._table(tree, headed=headed) if self.is_table else self._formed(tree)
        return _line("BOOKMARK", encode_tree(made))

    def _matches(self, item: Item | None) -> bool:
        selection = self._selection
        return item is not None and selection is not None and selection.matches(self._served, item)

    def _event(self, kind: str, item: Item, *, revision: int | None = None, headed: bool = False) -> bytes:
        if self.is_table:
            tree = served_tree(self._served, item)
            return _line(kind, encode_tree(self._table(_at(tree, revision), headed=headed)))
        if revision is None:
            return _line(kind, self._object(self._served, item))
        if item.revision < self._served.since:
            # An old object is brought up to date as its own revision demands, not as that of its deletion does.
            return _line(kind, encode_tree(self._formed(with_version(served_tree(self._served, item), revision))))
        return _line(kind, self._object(self._served, replace(item, revision=revision)))

    def _formed(self, tree: Object) -> Object:
        form = self._topic.form
        return tree if form is None else response_format.to_metadata(tree, form.api_version)

    def _metadata(self, served: ServedResource, item: Item) -> bytes:
        form = self._topic.form
        assert form is not None  # or this would not have been chosen
        found = _decode_metadata(served_bytes(served, item)).metadata
        head = f'{{"kind":"{response_format.METADATA}","apiVersion":"{form.api_version}","metadata":'
        return b"%b%b}" % (head.encode(), bytes(found))

    def _table(self, tree: Object, *, headed: bool) -> Object:
        form = self._topic.form
        assert form is not None  # as above
        return response_format.render_table(self._served, form, tree, now=self._now(), headed=headed)


def error_event(error: ApiError) -> bytes:
    """The last event of a watch that cannot go on."""
    return _line("ERROR", encode_tree(status_tree(error)))


class _Envelope(msgspec.Struct, frozen=True, gc=False):
    metadata: msgspec.Raw


_decode_metadata: Final = msgspec.json.Decoder(_Envelope).decode


def _at(tree: Any, revision: int | None) -> Any:
    return tree if revision is None else with_version(tree, revision)


def _line(kind: str, data: bytes) -> bytes:
    return b"%b%b}\n" % (_HEADS[kind], data)


_LARGEST_SLICE: Final = 250
_LARGEST_TABLE: Final = 100  # a row takes many times as long to make as an object, which is sent as it is stored
_ENOUGH: Final = 256 * 1024

_Events = Generator[bytes, None, None]


class Opening:
    """The events up to now for one sink: the present state, or all changes after a revision.

    Raises `Expired`, when it is made or when it sends, if changes that were not sent yet are forgotten.
    """

    __slots__ = ("_encoder", "_events", "_reader", "_size", "is_headed", "sink", "topic")

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
        self.is_headed = False
        """Whether the columns of a table were sent; the first event carries them."""
        self._reader = reader
        self._encoder = encoder
        self._size = _LARGEST_TABLE if encoder.is_table else _LARGEST_SLICE
        if after is None:
            self._events = self._present(reader.list_nowait(topic.prefix), ends_initial=ends_initial)
        else:
            self._events = self._changes(reader.watch(topic.prefix, after=after))

    def send(self) -> bool:
        """Sends the next slice; whether that was the last, and everything up to this moment has been sent."""
        events: list[bytes] = []
        size, is_last = 0, True
        try:
            for number, event in enumerate(self._events, 1):
                events.append(event)
                size += len(event)
                if number >= self._size or size >= _ENOUGH:
                    is_last = False
                    break
        finally:
            if size:
                self.sink.write(b"".join(events))
        return is_last

    def close(self) -> None:
        """Lets go of the store."""
        self._events.close()

    def _present(self, page: Page, *, ends_initial: bool) -> _Events:
        for item in page.items:
            yield self._count(self._encoder.added(item, headed=not self.is_headed))
        if ends_initial:
            yield self._count(self._encoder.bookmark(page.revision, ends_initial=True, headed=not self.is_headed))
        # Small kinds come here in the moment of the page, at the price of an empty look.
        yield from self._changes(self._reader.watch(self.topic.prefix, after=page.revision))

    def _changes(self, past: NowaitWatch) -> _Events:
        try:
            while batch := past.batch_nowait():
                for change in batch:
                    yield self._count(self._encoder.change(change, headed=not self.is_headed))
        finally:
            past.close_nowait()

    def _count(self, event: bytes | None) -> bytes:
        """The event, or nothing for what is not meant: that took its time too."""
        self.is_headed = self.is_headed or event is not None
        return event or b""


_AT_A_TIME: Final = 250
_BOOKMARK_EVERY: Final = 60.0


class ConvertedWatch:
    """One open watch; `run` sends its events until its sink is closed."""

    def __init__(self, world: World, topic: Topic, sink: Sink, *, after: int | None, ends_initial: bool) -> None:
        self._world = world
        self._topic = topic
        self._sink = sink
        self._after = after
        self._ends_initial = ends_initial
        self._encoder = Encoder(topic, world.now)
        self._is_headed = False
        self._timer: asyncio.TimerHandle | None = None
        self._revision = min(after or 0, world.storage.revision)

    async def run(self, *, bookmarks: bool) -> None:
        """Sends what is there (unless the watch begins after a revision), and then every change."""
        if bookmarks:
            self._mark_later()
        try:
            await self._send_all()
        except ApiError as error:
            # Forgotten history, or an object that nobody could convert.
            self._sink.write(error_event(error))
            self._sink.close()
        finally:
            if self._timer is not None:
                self._timer.cancel()

    def mark(self) -> None:
        """Sends a bookmark: up to its revision everything was sent."""
        if self._revision and not self._sink.is_closed:
            self._sink.write(self._encoder.bookmark(self._revision, headed=self._heads()))

    async def _send_all(self) -> None:
        if self._after is None:
            page = await self._world.storage.list(self._topic.prefix)
            for start in range(0, len(page.items), _AT_A_TIME):
                await self._send_present(page.items[start : start + _AT_A_TIME])
            self._revision = page.revision
            if self._ends_initial:
                self._sink.write(self._encoder.bookmark(page.revision, ends_initial=True, headed=self._heads()))
        async with aclosing(self._batches()) as batches:
            async for batch in batches:
                await self._send_changes(batch)
                self._revision = batch[-1].revision

    async def _batches(self) -> AsyncGenerator[Sequence[Change], None]:
        async with self._world.storage.watch(self._topic.prefix, after=self._revision) as watch:
            async for batch in watch:
                if self._sink.is_closed:
                    return
                yield batch

    async def _send_present(self, items: Sequence[Item]) -> None:
        await self._send(items, [partial(self._encoder.added, item) for item in items])

    async def _send_changes(self, batch: Sequence[Change]) -> None:
        items = [item for change in batch for item in (change.before, change.after) if item is not None]
        await self._send(items, [partial(self._encoder.change, change) for change in batch])

    async def _send(self, items: Sequence[Item], events: Sequence[Callable[..., bytes | None]]) -> None:
        if self._sink.is_backed_up:
            await self._sink.wait_drained()
        if self._sink.is_closed:
            return
        await conversion_webhook.convert(self._topic.served, items)
        for event in events:
            made = event(headed=not self._is_headed)
            if made is not None:
                self._is_headed = True
                self._sink.write(made)

    def _heads(self) -> bool:
        """Whether the next event is the first, which carries the columns of a table."""
        is_first, self._is_headed = not self._is_headed, True
        return is_first

    def _mark_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_BOOKMARK_EVERY, self._mark_again)

    def _mark_again(self) -> None:
        self.mark()
        self._mark_later()


log = logging.getLogger(__name__)


_LARGEST_BACKLOG: Final = 8 * 1024 * 1024


class Watcher:
    """One open watch: where its events go, and what it wants besides them."""

    __slots__ = ("bookmarks", "converted", "feed", "held", "is_headed", "sink", "timers")

    def __init__(self, sink: Sink, *, bookmarks: bool = False) -> None:
        self.sink = sink
        self.bookmarks = bookmarks
        self.feed: Feed | None = None
        self.held = 0
        """The bytes that were written since the client fell behind."""
        self.is_headed = False
        """Whether the columns of a table were sent; the first event carries them."""
        self.timers: list[asyncio.TimerHandle | asyncio.Task[None]] = []
        """What is called off when the watch ends."""
        self.converted: ConvertedWatch | None = None
        """What sends the events, if they must be converted first; there is no feed then."""

    def mark(self) -> None:
        """Sends a bookmark, if one is wanted."""
        if self.converted is not None and self.bookmarks:
            self.converted.mark()
        elif self.feed is not None and self.bookmarks and not self.sink.is_closed:
            self.feed.mark(self)

    def end(self) -> None:
        """Ends the watch properly."""
        self.sink.close()

    def leave(self) -> None:
        """The sink is closed: nothing more to do for it."""
        for timer in self.timers:
            timer.cancel()
        self.timers.clear()
        if self.feed is not None:
            self.feed.discard(self)
            self.feed = None


class Feed:
    """The watchers of one topic, and the position in the store up to which all of them have seen everything."""

    __slots__ = ("_encoder", "_is_waiting", "_members", "_on_empty", "_timer", "_watch", "is_closed", "topic")

    def __init__(self, topic: Topic, encoder: Encoder, watch: NowaitWatch, on_empty: Callable[["Feed"], None]) -> None:
        self.topic = topic
        self._encoder = encoder
        self._watch = watch
        self._on_empty = on_empty
        self._members: dict[Watcher, None] = {}
        self._is_waiting = False
        self.is_closed = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def revision(self) -> int:
        """Everything up to this revision has been sent."""
        return self._watch.revision

    @property
    def size(self) -> int:
        """How many watchers there are."""
        return len(self._members)

    def pump(self) -> None:
        """Sends what has changed since the last time to all members."""
        try:
            while batch := self._watch.batch_nowait():
                self._send(batch)
        except Expired as error:
            self.fail(error)
            return
        except Exception:
            # The storage calls many feeds in a row: what is wrong with one must not keep the others from theirs.
            log.exception("watches were cut because a change cannot be shown", extra={"prefix": self.topic.prefix})
            self.cut()
            return
        if not self._is_waiting and not self.is_closed:
            self._is_waiting = True
            self._watch.call_when_ready(self._on_ready)

    def add(self, watcher: Watcher) -> None:
        """Has the watcher get everything after `revision`; it must have seen all before."""
        watcher.feed = self
        self._members[watcher] = None
        if watcher.bookmarks and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_BOOKMARK_EVERY, self._mark_all)

    def discard(self, watcher: Watcher) -> None:
        """Forgets a watcher; the last one closes the feed behind it."""
        self._members.pop(watcher, None)
        if not self._members:
            self.close()

    def mark(self, watcher: Watcher) -> None:
        """Sends one member a bookmark."""
        self.pump()
        if not watcher.sink.is_closed:
            watcher.sink.write(self._bookmark(watcher))

    def fail(self, error: Expired) -> None:
        """Tells all members that the watch cannot go on, and ends it."""
        self._end(error_event(error))

    def cut(self) -> None:
        """Ends the watches of all members so that they notice."""
        for watcher in tuple(self._members):
            watcher.sink.abort()

    def end(self) -> None:
        """Ends the watches of all members properly."""
        self._end(b"")

    def close(self) -> None:
        """Lets go of the store."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.is_closed = True
        self._on_empty(self)
        self._watch.close_nowait()

    def _end(self, last: bytes) -> None:
        for watcher in tuple(self._members):
            watcher.sink.write(last)
            watcher.end()

    def _on_ready(self) -> None:
        self._is_waiting = False
        if not self.is_closed:
            self.pump()

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
            self._push(data, self._members)

    def _push(self, data: bytes, watchers: Iterable[Watcher]) -> None:
        size = len(data)
        slow: list[Watcher] = []
        for watcher in watchers:
            sink = watcher.sink
            sink.write(data)
            if sink.is_backed_up:
                watcher.held += size
                if watcher.held > _LARGEST_BACKLOG:
                    slow.append(watcher)
            elif watcher.held:
                watcher.held = 0
        for watcher in slow:
            log.warning("a watch was cut because its client does not read: it can go on from its last version")
            watcher.sink.abort()

    def _push_tables(self, data: bytes, first: Change, events: list[bytes]) -> None:
        """As `_push`, with the columns in the first event that a watcher gets."""
        new = [watcher for watcher in self._members if not watcher.is_headed]
        known = [watcher for watcher in self._members if watcher.is_headed]
        if new:
            head = self._encoder.change(first, headed=True) or b""
            for watcher in new:
                watcher.is_headed = True
            self._push(b"".join([head, *events[1:]]), new)
        self._push(data, known)

    def _mark_all(self) -> None:
        self._timer = None
        self.pump()
        wanting = [watcher for watcher in self._members if watcher.bookmarks]
        for watcher in wanting:
            watcher.sink.write(self._bookmark(watcher))
        if wanting:
            self._timer = asyncio.get_running_loop().call_later(_BOOKMARK_EVERY, self._mark_all)

    def _bookmark(self, watcher: Watcher) -> bytes:
        headed = not watcher.is_headed
        watcher.is_headed = True
        return self._encoder.bookmark(self.revision, headed=headed)


class Feeds:
    """All feeds of a server by topic; ends those whose resource is no longer served as it was."""

    def __init__(self, world: World) -> None:
        if world.reader is None:
            raise ConfigError("Watches need a storage that answers reads at once: use MemoryStorage or SqliteStorage.")
        self._world = world
        self._reader: NowaitReader = world.reader
        self._feeds: dict[Topic, Feed] = {}
        self._openings: dict[Watcher, tuple[Topic, asyncio.Task[None]]] = {}
        self._is_closed = False
        self._unlisten = world.catalog.listen(self._on_catalog)

    @property
    def size(self) -> int:
        """How many feeds there are."""
        return len(self._feeds)

    @property
    def watchers(self) -> int:
        """How many watches are open."""
        opening = sum(not watcher.sink.is_closed for watcher in self._openings)
        return opening + sum(feed.size for feed in self._feeds.values())

    def join(self, topic: Topic, watcher: Watcher, *, after: int | None, ends_initial: bool = False) -> None:
        """Sends the watcher what it has not seen after a revision (None: the present state), and then all changes.

        Much is sent in slices, with room for others in between. Raises `Expired` if that revision is forgotten; nothing
        was sent then.
        """
        if self._is_closed:
            watcher.end()
            return
        watcher.sink.when_closed(watcher.leave)
        if topic.served.awaits:
            self._convert(topic, watcher, after=after, ends_initial=ends_initial)
            return
        if after is None or after < self._world.storage.revision:
            encoder, sink = self._encoder(topic), watcher.sink
            opening = Opening(self._reader, topic, encoder, sink, after=after, ends_initial=ends_initial)
            if not opening.send():
                work = self._finish(opening, watcher)
                task = asyncio.get_running_loop().create_task(work, name=f"opening of a watch of {topic.prefix}")
                self._openings[watcher] = (topic, task)
                return
            watcher.is_headed = opening.is_headed
        self._admit(topic, watcher)

    def close(self) -> None:
        """Ends all watches, and those that come later at once."""
        self._is_closed = True
        self._unlisten()
        for watcher in tuple(self._openings):
            watcher.end()
        for feed in tuple(self._feeds.values()):
            feed.end()

    def _feed(self, topic: Topic) -> Feed:
        """The feed of a topic, at the newest revision."""
        found = self._feeds.get(topic)
        if found is not None:
            found.pump()  # this ends it if it has missed something: then a new one is needed
        if found is None or found.is_closed:
            watch = self._reader.watch(topic.prefix, after=self._world.storage.revision)
            found = Feed(topic, self._encoder(topic), watch, self._forget)
            self._feeds[topic] = found
            found.pump()
        return found

    def _encoder(self, topic: Topic) -> Encoder:
        return Encoder(topic, self._world.now)

    def _forget(self, feed: Feed) -> None:
        if self._feeds.get(feed.topic) is feed:
            del self._feeds[feed.topic]

    def _admit(self, topic: Topic, watcher: Watcher) -> None:
        """Has the watcher get everything from now on; it has just been sent all before, and nothing waits in here."""
        self._feed(topic).add(watcher)
        if watcher.sink.is_closed:
            watcher.leave()

    def _convert(self, topic: Topic, watcher: Watcher, *, after: int | None, ends_initial: bool) -> None:
        """Has the watcher served by a task of its own, which can wait for a webhook."""
        watch = ConvertedWatch(self._world, topic, watcher.sink, after=after, ends_initial=ends_initial)
        watcher.converted = watch
        name = f"converted watch of {topic.prefix}"
        task = asyncio.get_running_loop().create_task(watch.run(bookmarks=watcher.bookmarks), name=name)
        self._openings[watcher] = (topic, task)
        task.add_done_callback(lambda _: self._openings.pop(watcher, None))
        watcher.timers.append(task)

    async def _finish(self, opening: Opening, watcher: Watcher) -> None:
        """Sends the rest of what there is, no faster than it is taken, and then lets the watcher join the others."""
        sink = watcher.sink
        try:
            while not sink.is_closed:
                await asyncio.sleep(0)
                if sink.is_backed_up:
                    await sink.wait_drained()
                if not sink.is_closed and opening.send():
                    watcher.is_headed = opening.is_headed
                    self._admit(opening.topic, watcher)
                    return
        except Expired as error:
            sink.write(error_event(error))
            sink.close()
        except Exception:
            log.exception("a watch was cut because an object cannot be shown", extra={"prefix": opening.topic.prefix})
            sink.abort()
        finally:
            opening.close()
            del self._openings[watcher]

    def _on_catalog(self, removed: tuple[ServedResource, ...], added: tuple[ServedResource, ...]) -> None:
        # A definition that is being deleted is still served until its objects are gone, and watchers are told of that.
        closing = {one.place for one in added if one.terminating}
        gone = {one.place for one in removed} - closing
        for feed in [one for one in self._feeds.values() if one.topic.served.place in gone]:
            feed.pump()
            feed.end()
        for watcher in [one for one, (topic, _) in self._openings.items() if topic.served.place in gone]:
            watcher.end()


def feeds_of(world: World) -> Feeds:
    """The feeds of a world, made when the first watch needs them."""
    if world.feeds is None:
        world.feeds = Feeds(world)
    return world.feeds
