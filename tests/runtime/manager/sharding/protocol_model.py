"""The protocol of shared work as a model: the pure core with an API server, a network and clocks that are simulated.

A step of a member is that of `ShardMember`, but requests are events of a simulation: a run takes milliseconds, and a
hundred members are possible. `test_protocol_model.py` makes random runs of it; `benchmarks/sharding.py` measures it.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random
from typing import Any

from levelset.runtime.manager.sharding import LeaseTimes, MemberRecord, Membership

__all__ = ["TIMES", "ModelMember", "ModelServer", "Simulation"]

TIMES = LeaseTimes(lease=15, renew=10, retry=2, allowance=1)
TIMEOUT = 2.0
PAUSE = 1.0
"""Seconds between two attempts of a request that failed."""


class Simulation:
    """A clock and the events to come, in order."""

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self.random = Random(seed)
        self._events: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = count()

    def later(self, seconds: float, do: Callable[[], object]) -> None:
        heapq.heappush(self._events, (self.now + seconds, next(self._numbers), do))

    def run(self, until: float) -> None:
        while self._events and self._events[0][0] <= until:
            self.now, _, do = heapq.heappop(self._events)
            do()
        self.now = until


@dataclass(eq=False)
class ModelServer:
    """The Leases, and the messages that were sent because of them."""

    simulation: Simulation
    latency: Callable[[], float]
    leases: dict[str, MemberRecord] = field(default_factory=dict[str, MemberRecord])
    watchers: "list[ModelMember]" = field(default_factory=list["ModelMember"])
    messages: Counter[str] = field(default_factory=Counter[str])
    _versions: Any = field(default_factory=count)
    _delivered_at: float = 0.0

    def put(self, name: str, record: MemberRecord, expected: str | None) -> MemberRecord | None:
        """Writes a Lease in an expected version (None: it must not exist); returns it, or None on a conflict."""
        self.messages["writes"] += 1
        there = self.leases.get(name)
        if (None if there is None else there.version) != expected:
            return None
        made = replace(record, version=str(next(self._versions)))
        self.leases[name] = made
        if not made.holder:
            del self.leases[name]
            self.messages["writes"] += 1
        self._deliver(name, made)
        return made

    def _deliver(self, name: str, record: MemberRecord) -> None:
        def deliver() -> None:
            for one in self.watchers:
                if one.me != name:
                    one.see(name, record)

        self.messages["events"] += len(self.watchers)
        # A watch delivers in order.
        self._delivered_at = max(self._delivered_at, self.simulation.now + self.latency())
        self.simulation.later(self._delivered_at - self.simulation.now, deliver)


class ModelMember:
    """One process with the pure core; `drain` seconds pass until what moves has stopped."""

    def __init__(self, name: str, server: ModelServer, *, rate: float = 1.0, times: LeaseTimes = TIMES) -> None:
        self.me = self.holder = name
        self.server = server
        self.simulation = server.simulation
        self.rate = rate
        self.state = Membership(name, name, times)
        self.phase = "waiting"
        self.is_paused = self.is_leaving = False
        self.network = "up"
        self.undisturbed_since = self.simulation.now
        """When the process started, was resumed, or was reached again, whatever came last."""
        self.is_drained: Callable[[ModelMember], bool] = lambda _: True
        self.on_end: Callable[[ModelMember], None] = lambda _: None
        self.on_unheard: Callable[[ModelMember], None] = lambda _: None
        """Called when a write of its Lease has arrived whose response gets lost."""
        self.admitted_at: float | None = None
        self.respected_at: dict[str, float] = {}
        """When it began to respect each member."""
        self.forgot_at: dict[str, float] = {}
        """When it last stopped to respect each member."""
        self._inbox: list[tuple[str, MemberRecord]] = []
        self._request: object | None = None
        self._releases: set[str] = set()
        """The members whose Leases it is about to release: beside its other requests."""
        self._owned: dict[str, bool] = {}
        self._published: frozenset[str] = frozenset()
        self._next_renewal = 0.0
        self._is_unsure = self._may_exist = False
        self._names = 1
        self._began = self._calm_at = self.clock()
        self._view = self._owned_in = self.state.view
        self._timer: object | None = None
        self._expiry: object | None = None
        server.watchers.append(self)
        for other, record in server.leases.items():
            self.state.observe(other, record, self.clock())
        self._view = self.state.view
        self.wake()
        self._release_expired()

    def clock(self) -> float:
        return self.simulation.now * self.rate

    def may_act(self) -> bool:
        return self.phase == "member" and not self.is_leaving and self.state.may_act(self.clock())

    @property
    def is_serving(self) -> bool:
        return not self.is_paused and self.network not in {"unreachable", "hangs"} and self.may_act()

    @property
    def waits_for(self) -> frozenset[str]:
        if self.phase in {"creating", "listing"} and self.me in self.server.leases:
            return frozenset(self.server.leases)
        return self.state.awaited if self.phase == "member" else frozenset()

    @property
    def is_running(self) -> bool:
        return self.phase not in {"lost", "left", "killed"}

    @property
    def is_healthy(self) -> bool:
        """Whether its process runs, is not paused, and exchanges messages with the server."""
        return self.is_running and not self.is_paused and self.network == "up"

    def owns(self, key: str) -> bool:
        """Whether it comes first for a key among the members that it respects."""
        if self._owned_in is not self.state.view:
            self._owned_in, self._owned = self.state.view, {}
        known = self._owned.get(key)
        if known is None:
            known = self._owned[key] = self.state.view.owns(key)
        return known

    def see(self, name: str, record: MemberRecord) -> None:
        """An event of its watch arrives; while it is paused or cut off, it waits."""
        if self.is_paused or self.network in {"unreachable", "hangs", "no events"}:
            self._inbox.append((name, record))
        elif self.is_running:
            self.state.observe(name, record, self.clock())
            # A renewal changes nothing that has to be done now.
            if self.state.view is not self._view or self.phase == "waiting" or not self.state.is_admitted:
                self.wake()

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused, self.undisturbed_since = False, self.simulation.now
        self._catch_up()

    def cut(self, network: str) -> None:
        self.network = network

    def heal(self) -> None:
        self.network, self.undisturbed_since = "up", self.simulation.now
        if not self.is_paused:
            self._catch_up()

    def kill(self) -> None:
        self.phase, self.is_paused = "killed", True
        self.server.watchers.remove(self)

    def leave(self) -> None:
        """Releases its Lease; the caller has stopped its work."""
        self.state.resign()
        self.phase = "left"
        self.server.watchers.remove(self)
        there = self.server.leases.get(self.me)
        if there is not None and self.network == "up":
            self.server.put(self.me, replace(there, holder=""), there.version)

    def wake(self) -> None:
        self.simulation.later(0.0, self.step)

    def step(self) -> None:
        """What is due now, as in `ShardMember`."""
        if self.is_paused or not self.is_running or self._request is not None:
            return
        now, state = self.clock(), self.state
        if state.deadline is not None and not state.holds(now):
            self._end("lost")
            return
        self._notice()
        if self.phase == "waiting":
            self._wait_alive(now)
        elif self.phase == "creating":
            self._create(now)
        elif self.phase == "listing":
            self._send(lambda: dict(self.server.leases), self._begin)
        else:
            self._take_part(now)

    def _notice(self) -> None:
        if self.state.view is not self._view:
            before, self._view = set(self._view.members), self.state.view
            for one in self._view.members.keys() - before:
                self.respected_at[one] = self.simulation.now
            for one in before - self._view.members.keys():
                self.forgot_at[one] = self.simulation.now
            self._began, self._calm_at = self.clock(), self.clock() + self.state.times.retry

    def _wait_alive(self, now: float) -> None:
        is_calm = now >= self._calm_at or not self.state.others
        if is_calm and self.state.are_alive(self._began, now):
            self.phase = "creating"
            self._create(now)
        else:
            self._wait(now)

    def _create(self, now: float) -> None:
        if self._may_exist:  # it reads first, so that it does not claim keys again and again
            self._send(lambda: self.server.leases.get(self.me), self._reread)
            return
        self._may_exist = True
        record = MemberRecord(holder=self.holder, version="", duration=self.state.times.lease)
        self._send(lambda: self.server.put(self.me, record, None), lambda made: self._created(made, now))

    def _reread(self, there: MemberRecord | None) -> None:
        self._is_unsure = False
        if there is None:
            self._may_exist, self.phase = False, "waiting"
            self._names += 1
            self.me = f"{self.me.partition('-')[0]}-{self._names}"
            self.state.rename(self.me)
            self._began = self._calm_at = self.clock()
            return
        sent = self.clock()
        self._send(lambda: self._renew(frozenset()), lambda made: self._created(made, sent))

    def _created(self, made: MemberRecord | None, sent: float) -> None:
        if made is None:
            return  # another member has released it meanwhile: it reads again
        self.state.record_written(sent)
        self._next_renewal = sent + self.state.times.retry
        self.phase = "listing"

    def _begin(self, listed: Mapping[str, MemberRecord]) -> None:
        self.server.messages["lists"] += 1
        self.state.begin({one: record for one, record in listed.items() if one != self.me}, self.clock())
        self.phase = "member"

    def _take_part(self, now: float) -> None:
        state = self.state
        if state.is_admitted and self.admitted_at is None:
            self.admitted_at = self.simulation.now
        waiting = state.unacknowledged()
        if waiting and self.is_drained(self):
            state.acknowledge(waiting)
        if now >= self._next_renewal or state.acknowledged != self._published:
            acknowledged = state.acknowledged
            self._send(lambda: self._renew(acknowledged), lambda made: self._renewed(made, now, acknowledged))
        else:
            self._wait(now)

    def _renew(self, acknowledged: frozenset[str]) -> MemberRecord | None:
        there = self.server.leases.get(self.me)
        if self._is_unsure:
            return there  # after a request without a response it reads first
        return (
            None
            if there is None
            else self.server.put(self.me, replace(there, acknowledged=acknowledged), there.version)
        )

    def _renewed(self, made: MemberRecord | None, sent: float, acknowledged: frozenset[str]) -> None:
        if made is None:
            self._end("lost")
            return
        if self._is_unsure:
            self._is_unsure = False
            return
        self.state.record_written(sent)
        self._published = acknowledged
        self._next_renewal = self.clock() + self.state.times.retry

    def _release_expired(self) -> None:
        """Beside its other requests; a process that is paused goes on when it is resumed."""
        if self.is_paused or not self.is_running:
            return
        now, state = self.clock(), self.state
        state.tick(now)
        if state.view is not self._view:
            self.wake()
        for name, version in state.expired(now).items():
            if name not in self._releases:
                self._begin_release(name, version)
        due = state.next_at(self._releases)
        seconds = state.times.retry if due is None else max(0.001, min(state.times.retry, due - now))
        token = self._expiry = object()

        def fire() -> None:
            if self._expiry is token:
                self._release_expired()

        self.simulation.later(seconds / self.rate, fire)

    def _begin_release(self, name: str, version: str) -> None:
        self._releases.add(name)

        def end() -> None:
            self._releases.discard(name)

        def respond(is_released: bool) -> None:
            if is_released:
                self.state.observe(name, MemberRecord(holder="", version="", duration=0.0), self.clock())
                end()
                self.wake()
            else:  # what has happened arrives by the watch
                self.simulation.later(PAUSE / self.rate, end)

        self._exchange(lambda: self._release(name, version), respond, lambda: name in self._releases, end)

    def _release(self, name: str, version: str) -> bool:
        there = self.server.leases.get(name)
        if there is None:
            return True
        if there.version != version:
            self.server.messages["writes"] += 1
            return False
        return self.server.put(name, replace(there, holder=""), version) is not None

    def _end(self, phase: str) -> None:
        self.state.resign()
        self.phase = phase
        self.server.watchers.remove(self)
        self.on_end(self)

    def _send(self, request: Callable[[], Any], respond: Callable[[Any], None]) -> None:
        """Sends a request; the response comes after a while, or the timeout does."""
        token = self._request = object()

        def end(answer: Any) -> None:
            self._request = None
            respond(answer)

        def give_up() -> None:
            self._request = None
            self._is_unsure = True
            self._next_renewal = self.clock() + PAUSE
            self._wait(self.clock())

        self._exchange(request, end, lambda: self._request is token, give_up)

    def _exchange(
        self,
        request: Callable[[], Any],
        respond: Callable[[Any], None],
        is_open: Callable[[], bool],
        give_up: Callable[[], None],
    ) -> None:
        there, back = self.server.latency(), self.server.latency()

        def arrive() -> None:
            if self.network in {"unreachable", "hangs"}:
                return
            before = self.server.leases.get(self.me)
            answer = request()
            if self.network in {"up", "no events"}:
                self.simulation.later(back, lambda: end(answer))
            elif self.server.leases.get(self.me) is not before:
                self.on_unheard(self)

        def end(answer: Any) -> None:
            if self.is_running and self.is_paused:
                self.simulation.later(0.1, lambda: end(answer))
            elif self.is_running and is_open():
                respond(answer)
                self.step()

        def expire() -> None:
            if self.is_running and self.is_paused:
                self.simulation.later(0.1, expire)
            elif self.is_running and is_open():
                give_up()

        self.simulation.later(there, arrive)
        self.simulation.later(TIMEOUT, expire)

    def _wait(self, now: float) -> None:
        times = [now + self.state.times.retry]
        if self.state.deadline is not None:
            times.append(self.state.deadline)
        if self.phase == "member":
            times.append(self._next_renewal)
            if self.state.unacknowledged():
                times.append(now + 0.05)
        token = self._timer = object()

        def fire() -> None:
            if self._timer is token:
                self.step()

        self.simulation.later(max(0.001, (min(times) - now) / self.rate), fire)

    def _catch_up(self) -> None:
        inbox, self._inbox = self._inbox, []
        for name, record in inbox:
            if self.is_running:
                self.state.observe(name, record, self.clock())
        self.wake()
        self._release_expired()
