"""The changes of the recent past: what watches read, and what takes a read back to an older revision.

There is one log for the whole store. A watcher is only a position in it: it costs nothing while it waits or stalls,
and it cannot hold up a writer. The log is bounded; a watcher whose next change is gone has to list again.

The changes under each watched prefix, kept once for all who watch it.

Without feeds every watcher would search every change for its prefix. With them a write is appended to the one or two
feeds it belongs to, found by its directory, and whoever waits for one of these is noted to be called.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter

import msgspec

from levelset.errors import Expired
from levelset.storage.interface import Change, FutureRevision, Item
from levelset.storage.key_index import directory_of

__all__ = ["Feed", "Feeds", "History", "Limits", "undo"]

_KEPT_ROUTES = 10_000
_revision = attrgetter("revision")


class Feed:
    """The changes under one prefix after revision `since`; positions count from a fixed origin."""

    __slots__ = ("changes", "first", "prefix", "since", "waiting", "watchers")

    def __init__(self, prefix: str, since: int) -> None:
        self.prefix = prefix
        self.since = since
        self.changes: list[Change] = []
        self.first = 0
        """The position of `changes[0]`; a watcher below it has missed something for good."""
        self.watchers = 0
        self.waiting: dict[object, Callable[[], None]] = {}
        """Who wants to be called after the next change, once."""

    def position_after(self, revision: int) -> int:
        """The position of the first change after a revision."""
        return self.first + bisect_right(self.changes, revision, key=_revision)

    def extend_back(self, earlier: Sequence[Change], since: int) -> None:
        """Puts older changes in front, for a watcher that starts further back than the others."""
        self.changes[:0] = earlier
        self.first -= len(earlier)
        self.since = since

    def forget(self, revision: int) -> None:
        """Drops the changes up to a revision; the positions of the others stay."""
        gone = bisect_right(self.changes, revision, key=_revision)
        del self.changes[:gone]
        self.first += gone
        self.since = max(self.since, revision)


class Feeds:
    """All feeds by prefix; `ring` is called when somebody is due, and then not again until `take_due`."""

    __slots__ = ("_by_prefix", "_due", "_narrow", "_ring", "_routes", "is_watched")

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._by_prefix: dict[str, Feed] = {}
        # Prefixes that end inside a name, by directory: only these need a look at the key itself.
        self._narrow: dict[str, dict[str, Feed]] = {}
        self._routes: dict[str, tuple[tuple[Feed, ...], tuple[int, ...]]] = {}
        self._due: dict[Feed, None] = {}
        # An attribute, because every write asks.
        self.is_watched = False

    def open(self, prefix: str, revision: int) -> Feed:
        """The feed of a prefix, with one watcher more; a new one starts after the revision."""
        feed = self._by_prefix.get(prefix)
        if feed is None:
            feed = self._by_prefix[prefix] = Feed(prefix, revision)
            self.is_watched = True
            if directory_of(prefix) != prefix:
                self._narrow.setdefault(directory_of(prefix), {})[prefix] = feed
            self._routes.clear()
        feed.watchers += 1
        return feed

    def release(self, feed: Feed) -> None:
        """Takes one watcher away; a feed that nobody watches is dropped."""
        feed.watchers -= 1
        if feed.watchers:
            return
        del self._by_prefix[feed.prefix]
        self.is_watched = bool(self._by_prefix)
        self._due.pop(feed, None)
        self._routes.clear()
        directory = directory_of(feed.prefix)
        if directory != feed.prefix:
            del self._narrow[directory][feed.prefix]
            if not self._narrow[directory]:
                del self._narrow[directory]

    def publish(self, change: Change) -> None:
        """Appends a change to the feeds it belongs to, and notes who waits for it."""
        key = change.key
        directory = key[: key.rfind("/") + 1]
        wide, lengths = self._routes.get(directory) or self._route(directory)
        for feed in wide:
            feed.changes.append(change)
            if feed.waiting:
                self._note(feed)
        if lengths:
            self._publish_narrow(change, directory, lengths)

    def forget(self, revision: int) -> None:
        """Drops the changes up to a revision from every feed."""
        for feed in self._by_prefix.values():
            feed.forget(revision)

    def take_due(self) -> list[Callable[[], None]]:
        """Whom to call now, each at most once until it waits again."""
        due, self._due = self._due, {}
        calls: list[Callable[[], None]] = []
        for feed in due:
            calls.extend(feed.waiting.values())
            feed.waiting.clear()
        return calls

    def take_all(self) -> list[Callable[[], None]]:
        """Everybody who waits, due or not: the end has come."""
        self._due.update(dict.fromkeys(self._by_prefix.values()))
        return self.take_due()

    def _publish_narrow(self, change: Change, directory: str, lengths: tuple[int, ...]) -> None:
        narrow = self._narrow[directory]
        for length in lengths:
            feed = narrow.get(change.key[:length])
            # A key shorter than the length is cut to itself, and has met its own feed before.
            if feed is not None and length <= len(change.key):
                feed.changes.append(change)
                if feed.waiting:
                    self._note(feed)

    def _route(self, directory: str) -> tuple[tuple[Feed, ...], tuple[int, ...]]:
        """The feeds that take every key of a directory, and how long the prefixes are that take some."""
        if len(self._routes) >= _KEPT_ROUTES:
            self._routes.clear()
        found = [self._by_prefix.get(directory[:length]) for length in range(len(directory) + 1)]
        wide = tuple([feed for feed in found if feed is not None])
        lengths = tuple(sorted({len(prefix) for prefix in self._narrow.get(directory, ())}))
        route = self._routes[directory] = (wide, lengths)
        return route

    def _note(self, feed: Feed) -> None:
        first = not self._due
        self._due[feed] = None
        if first:
            self._ring()


class Limits(msgspec.Struct, frozen=True):
    """How much of the past to keep; more is compacted, the oldest first and an eighth at a time."""

    changes: int = 100_000
    bytes: int = 64 * 1024 * 1024
    """Of superseded values: what the past costs on top of the present."""
    age: float | None = None
    """In seconds, looked at when something is written; None keeps changes however old they are."""


class History:
    """The log: `changes[i]` is the write with revision `compacted + 1 + i`."""

    __slots__ = ("_limits", "_marks", "bytes", "changes", "compacted", "feeds", "revision")

    def __init__(self, *, compacted: int, changes: Iterable[Change], limits: Limits, ring: Callable[[], None]) -> None:
        self.compacted = compacted
        self.changes = list(changes)
        self.revision = compacted + len(self.changes)
        self.bytes = sum(map(_weight, self.changes))
        self.feeds = Feeds(ring)
        self._limits = limits
        self._marks: list[tuple[float, int]] = []
        self._keep_limits()

    def append(self, change: Change) -> None:
        """Adds the next write, and forgets the oldest ones if that is too much."""
        self.changes.append(change)
        self.revision = change.revision
        if change.before is not None:
            self.bytes += len(change.before.value)
        if self.feeds.is_watched:
            self.feeds.publish(change)
        if len(self.changes) > self._limits.changes or self.bytes > self._limits.bytes:
            self._keep_limits()

    def check(self, revision: int) -> None:
        """Refuses a revision that is forgotten or has not happened."""
        if revision < self.compacted:
            raise Expired(f"revision {revision} is compacted (up to {self.compacted}); list again and go on from there")
        if revision > self.revision:
            raise FutureRevision(revision, self.revision)

    def since(self, revision: int) -> Sequence[Change]:
        """The changes after a revision."""
        self.check(revision)
        return self.changes[revision - self.compacted :]

    def subscribe(self, prefix: str, after: int) -> tuple[Feed, int]:
        """The feed of a prefix and the position in it of the first change after a revision.

        Searches only the changes that no earlier watcher of the prefix has asked for.
        """
        self.check(after)
        feed = self.feeds.open(prefix, self.revision)
        if after < feed.since:
            span = self.changes[after - self.compacted : feed.since - self.compacted]
            feed.extend_back([change for change in span if change.key.startswith(prefix)], after)
        return feed, feed.position_after(after)

    def compact(self, revision: int) -> None:
        """Forgets the changes up to a revision."""
        if revision > self.revision:
            raise FutureRevision(revision, self.revision)
        gone = revision - self.compacted
        if gone <= 0:
            return
        self.bytes -= sum(map(_weight, self.changes[:gone]))
        del self.changes[:gone]
        self.compacted = revision
        self.feeds.forget(revision)

    def forget_older(self, now: float) -> None:
        """Forgets what is older than the age limit; changes count from the first call after them."""
        age = self._limits.age
        if age is None:
            return
        if not self._marks or now - self._marks[-1][0] >= age / 8:
            self._marks.append((now, self.revision))
        while self._marks and now - self._marks[0][0] > age:
            self.compact(self._marks.pop(0)[1])

    def _keep_limits(self) -> None:
        """Forgets enough to be an eighth below the limits, but never the newest change: its watchers wait for it."""
        count, limits = len(self.changes), self._limits
        if count > limits.changes:
            self._forget_first(count - limits.changes + limits.changes // 8)
        if self.bytes > limits.bytes:
            self._forget_first(_how_many(self.changes, self.bytes - limits.bytes + limits.bytes // 8))

    def _forget_first(self, number: int) -> None:
        self.compact(self.compacted + max(0, min(number, len(self.changes) - 1)))


def undo(changes: Sequence[Change], prefix: str) -> dict[str, Item | None]:
    """What the keys touched by the changes were before them (None: not there); other keys are as they are now."""
    earlier: dict[str, Item | None] = {}
    for change in changes:
        if change.key not in earlier and change.key.startswith(prefix):
            earlier[change.key] = change.before
    return earlier


def _weight(change: Change) -> int:
    # Each superseded version is the `before` of exactly one change, so that this counts every kept value once.
    return 0 if change.before is None else len(change.before.value)


def _how_many(changes: Sequence[Change], weight: int) -> int:
    """How many of the first changes weigh that much together."""
    for index, change in enumerate(changes):
        weight -= _weight(change)
        if weight <= 0:
            return index + 1
    return len(changes)
