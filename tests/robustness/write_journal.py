"""What writers asked of a storage and what was acknowledged, and the check of a storage after a crash against it.

Each key has one writer, which writes one version after the other; so the versions of a key are known, with the position
in the recording of the disk where each was started and acknowledged.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from levelset.errors import NotFound, ServerFailed
from levelset.storage import Item, SqliteStorage, Storage

__all__ = ["Attempt", "Journal", "Violation", "check_recovered", "check_values", "write_randomly"]


class Violation(AssertionError):
    """A guarantee that does not hold."""


@dataclass(slots=True)
class Attempt:
    """One write (a deletion: no value); positions are numbers of steps on the disk."""

    key: str
    value: bytes | None
    started: int
    acknowledged: int | None = None
    revision: int | None = None
    """Set when it was acknowledged."""
    is_refused: bool = False
    """The storage said that nothing was changed."""

    def is_acknowledged(self, position: int) -> bool:
        """Whether it was acknowledged before this position."""
        return self.acknowledged is not None and self.acknowledged <= position


@dataclass(slots=True)
class Journal:
    """All attempts, in the order in which they were started."""

    position: Callable[[], int]
    attempts: list[Attempt] = field(default_factory=list)

    async def write(self, storage: Storage, key: str, value: bytes | None) -> Attempt:
        """Writes and records; errors of the storage are recorded and raised."""
        attempt = Attempt(key, value, self.position())
        self.attempts.append(attempt)
        try:
            if value is None:
                attempt.revision = (await storage.delete(key, expected=None)).revision
            else:
                attempt.revision = (await storage.put(key, value, expected=None)).revision
        except NotFound:
            attempt.is_refused = True
            return attempt
        except ServerFailed as error:
            attempt.is_refused = "nothing was changed" in str(error) or "was not written" in str(error)
            raise
        attempt.acknowledged = self.position()
        return attempt

    def until(self, position: int) -> Iterator[Attempt]:
        """The attempts that may have had an effect before a crash at this position."""
        return (one for one in self.attempts if one.started < position and not one.is_refused)

    def newest(self, position: int) -> int:
        """The newest revision that was acknowledged before this position."""
        return max((one.revision or 0 for one in self.attempts if one.is_acknowledged(position)), default=0)


async def write_randomly(storage: Storage, journal: Journal, key: str, count: int, dice: random.Random) -> None:
    """One writer of one key: values of many sizes, deletions; ends at the first write that fails."""
    for number in range(count):
        is_deletion = dice.random() < 0.15
        value = (
            None if is_deletion else b"%s %d %d " % (key.encode(), number, dice.getrandbits(32)) * dice.randint(1, 60)
        )
        try:
            await journal.write(storage, key, value)
        except ServerFailed as error:
            if "nothing was changed" not in str(error):
                return


def check_values(storage: SqliteStorage, journal: Journal, position: int) -> None:
    """Raises `Violation` if a value was never written to its key."""
    written = {(one.key, one.value) for one in journal.until(position)}
    for item in storage.list_nowait("").items:
        if (item.key, item.value) not in written:
            raise Violation(f"{item.key} has a value that was never written: {item.value[:60]!r}")


def check_recovered(storage: SqliteStorage, journal: Journal, position: int, *, floor: int) -> None:
    """Raises `Violation` if the storage is not what a crash at this position may leave.

    That is a prefix, the state at one revision, not below `floor`: that of the last write that is durable.
    """
    check_values(storage, journal, position)
    found = {item.key: item for item in storage.list_nowait("").items}
    newest = journal.newest(position)
    if storage.revision < floor:
        raise Violation(f"the revision went back from {floor} to {storage.revision}")
    timelines = {key: _timeline(attempts, found.get(key), position) for key, attempts in _by_key(journal, position)}
    candidates = {0, newest, *(revision for timeline in timelines.values() for revision, _ in timeline)}
    if not any(_fits(timelines, found, one) for one in candidates if one >= floor):
        raise Violation(
            f"not the state at any revision from {floor} on (position {position}, newest {newest}):"
            f" found { {key: item.revision for key, item in found.items()} },"
            f" written { {key: [one for one, _ in timeline] for key, timeline in timelines.items()} }"
        )
    _check_history(storage, found)


def _by_key(journal: Journal, position: int) -> Iterator[tuple[str, list[Attempt]]]:
    keys: dict[str, list[Attempt]] = {}
    for attempt in journal.until(position):
        keys.setdefault(attempt.key, []).append(attempt)
    return iter(keys.items())


def _timeline(attempts: Sequence[Attempt], found: Item | None, position: int) -> list[tuple[int, bytes | None]]:
    """The versions of a key by revision; of one that was under way, the revision is the one that was found."""
    timeline: list[tuple[int, bytes | None]] = []
    for attempt in attempts:
        if attempt.revision is not None:
            timeline.append((attempt.revision, attempt.value))
        elif found is not None and found.value == attempt.value:
            timeline.append((found.revision, attempt.value))
        elif attempt.value is None:  # a deletion without a result: it may have been the last write of all
            timeline.append((1 << 62, None))
    return timeline


def _fits(timelines: dict[str, list[tuple[int, bytes | None]]], found: dict[str, Item], revision: int) -> bool:
    for key, timeline in timelines.items():
        value, at = None, 0
        for one, written in timeline:
            if one <= revision and one >= at:
                value, at = written, one
        item = found.get(key)
        if (None if item is None else item.value) != value or (item is not None and item.revision != at):
            return False
    return True


def _check_history(storage: SqliteStorage, found: dict[str, Item]) -> None:
    watch = storage.watch("", after=storage.compacted)
    changes = watch.batch_nowait()
    watch.close_nowait()
    expected = storage.compacted
    for change in changes:
        expected += 1
        if change.revision != expected:
            raise Violation(f"the history has {change.revision} in the place of {expected}")
    last = {change.key: change.after for change in changes}
    for key, item in last.items():
        if found.get(key) != item:
            raise Violation(f"the history ends with another version of {key} than the one that is there")
