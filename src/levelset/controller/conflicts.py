"""Objects that somebody else wrote first: they are read from the server once, and tried again after a short while.

A conflict is no failure. It only says that what was read is old, and that is cured by reading anew.
"""

from typing import Any, Final

from levelset.aio.backoff import Backoff
from levelset.errors import Conflict
from levelset.objects.identity import Ref

__all__ = ["BACKOFF", "Conflicts"]

BACKOFF: Final = Backoff(first=0.15, factor=1.5, cap=5.0, jitter=0.67, quiet=None)
"""The wait after a conflict: 50 to 150 milliseconds at first, at most 5 seconds, for as long as it takes."""

_MOST: Final = 10_000


class Conflicts:
    """Which objects must be read from the server, and how long a reconcile that met a conflict waits.

    An object whose write was refused is stale until the next write to it that is not refused: a success, or an error of
    another kind. A look that writes nothing leaves it as it is. At most `most` objects are remembered; one that is
    forgotten is only read from the cache again.
    """

    __slots__ = ("_backoff", "_most", "_waits", "stale")

    def __init__(self, backoff: Backoff = BACKOFF, *, most: int = _MOST) -> None:
        self._backoff = backoff
        self._most = most
        self.stale: dict[Ref[Any], None] = {}
        """The objects that must be read from the server; always the same table, for who looks at it very often."""
        self._waits: dict[Ref[Any], int] = {}

    def __contains__(self, ref: object) -> bool:
        """Whether an object must be read from the server."""
        return ref in self.stale

    def __len__(self) -> int:
        """How many objects must be read from the server."""
        return len(self.stale)

    def note(self, ref: Ref[Any]) -> None:
        """A write to this object was refused because somebody else wrote first."""
        _put(self.stale, ref, None, self._most)

    def settle(self, ref: Ref[Any]) -> None:
        """A write to this object was not refused: the cache will do again."""
        if self.stale:
            self.stale.pop(ref, None)

    def learn(self, ref: Ref[Any], error: Exception) -> None:
        """A write to this object has failed: because somebody else wrote first, or for a reason of another kind."""
        if isinstance(error, Conflict):
            self.note(ref)
        else:
            self.settle(ref)

    def delay(self, ref: Ref[Any]) -> float:
        """How long the reconcile of this object waits after one more conflict; there is no limit to their number."""
        failures = self._waits.pop(ref, 0)
        _put(self._waits, ref, failures + 1, self._most)
        return self._backoff.delay(failures)

    def calm(self, ref: Ref[Any]) -> None:
        """A reconcile of this object met no conflict: the next one waits as a first one does."""
        if self._waits:
            self._waits.pop(ref, None)

    def forget(self, ref: Ref[Any]) -> None:
        """The object is gone."""
        self.settle(ref)
        self.calm(ref)


def _put(table: dict[Ref[Any], Any], ref: Ref[Any], value: Any, most: int) -> None:
    table.pop(ref, None)
    while len(table) >= most:
        del table[next(iter(table))]
    table[ref] = value
