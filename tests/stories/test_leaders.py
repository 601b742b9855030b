"""One of several processes leads, and a process that has lost its Lease writes nothing any more."""

import asyncio
from typing import Any

import pytest

from levelset import Client, Context, Controller, LeaderElection, owns
from levelset.client import Call, Response, Send
from levelset.testing.virtual_time import virtual
from tests.stories.fleets import Fleet, FleetStatus, Ship, fleet, named_ships, numbered_ships, ship, ships_of
from tests.stories.network import CutOff
from tests.stories.operator_process import run_operator, until
from tests.stories.restartable_server import RestartableServer, open_restartable_server

SIZES = {f"fleet-{number}": 2 for number in range(30)}


def election(who: str) -> LeaderElection:
    return LeaderElection(name="fleets", namespace="default", identity=who)


async def lead(server: RestartableServer, who: str, *hooks: Any, make: Any = numbered_ships) -> None:
    """Runs one process until it is killed or stops."""
    async with run_operator(server, make()[0], who=who, hooks=hooks, leader=election(who)) as manager:
        await manager.wait_stopped()


async def want_fleets(people: Client) -> None:
    """Creates one fleet after the other."""
    for name, size in SIZES.items():
        await people.create(fleet(name, size))
        await asyncio.sleep(1.0)


async def all_there(people: Client) -> None:
    async def are_there() -> bool:
        return {name: len(ships) for name, ships in (await ships_of(people)).items()} == SIZES

    await until(are_there, within=900)
    await asyncio.sleep(300)
    assert await are_there()


def led(server: RestartableServer) -> list[str]:
    """The writers of fleets in order, consecutive writes of one writer merged."""
    names = [one.who for one in server.writes() if one.who != "people"]
    return [name for before, name in zip(["", *names], names, strict=False) if name != before]


async def end(*tasks: "asyncio.Task[None]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@virtual
async def test_only_the_leader_works_and_the_standby_takes_over_when_it_is_killed() -> None:
    async with open_restartable_server(Fleet) as (server, people):
        network = CutOff()
        first = asyncio.create_task(lead(server, "first", network), name="first")
        await asyncio.sleep(5)
        second = asyncio.create_task(lead(server, "second"), name="second")
        wanting = asyncio.create_task(want_fleets(people), name="people")
        await asyncio.sleep(10.0)
        network.is_cut = True  # a killed process sends nothing any more, and does not release its lease
        await end(first)
        await wanting
        await all_there(people)
        assert led(server) == ["first", "second"]
        await end(second)
        assert len([one for one in server.writes() if one.method == "POST" and "/configmaps" in one.path]) == 60


@virtual
async def test_a_leader_that_stops_releases_its_lease_and_the_next_one_starts_at_once() -> None:
    async with open_restartable_server(Fleet) as (server, people):
        async with run_operator(server, numbered_ships()[0], who="first", leader=election("first")):
            await people.create(fleet("early"))
            await asyncio.sleep(20)
            second = asyncio.create_task(lead(server, "second"), name="second")
            await asyncio.sleep(20)
        stopped = asyncio.get_running_loop().time()
        await people.create(fleet("late"))
        await asyncio.sleep(5)  # one retry of a candidate takes at most 4.4 s, with its jitter
        assert [one.who for one in server.writes(since=stopped) if one.who != "people"]
        await end(second)
        assert led(server) == ["first", "second"]


@pytest.mark.parametrize("make", [named_ships, numbered_ships])
@virtual
async def test_a_leader_that_cannot_renew_its_lease_writes_nothing_after_another_has_it(make: Any) -> None:
    async with open_restartable_server(Fleet) as (server, people):
        leases = CutOff(lambda call: "/leases" in call.path)
        first = asyncio.create_task(lead(server, "first", leases, make=make), name="first")
        await asyncio.sleep(5)
        second = asyncio.create_task(lead(server, "second", make=make), name="second")
        wanting = asyncio.create_task(want_fleets(people), name="people")
        await asyncio.sleep(10)
        leases.is_cut = True  # everything else gets through: only the lease says that it must not write
        await wanting
        await all_there(people)
        taken = min(one.at for one in server.journal if one.is_lease and one.who == "second")
        assert [one for one in server.writes(since=taken) if one.who == "first"] == []
        assert led(server) == ["first", "second"]
        await asyncio.wait([first], timeout=60)
        assert first.done(), "who has lost the lead ends"
        assert first.exception() is not None
        await end(second)


@virtual
async def test_a_standby_is_warm_but_reconciles_nothing() -> None:
    async with open_restartable_server(Fleet) as (server, people):
        standing, counter = named_ships()
        async with (
            run_operator(server, named_ships()[0], who="first", leader=election("first")),
            run_operator(server, standing, who="second", leader=election("second")),
        ):
            await people.create(fleet("blue"))
            await asyncio.sleep(120)
        assert counter.reconciles <= 2, "it may only have begun when the first one stopped"


class LateDelivery:
    """A network that is cut and delivers what was sent meanwhile only when it heals, though its sender is gone."""

    def __init__(self, carrier: Client) -> None:
        self.is_cut = False
        self.cuts_at: str | None = None
        self.held: list[Call] = []
        self.sent: list[tuple[float, str]] = []
        self._carrier = carrier

    async def __call__(self, call: Call, send: Send) -> Response:
        if call.method != "GET" and "/leases" not in call.path:
            self.sent.append((asyncio.get_running_loop().time(), call.path))
            self.is_cut = self.is_cut or (self.cuts_at is not None and call.path.endswith(self.cuts_at))
        if not self.is_cut:
            return await send(call)
        if call.method != "GET" and "/leases" not in call.path:
            self.held.append(call)
        await asyncio.get_running_loop().create_future()  # no answer ever comes
        raise AssertionError("unreachable")

    async def heal(self) -> list[int]:
        """Delivers what was held; returns the statuses."""
        return [(await self._carrier._pipeline.transport.send(call)).status for call in self.held]


def busy_fleets() -> Controller[Fleet]:
    """Applies one ship after the other, slowly, and removes those that are not wanted."""

    async def reconcile(one: Fleet, ctx: Context) -> None:
        await ctx.set_status(one, FleetStatus(ships=one.spec.size))
        for number in range(one.spec.size):
            await ctx.apply(ship(one, name=f"{one.name}-{number}"), owner=one)
            await asyncio.sleep(2.0)
        for found in await ctx.children(Ship):
            if int(found.name.rpartition("-")[2]) >= one.spec.size:
                await ctx.delete(found)

    return Controller(Fleet, reconcile, owns(Ship, metadata_only=False), name="busy")


@pytest.mark.parametrize(("what", "answer"), [("an apply", 201), ("a status", 409)])
@virtual
async def test_a_late_write_of_a_deposed_busy_leader_is_refused_or_repaired_by_its_successor(
    what: str, answer: int
) -> None:
    async with open_restartable_server(Fleet) as (server, people), await server.client("first") as carrier:
        network = LateDelivery(carrier)
        first = asyncio.create_task(lead(server, "first", network, make=lambda: [busy_fleets()]), name="first")
        await asyncio.sleep(5)
        second = asyncio.create_task(lead(server, "second", make=lambda: [busy_fleets()]), name="second")
        await asyncio.sleep(5)
        network.cuts_at = "/status" if what == "a status" else None  # what is under way when the network is cut
        await people.create(fleet("blue", 9))
        await asyncio.sleep(1)
        if what == "an apply":
            await asyncio.sleep(6)  # it has applied some of nine, and is busy with the rest
            network.is_cut = True
        cut = asyncio.get_running_loop().time()
        await asyncio.sleep(8)
        blue = await people.get(Fleet, "blue", namespace="default")
        await people.update(blue.with_spec(size=1))  # the deposed leader does not know
        await asyncio.wait([first], timeout=60)
        assert first.exception() is not None, "who has lost the lead ends"
        await asyncio.sleep(60)
        assert await ships_of(people) == {"blue": ["blue-0"]}
        assert all(at < cut + 10.0 for at, _ in network.sent), "nothing is sent once the renew deadline is over"
        assert await network.heal() == [answer]
        await asyncio.sleep(60)
        assert await ships_of(people) == {"blue": ["blue-0"]}
        status = (await people.get(Fleet, "blue", namespace="default")).status
        assert status is not None
        assert status.ships == 1
        await end(second)
