"""Children just made or deleted, remembered until the cache shows it, so that a slow cache never makes duplicates.

A child with a name of its own cannot be made twice. One whose name the server makes up can: by a look that does not
see the first one yet, or by one that repeats a create whose answer never came.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Final

import msgspec

from levelset.objects.ref import GroupVersionKind, Ref

__all__ = ["DOUBT", "PATIENCE", "Expectations", "Expected", "Shows"]

PATIENCE: Final = 300.0
DOUBT: Final = 60.0


class Expected(msgspec.Struct, frozen=True, gc=False):
    """One child that the cache has yet to show, or to show no longer."""

    child: Ref[Any]
    uid: str
    version: str
    is_gone: bool
    until: float


Shows = Callable[[Expected], bool]
"""Whether the cache shows by now what is expected; True as well for what nobody keeps in a cache."""


class Expectations:
    """What owners expect of their children; what has not come true after `patience` seconds is given up.

    A create whose answer never came leaves its owner in doubt about children of that kind, for `doubt` seconds: it may
    have happened, or may still.
    """

    __slots__ = ("_doubt", "_doubts", "_ends", "_expected", "_patience")

    def __init__(self, *, patience: float = PATIENCE, doubt: float = DOUBT) -> None:
        self._patience = patience
        self._doubt = doubt
        self._expected: dict[Ref[Any], dict[tuple[Ref[Any], str], Expected]] = {}
        self._doubts: dict[Ref[Any], dict[GroupVersionKind, float]] = {}
        self._ends: deque[tuple[Ref[Any], Expected]] = deque()  # in the order in which they are given up

    def __len__(self) -> int:
        """How many owners expect something."""
        return len(self._expected.keys() | self._doubts.keys())

    def expect_made(self, owner: Ref[Any], child: Ref[Any], *, uid: str, version: str, now: float) -> None:
        """A child was made: the cache will show it."""
        self._expect(owner, Expected(child, uid, version, False, now + self._patience), now)

    def expect_gone(self, owner: Ref[Any], child: Ref[Any], *, uid: str, now: float) -> None:
        """A child was deleted: the cache will show it no longer."""
        self._expect(owner, Expected(child, uid, "", True, now + self._patience), now)

    def be_in_doubt(self, owner: Ref[Any], kind: GroupVersionKind, *, now: float) -> None:
        """Nobody knows whether a child of this kind was made."""
        for other in list(self._doubts):
            self.is_in_doubt(other, kind, now=now)  # whose doubts are over is forgotten
        self._doubts.setdefault(owner, {})[kind] = now + self._doubt

    def is_in_doubt(self, owner: Ref[Any], kind: GroupVersionKind, *, now: float) -> bool:
        """Whether only the server can tell which children of this kind there are."""
        doubts = self._doubts.get(owner)
        if doubts is None:
            return False
        left = {one: until for one, until in doubts.items() if until > now}
        if left:
            self._doubts[owner] = left
        else:
            del self._doubts[owner]
        return kind in left

    def pending(self, owner: Ref[Any], shows: Shows, *, now: float) -> tuple[Expected, ...]:
        """What the owner still waits for, the oldest first; what the cache shows by now is forgotten."""
        expected = self._expected.get(owner)
        if expected is None:
            return ()
        left = {key: one for key, one in expected.items() if one.until > now and not shows(one)}
        if left:
            self._expected[owner] = left
        else:
            del self._expected[owner]
        return tuple(left.values())

    def forget(self, owner: Ref[Any]) -> None:
        """The owner is gone."""
        self._expected.pop(owner, None)
        self._doubts.pop(owner, None)

    def _expect(self, owner: Ref[Any], one: Expected, now: float) -> None:
        self._give_up(now)
        self._ends.append((owner, one))
        table = self._expected.setdefault(owner, {})
        table.pop((one.child, one.uid), None)
        table[one.child, one.uid] = one

    def _give_up(self, now: float) -> None:
        """Forgets what nobody has asked about for too long."""
        while self._ends and self._ends[0][1].until <= now:
            owner, one = self._ends.popleft()
            table = self._expected.get(owner, {})
            if table.get((one.child, one.uid)) is one:
                del table[one.child, one.uid]
            if not table:
                self._expected.pop(owner, None)
