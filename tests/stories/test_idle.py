"""Idle means idle: once everything has converged, nothing is read, written or reconciled any more."""

import asyncio
from collections.abc import Callable

import pytest

from levelset import Controller
from levelset.testing.virtual_time import virtual
from tests.stories.fleets import Fleet, Fleets, fleet, named_ships, numbered_ships, ships_of
from tests.stories.operator_process import run_operator, until
from tests.stories.restartable_server import open_restartable_server

TEN_MINUTES = 600.0


@pytest.mark.parametrize("make", [named_ships, numbered_ships])
@virtual
async def test_after_convergence_there_is_no_write_and_no_reconcile_for_ten_minutes(
    make: Callable[[], tuple[Controller[Fleet], Fleets]],
) -> None:
    controller, counter = make()
    async with open_restartable_server(Fleet) as (server, people), run_operator(server, controller):
        for number in range(50):
            await people.create(fleet(f"fleet-{number}", 3))

        async def are_there() -> bool:
            return [len(ships) for ships in (await ships_of(people)).values()] == [3] * 50

        await until(are_there, within=60)
        await asyncio.sleep(1)
        reconciles, writes = counter.reconciles, len(server.journal)
        await asyncio.sleep(TEN_MINUTES)
        assert (counter.reconciles, len(server.journal)) == (reconciles, writes)


@virtual
async def test_an_object_takes_one_write_for_each_child_and_one_for_its_status() -> None:
    controller, _ = named_ships()
    async with open_restartable_server(Fleet) as (server, people), run_operator(server, controller):
        for number in range(50):
            await people.create(fleet(f"fleet-{number}", 3))
        await asyncio.sleep(TEN_MINUTES)
        assert len(server.writes(who="operator")) == 50 * (3 + 1)


@virtual
async def test_own_writes_of_status_and_children_lead_to_few_reconciles() -> None:
    controller, counter = named_ships()
    async with open_restartable_server(Fleet) as (_, people), run_operator(_, controller):
        for number in range(50):
            await people.create(fleet(f"fleet-{number}", 3))
        await asyncio.sleep(TEN_MINUTES)
        assert counter.reconciles <= 50 * 3


@virtual
async def test_a_restarted_operator_applies_each_child_once_and_changes_nothing() -> None:
    async with open_restartable_server(Fleet) as (server, people):
        for number in range(20):
            await people.create(fleet(f"fleet-{number}", 3))
        async with run_operator(server, named_ships()[0]):
            await asyncio.sleep(TEN_MINUTES)
        writes, revision = len(server.journal), server.revision
        async with run_operator(server, named_ships()[0]):
            await asyncio.sleep(TEN_MINUTES)
        assert (len(server.journal) - writes, server.revision) == (20 * 3, revision)
