"""The changes under each watched prefix, kept once for all who watch it.

Without feeds every watcher would search every change for its prefix. With them a write is appended to the one or two
feeds it belongs to, found by its directory, and whoever waits for one of these is noted to be called.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from operator import attrgetter

from levelset.storage.interface import Change
from levelset.storage.keys import directory_of

__all__ = ["Feed", "Feeds"]

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
