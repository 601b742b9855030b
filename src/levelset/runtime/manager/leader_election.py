"""Leads, or waits to lead: keeps a Lease of this process renewed, and says at once when it is lost.

Who leads: the rules of an election by Lease, without a clock and without a server.

A Lease names its holder and is renewed by it. Whoever else wants it looks at it now and then: once it has not changed
for a whole lease, by the looker's own clock, the holder is taken to be gone. Two machines' clocks are never compared.

The Lease of coordination.k8s.io: the object that an election is about.
"""

import dataclasses
import random as stdlib_random
import socket
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from levelset.aio import timing
from levelset.client.client import Client
from levelset.client.transport.interface import Guard, Hook
from levelset.errors import ApiError, ConfigError, Conflict, Deadline, Fenced, LeaseLost, Unreachable
from levelset.objects.meta import ObjectMeta
from levelset.objects.model import Spec, replace
from levelset.objects.ref import Ref
from levelset.objects.resource import Resource
from levelset.objects.timestamps import MicroTime, format_time

__all__ = [
    "Election",
    "Elector",
    "LeaderElection",
    "Lease",
    "LeaseSpec",
    "Record",
    "fencing",
    "new_lease",
    "read_record",
    "stamp",
    "stamp_now",
    "with_record",
]

_JITTER = 1.2


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderElection:
    """How several processes of one program agree on the one that works.

    `name` is the Lease's, the same in all of them; `namespace` is the client's unless given. Others take over `lease`
    seconds after the last renewal; the leader gives up by itself if it could not renew for `renew` seconds; whoever
    waits, and whoever renews, tries every `retry` seconds. With `release`, a leader that stops hands over at once.
    The Lease is kept where the work is, unless `client` leads to another cluster; it stays open at the end.
    """

    name: str
    namespace: str | None = None
    identity: str | None = None
    lease: int = 15
    renew: float = 10.0
    retry: float = 2.0
    release: bool = True
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    client: Client | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self._require(bool(self.name), "name", "the name of the Lease, the same for all candidates")
        self._require(self.namespace != "", "namespace", "a namespace, or None for the client's")
        self._require(self.identity != "", "identity", "a name that no other candidate has, or None for a made-up one")
        self._require(isinstance(self.lease, int) and self.lease >= 1, "lease", "a whole number of seconds, at least 1")
        self._require(self.retry > 0, "retry", "a positive number of seconds")
        self._require(self.renew > self.retry * _JITTER, "renew", f"longer than {_JITTER} times retry ({self.retry} s)")
        self._require(self.lease > self.renew, "lease", f"longer than renew ({self.renew} s)")

    def _require(self, holds: bool, name: str, rule: str) -> None:
        if not holds:
            raise ConfigError(f"LeaderElection({name}={getattr(self, name)!r}): {name} must be {rule}")

    @property
    def patience(self) -> float:
        """How many seconds one request may take: short enough for a second one before it is too late."""
        return max(1.0, self.renew / 2)

    def pause(self, chance: float) -> float:
        """How long a candidate waits before it looks again; `chance` is from 0 to 1, so that they do not go in step."""
        return self.retry * (1 + _JITTER * chance)


@dataclass(frozen=True, slots=True)
class Record:
    """What a Lease says: who holds it, for how long after a renewal, since when, and how often it changed hands."""

    holder: str = ""
    duration: int = 0
    acquired: str = ""
    renewed: str = ""
    transitions: int = 0


class Election:
    """One candidate's view of the election; times are seconds on its own clock."""

    def __init__(self, settings: LeaderElection, identity: str) -> None:
        self.settings = settings
        self.identity = identity
        self._record: Record | None = None
        self._changed_at = 0.0
        self._renewed_at: float | None = None

    @property
    def holder(self) -> str:
        """Who held the Lease when it was last seen; empty if nobody."""
        return self._record.holder if self._record is not None else ""

    @property
    def deadline(self) -> float | None:
        """When we stop to lead unless the Lease is renewed before; None if we do not lead."""
        return None if self._renewed_at is None else self._renewed_at + self.settings.renew

    def leads(self, now: float) -> bool:
        """Whether the Lease is surely ours: nobody else can believe that it is free."""
        deadline = self.deadline
        return deadline is not None and now < deadline

    def see(self, record: Record | None, now: float) -> None:
        """Takes in what the Lease says, as read at `now`; None if there is no Lease."""
        if record != self._record:
            self._record, self._changed_at = record, now
        if self.holder != self.identity:
            self._renewed_at = None

    def wanted(self, now: float, stamp: str) -> Record | None:
        """What to write in order to lead, or to go on leading; None while somebody else holds the Lease."""
        settings, record = self.settings, self._record
        if record is None:
            return Record(self.identity, settings.lease, stamp, stamp)
        if record.holder == self.identity:
            return dataclasses.replace(record, duration=settings.lease, renewed=stamp)
        if record.holder and now < self._changed_at + (record.duration or settings.lease):
            return None
        return Record(self.identity, settings.lease, stamp, stamp, record.transitions + 1)

    def wrote(self, record: Record, sent: float) -> None:
        """Takes in that the server has accepted this record, which was sent at `sent`.

        The lease is counted from the sending: others see the record later, and so wait longer than we lead.
        """
        self._record, self._changed_at, self._renewed_at = record, sent, sent

    def resign(self) -> None:
        """Leads no longer, whatever the Lease says."""
        self._renewed_at = None

    def given_up(self, stamp: str) -> Record:
        """What to write in order to hand over: nobody holds it, and whoever looks may take it."""
        record = self._record or Record()
        return dataclasses.replace(record, holder="", duration=1, acquired=stamp, renewed=stamp)


class LeaseSpec(Spec):
    """Who holds the lease, until when, and since when; times are texts with six digits after the second."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Resource[LeaseSpec, None], api="coordination.k8s.io/v1"):
    """A claim of one process to a name, which expires unless it is renewed."""

    spec: LeaseSpec = LeaseSpec()


def read_record(lease: Lease) -> Record:
    """What a Lease says."""
    spec = lease.spec
    return Record(
        spec.holder_identity or "",
        spec.lease_duration_seconds or 0,
        spec.acquire_time or "",
        spec.renew_time or "",
        spec.lease_transitions or 0,
    )


def with_record(lease: Lease, record: Record) -> Lease:
    """The Lease as it says this; what else is in it stays."""
    spec = replace(
        lease.spec,
        holder_identity=record.holder,
        lease_duration_seconds=record.duration,
        acquire_time=record.acquired,
        renew_time=record.renewed,
        lease_transitions=record.transitions,
    )
    return replace(lease, spec=spec)


def new_lease(name: str, namespace: str, labels: dict[str, str]) -> Lease:
    """A Lease that no server has seen yet."""
    return Lease(metadata=ObjectMeta(name=name, namespace=namespace, labels=labels))


def stamp(now: datetime) -> str:
    """A time of day as a Lease writes it; for people, never compared."""
    return format_time(MicroTime.of(now))


def stamp_now() -> str:
    """The time of this moment as a Lease writes it."""
    return stamp(datetime.now(UTC))


_READING: Final = frozenset({"GET", "HEAD"})


class Elector:
    """One candidate in an election: `acquire` it, `keep` it, `release` it.

    `fence` raises Fenced as soon as the Lease is not surely ours; to be called before anything that only the leader may
    do. It looks at the clock itself, so that it also holds after the whole process was stopped for a while.
    """

    def __init__(
        self,
        client: Client,
        settings: LeaderElection,
        *,
        random: Callable[[], float] = stdlib_random.random,
        stamp: Callable[[], str] = stamp_now,
    ) -> None:
        identity = settings.identity or f"{socket.gethostname()}_{uuid.uuid4()}"
        namespace = settings.namespace or client.namespace
        self.election = Election(settings, identity)
        self.ref: Ref[Lease] = Ref(Lease, settings.name, namespace)
        self.trouble: Exception | None = None
        self._client = client.using(timeout=settings.patience)
        self._draft = new_lease(settings.name, namespace, dict(settings.labels))
        self._lease: Lease | None = None
        self._may_hold = False
        self._random = random
        self._stamp = stamp

    @property
    def identity(self) -> str:
        """What the Lease calls us."""
        return self.election.identity

    @property
    def is_leader(self) -> bool:
        """Whether the Lease is surely ours."""
        return self.election.leads(timing.now())

    def fence(self) -> None:
        """Returns if we lead; Fenced if not."""
        if not self.is_leader:
            raise Fenced(f"{self.identity} does not hold {self.ref}: only its holder may write; this process must stop")

    async def acquire(self) -> None:
        """Returns when we lead; tries until then, whatever goes wrong."""
        while not await self._attempt():
            await timing.sleep(self.election.settings.pause(self._random()))

    async def keep(self) -> None:
        """Renews the Lease; LeaseLost when it could not be renewed in time, or somebody else has it."""
        retry = self.election.settings.retry
        while (deadline := self.election.deadline) is not None:
            await timing.sleep_until(min(timing.now() + retry, deadline))
            if not self.is_leader:
                break
            await self._attempt(until=deadline)
        self.election.resign()
        raise LeaseLost(f"{self.identity} has lost {self.ref}: {self._why()}") from self.trouble

    async def release(self, *, within: float | None = None) -> None:
        """Gives the Lease up if it is ours, so that somebody else may lead at once; what goes wrong is left at that."""
        self.election.resign()
        if not (self._may_hold and self.election.settings.release):
            return
        try:
            async with timing.within(self.election.settings.patience if within is None else within):
                while not await self._hand_over():
                    pass
        except (ApiError, Unreachable, TimeoutError) as error:
            self.trouble = error

    async def _attempt(self, *, until: float | None = None) -> bool:
        """Writes the Lease if it is, or can be, ours; whether it is ours now."""
        limit = timing.now() + self.election.settings.patience
        try:
            async with timing.until(limit if until is None else min(limit, until)):
                return await self._claim()
        except (ApiError, Unreachable) as error:
            self.trouble = error
        except TimeoutError:
            self.trouble = Deadline("the server did not answer in time")
        # It may have been written all the same: the next attempt begins with a look.
        self._lease = None
        return self.is_leader

    async def _claim(self) -> bool:
        if self._lease is not None and self.is_leader and await self._write(self._lease):
            return True
        lease = await self._look()
        return await self._write(lease)

    async def _look(self) -> Lease | None:
        lease = await self._client.find(self.ref)
        self.election.see(None if lease is None else read_record(lease), timing.now())
        return lease

    async def _write(self, lease: Lease | None) -> bool:
        sent = timing.now()
        record = self.election.wanted(sent, self._stamp())
        if record is None:
            return False
        self._may_hold = True
        try:
            self._lease = await self._put(lease, record)
        except Conflict as error:
            self.trouble, self._lease = error, None
            return False
        self.election.wrote(record, sent)
        self.trouble = None
        return True

    async def _put(self, lease: Lease | None, record: Record) -> Lease:
        if lease is None:
            return await self._client.create(with_record(self._draft, record))
        return await self._client.update(with_record(lease, record))

    async def _hand_over(self) -> bool:
        lease = await self._client.find(self.ref)
        if lease is None or read_record(lease).holder != self.identity:
            return True
        self.election.see(read_record(lease), timing.now())
        try:
            await self._client.update(with_record(lease, self.election.given_up(self._stamp())))
        except Conflict:
            return False
        return True

    def _why(self) -> str:
        if self.election.holder not in {"", self.identity}:
            return f"{self.election.holder} holds it"
        return f"it could not be renewed within {self.election.settings.renew:g} s ({self.trouble or 'no time to try'})"


def fencing(fence: Callable[[], object]) -> Hook:
    """A hook for a client whose writes only a leader may send: `fence` is asked before each of them."""
    return Guard(lambda call: call.method in _READING or fence())
