"""The explorer as a whole: correct controllers, failing ones, and what is not compared."""

import asyncio
import gc
from pathlib import Path
from random import random
from typing import Any

import pytest

from levelset import Context, Controller, MergePatch, Ref, requeue
from levelset.errors import ConfigError
from levelset.testing import Cluster
from levelset.testing.explore import Exploration, Plan, RunResult, State
from levelset.testing.explore.search import Explorer, explore_plans
from tests.stories.examples import load
from tests.stories.fleets import Fleet, FleetSpec, named_ships, numbered_ships
from tests.testing.explore.mistakes import Order, OrderSpec, OrderStatus, Parcel, orders, parcel

hello = load("02_hello")
website = load("03_website")


async def greet(user: Cluster) -> None:
    one = await user.create(hello.Greeting.new("world", hello.GreetingSpec(name="World")))
    await user.settled()
    await user.patch(one.ref, MergePatch({"spec": {"name": "Moon"}}))
    await user.settled()


async def serve(user: Cluster) -> None:
    await user.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cert"}})
    site = await user.create(website.Website.new("blog", website.WebsiteSpec(image="blog:1", certificate="cert")))
    await user.settled()
    await user.patch(site.ref, MergePatch({"spec": {"replicas": 3}}))
    await user.settled()
    await user.delete(site.ref)
    await user.until_gone(site.ref)


async def sail(user: Cluster) -> None:
    one = await user.create(Fleet.new("a", FleetSpec(size=2)))
    other = await user.create(Fleet.new("b", FleetSpec(size=1)))
    await user.settled()
    await user.patch(one.ref, MergePatch({"spec": {"size": 1}}))
    await user.settled()
    await user.delete(other.ref)
    await user.settled()


CORRECT = {
    "hello": Exploration(greet, lambda: [Controller(hello.Greeting, hello.greet)]),
    "website": Exploration(serve, [website.websites]),
    "named ships": Exploration(sail, lambda: [named_ships()[0]]),
    "numbered ships": Exploration(sail, lambda: [numbered_ships()[0]]),
    "named ships of a leader": Exploration(sail, lambda: [named_ships()[0]], leader=True),
}


def wrong(runs: Any) -> list[str]:
    return [f"{one.plan.id}: {'; '.join(map(str, one.findings))}" for one in runs if not one.ok]


@pytest.mark.slow
@pytest.mark.parametrize("name", CORRECT)
def test_nothing_is_found_in_a_correct_controller(name: str) -> None:
    assert wrong(explore_plans(Explorer(CORRECT[name]), budget=6)) == []


async def do_nothing(order: Order, ctx: Context) -> None:
    """Does nothing."""


def looping() -> list[Controller[Any]]:
    async def reconcile(order: Order, ctx: Context) -> Any:
        return requeue(0)

    return [Controller(Order, reconcile)]


def test_an_endless_requeue_without_writes_is_found() -> None:
    first = next(iter(explore_plans(Explorer(Exploration(orders, looping)))))
    assert [one.rule for one in first.findings] == ["endless loop"]


async def spin(order: Order, ctx: Context) -> None:
    while order.status is None:  # noqa: ASYNC110  # the mistake
        await asyncio.sleep(0)


def test_a_busy_loop_does_not_hang_the_explorer() -> None:
    played = Explorer(Exploration(orders, lambda: [Controller(Order, spin)])).reference.played
    assert any("failed RuntimeError" in step.outcome for step in played.trace)


def never(state: State) -> None:
    assert not state.list(Order), "there is an order"


def test_no_plan_runs_if_an_invariant_breaks_undisturbed() -> None:
    exploration = Exploration(orders, lambda: [Controller(Order, do_nothing)], invariants=[never])
    [only] = explore_plans(Explorer(exploration), budget=50)
    assert [one.rule for one in only.findings] == ["never"]
    assert only.findings[0].sentence == "there is an order"
    assert only.findings[0].step is not None
    assert only.findings[0].step.verb == "create"


def test_an_invariant_may_return_false() -> None:
    exploration = Exploration(
        orders, lambda: [Controller(Order, do_nothing)], invariants=[lambda state: len(state.list(Order)) < 2]
    )
    played = Explorer(exploration).reference.played
    assert [one.rule for one in played.findings] == ["<lambda>"]


async def fail(user: Cluster) -> None:
    raise KeyError("no such thing")


def test_a_scenario_that_fails_is_a_finding() -> None:
    played = Explorer(Exploration(fail, lambda: [Controller(Order, do_nothing)])).reference.played
    [found] = map(str, played.findings)
    assert found.startswith("the scenario itself fails: the scenario failed: KeyError: 'no such thing' (")
    assert f"({Path(__file__).name}, line " in found


async def test_exploring_inside_a_running_loop_is_refused() -> None:
    with pytest.raises(ConfigError, match="call it from a plain function"):
        Explorer(CORRECT["hello"]).reference  # noqa: B018


def test_a_value_that_is_not_a_controller_is_refused() -> None:
    with pytest.raises(ConfigError, match="controllers must return Controllers"):
        Explorer(Exploration(orders, lambda: [do_nothing])).reference  # type: ignore[list-item]  # noqa: B018


async def by_chance(order: Order, ctx: Context) -> None:
    found = await ctx.live(order.ref)
    if found is not None and found.status is None:
        await ctx.set_status(order, OrderStatus(parcel=f"{random():.12f}"))


def test_random_values_are_not_compared() -> None:
    runs = explore_plans(Explorer(Exploration(orders, lambda: [Controller(Order, by_chance)])), budget=20)
    assert wrong(runs) == []


async def late(order: Order, ctx: Context) -> Any:
    """Reaches its end state only after some minutes."""
    age = (ctx.now() - order.metadata.creation_timestamp).total_seconds() if order.metadata.creation_timestamp else 0
    await ctx.apply(parcel(order, order.name, old="yes" if age > 400 else "no"))
    return requeue(100)


def test_a_late_end_state_is_awaited_in_disturbed_runs_too() -> None:
    runs = explore_plans(Explorer(Exploration(orders, lambda: [Controller(Order, late)])), budget=12)
    assert wrong(runs) == []


def test_a_kind_may_be_ignored() -> None:
    async def chaotic(order: Order, ctx: Context) -> None:
        if await ctx.live(Ref(Parcel, order.name, order.namespace)) is None:
            await ctx.create(parcel(order, order.name, version=order.metadata.resource_version + "x"))

    exploration = Exploration(orders, lambda: [Controller(Order, chaotic)], ignored=["ConfigMap"])
    assert wrong(explore_plans(Explorer(exploration), budget=15)) == []


def test_a_process_that_cannot_be_recreated_is_a_finding() -> None:
    made: list[int] = []

    def once() -> list[Controller[Any]]:
        made.append(len(made))
        if len(made) == 6:
            raise ValueError("no more")
        return [Controller(Order, settle_and_apply)]

    async def settle_and_apply(order: Order, ctx: Context) -> None:
        await ctx.apply(parcel(order, order.name))

    explorer = Explorer(Exploration(orders, once))
    assert explorer.reference.played.ok
    assert made == [0, 1, 2, 3]  # one for each undisturbed run
    played = explorer.play(Plan.parse("crash-after:apply.ConfigMap/test/first#1"))
    assert played.findings[0].rule == "crashed"
    assert played.findings[0].sentence.endswith("ValueError: no more")


def test_pairs_that_prevent_each_other_are_not_run() -> None:
    explorer = Explorer(CORRECT["hello"])
    runs = list(explore_plans(explorer, budget=60))
    singles = [one for one in runs if len(one.plan) == 1]
    pairs = [one for one in runs if len(one.plan) == 2]
    assert not any(one.missed for one in singles)
    assert pairs
    assert sum(bool(one.missed) for one in pairs) <= len(pairs) // 10


def test_progress_is_called_for_each_run_within_the_budget() -> None:
    results: list[RunResult] = []
    runs = list(explore_plans(Explorer(CORRECT["hello"]), budget=5, progress=results.append))
    assert results == runs
    assert [len(one.plan) for one in runs] == [0, 1, 1, 1, 1, 1]


def test_tasks_that_fail_in_disturbed_runs_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    tasks: set[asyncio.Task[None]] = set()

    async def reconcile(order: Order, ctx: Context) -> None:
        async def ship_later() -> None:
            await asyncio.sleep(3.0)  # longer than a process lives that crashes
            await ctx.client.apply(parcel(order, order.name))

        task = asyncio.get_running_loop().create_task(ship_later())
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        await ctx.set_status(order, OrderStatus(parcel=order.name))

    async def place(user: Cluster) -> None:
        await user.create(Order.new("book", OrderSpec()))
        await user.settled()

    explorer = Explorer(Exploration(place, lambda: [Controller(Order, reconcile)], allowed=["not watched"]))
    played = explorer.play(Plan.parse("crash-after:patch.Order/test/book/status#1"))
    gc.collect()
    assert not played.missed
    assert [one.getMessage() for one in caplog.records if one.name == "asyncio"] == []
