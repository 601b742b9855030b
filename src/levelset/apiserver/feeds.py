"""Watchers in groups: those who ask for the same share one look at the store, one encoding and one push.

A watcher that joins is first brought to where its group is, so that it misses nothing and gets nothing twice: at once
if that is little, otherwise in slices and no faster than it reads. From then on it is a sink that events are written
to. Nobody ever waits for a watcher: one that does not take its events is cut when too many bytes wait for it, and can
go on later from the last version it has seen.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from levelset.apiserver.converted_watches import ConvertedWatch
from levelset.apiserver.openings import Opening
from levelset.apiserver.served import Served
from levelset.apiserver.watchevents import Encoder, Topic, error_event
from levelset.apiserver.world import World
from levelset.errors import ConfigError, Expired
from levelset.storage import Change, NowaitReader, NowaitWatch
from levelset.web import Sink

__all__ = ["Feed", "Feeds", "Watcher", "feeds_of"]

log = logging.getLogger(__name__)

_BOOKMARK_EVERY: Final = 60.0
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

    def _on_catalog(self, removed: tuple[Served, ...], added: tuple[Served, ...]) -> None:
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
