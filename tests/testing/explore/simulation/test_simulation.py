"""Each kind of disturbance finds the bug that it is made for."""

import gc
import weakref
from functools import cache
from itertools import islice
from typing import Any

import pytest

from levelset import Context, Controller
from levelset.testing.explore import Exploration, Plan
from levelset.testing.explore.search import Explorer
from levelset.testing.explore.simulation.simulation import play
from tests.testing.explore.mistakes import MISTAKES, Order, orders, parcel
from tests.testing.explore.zoo import gave_up


@cache
def explorer_of(name: str) -> Explorer:
    return Explorer(MISTAKES[name][0])


@pytest.mark.parametrize("name", MISTAKES)
def test_a_bug_is_found_by_its_disturbance(name: str) -> None:
    _, plan, rule = MISTAKES[name]
    explorer = explorer_of(name)
    assert explorer.reference.played.ok, explorer.reference.played.findings
    played = explorer.play(Plan.parse(plan))
    assert not played.missed
    assert rule in {one.rule for one in played.findings}, played.trace.text()


@pytest.mark.parametrize("name", MISTAKES)
def test_the_plan_that_shows_a_bug_is_derived(name: str) -> None:
    assert MISTAKES[name][1] in {one.id for one in islice(explorer_of(name).plans(), 200)}


class Cloud:
    """A resource of a run, which must be garbage collected after it."""


def test_a_finished_run_is_garbage_collected_even_after_failed_reconciles() -> None:
    made: list[weakref.ref[Cloud]] = []

    def outside() -> Cloud:
        cloud = Cloud()
        made.append(weakref.ref(cloud))
        return cloud

    def controllers(cloud: Cloud) -> list[Controller[Any]]:
        async def reconcile(order: Order, ctx: Context) -> None:
            await ctx.apply(parcel(order, order.name, cloud=type(cloud).__name__))

        return [Controller(Order, reconcile)]

    explorer = Explorer(Exploration(orders, controllers, outside=outside))
    assert explorer.play(Plan.parse("error-response:apply.ConfigMap/test/first#1:500")).ok
    gc.collect()
    assert [one() for one in made] == [None] * 5


def test_a_run_that_begins_on_a_copy_of_the_prepared_server_has_the_same_steps_and_uids() -> None:
    exploration = MISTAKES["crash after"][0]
    first = play(exploration)
    again = play(exploration, start=first.start)
    assert again.trace.text() == first.trace.text()
    assert [(one.revision, one.after) for one in again.changes] == [(one.revision, one.after) for one in first.changes]


def test_a_process_crashes_also_at_a_call_that_fails_in_an_outage() -> None:
    at = "apply.ConfigMap/test/dns-addon"
    played = Explorer(gave_up.fixed).play(Plan.parse(f"outage:{at}#1:unreachable:60+crash-after:{at}#2"))
    assert played.ok
    assert not played.missed
    assert len([one for one in played.trace if one.act == "crash"]) == 1
