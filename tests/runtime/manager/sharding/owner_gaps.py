"""How long keys are without an owner, measured as it is promised.

*A key is without an owner for at most `lease` + 2 seconds, as long as a healthy member is there the whole time*:

- An owner is a member that may act on the key, whose process runs, and whose requests reach the server.
- A healthy member is one that has joined, whose process runs, and that reaches the server in both directions. It has to
  be the same one the whole time: one that was paused, or cut off, has to see a Lease for its whole duration again.
- Each failure (killed, paused, cut off) of a member that the key waits for starts the time again: of one that comes
  before the healthy one for this key, and of one whose acknowledgement such a member waits for to join. A member that
  gets no responses has failed when its last write has arrived: its Lease counts from there.

While there is no healthy member at all, the time is measured from the start of a process that joins (`start_gap`).
"""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Protocol

from levelset.runtime.manager.sharding.rendezvous import View

__all__ = ["ObservedMember", "OwnerGaps"]


class ObservedMember(Protocol):
    """A member as the measurement sees it."""

    @property
    def me(self) -> str:
        """Its id."""
        ...

    @property
    def holder(self) -> str:
        """The name that its scores are made of."""
        ...

    @property
    def is_healthy(self) -> bool:
        """Whether its process runs, is not paused, and is connected."""
        ...

    @property
    def is_serving(self) -> bool:
        """Whether it may act, is not paused, and its requests reach the server."""
        ...

    @property
    def undisturbed_since(self) -> float:
        """When its process started, was resumed, or was connected again."""
        ...

    @property
    def admitted_at(self) -> float | None:
        """When it joined: None if it has not."""
        ...

    @property
    def waits_for(self) -> frozenset[str]:
        """The members whose acknowledgement it waits for, while it joins and has a Lease."""
        ...

    def owns(self, key: str) -> bool:
        """Whether it comes first for a key among the members that it knows."""
        ...


class OwnerGaps:
    """Feed it failures as they happen and call `check` often; `longest` and `longest_start` are in seconds.

    A gap counts from the last check at which the key had an owner: it is measured as too long rather than too short.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self.longest = self.longest_start = 0.0
        self.worst = self.worst_start = ""
        """Which key it was, and when."""
        self.current = 0.0
        """The longest time of a key that has no owner now."""
        self._keys = keys
        self._owned_at = dict.fromkeys(keys, 0.0)
        self._failures: list[tuple[float, list[ObservedMember]]] = []
        """When a member failed, and the members that wait for it: itself, and those that it has to acknowledge."""

    def fail(self, failed: ObservedMember, members: Iterable[ObservedMember], now: float) -> None:
        """Takes in that a member fails now; called before it does."""
        self.check(members, now)
        waiting = [one for one in members if failed.me in one.waits_for]
        self._failures.append((now, [failed, *waiting]))

    def check(self, members: Iterable[ObservedMember], now: float) -> None:
        """Measures for how long each key has had no owner."""
        there = list(members)
        serving = [one for one in there if one.is_serving]
        joined = [one for one in serving if one.is_healthy and one.admitted_at is not None]
        started = [one.undisturbed_since for one in there if one.is_healthy]
        self.current = 0.0
        for key in self._keys:
            if any(one.owns(key) for one in serving):
                self._owned_at[key] = now
            elif joined:
                self._measure(key, min(self._since(key, one) for one in joined), now)
            elif started:
                failed_at = self._failures[-1][0] if self._failures else 0.0
                self._measure_start(key, max(self._owned_at[key], failed_at, min(started)), now)

    def _since(self, key: str, healthy: ObservedMember) -> float:
        """Since when the key waits for nothing but Leases that run out, if this member is there the whole time."""
        since = max(self._owned_at[key], healthy.undisturbed_since, healthy.admitted_at or 0.0)
        for at, in_the_way in reversed(self._failures):
            if at <= since:
                break
            if any(comes_first(one, healthy, key) for one in in_the_way):
                return at
        return since

    def _measure(self, key: str, since: float, now: float) -> None:
        self.current = max(self.current, now - since)
        if now - since > self.longest:
            self.longest, self.worst = now - since, f"{key} from {since:.3f} to {now:.3f}"

    def _measure_start(self, key: str, since: float, now: float) -> None:
        self.current = max(self.current, now - since)
        if now - since > self.longest_start:
            self.longest_start, self.worst_start = now - since, f"{key} from {since:.3f} to {now:.3f}"


def comes_first(one: ObservedMember, other: ObservedMember, key: str) -> bool:
    """Whether a member has the higher score of two."""
    if one is other:
        return False
    return _comes_first(one.me, one.holder, other.me, other.holder, key)


@cache
def _comes_first(one: str, holder: str, other: str, other_holder: str, key: str) -> bool:
    return View(one, {one: holder, other: other_holder}).owns(key)
