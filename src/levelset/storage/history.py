"""The bounded change log of a store: read by watches, and by reads of an older revision.

There is one log for the whole store. A watcher is only a position in a feed: it costs nothing while it waits or stalls,
and it cannot delay a writer. The log is bounded; a watcher whose next change was compacted gets `Expired` and relists.

Each watched prefix has a feed, shared by all its watchers. Without feeds every watcher would search every change for
its prefix; with them a write is appended to the one or two feeds that its directory leads to, and their waiting
watchers are marked as due.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter

import msgspec

from levelset.errors import Expired
from levelset.storage.interface import Change, FutureRevision, Item
from levelset.storage.key_index import directory_of

__all__ = ["History", "Limits", "PrefixFeed", "PrefixFeeds", "undo"]

_MAX_ROUTES = 10_000
_revision = attrgetter("revision")


class PrefixFeed:
    """The changes under one prefix after revision `since`; positions count from a fixed origin."""

    __slots__ = ("changes", "first", "prefix", "since", "waiting", "watchers")

    def __init__(self, prefix: str, since: int) -> None:
        self.prefix = prefix
        self.since = since
        self.changes: list[Change] = []
        self.first = 0
        """The position of `changes[0]`; a watcher below it has missed compacted changes."""
        self.watchers = 0
        self.waiting: dict[object, Callable[[], None]] = {}
        """Callbacks of the watchers that wait for the next change; each is called once."""

    def position_after(self, revision: int) -> int:
        """The position of the first change after a revision."""
        return self.first + bisect_right(self.changes, revision, key=_revision)

    def extend_back(self, earlier: Sequence[Change], since: int) -> None:
        """Prepends older changes, for a watcher that starts at an earlier revision than the others."""
        self.changes[:0] = earlier
        self.first -= len(earlier)
        self.since = since

    def forget(self, revision: int) -> None:
        """Drops the changes up to a revision; the positions of the others stay."""
        gone = bisect_right(self.changes, revision, key=_revision)
        del self.changes[:gone]
        self.first += gone
        self.since = max(self.since, revision)


class PrefixFeeds:
    """All feeds by prefix; `ring` is called when the first watcher becomes due, and not again until `take_due`."""

    __slots__ = ("_by_prefix", "_due", "_narrow", "_ring", "_routes", "is_watched")

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._by_prefix: dict[str, PrefixFeed] = {}
        # Prefixes that end inside a name, by directory: only these need a comparison with the key itself.
        self._narrow: dict[str, dict[str, PrefixFeed]] = {}
        self._routes: dict[str, tuple[tuple[PrefixFeed, ...], tuple[int, ...]]] = {}
        self._due: dict[PrefixFeed, None] = {}
        # A plain attribute, because every write reads it.
        self.is_watched = False

    def open(self, prefix: str, revision: int) -> PrefixFeed:
        """The feed of a prefix, for one more watcher; a new feed starts after the revision."""
        feed = self._by_prefix.get(prefix)
        if feed is None:
            feed = self._by_prefix[prefix] = PrefixFeed(prefix, revision)
            self.is_watched = True
            if directory_of(prefix) != prefix:
                self._narrow.setdefault(directory_of(prefix), {})[prefix] = feed
            self._routes.clear()
        feed.watchers += 1
        return feed

    def release(self, feed: PrefixFeed) -> None:
        """Removes one watcher; a feed without watchers is dropped."""
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
        """Appends a change to the feeds it belongs to, and marks their waiting watchers as due."""
        key = change.key
        directory = key[: key.rfind("/") + 1]
        wide, lengths = self._routes.get(directory) or self._route(directory)
        for feed in wide:
            feed.changes.append(change)
            if feed.waiting:
                self._mark_due(feed)
        if lengths:
            self._publish_narrow(change, directory, lengths)

    def forget(self, revision: int) -> None:
        """Drops the changes up to a revision from every feed."""
        for feed in self._by_prefix.values():
            feed.forget(revision)

    def take_due(self) -> list[Callable[[], None]]:
        """The callbacks of the due watchers, each at most once until it waits again."""
        due, self._due = self._due, {}
        calls: list[Callable[[], None]] = []
        for feed in due:
            calls.extend(feed.waiting.values())
            feed.waiting.clear()
        return calls

    def take_all(self) -> list[Callable[[], None]]:
        """The callbacks of all waiting watchers, due or not; for closing."""
        self._due.update(dict.fromkeys(self._by_prefix.values()))
        return self.take_due()

    def _publish_narrow(self, change: Change, directory: str, lengths: tuple[int, ...]) -> None:
        narrow = self._narrow[directory]
        for length in lengths:
            feed = narrow.get(change.key[:length])
            # Slicing a key shorter than the length gives the key itself, which was matched at its own length.
            if feed is not None and length <= len(change.key):
                feed.changes.append(change)
                if feed.waiting:
                    self._mark_due(feed)

    def _route(self, directory: str) -> tuple[tuple[PrefixFeed, ...], tuple[int, ...]]:
        """The feeds that take every key of a directory, and the lengths of the prefixes that take only some."""
        if len(self._routes) >= _MAX_ROUTES:
            self._routes.clear()
        by_prefix = self._by_prefix
        if len(by_prefix) > len(directory):
            found = [by_prefix.get(directory[:length]) for length in range(len(directory) + 1)]
            wide = tuple([feed for feed in found if feed is not None])
        else:  # few watches: each is compared, the shortest prefix first
            wide = tuple([by_prefix[prefix] for prefix in sorted(by_prefix, key=len) if directory.startswith(prefix)])
        lengths = tuple(sorted({len(prefix) for prefix in self._narrow.get(directory, ())}))
        route = self._routes[directory] = (wide, lengths)
        return route

    def _mark_due(self, feed: PrefixFeed) -> None:
        first = not self._due
        self._due[feed] = None
        if first:
            self._ring()


class Limits(msgspec.Struct, frozen=True):
    """How much history is retained; beyond that the oldest changes are compacted, an eighth at a time."""

    changes: int = 100_000
    bytes: int = 64 * 1024 * 1024
    """Bytes of superseded values: the cost of history in addition to the current items."""
    age: float | None = None
    """The maximum age in seconds, checked on each write; None for no limit."""


class History:
    """The log: all changes after `compacted`, in the order of their revisions.

    Revisions need not be consecutive, and several changes may share one: in a store that others write too, some belong
    to keys that are not ours.
    """

    __slots__ = ("_gaps", "_limits", "_marks", "bytes", "changes", "compacted", "feeds", "revision")

    def __init__(self, *, compacted: int, changes: Iterable[Change], limits: Limits, ring: Callable[[], None]) -> None:
        self.compacted = compacted
        self.changes = list(changes)
        self.revision = self.changes[-1].revision if self.changes else compacted
        self.bytes = sum(map(_weight, self.changes))
        self.feeds = PrefixFeeds(ring)
        self._limits = limits
        self._marks: list[tuple[float, int]] = []
        self._gaps: list[tuple[int, int]] = []
        self._enforce_limits()

    def append(self, change: Change) -> None:
        """Adds the next write, and compacts the oldest ones beyond the limits."""
        self.changes.append(change)
        self.revision = change.revision
        if change.before is not None:
            self.bytes += len(change.before.value)
        if self.feeds.is_watched:
            self.feeds.publish(change)
        if len(self.changes) > self._limits.changes or self.bytes > self._limits.bytes:
            self._enforce_limits()

    def advance(self, revision: int) -> None:
        """Moves on to a revision without a change: all changes up to it are in the log."""
        self.revision = max(self.revision, revision)

    def add_gap(self, start: int, end: int) -> None:
        """Marks the revisions between two as unknown: the log has what changed from one to the other, not when.

        Watches pass over it; reads at a revision inside raise `Expired`.
        """
        self._gaps.append((start, end))

    def check(self, revision: int) -> None:
        """Raises for a revision that is compacted (`Expired`) or in the future (`FutureRevision`)."""
        if revision < self.compacted:
            raise Expired(f"revision {revision} is compacted (up to {self.compacted}); relist and continue from there")
        if revision > self.revision:
            raise FutureRevision(revision, self.revision)

    def since(self, revision: int) -> Sequence[Change]:
        """The changes after a revision."""
        self.check(revision)
        for start, end in self._gaps:
            if start < revision < end:
                raise Expired(f"the state at revision {revision} is not known any more; relist without a revision")
        return self.changes[self._position_after(revision) :]

    def subscribe(self, prefix: str, after: int) -> tuple[PrefixFeed, int]:
        """The feed of a prefix and the position in it of the first change after a revision.

        Searches only the changes that the feed of the prefix does not have yet.
        """
        self.check(after)
        feed = self.feeds.open(prefix, self.revision)
        if after < feed.since:
            span = self.changes[self._position_after(after) : self._position_after(feed.since)]
            feed.extend_back([change for change in span if change.key.startswith(prefix)], after)
        return feed, feed.position_after(after)

    def compact(self, revision: int) -> None:
        """Drops the changes up to a revision."""
        if revision > self.revision:
            raise FutureRevision(revision, self.revision)
        if revision <= self.compacted:
            return
        gone = self._position_after(revision)
        self.bytes -= sum(map(_weight, self.changes[:gone]))
        del self.changes[:gone]
        self.compacted = revision
        self._gaps = [gap for gap in self._gaps if gap[1] > revision]
        self.feeds.forget(revision)

    def forget_older(self, now: float) -> None:
        """Compacts changes older than the age limit; their age counts from the first call after them."""
        age = self._limits.age
        if age is None:
            return
        if not self._marks or now - self._marks[-1][0] >= age / 8:
            self._marks.append((now, self.revision))
        while self._marks and now - self._marks[0][0] > age:
            self.compact(self._marks.pop(0)[1])

    def _enforce_limits(self) -> None:
        """Compacts to an eighth below the limits, but never the newest change, which watchers are about to read."""
        count, limits = len(self.changes), self._limits
        if count > limits.changes:
            self._forget_first(count - limits.changes + limits.changes // 8)
        if self.bytes > limits.bytes:
            self._forget_first(_how_many(self.changes, self.bytes - limits.bytes + limits.bytes // 8))

    def _forget_first(self, number: int) -> None:
        number = min(number, len(self.changes) - 1)
        if number > 0:
            self.compact(self.changes[number - 1].revision)

    def _position_after(self, revision: int) -> int:
        """The position of the first change after a revision.

        Tried where it is if all revisions since are consecutive, as in a store of our own, and searched otherwise.
        """
        changes = self.changes
        behind = self.revision - revision
        if behind <= 0:
            return len(changes)
        position = len(changes) - behind
        is_there = position >= 0 and changes[position].revision > revision
        if is_there and (not position or changes[position - 1].revision <= revision):
            return position
        return bisect_right(changes, revision, key=_revision)


def undo(changes: Sequence[Change], prefix: str) -> dict[str, Item | None]:
    """The items of the changed keys before the changes (None: absent); other keys are unchanged."""
    earlier: dict[str, Item | None] = {}
    for change in changes:
        if change.key not in earlier and change.key.startswith(prefix):
            earlier[change.key] = change.before
    return earlier


def _weight(change: Change) -> int:
    # Each superseded version is the `before` of exactly one change, so that this counts every retained value once.
    return 0 if change.before is None else len(change.before.value)


def _how_many(changes: Sequence[Change], weight: int) -> int:
    """How many of the first changes have that many bytes in total."""
    for index, change in enumerate(changes):
        weight -= _weight(change)
        if weight <= 0:
            return index + 1
    return len(changes)
