"""What one reader has yet to see: at most one change for each object, however slow the reader is.

`Replay` is the part that was there before the reader came, `Conflated` what has happened since. Both are bounded by the
number of objects that the reader knows or could know, and neither waits for anything.
"""

from collections import deque
from collections.abc import Container, Iterator
from typing import Generic, TypeVar

from levelset.cache.changes import Change
from levelset.client.kinds import View
from levelset.objects.kept import Kept

__all__ = ["Conflated", "Replay"]

K = TypeVar("K")


class Conflated(Generic[K]):
    """Changes in the order in which their objects first changed; two of the same object are one.

    It goes from the first old to the latest new object. What came and went in the meantime was never there.
    """

    __slots__ = ("_changes", "_order", "initial")

    def __init__(self) -> None:
        # Two containers, since taking the first of a dict again and again looks at all that were there before, and an
        # OrderedDict takes 12 ms to grow past a hundred thousand.
        self._changes: dict[str, Change[K]] = {}
        self._order: deque[str] = deque()  # may name some that are gone
        self.initial = 0  # how many of them are initial

    def __len__(self) -> int:
        return len(self._changes)

    def __contains__(self, key: object) -> bool:
        return key in self._changes

    def put(self, change: Change[K]) -> None:
        """Takes in a change that comes after all the others."""
        waiting = self._changes.get(change.key)
        if waiting is None:
            self._changes[change.key] = change
            self._order.append(change.key)
            self.initial += change.is_initial
        elif (both := waiting.then(change)) is not None:
            self._changes[change.key] = both
        else:
            del self._changes[change.key]
            self.initial -= waiting.is_initial
            self._tidy()

    def pop(self) -> Change[K] | None:
        """Takes out the change that waits longest; None if none does."""
        while self._order:
            change = self._changes.pop(self._order.popleft(), None)
            if change is not None:
                self.initial -= change.is_initial
                return change
        return None

    def clear(self) -> None:
        """Forgets everything."""
        self._changes.clear()
        self._order.clear()
        self.initial = 0

    def _tidy(self) -> None:
        """Forgets the places of those that are gone once they are the most."""
        if len(self._order) > 2 * len(self._changes) + 64:
            self._order = deque(self._changes)


class Replay(Generic[K]):
    """The objects that were there when a reader came, or that he asked to see again, still to be shown to him."""

    __slots__ = ("_is_resync", "_keys", "_left", "_view")

    def __init__(
        self, kept: dict[str, Kept], view: View[K], *, is_resync: bool = False, without: Container[str] | None = None
    ) -> None:
        self._left = dict(kept) if without is None else {key: one for key, one in kept.items() if key not in without}
        self._keys: Iterator[str] = iter(list(self._left))
        self._view = view
        self._is_resync = is_resync

    def __len__(self) -> int:
        return len(self._left)

    @property
    def is_resync(self) -> bool:
        """Whether the reader has seen these objects before."""
        return self._is_resync

    def absorb(self, change: Change[K]) -> bool:
        """Whether a change of an object is already told by showing the object, in its latest state, when it is due."""
        if change.key not in self._left:
            return False
        if self._is_resync or change.after is None:
            del self._left[change.key]
            return not self._is_resync
        self._left[change.key] = change.after
        return True

    def take(self, count: int) -> list[Change[K]]:
        """The next objects to show, at most so many."""
        taken: list[Change[K]] = []
        for key in self._keys:
            kept = self._left.pop(key, None)
            if kept is not None:
                before = kept if self._is_resync else None
                taken.append(Change(key, before, kept, self._view, not self._is_resync, self._is_resync))
                if len(taken) >= count:
                    break
        return taken
