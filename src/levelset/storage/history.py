"""The changes of the recent past: what watches read, and what takes a read back to an older revision.

There is one log for the whole store. A watcher is only a position in it: it costs nothing while it waits or stalls,
and it cannot hold up a writer. The log is bounded; a watcher whose next change is gone has to list again.
"""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from levelset.errors import Expired
from levelset.storage.feeds import Feed, Feeds
from levelset.storage.interface import Change, FutureRevision, Item

__all__ = ["History", "Limits", "undo"]


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
