"""One member's side of the hand-over: whom it respects, whom it has acknowledged, and whether it may act. Pure.

Members meet in pairs. One that joins may act once every member that was there before has acknowledged it, or is gone.
A member acknowledges another when it has stopped whatever the other one comes first for, and respects it from then on.
So of two members at most one acts on a key, whatever either of them knows of third ones
(docs/decisions/0040-managers-that-share-the-work.md).

A member is gone when its Lease says so (no holder), or when its Lease was deleted and its time has run out. The Lease
of a member that no longer renews is released by another one, in the version in which it has not changed for its whole
duration and the clock allowance. Times are seconds on the member's own monotonic clock; clocks of two machines are
never compared.
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from levelset.runtime.manager.sharding.rendezvous import View

__all__ = ["LeaseTimes", "MemberRecord", "Membership", "OtherMember"]

_STAGGER: Final = 0.05
_MOST_STAGGER: Final = 3
"""So many members release an expired Lease one after the other; any others together with the last of them."""
_LATELY: Final = 2
"""A member that is alive has renewed within so many times its `retry`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTimes:
    """The times of a member's Lease in seconds: see `Sharding`."""

    lease: float
    renew: float
    retry: float
    allowance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRecord:
    """What the Lease of a member says; `holder` is empty once it is released."""

    holder: str
    version: str
    duration: float
    acknowledged: frozenset[str] = frozenset()
    keys: int = 0
    algorithm: str = ""
    retry: float = 0.0
    """Seconds between its renewals; 0 if it does not say."""


@dataclass(slots=True)
class OtherMember:
    """Another member, as it was last seen."""

    record: MemberRecord
    changed_at: float
    """When its Lease was first seen as it is."""
    changed_before: float | None = None
    """When it was first seen as it was before; None if it was not."""
    is_missing: bool = False
    """Whether its Lease was deleted without having been released."""
    is_acknowledged: bool = False


class Membership:
    """The state of one member: feed it what is seen of Leases, and it says what to do. Not thread-safe."""

    def __init__(self, me: str, holder: str, times: LeaseTimes) -> None:
        self.me = me
        self.times = times
        self.others: dict[str, OtherMember] = {}
        self.view = View(me, {me: holder})
        self.is_admitted = False
        """Whether all members that were there before have acknowledged this one."""
        self._awaited: set[str] | None = None
        self._released: dict[str, float] = {}
        """The members whose Leases were released lately, and when that was seen."""
        self._renewed_at: float | None = None

    def rename(self, me: str) -> None:
        """Gives this member another id, before it has a Lease: for one that may have had a Lease under the last."""
        assert self._renewed_at is None, "a member that has a Lease has its id for good"
        holder, known = self.view.members[self.me], dict(self.view.members)
        del known[self.me]
        self.me = me
        self.view = View(me, {me: holder, **known})

    @property
    def deadline(self) -> float | None:
        """When this member must have stopped unless it renews before; None if it holds no Lease."""
        return None if self._renewed_at is None else self._renewed_at + self.times.renew

    def holds(self, now: float) -> bool:
        """Whether its Lease is certainly held: no other member can have released it."""
        return self._renewed_at is not None and now < self._renewed_at + self.times.renew

    def may_act(self, now: float) -> bool:
        """Whether it may start work and write, on keys that it owns."""
        return self.is_admitted and self.holds(now)

    def record_written(self, sent: float) -> None:
        """Takes in that the server accepted a renewal that was sent at `sent`; the Lease counts from then."""
        self._renewed_at = sent

    def resign(self) -> None:
        """Stops acting for good."""
        self._renewed_at, self._awaited, self.is_admitted = None, None, False

    def observe(self, member: str, record: MemberRecord | None, now: float) -> None:
        """Takes in the Lease of another member; None if it does not exist. What was released stays so."""
        self.observe_all([(member, record)], now)

    def observe_all(self, seen: Iterable[tuple[str, MemberRecord | None]], now: float) -> None:
        """Takes in several, in this order, and decides once what follows: there may be thousands, forged ones too."""
        changed = {self._take(member, record, now) for member, record in seen}
        if "members" in changed:
            self._update()
        elif "record" in changed:
            self._update_awaited()  # the holder of a Lease is the same for as long as it is held

    def _take(self, member: str, record: MemberRecord | None, now: float) -> Literal["members", "record", "nothing"]:
        """What has changed."""
        known = self.others.get(member)
        if record is None:
            if known is not None:
                known.is_missing = True
        elif not record.holder:
            self.others.pop(member, None)
            self._released[member] = now
            return "members"
        elif member in self._released:
            pass  # from a list, or an event, that is older than the release
        elif known is None:
            self.others[member] = OtherMember(record, now)
            return "members"
        else:
            known.is_missing = False
            if record.version != known.record.version:
                known.record, known.changed_before, known.changed_at = record, known.changed_at, now
                return "record"
        return "nothing"

    def begin(self, seen: Mapping[str, MemberRecord], now: float) -> None:
        """Takes in a consistent list of all Leases, made after the own one was created.

        These members must acknowledge this one; those that come later need the acknowledgement of this one. What was
        observed of a member before is kept: it may be newer than the list, and say that this one is acknowledged.
        """
        self.observe_all([(one, record) for one, record in seen.items() if one not in self.others], now)
        self._awaited = {one for one in seen if one in self.others}
        self._update()

    def tick(self, now: float) -> None:
        """Lets time pass: forgets members whose Lease was deleted and whose time has run out."""
        oldest = now - self.times.lease - self.times.allowance
        self._released = {one: at for one, at in self._released.items() if at >= oldest}
        gone = [one for one, other in self.others.items() if other.is_missing and now >= self._end_of(other)]
        for one in gone:
            del self.others[one]
        if gone:
            self._update()

    def expired(self, now: float) -> Mapping[str, str]:
        """The members whose Lease this one should release now, with the versions that have run out."""
        rank = self._rank()
        found: dict[str, str] = {}
        for one, other in self.others.items():
            if not other.is_missing and now >= self._end_of(other) + self._stagger(one, rank):
                found[one] = other.record.version
        return found

    def are_alive(self, since: float, now: float) -> bool:
        """Whether every other member has renewed after `since`, lately, and at its pace.

        A member that could not see events for a while sees them all at once, also those of members that are dead.
        """
        return all(self._is_alive(other, since, now) for other in self.others.values())

    def _is_alive(self, other: OtherMember, since: float, now: float) -> bool:
        retry = other.record.retry or self.times.retry
        if other.changed_before is None or other.changed_at <= since or now - other.changed_at > _LATELY * retry:
            return False
        return retry / 2 <= other.changed_at - other.changed_before <= _LATELY * retry

    def unacknowledged(self) -> list[str]:
        """The members that wait for this one."""
        return [one for one, other in self.others.items() if not other.is_acknowledged]

    def acknowledge(self, members: Iterable[str]) -> None:
        """Takes in that nothing runs any more that these members come first for."""
        for one in members:
            if one in self.others:
                self.others[one].is_acknowledged = True

    @property
    def acknowledged(self) -> frozenset[str]:
        """The members that this one has acknowledged, to be published in its Lease."""
        return frozenset(one for one, other in self.others.items() if other.is_acknowledged)

    @property
    def awaited(self) -> frozenset[str]:
        """The members whose acknowledgement is still missing."""
        return frozenset(self._awaited or ())

    def next_at(self, without: Container[str] = ()) -> float | None:
        """When `tick` or `expired` may have something to do for members but these; None if there are no others."""
        rank = self._rank()
        ends = [
            self._end_of(other) + (0.0 if other.is_missing else self._stagger(one, rank))
            for one, other in self.others.items()
            if one not in without
        ]
        return min(ends, default=None)

    def _end_of(self, other: OtherMember) -> float:
        return other.changed_at + other.record.duration + self.times.allowance

    def _rank(self) -> int:
        """How many other members come before this one in the order of ids."""
        return sum(one < self.me for one in self.others)

    def _stagger(self, expired: str, rank: int) -> float:
        """The first members in the order of ids release one after the other, so that one write does for all."""
        return _STAGGER * min(rank - (expired < self.me), _MOST_STAGGER)

    def _update(self) -> None:
        self.view = self.view.with_members(self.others, {one: it.record.holder for one, it in self.others.items()})
        self._update_awaited()

    def _update_awaited(self) -> None:
        if self._awaited is None or self.is_admitted:
            return
        self._awaited = {
            one for one in self._awaited if one in self.others and self.me not in self.others[one].record.acknowledged
        }
        if not self._awaited and self._renewed_at is not None:
            self.is_admitted = True
