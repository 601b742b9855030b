"""Leads, or waits to lead: keeps a Lease of this process renewed, and says at once when it is lost."""

import random as stdlib_random
import socket
import uuid
from collections.abc import Callable
from typing import Final

from levelset.aio import timing
from levelset.client.calls import Guard, Hook
from levelset.client.client import Client
from levelset.errors import ApiError, Conflict, Deadline, Fenced, LeaseLost, Unreachable
from levelset.manager.election import Election, LeaderElection, Record
from levelset.manager.leases import Lease, new_lease, read_record, stamp_now, with_record
from levelset.objects.identity import Ref

__all__ = ["Elector", "fencing"]

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
