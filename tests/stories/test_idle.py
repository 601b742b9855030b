"""Idle means idle: when everything is as it should be, nothing is read, written or looked at any more."""

import asyncio
from collections.abc import Callable

import pytest

from levelset import Controller
from tests.apiserver.clock import virtual
from tests.stories.fleets import Fleet, Fleets, fleet, named_ships, numbered_ships, ships_of
from tests.stories.operating import operating, until
from tests.stories.world import open_world

TEN_MINUTES = 600.0


@pytest.mark.parametrize("make", [named_ships, numbered_ships])
@virtual
async def test_after_convergence_there_is_no_write_and_no_reconcile_for_ten_minutes(
    make: Callable[[], tuple[Controller[Fleet], Fleets]],
) -> None:
    controller, counter = make()
    async with open_world(Fleet) as (world, people), operating(world, controller):
        for number in range(50):
            await people.create(fleet(f"fleet-{number}", 3))

        async def are_there() -> bool:
            return [len(ships) for ships in (await ships_of(people)).values()] == [3] * 50

        await until(are_there, within=60)
        await asyncio.sleep(1)
        reconciles, writes = counter.reconciles, len(world.journal)
        await asyncio.sleep(TEN_MINUTES)
        assert (counter.reconciles, len(world.journal)) == (reconciles, writes)


@virtual
async def test_an_object_takes_one_write_for_each_child_and_one_for_its_status() -> None:
    controller, _ = named_ships()
    async with open_world(Fleet) as (world, people), operating(world, controller):
        for number in range(50):
            await people.create(fleet(f"fleet-{number}", 3))
        await asyncio.sleep(TEN_MINUTES)
        assert len(world.writes(who="operator")) == 50 * (3 + 1)


@virtual
async def test_own_writes_of_status_and_children_lead_to_few_reconciles() -> None:
    controller, counter = named_ships()
    async with open_world(Fleet) as (_, people), operating(_, controller):
        for number in range(50):
            await people.create(fleet(f"fleet-{number}", 3))
        await asyncio.sleep(TEN_MINUTES)
        assert counter.reconciles <= 50 * 3


@virtual
async def test_an_operator_that_is_started_again_asks_once_for_each_child_and_changes_nothing() -> None:
    async with open_world(Fleet) as (world, people):
        for number in range(20):
            await people.create(fleet(f"fleet-{number}", 3))
        async with operating(world, named_ships()[0]):
            await asyncio.sleep(TEN_MINUTES)
        asked, revision = len(world.journal), world.revision
        async with operating(world, named_ships()[0]):
            await asyncio.sleep(TEN_MINUTES)
        assert (len(world.journal) - asked, world.revision) == (20 * 3, revision)
