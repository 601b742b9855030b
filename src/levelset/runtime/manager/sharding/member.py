"""`ShardMember`: one replica that shares the objects of its controllers with others, through Leases. Thin I/O.

Each member has a Lease of its own, renews it, and publishes in its annotations which members it has acknowledged. What
it does next is decided by `membership.py`; the work that moves is stopped and started by `hand_over.py`.
"""

import asyncio
import logging
import re
import socket
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import msgspec

from levelset.aio import timing
from levelset.client.client import Client
from levelset.client.internals import with_settings
from levelset.errors import ApiError, ConfigError, Conflict, Deadline, Fenced, LeaseLost, NotFound, Unreachable
from levelset.objects.meta import ObjectMeta
from levelset.objects.model import replace
from levelset.objects.ref import Ref
from levelset.runtime.cache import Change, Cluster, Store
from levelset.runtime.manager.leader_election import Lease, LeaseSpec, lease_time_now, suspension_clock
from levelset.runtime.manager.sharding.membership import LeaseTimes, MemberRecord, Membership
from levelset.runtime.manager.sharding.rendezvous import ALGORITHM, View

__all__ = ["KEYS_ANNOTATION", "SHARDS_LABEL", "MemberReport", "MovingWork", "ShardMember", "Sharding"]

_GROUP: Final = "sharding.levelset.dev"
SHARDS_LABEL: Final = f"{_GROUP}/name"
"""The label of the Leases of members, with the name of the shards."""
_ACKNOWLEDGED: Final = f"{_GROUP}/acknowledged"
_ALGORITHM: Final = f"{_GROUP}/algorithm"
KEYS_ANNOTATION: Final = f"{_GROUP}/keys"
"""The annotation of these Leases with the number of objects that the member owns."""
_RETRY: Final = f"{_GROUP}/retry-milliseconds"
_POLL: Final = 0.05
"""Seconds between two checks whether what moves has stopped."""
_MAX_NAME: Final = 50
_MAX_DIGITS: Final = 15

_log: Final = logging.getLogger("levelset.runtime.manager")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharding:
    """The settings of replicas that share the objects of their controllers: each object has one owner among them.

    `name` is the same in all replicas of a program; each has a Lease `NAME-xxxxxxxxxx` in `namespace` (the client's
    unless given). The others take the objects of a member over `lease` seconds and the clock `allowance` after its last
    renewal; a member that could not renew for `renew` seconds stops. An object that moves to a member that joins is
    stopped first: a reconcile of it that runs has `drain` seconds before it is cancelled.

    `identity` is the name that decides which objects a member gets: give one that a replica has again after a restart,
    such as the pod's in a StatefulSet, and it gets the same ones. The Leases are in the manager's cluster unless
    `client` is another one, which is not closed at the end.
    """

    name: str
    """The name that all replicas share; part of the names of their Leases."""
    namespace: str | None = None
    """The namespace of the Leases; the client's if None."""
    identity: str | None = None
    """The name of this member; host name and a random part if None."""
    lease: int = 15
    """Seconds after the last renewal, with `allowance`, that others take over (leaseDurationSeconds)."""
    renew: float = 10.0
    """Seconds after which a member that could not renew stops; less than `lease`."""
    retry: float = 2.0
    """Seconds between renewals."""
    allowance: float = 1.0
    """Seconds that others wait beyond `lease`, for clocks that run at different rates."""
    drain: float = 10.0
    """Seconds that a running reconcile of an object that moves may take before it is cancelled."""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    """Labels of the Lease."""
    client: Client | None = field(default=None, repr=False)
    """The client of the cluster that has the Leases; the manager's if None."""

    def __post_init__(self) -> None:
        is_name = bool(re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", self.name)) and len(self.name) <= _MAX_NAME
        rule = f"lower-case letters, digits and hyphens, at most {_MAX_NAME}, the same for all replicas"
        self._require(is_name, "name", rule)
        self._require(self.namespace != "", "namespace", "a namespace, or None for the client's")
        self._require(self.identity != "", "identity", "a name, or None to generate one")
        self._require(isinstance(self.lease, int) and self.lease >= 1, "lease", "a whole number of seconds, at least 1")
        self._require(self.retry > 0, "retry", "a positive number of seconds")
        self._require(self.renew > 1.2 * self.retry, "renew", f"longer than 1.2 times retry ({self.retry} s)")
        self._require(self.lease > self.renew, "lease", f"longer than renew ({self.renew} s)")
        self._require(self.allowance >= 0, "allowance", "a number of seconds, not negative")
        self._require(0 <= self.drain < self.lease, "drain", f"less than lease ({self.lease} s)")

    def _require(self, holds: bool, name: str, rule: str) -> None:
        if not holds:
            raise ConfigError(f"Sharding({name}={getattr(self, name)!r}): {name} must be {rule}")

    @property
    def times(self) -> LeaseTimes:
        """The times of a member's Lease."""
        return LeaseTimes(lease=self.lease, renew=self.renew, retry=self.retry, allowance=self.allowance)

    @property
    def request_timeout(self) -> float:
        """The timeout of one request in seconds."""
        return max(1.0, self.retry)


class MovingWork(Protocol):
    """The work that moves between members."""

    def changed(self, view: View) -> None:
        """The members have changed: starts to stop what is no longer owned, and to start what is."""
        ...

    def is_drained(self) -> bool:
        """Whether nothing runs that is not owned any more."""
        ...

    def keys(self) -> int:
        """How many objects this member owns."""
        ...


class MemberReport(msgspec.Struct, frozen=True):
    """One member for people: `keys` is what it last published."""

    name: str
    identity: str
    keys: int
    is_me: bool
    is_acknowledged: bool
    """Whether the member that reports has stopped what belongs to this one."""
    silent: float = 0.0
    """Seconds since its Lease was last seen to change."""
    is_stopped: bool = False
    """Whether it could not renew for so long that it acts no more; its objects have no owner until others have them."""


class ShardMember:
    """One member: `run` joins, renews and hands over until it is cancelled or the Lease is lost.

    `may_act` says whether work on a key may start, and `fence` raises as soon as the Lease may be lost: call it before
    every write. Both read the clock themselves, so that they also hold after the whole process was stopped, or its
    machine suspended.
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: Sharding,
        work: MovingWork,
        *,
        clock: Callable[[], float] | None = None,
        stamp: Callable[[], str] = lease_time_now,
        suspended: Callable[[], float] | None = None,
        suffix: str | None = None,
    ) -> None:
        random = uuid.uuid4().hex
        self.settings = settings
        self.identity = settings.identity or f"{socket.gethostname()}_{random}"
        self.name = suffix or random[:10]
        """What tells this member from others: the end of the name of its Lease."""
        namespace = settings.namespace or cluster.client.namespace
        self.ref: Ref[Lease] = Ref(Lease, f"{settings.name}-{self.name}", namespace)
        self.state = Membership(self.name, self.identity, settings.times)
        self.admitted = asyncio.Event()
        self.last_error: Exception | None = None
        self.handovers = 0
        """How often the members have changed."""
        self._cluster = cluster
        self._client = with_settings(cluster.client, timeout=settings.request_timeout)
        self._work = work
        self._stamp = stamp
        suspension = suspension_clock() if suspended is None else suspended
        self._clock = clock or (lambda: timing.now() + suspension())
        self._store: Store[Lease] | None = None
        self._lease: Lease | None = None
        self._may_exist = self._is_begun = False
        self._names = 1
        self._published: frozenset[str] = frozenset()
        self._next_renewal = 0.0
        self._events = asyncio.Event()
        self._releasing: asyncio.Task[None] | None = None
        self._releases: dict[str, asyncio.Task[None]] = {}
        self._view = self.state.view

    @property
    def view(self) -> View:
        """The members that it respects, itself included."""
        return self.state.view

    def may_act(self) -> bool:
        """Whether this member may start work on what it owns."""
        return self.state.may_act(self._clock())

    def fence(self) -> None:
        """Returns if this member may write; raises Fenced if not."""
        if not self.may_act():
            raise Fenced(f"{self.identity} does not hold {self.ref} and must not write; this process must stop")

    def members(self) -> Sequence[MemberReport]:
        """All members that are known, this one first."""
        found = [MemberReport(self.name, self.identity, self._work.keys(), is_me=True, is_acknowledged=True)]
        for name, other in sorted(self.state.others.items()):
            silent = max(0.0, self._clock() - other.changed_at)
            made = MemberReport(
                name,
                other.record.holder,
                other.record.keys,
                is_me=False,
                is_acknowledged=other.is_acknowledged,
                silent=silent,
                is_stopped=silent > self.settings.renew,
            )
            found.append(made)
        return found

    async def run(self) -> None:
        """Joins, and takes part until it is cancelled; raises LeaseLost once the Lease may be lost."""
        labels = f"{SHARDS_LABEL}={self.settings.name}"
        declared = self._cluster.declare(Lease, namespace=self.ref.namespace, labels=labels)
        async with declared as handle:
            self._store = handle.store
            handle.listen(self._observe)
            await handle.wait_ready()
            self._releasing = asyncio.get_running_loop().create_task(self._release_expired(), name="expired Leases")
            try:
                await self._join()
                while True:
                    self._events.clear()
                    await self._step()
                    await self._wait()
            finally:
                await _cancel([self._releasing, *self._releases.values()])

    async def release(self) -> None:
        """Releases the Lease, so that the others take over at once; only when nothing runs any more. Never raises."""
        self.state.resign()
        lease, self._lease = self._lease, None
        if lease is None:
            return
        try:
            async with timing.within(self.settings.request_timeout):
                while not await self._release(lease.ref, None):
                    pass
                await self._client.delete(lease.ref, missing_ok=True)
        except (ApiError, Unreachable, TimeoutError) as error:
            self.last_error = error

    def _observe(self, changes: Sequence[Change[Lease]]) -> None:
        seen: list[tuple[str, MemberRecord | None]] = []
        for change in changes:
            name = self._name_of(change.ref.name)
            if name is not None and name != self.name:
                seen.append((name, None if change.new is None else _read(change.new.object)))
        self.state.observe_all(seen, self._clock())
        self._events.set()

    def _name_of(self, lease: str) -> str | None:
        prefix = f"{self.settings.name}-"
        return lease.removeprefix(prefix) if lease.startswith(prefix) else None

    async def _join(self) -> None:
        """Creates the Lease, at a time when every member is alive."""
        while True:
            if not self._may_exist:
                await self._wait_alive()
            if await self._attempt(self._create):
                return
            await timing.sleep(self._pause)

    async def _wait_alive(self) -> None:
        """Waits until every member has renewed once, or is gone: a member that hangs would keep what moves waiting.

        It waits again after each change, so that what the others have just taken over does not move on at once.
        """
        began, known = self._clock(), self.view
        calm_at = began
        while True:
            self._events.clear()
            if self.view is not known:
                began, known = self._clock(), self.view
                calm_at = began + self.settings.retry
            self._check_algorithm({one: other.record for one, other in self.state.others.items()})
            is_calm = self._clock() >= calm_at or not self.state.others
            if is_calm and self.state.are_alive(began, self._clock()):
                return
            await self._wait()

    async def _create(self) -> bool:
        # After an attempt whose outcome is not known it reads first: a member that gets no responses must not claim
        # objects again and again.
        if self._may_exist:
            self._lease = await self._client.find(self.ref)
            if self._lease is None:
                self._rename()
                return False
            return await self._write()
        sent, self._may_exist = self._clock(), True
        metadata = ObjectMeta(
            name=self.ref.name,
            namespace=self.ref.namespace,
            labels={**self.settings.labels, SHARDS_LABEL: self.settings.name},
            annotations=self._annotations(frozenset()),
        )
        stamp = self._stamp()
        spec = LeaseSpec(
            holder_identity=self.identity,
            lease_duration_seconds=self.settings.lease,
            acquire_time=stamp,
            renew_time=stamp,
        )
        self._lease = await self._client.create(Lease(metadata=metadata, spec=spec))
        self.state.record_written(sent)
        self._next_renewal = sent + self.settings.retry
        return True

    def _rename(self) -> None:
        """Takes a new name: other members may still publish that they have acknowledged a Lease of the last one."""
        self._names += 1
        self._may_exist = False
        self.name = f"{self.name.partition('-')[0]}-{self._names}"
        self.ref = Ref(Lease, f"{self.settings.name}-{self.name}", self.ref.namespace)
        self.state.rename(self.name)

    async def _begin(self) -> bool:
        # Without a resource version the list is consistent: it has every Lease that was created before.
        listed = await self._client.list(
            Lease, namespace=self.ref.namespace, labels=f"{SHARDS_LABEL}={self.settings.name}"
        )
        found: dict[str, MemberRecord] = {}
        for lease in listed:
            name = self._name_of(lease.name)
            if name is not None and name != self.name:
                found[name] = _read(lease)
        self._check_algorithm(found)
        self.state.begin(found, self._clock())
        return True

    def _check_algorithm(self, found: Mapping[str, MemberRecord]) -> None:
        others = {one.holder for one in found.values() if one.holder and one.algorithm != ALGORITHM}
        if others:
            raise ConfigError(
                f"{', '.join(sorted(others))} of {self.settings.name} divides objects in another way than this version"
                " of levelset; stop all replicas before you start the new version, or give it another name"
            )

    async def _step(self) -> None:
        """Does what is due: takes over from members that are gone, hands over to new ones, renews."""
        now = self._clock()
        if not self.state.holds(now):
            self._lose(f"it could not be renewed within {self.settings.renew:g} s ({self.last_error or 'no attempt'})")
        if not self._is_begun:
            self._is_begun = await self._attempt(self._begin)
        self._notify()
        waiting = self.state.unacknowledged()
        if waiting and self._work.is_drained():
            self.state.acknowledge(waiting)
        if self._clock() >= self._next_renewal or self.state.acknowledged != self._published:
            await self._renew()
        self._notify()
        if self.state.is_admitted and not self.admitted.is_set():
            _log.info("joined the shards", extra={"lease": str(self.ref), "members": len(self.view)})
            self.admitted.set()

    def _notify(self) -> None:
        if self.state.view is not self._view:
            self._view = self.state.view
            self.handovers += 1
            self._work.changed(self._view)

    @property
    def _pause(self) -> float:
        """Seconds between two attempts of a request that failed."""
        return min(1.0, self.settings.retry)

    async def _renew(self) -> None:
        if await self._attempt(self._write):
            self._next_renewal = self._clock() + self.settings.retry
        else:
            self._next_renewal = self._clock() + self._pause

    async def _write(self) -> bool:
        if self._lease is None:
            self._lease = await self._client.get(self.ref)  # NotFound: it is lost
        if not self._lease.spec.holder_identity:
            self._lose("another member has released it")
        sent, acknowledged = self._clock(), self.state.acknowledged
        spec = replace(self._lease.spec, renew_time=self._new_stamp(self._lease.spec.renew_time or ""))
        annotations = {**self._lease.metadata.annotations, **self._annotations(acknowledged)}
        changed = replace(self._lease, spec=spec).with_metadata(annotations=annotations)
        self._lease = await self._client.update(changed)
        self.state.record_written(sent)
        self._published = acknowledged
        self.last_error = None
        return True

    def _new_stamp(self, last: str) -> str:
        """The time, different from that of the last renewal: one that changes nothing would not be seen."""
        stamp = self._stamp()
        return stamp if stamp != last else lease_time_now()

    def _annotations(self, acknowledged: frozenset[str]) -> dict[str, str]:
        return {
            _ACKNOWLEDGED: ",".join(sorted(acknowledged)),
            _ALGORITHM: ALGORITHM,
            KEYS_ANNOTATION: str(self._work.keys()),
            _RETRY: str(round(1000 * self.settings.retry)),
        }

    async def _release_expired(self) -> None:
        """Releases what has expired, all at once and beside the renewals, so that no request waits for another."""
        while True:
            now = self._clock()
            self.state.tick(now)
            if self.state.view is not self._view:
                self._events.set()
            for name, version in self.state.expired(now).items():
                if name not in self._releases:
                    release = self._release_member(name, version)
                    self._releases[name] = asyncio.get_running_loop().create_task(release, name=f"release {name}")
            due = self.state.next_at(self._releases)
            await timing.sleep(self.settings.retry if due is None else max(0.001, min(self.settings.retry, due - now)))

    async def _release_member(self, name: str, version: str) -> None:
        """Releases the Lease of another member in this version, and takes over when the server has accepted that."""
        ref: Ref[Lease] = Ref(Lease, f"{self.settings.name}-{name}", self.ref.namespace)
        try:
            if await self._attempt(lambda: self._release(ref, version)):
                self.state.observe(name, MemberRecord(holder="", version="", duration=0.0), self._clock())
                self._events.set()
                await self._attempt(lambda: self._client.delete(ref, missing_ok=True))
            else:
                await timing.sleep(self._pause)  # a renewal, or another member's release, arrives by the watch before
        finally:
            del self._releases[name]

    async def _release(self, ref: Ref[Lease], version: str | None) -> bool:
        """Writes an empty holder unless the Lease is gone; False if it no longer has the version, if one is given."""
        lease = None if self._store is None or version is None else self._store.get(ref)
        if lease is None:
            lease = await self._client.find(ref)
        if lease is None:
            return True
        if not lease.spec.holder_identity:
            return True
        if version is not None and lease.metadata.resource_version != version:
            return False
        try:
            await self._client.update(replace(lease, spec=replace(lease.spec, holder_identity="")))
        except (Conflict, NotFound):
            return False
        return True

    async def _attempt(self, request: Callable[[], Any]) -> bool:
        """Makes a request in time; returns whether it succeeded. Raises LeaseLost if the own Lease is gone."""
        limit, deadline = self.settings.request_timeout, self.state.deadline
        left = limit if deadline is None else max(0.0, min(limit, deadline - self._clock()))
        try:
            async with timing.within(left):
                return bool(await request())
        except Conflict as error:
            self.last_error, self._lease = error, None
        except NotFound as error:
            if self.state.deadline is not None and request == self._write:
                self.last_error = error
                self._lose("it was deleted")
            self.last_error = error
        except (ApiError, Unreachable, TimeoutError) as error:
            is_late = isinstance(error, TimeoutError)
            self.last_error = Deadline("the server did not respond in time") if is_late else error
            if request == self._write:
                self._lease = None  # it may have been written all the same: the next attempt reads it first
        if not self.admitted.is_set():
            what = "cannot join the shards yet: %s"
            _log.warning(what, self.last_error, extra={"lease": str(self.ref), "error": str(self.last_error)})
        return False

    def _lose(self, why: str) -> None:
        self.state.resign()
        self._lease = None
        raise LeaseLost(f"{self.identity} has lost {self.ref}: {why}") from self.last_error

    async def _wait(self) -> None:
        """Waits for a change of the Leases, or until something is due."""
        now, state = self._clock(), self.state
        if self._releasing is not None and self._releasing.done():
            self._releasing.result()  # raises what must not have happened: errors of requests do not end it
        times = [now + self.settings.retry]
        if state.deadline is not None:
            times += [state.deadline, self._next_renewal]
            if state.unacknowledged():
                times.append(now + _POLL)
        with suppress(TimeoutError):
            async with timing.within(max(0.001, min(times) - now)):
                await self._events.wait()


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _read(lease: Lease) -> MemberRecord:
    annotations = lease.metadata.annotations
    return MemberRecord(
        holder=lease.spec.holder_identity or "",
        version=lease.metadata.resource_version,
        duration=float(lease.spec.lease_duration_seconds or 0),
        acknowledged=frozenset(filter(None, annotations.get(_ACKNOWLEDGED, "").split(","))),
        keys=_number(annotations.get(KEYS_ANNOTATION, "")),
        algorithm=annotations.get(_ALGORITHM, ""),
        retry=_number(annotations.get(_RETRY, "")) / 1000,
    )


def _number(text: str) -> int:
    """The number in an annotation; 0 if it is none, or one that no member writes."""
    return int(text) if text.isdecimal() and len(text) <= _MAX_DIGITS else 0
