"""Under any fault between a controller and its server, the children converge to the desired state."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from levelset import Client, Controller
from levelset.testing.faults import WRITES, delayed_watch, server_error
from levelset.testing.virtual_time import virtual
from tests.stories.fleets import Fleet, Fleets, fleet, named_ships, numbered_ships, ships_of
from tests.stories.network import CutOff
from tests.stories.operator_process import run_operator, until
from tests.stories.restartable_server import RestartableServer, open_restartable_server

SIZES = {f"fleet-{number}": 1 + number % 4 for number in range(20)}
HALF_AN_HOUR = 1800.0

Making = Callable[..., tuple[Controller[Fleet], Fleets]]
both = pytest.mark.parametrize("make", [named_ships, numbered_ships])


async def settled(client: Client, sizes: Mapping[str, int]) -> float:
    """Waits until each fleet has its ships in its status, and then for late effects."""

    async def are_there() -> bool:
        ships = {name: len(found) for name, found in (await ships_of(client)).items()}
        fleets = await client.list(Fleet, namespace="default")
        statuses = {one.name: one.status.ships for one in fleets if one.status}
        return ships == sizes and statuses == sizes

    when = await until(are_there, within=HALF_AN_HOUR)
    await asyncio.sleep(HALF_AN_HOUR)
    assert await are_there()
    return when


def made_and_unmade(server: RestartableServer) -> tuple[int, int]:
    """The numbers of ships that were created and deleted."""
    ships = [one for one in server.writes(who="operator") if "/configmaps" in one.path]
    return len([one for one in ships if one.is_create]), len([one for one in ships if one.method == "DELETE"])


@both
@virtual
async def test_children_are_exactly_right_although_one_write_in_five_fails(make: Making) -> None:
    async with open_restartable_server(Fleet) as (server, people):
        refusals = server_error(share=0.2, verbs=WRITES, seed=5).hook()
        async with run_operator(server, make()[0], hooks=(refusals,)):
            for name, size in SIZES.items():
                await people.create(fleet(name, size))
            await settled(people, SIZES)
        assert refusals.injected > 10
        assert made_and_unmade(server) == (sum(SIZES.values()), 0)


@both
@virtual
async def test_nothing_is_created_twice_although_every_watch_is_two_seconds_late(make: Making) -> None:
    async with (
        open_restartable_server(Fleet) as (server, people),
        run_operator(server, make()[0], hooks=(delayed_watch(2.0).hook(),)),
    ):
        for name, size in SIZES.items():
            await people.create(fleet(name, size))
            await asyncio.sleep(0.3)
        for name, size in SIZES.items():
            await people.update((await people.get(fleet(name).ref)).with_spec(size=size + 1))
            await asyncio.sleep(0.3)
        await settled(people, {name: size + 1 for name, size in SIZES.items()})
        assert made_and_unmade(server) == (sum(SIZES.values()) + len(SIZES), 0)


@both
@virtual
async def test_a_server_that_is_restarted_in_the_middle_loses_nothing(make: Making) -> None:
    async with open_restartable_server(Fleet) as (server, people), run_operator(server, make()[0]):
        for number, (name, size) in enumerate(SIZES.items()):
            await people.create(fleet(name, size))
            if number in {5, 11}:
                await server.restart(down=7.0)
        await settled(people, SIZES)
        assert made_and_unmade(server) == (sum(SIZES.values()), 0)


@both
@virtual
async def test_all_faults_together_converge(make: Making) -> None:
    async with open_restartable_server(Fleet, seed=3) as (server, people):
        hooks: tuple[Any, ...] = (server_error(share=0.2, verbs=WRITES, seed=9).hook(), delayed_watch(2.0).hook())
        async with run_operator(server, make()[0], hooks=hooks):
            for number, (name, size) in enumerate(SIZES.items()):
                await people.create(fleet(name, size))
                if number == 10:
                    await server.restart(down=3.0)
            await settled(people, SIZES)
        assert made_and_unmade(server) == (sum(SIZES.values()), 0)


@both
@virtual
async def test_an_operator_that_is_killed_and_restarted_continues(make: Making) -> None:
    async with open_restartable_server(Fleet) as (server, people):
        for name, size in SIZES.items():
            await people.create(fleet(name, size))
        for _ in range(4):
            network = CutOff()
            first = asyncio.create_task(_for_ever(server, make()[0], network), name="a process that will be killed")
            await _after_writes(server, len(server.writes()) + 7)
            network.is_cut = True  # a killed process sends nothing any more
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
        async with run_operator(server, make()[0]):
            await settled(people, SIZES)
        assert made_and_unmade(server) == (sum(SIZES.values()), 0)


async def _for_ever(server: RestartableServer, controller: Controller[Fleet], network: CutOff) -> None:
    async with run_operator(server, controller, hooks=(network,)):
        await asyncio.Event().wait()


async def _after_writes(server: RestartableServer, count: int) -> None:
    while len(server.writes()) < count:  # noqa: ASYNC110  # the time is virtual
        await asyncio.sleep(0)
