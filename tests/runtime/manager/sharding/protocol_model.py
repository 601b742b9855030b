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
        self.me = name
        self.server = server
        self.simulation = server.simulation
        self.rate = rate
        self.state = Membership(name, name, times)
        self.phase = "waiting"
        self.is_paused = False
        self.network = "up"
        self.is_drained: Callable[[ModelMember], bool] = lambda _: True
        self.on_end: Callable[[ModelMember], None] = lambda _: None
        self.admitted_at: float | None = None
        self.respected_at: dict[str, float] = {}
        """When it began to respect each member."""
        self.forgot_at: dict[str, float] = {}
        """When it last stopped to respect each member."""
        self._inbox: list[tuple[str, MemberRecord]] = []
        self._request: object | None = None
        self._published: frozenset[str] = frozenset()
        self._next_renewal = 0.0
        self._is_unsure = False
        self._began = self._calm_at = self.clock()
        self._view = self.state.view
        self._timer: object | None = None
        server.watchers.append(self)
        for other, record in server.leases.items():
            self.state.observe(other, record, self.clock())
        self._view = self.state.view
        self.wake()

    def clock(self) -> float:
        return self.simulation.now * self.rate

    def may_act(self) -> bool:
        return self.phase == "member" and self.state.may_act(self.clock())

    @property
    def is_running(self) -> bool:
        return self.phase not in {"lost", "left", "killed"}

    def see(self, name: str, record: MemberRecord) -> None:
        """An event of its watch arrives; while it is paused or cut off, it waits."""
        if self.is_paused or self.network in {"unreachable", "hangs"}:
            self._inbox.append((name, record))
        elif self.is_running:
            self.state.observe(name, record, self.clock())
            # A renewal changes nothing that has to be done now.
            if self.state.view is not self._view or self.phase == "waiting" or not self.state.is_admitted:
                self.wake()

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        self._catch_up()

    def cut(self, network: str) -> None:
        self.network = network

    def heal(self) -> None:
        self.network = "up"
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
        state.tick(now)
        if expired := state.expired(now):
            name, version = next(iter(expired.items()))
            self._send(lambda: self._release(name, version), lambda done: self._released(name, done=done))
            return
        self._notice()
        if self.phase == "waiting":
            self._wait_alive(now)
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
        others = self.state.others
        is_calm = now >= self._calm_at or not others
        if is_calm and all(self.state.is_alive(one, self._began) for one in others):
            if self._is_unsure:  # it reads first, so that it does not claim keys again and again
                self._send(lambda: self.server.leases.get(self.me), self._reread)
                return
            sent = now
            record = MemberRecord(holder=self.me, version="", duration=self.state.times.lease)
            self._send(lambda: self.server.put(self.me, record, None), lambda made: self._created(made, sent))
        else:
            self._wait(now)

    def _reread(self, there: MemberRecord | None) -> None:
        self._is_unsure = False
        if there is not None:
            self._end("lost")

    def _created(self, made: MemberRecord | None, sent: float) -> None:
        if made is None:
            self._end("lost")  # an attempt without a response has made it: another process starts
            return
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

    def _release(self, name: str, version: str) -> bool:
        there = self.server.leases.get(name)
        if there is None or there.version != version:
            self.server.messages["writes"] += 1
            return False
        return self.server.put(name, replace(there, holder=""), version) is not None

    def _released(self, name: str, *, done: bool) -> None:
        there = self.server.leases.get(name)
        if done or there is None:
            self.state.observe(name, MemberRecord(holder="", version="", duration=0.0), self.clock())
        else:
            self.state.observe(name, there, self.clock())

    def _end(self, phase: str) -> None:
        self.state.resign()
        self.phase = phase
        self.server.watchers.remove(self)
        self.on_end(self)

    def _send(self, request: Callable[[], Any], respond: Callable[[Any], None]) -> None:
        """Sends a request; the response comes after a while, or the timeout does."""
        token = self._request = object()
        there, back = self.server.latency(), self.server.latency()

        def arrive() -> None:
            if self.network in {"unreachable", "hangs"}:
                return
            answer = request()
            if self.network == "up":
                self.simulation.later(back, lambda: end(answer))

        def end(answer: Any) -> None:
            if self._request is not token:
                return
            if self.is_paused:
                self.simulation.later(0.1, lambda: end(answer))
                return
            self._request = None
            if self.is_running:
                respond(answer)
                self.step()

        def give_up() -> None:
            if self._request is token:
                if self.is_paused:
                    self.simulation.later(0.1, give_up)
                    return
                self._request = None
                self._is_unsure = True
                self._next_renewal = self.clock() + 1.0
                self._wait(self.clock())

        self.simulation.later(there, arrive)
        self.simulation.later(TIMEOUT, give_up)

    def _wait(self, now: float) -> None:
        times = [now + self.state.times.retry]
        times += [at for at in (self.state.next_at(), self.state.deadline) if at is not None]
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
