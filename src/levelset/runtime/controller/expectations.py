"""Tracks children that were just created or deleted until the cache shows it, so that none is created twice.

A child with a fixed name cannot be created twice. One with `generateName` can: by a reconcile that does not see the
first one in the cache yet, or by one that repeats a create whose response was lost.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Final

import msgspec

from levelset.objects.ref import GroupVersionKind, Ref

__all__ = ["EXPECTATION_TIMEOUT", "UNKNOWN_CREATE_TIMEOUT", "Expectation", "Expectations", "IsObserved"]

EXPECTATION_TIMEOUT: Final = 300.0
"""After so many seconds an expectation is dropped, whether or not the cache shows the child."""
UNKNOWN_CREATE_TIMEOUT: Final = 60.0
"""So many seconds after a create whose response was lost, children are read from the API server."""


class Expectation(msgspec.Struct, frozen=True, gc=False):
    """One child whose creation, or with `is_deletion` whose deletion, the cache does not show yet."""

    child: Ref[Any]
    uid: str
    version: str
    is_deletion: bool
    expires_at: float


IsObserved = Callable[[Expectation], bool]
"""Whether the cache shows what is expected; True also for a kind that is not cached."""


class Expectations:
    """The expectations of owners about their children; each is dropped after `timeout` seconds.

    A create whose response was lost may have happened, or may still: for `unknown_create_timeout` seconds the children
    of that owner and kind must be read from the API server.
    """

    __slots__ = ("_by_expiry", "_expected", "_timeout", "_unknown_create_timeout", "_unknown_creates")

    def __init__(
        self, *, timeout: float = EXPECTATION_TIMEOUT, unknown_create_timeout: float = UNKNOWN_CREATE_TIMEOUT
    ) -> None:
        self._timeout = timeout
        self._unknown_create_timeout = unknown_create_timeout
        self._expected: dict[Ref[Any], dict[tuple[Ref[Any], str], Expectation]] = {}
        self._unknown_creates: dict[Ref[Any], dict[GroupVersionKind, float]] = {}
        self._by_expiry: deque[tuple[Ref[Any], Expectation]] = deque()  # in the order in which they expire

    def __len__(self) -> int:
        """How many owners have expectations."""
        return len(self._expected.keys() | self._unknown_creates.keys())

    def expect_created(self, owner: Ref[Any], child: Ref[Any], *, uid: str, version: str, now: float) -> None:
        """Expects the cache to show a child that was created."""
        self._expect(owner, Expectation(child, uid, version, False, now + self._timeout), now)

    def expect_deleted(self, owner: Ref[Any], child: Ref[Any], *, uid: str, now: float) -> None:
        """Expects the cache to no longer show a child that was deleted."""
        self._expect(owner, Expectation(child, uid, "", True, now + self._timeout), now)

    def record_unknown_create(self, owner: Ref[Any], kind: GroupVersionKind, *, now: float) -> None:
        """Records a create whose response was lost."""
        for other in list(self._unknown_creates):
            self.has_unknown_create(other, kind, now=now)  # drops expired entries
        self._unknown_creates.setdefault(owner, {})[kind] = now + self._unknown_create_timeout

    def has_unknown_create(self, owner: Ref[Any], kind: GroupVersionKind, *, now: float) -> bool:
        """Whether a create of this owner and kind may have happened unseen, so that reads must be live."""
        unknown = self._unknown_creates.get(owner)
        if unknown is None:
            return False
        left = {one: until for one, until in unknown.items() if until > now}
        if left:
            self._unknown_creates[owner] = left
        else:
            del self._unknown_creates[owner]
        return kind in left

    def pending(self, owner: Ref[Any], is_observed: IsObserved, *, now: float) -> tuple[Expectation, ...]:
        """What the cache does not show yet of an owner's children, oldest first; drops what it shows by now."""
        expected = self._expected.get(owner)
        if expected is None:
            return ()
        left = {key: one for key, one in expected.items() if one.expires_at > now and not is_observed(one)}
        if left:
            self._expected[owner] = left
        else:
            del self._expected[owner]
        return tuple(left.values())

    def forget(self, owner: Ref[Any]) -> None:
        """Drops the expectations of an owner that is gone."""
        self._expected.pop(owner, None)
        self._unknown_creates.pop(owner, None)

    def _expect(self, owner: Ref[Any], one: Expectation, now: float) -> None:
        self._drop_expired(now)
        self._by_expiry.append((owner, one))
        table = self._expected.setdefault(owner, {})
        table.pop((one.child, one.uid), None)
        table[one.child, one.uid] = one

    def _drop_expired(self, now: float) -> None:
        """Drops expectations that have expired, also those of owners that are never reconciled again."""
        while self._by_expiry and self._by_expiry[0][1].expires_at <= now:
            owner, one = self._by_expiry.popleft()
            table = self._expected.get(owner, {})
            if table.get((one.child, one.uid)) is one:
                del table[one.child, one.uid]
            if not table:
                self._expected.pop(owner, None)
