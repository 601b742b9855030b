"""Leader election by a Lease of coordination.k8s.io, with the rules and defaults of client-go.

A Lease names its holder, who renews it. A candidate reads it now and then: once it has not changed for a whole lease
duration, by the candidate's own clock, the holder is considered gone. Clocks of two machines are never compared.

`ElectionState` holds the rules, pure: time is an argument. `LeaderElector` acquires, renews and releases the Lease.
`fence` raises as soon as the Lease may be lost, and guards every write of a leader.
"""

import random as stdlib_random
import socket
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from levelset.aio import timing
from levelset.client.client import Client
from levelset.client.internals import with_settings
from levelset.errors import ApiError, ConfigError, Conflict, Deadline, Fenced, LeaseLost, Unreachable
from levelset.objects.meta import ObjectMeta
from levelset.objects.model import Spec, replace
from levelset.objects.ref import Ref
from levelset.objects.resource import Resource
from levelset.objects.timestamps import MicroTime, format_time, parse_time

__all__ = [
    "ElectionState",
    "LeaderElection",
    "LeaderElectionRecord",
    "LeaderElector",
    "Lease",
    "LeaseSpec",
    "lease_time",
    "lease_time_now",
    "new_lease",
    "read_record",
    "suspension_clock",
    "with_record",
]

_JITTER: Final = 1.2
_MIN_SUSPENSION: Final = 0.5
"""Shorter ones cannot be told from the time between reading two clocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderElection:
    """The settings of an election among the replicas of a program.

    `name` is the name of the Lease, the same in all replicas; `namespace` is the client's unless given. Others take
    over `lease` seconds after the last renewal (LeaseDuration, default 15); the leader stops if it could not renew for
    `renew` seconds (RenewDeadline, default 10); candidates and leader try every `retry` seconds (RetryPeriod, default
    2). With `release`, a leader that stops releases the Lease at once. The Lease is in the manager's cluster unless
    `client` is another one, which is not closed at the end.
    """

    name: str
    """The name of the Lease, the same in all replicas."""
    namespace: str | None = None
    """The namespace of the Lease; the client's if None."""
    identity: str | None = None
    """The name of this candidate, which no other has; host name and a random part if None."""
    lease: int = 15
    """Seconds after the last renewal that others take over (LeaseDuration)."""
    renew: float = 10.0
    """Seconds after which a leader that could not renew stops (RenewDeadline); less than `lease`."""
    retry: float = 2.0
    """Seconds between attempts to acquire or renew (RetryPeriod)."""
    release: bool = True
    """Whether a leader that stops releases the Lease at once."""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    """Labels of the Lease."""
    client: Client | None = field(default=None, repr=False)
    """The client of the cluster that has the Lease; the manager's if None."""

    def __post_init__(self) -> None:
        self._require(bool(self.name), "name", "the name of the Lease, the same for all candidates")
        self._require(self.namespace != "", "namespace", "a namespace, or None for the client's")
        self._require(self.identity != "", "identity", "a name that no other candidate has, or None to generate one")
        self._require(isinstance(self.lease, int) and self.lease >= 1, "lease", "a whole number of seconds, at least 1")
        self._require(self.retry > 0, "retry", "a positive number of seconds")
        self._require(self.renew > self.retry * _JITTER, "renew", f"longer than {_JITTER} times retry ({self.retry} s)")
        self._require(self.lease > self.renew, "lease", f"longer than renew ({self.renew} s)")

    def _require(self, holds: bool, name: str, rule: str) -> None:
        if not holds:
            raise ConfigError(f"LeaderElection({name}={getattr(self, name)!r}): {name} must be {rule}")

    @property
    def request_timeout(self) -> float:
        """The timeout of one request in seconds: short enough for a second one before the renew deadline."""
        return max(1.0, self.renew / 2)

    def retry_delay(self, chance: float) -> float:
        """The seconds until a candidate tries again; `chance`, from 0 to 1, is the jitter."""
        return self.retry * (1 + _JITTER * chance)


class LeaseSpec(Spec):
    """The spec of a Lease; times are MicroTime strings."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Resource[LeaseSpec, None], api="coordination.k8s.io/v1"):
    """A Lease of coordination.k8s.io: a claim of one process that expires unless it is renewed."""

    spec: LeaseSpec = LeaseSpec()


class LeaderElectionRecord(msgspec.Struct, frozen=True):
    """The content of a Lease: holder, duration in seconds, times of acquisition and renewal, number of transitions."""

    holder: str = ""
    duration: int = 0
    acquired: str = ""
    renewed: str = ""
    transitions: int = 0


def lease_time(now: datetime) -> str:
    """A time as a Lease writes it; informative only, never compared."""
    return format_time(MicroTime.of(now))


def lease_time_now() -> str:
    """The current time as a Lease writes it."""
    return lease_time(datetime.now(UTC))


def suspension_clock() -> Callable[[], float]:
    """A function that returns for how many seconds the machine has been suspended since this call.

    The monotonic clock stands still meanwhile, while the clocks of other candidates go on. The wall clock cannot say
    it: it may be set. Where there is no clock for it (on Linux there is), the function returns 0.
    """
    boot_time: int | None = getattr(time, "CLOCK_BOOTTIME", None)
    if boot_time is None:
        return lambda: 0.0

    def read() -> float:
        return time.clock_gettime(boot_time) - time.clock_gettime(time.CLOCK_MONOTONIC)

    began = read()

    def suspended() -> float:
        seconds = read() - began
        return seconds if seconds >= _MIN_SUSPENSION else 0.0

    return suspended


class LeaderElector:
    """One candidate: `acquire`, `renew` and `release` the Lease.

    `fence` raises Fenced as soon as the Lease may be lost; call it before every write that only the leader may do. It
    reads the clock itself, so that it also works after the whole process was stopped, or its machine `suspended`. The
    wall clock is never used, so that it may be set at any time.
    """

    def __init__(
        self,
        client: Client,
        settings: LeaderElection,
        *,
        random: Callable[[], float] = stdlib_random.random,
        stamp: Callable[[], str] = lease_time_now,
        suspended: Callable[[], float] | None = None,
    ) -> None:
        identity = settings.identity or f"{socket.gethostname()}_{uuid.uuid4()}"
        namespace = settings.namespace or client.namespace
        self.election = ElectionState(settings, identity)
        self.ref: Ref[Lease] = Ref(Lease, settings.name, namespace)
        self.last_error: Exception | None = None
        self._client = with_settings(client, timeout=settings.request_timeout)
        self._new_lease = new_lease(settings.name, namespace, dict(settings.labels))
        self._lease: Lease | None = None
        self._may_hold = False
        self._random = random
        self._stamp = stamp
        self._suspended = suspension_clock() if suspended is None else suspended

    def _now(self) -> float:
        """The clock of the election: the loop's, which does not count suspensions of the machine, and these."""
        return timing.now() + self._suspended()

    @property
    def identity(self) -> str:
        """The identity of this candidate in the Lease."""
        return self.election.identity

    @property
    def is_leader(self) -> bool:
        """Whether this candidate certainly holds the Lease."""
        return self.election.leads(self._now())

    def fence(self) -> None:
        """Returns if this candidate leads; raises Fenced if not."""
        if not self.is_leader:
            raise Fenced(f"{self.identity} does not hold {self.ref} and must not write; this process must stop")

    async def acquire(self) -> None:
        """Returns when this candidate leads; retries until then, whatever fails."""
        while not await self._attempt():
            await timing.sleep(self.election.settings.retry_delay(self._random()))

    async def renew(self) -> None:
        """Renews the Lease until it is lost, by the renew deadline or to another candidate; then raises LeaseLost."""
        retry = self.election.settings.retry
        while (deadline := self.election.deadline) is not None:
            await timing.sleep(min(retry, deadline - self._now()))
            if not self.is_leader:
                break
            await self._attempt(within=deadline - self._now())
        self.election.resign()
        raise LeaseLost(f"{self.identity} has lost {self.ref}: {self._why()}") from self.last_error

    async def release(self, *, within: float | None = None) -> None:
        """Releases the Lease if it is held, so that another candidate may lead at once; errors are ignored."""
        self.election.resign()
        if not (self._may_hold and self.election.settings.release):
            return
        try:
            async with timing.within(self.election.settings.request_timeout if within is None else within):
                while not await self._release_lease():
                    pass
        except (ApiError, Unreachable, TimeoutError) as error:
            self.last_error = error

    async def _attempt(self, *, within: float | None = None) -> bool:
        """Tries to acquire or renew the Lease; returns whether it is held now."""
        limit = self.election.settings.request_timeout
        try:
            async with timing.within(limit if within is None else min(limit, within)):
                return await self._claim()
        except (ApiError, Unreachable) as error:
            self.last_error = error
        except TimeoutError:
            self.last_error = Deadline("the server did not respond in time")
        # It may have been written all the same: the next attempt reads it first.
        self._lease = None
        return self.is_leader

    async def _claim(self) -> bool:
        if self._lease is not None and self.is_leader and await self._write(self._lease):
            return True
        lease = await self._read_lease()
        return await self._write(lease)

    async def _read_lease(self) -> Lease | None:
        lease = await self._client.find(self.ref)
        self.election.observe(None if lease is None else read_record(lease), self._now())
        return lease

    async def _write(self, lease: Lease | None) -> bool:
        sent = self._now()
        record = self.election.desired_record(sent, self._new_stamp())
        if record is None:
            return False
        self._may_hold = True
        try:
            self._lease = await self._put(lease, record)
        except Conflict as error:
            self.last_error, self._lease = error, None
            return False
        self.election.record_written(record, sent)
        self.last_error = None
        return True

    def _new_stamp(self) -> str:
        """The time, different from that of the last renewal even if the wall clock stands still or jumps back to it.

        A renewal that changes nothing would not be seen, and other candidates would consider this one gone.
        """
        stamp = self._stamp()
        if stamp == self.election.renewed:
            stamp = lease_time(parse_time(stamp) + timedelta(microseconds=1))
        return stamp

    async def _put(self, lease: Lease | None, record: LeaderElectionRecord) -> Lease:
        if lease is None:
            return await self._client.create(with_record(self._new_lease, record))
        return await self._client.update(with_record(lease, record))

    async def _release_lease(self) -> bool:
        lease = await self._client.find(self.ref)
        if lease is None or read_record(lease).holder != self.identity:
            return True
        self.election.observe(read_record(lease), self._now())
        try:
            await self._client.update(with_record(lease, self.election.released_record(self._stamp())))
        except Conflict:
            return False
        return True

    def _why(self) -> str:
        if self.election.holder not in {"", self.identity}:
            return f"{self.election.holder} holds it"
        return f"it could not be renewed within {self.election.settings.renew:g} s ({self.last_error or 'no attempt'})"


class ElectionState:
    """One candidate's view of the election; pure. Times are seconds on its own monotonic clock."""

    def __init__(self, settings: LeaderElection, identity: str) -> None:
        self.settings = settings
        self.identity = identity
        self._record: LeaderElectionRecord | None = None
        self._changed_at = 0.0
        self._renewed_at: float | None = None

    @property
    def holder(self) -> str:
        """The holder of the Lease when it was last read; empty if it is free."""
        return self._record.holder if self._record is not None else ""

    @property
    def renewed(self) -> str:
        """The time of the last renewal in the Lease; empty if there was none."""
        return self._record.renewed if self._record is not None else ""

    @property
    def deadline(self) -> float | None:
        """When this candidate stops leading unless it renews before; None if it does not lead."""
        return None if self._renewed_at is None else self._renewed_at + self.settings.renew

    def leads(self, now: float) -> bool:
        """Whether this candidate certainly holds the Lease: no other candidate can consider it free."""
        deadline = self.deadline
        return deadline is not None and now < deadline

    def observe(self, record: LeaderElectionRecord | None, now: float) -> None:
        """Takes in the Lease as it was read at `now`; None if there is none."""
        if record != self._record:
            self._record, self._changed_at = record, now
        if self.holder != self.identity:
            self._renewed_at = None

    def desired_record(self, now: float, stamp: str) -> LeaderElectionRecord | None:
        """The record to write in order to acquire or renew the Lease; None while another candidate holds it."""
        settings, record = self.settings, self._record
        if record is None:
            return LeaderElectionRecord(self.identity, settings.lease, stamp, stamp)
        if record.holder == self.identity:
            return msgspec.structs.replace(record, duration=settings.lease, renewed=stamp)
        if record.holder and now < self._changed_at + (record.duration or settings.lease):
            return None
        return LeaderElectionRecord(self.identity, settings.lease, stamp, stamp, record.transitions + 1)

    def record_written(self, record: LeaderElectionRecord, sent: float) -> None:
        """Takes in that the server accepted a record that was sent at `sent`.

        The lease counts from the sending: others see the record later, and so wait longer than this candidate leads.
        """
        self._record, self._changed_at, self._renewed_at = record, sent, sent

    def resign(self) -> None:
        """Stops leading, whatever the Lease says."""
        self._renewed_at = None

    def released_record(self, stamp: str) -> LeaderElectionRecord:
        """The record to write in order to release the Lease: no holder, so that any candidate may acquire it."""
        record = self._record or LeaderElectionRecord()
        return msgspec.structs.replace(record, holder="", duration=1, acquired=stamp, renewed=stamp)


def read_record(lease: Lease) -> LeaderElectionRecord:
    """The record in a Lease."""
    spec = lease.spec
    return LeaderElectionRecord(
        spec.holder_identity or "",
        spec.lease_duration_seconds or 0,
        spec.acquire_time or "",
        spec.renew_time or "",
        spec.lease_transitions or 0,
    )


def with_record(lease: Lease, record: LeaderElectionRecord) -> Lease:
    """A copy of the Lease with this record; everything else in it stays."""
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
    """A Lease to create."""
    return Lease(metadata=ObjectMeta(name=name, namespace=namespace, labels=labels))
