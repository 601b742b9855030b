"""Hot loops: code that never lets virtual time pass fails a test, with the loop shown, instead of hanging for ever."""

import asyncio
from typing import Any

import pytest

from levelset import Action, Context, Controller, MergePatch, ObjectMeta, Ref, owns, requeue
from levelset.testing import Cluster, HotLoop, open_cluster, run
from tests.testing.shop import ConfigMap, Order, OrderStatus, Parcel, order

ONE = Ref(Order, "one")


async def breed(found: Order, ctx: Context) -> None:
    """Creates a child in each reconcile, and each child causes the next one."""
    await ctx.create(
        ConfigMap(metadata=ObjectMeta(generate_name=f"{found.name}-", namespace=found.namespace)), owner=found
    )


async def hurry(found: Order, ctx: Context) -> Action:
    return requeue(0)


async def spin(found: Order, ctx: Context) -> None:
    while True:  # noqa: ASYNC110 -- the mistake that is tested
        await asyncio.sleep(0)


async def poll(found: Order, ctx: Context) -> None:
    while await ctx.live(found.ref) is not None:
        pass


async def settle(cluster: Cluster) -> None:
    await cluster.settled()


async def wait(cluster: Cluster) -> None:
    await cluster.until(ONE, lambda it: it.status is not None)


async def let_pass(cluster: Cluster) -> None:
    await cluster.advance(60)


def caught_in(controller: Controller[Order], then: Any) -> str:
    async def main() -> None:
        async with open_cluster() as cluster, cluster.running(controller):
            await cluster.create(order())
            await then(cluster)

    with pytest.raises(HotLoop) as caught:
        run(main())
    return str(caught.value)


@pytest.fixture
def low_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower limits, to save time: what is counted, and what starts the count again, is the same."""
    monkeypatch.setattr("levelset.testing.virtual_time._MOST_ROUNDS", 3_000)
    monkeypatch.setattr("levelset.testing.hot_loop._MOST_RECONCILES", 300)
    monkeypatch.setattr("levelset.testing.hot_loop._MOST_CALLS", 1_000)


@pytest.mark.parametrize("then", [settle, wait, let_pass])
def test_a_controller_that_requeues_at_once_for_ever_fails_the_test(then: Any) -> None:
    text = caught_in(Controller(Order, hurry, name="packing"), then)
    assert "packing has reconciled Order/test/one 2000 times while virtual time stood still at 0.000 s" in text
    assert "the reconciler requested a requeue" in text or "requeue after 0 s" in text


@pytest.mark.usefixtures("low_limits")
def test_a_child_with_a_generated_name_that_causes_the_next_one_is_shown_with_its_last_writes() -> None:
    text = caught_in(Controller(Order, breed, owns(ConfigMap), name="packing"), settle)
    assert "packing has reconciled Order/test/one 300 times" in text
    assert "created ConfigMap/test/one-" in text


@pytest.mark.usefixtures("low_limits")
@pytest.mark.parametrize("then", [settle, wait, let_pass])
def test_a_task_that_never_waits_fails_the_test_and_is_named_with_its_line(then: Any) -> None:
    text = caught_in(Controller(Order, spin), then)
    assert "virtual time stood still at 0.000 s" in text
    assert "spin (test_hot_loop.py:" in text


def test_a_reconcile_that_reads_for_ever_fails_the_test() -> None:
    assert "a reconcile has sent `get Order/test/one` 10000 times" in caught_in(Controller(Order, poll), settle)


def test_a_test_that_polls_without_waiting_fails() -> None:
    async def main() -> None:
        async with open_cluster() as cluster:
            await cluster.define(Order)
            while await cluster.find(ONE) is None:
                pass

    with pytest.raises(HotLoop, match="the test has sent `get Order/test/one` 10000 times"):
        run(main())


def test_without_a_cluster_a_task_that_never_waits_fails_too() -> None:
    async def main() -> None:
        while True:  # noqa: ASYNC110 -- the mistake that is tested
            await asyncio.sleep(0)

    with pytest.raises(HotLoop, match=r"main \(test_hot_loop.py:"):
        run(main())


def test_many_rounds_while_time_passes_are_no_hot_loop() -> None:
    async def main() -> float:
        for number in range(150):
            for _ in range(1_000):
                await asyncio.sleep(0)
            await asyncio.sleep(0.001 * number)
        return asyncio.get_running_loop().time()

    assert run(main()) == pytest.approx(0.001 * sum(range(150)))


@pytest.mark.usefixtures("low_limits")
def test_many_objects_reconciled_at_once_are_no_hot_loop() -> None:
    async def number(found: Order, ctx: Context) -> None:
        await ctx.set_status(found, OrderStatus(packed=found.spec.items))

    async def main() -> None:
        async with open_cluster() as cluster, cluster.running(Controller(Order, number)):
            for one in range(400):
                await cluster.create(order(f"o-{one}"))
            for count in range(400):  # one object, changed by the test more often than a controller may
                await cluster.patch(Ref(Order, "o-0"), MergePatch({"spec": {"items": count}}))
            await cluster.settled()
            for one in range(400):
                await cluster.expect(Ref(Order, f"o-{one}"), lambda it: it.status is not None)
            assert asyncio.get_running_loop().time() == 0.0

    run(main())


def test_a_controller_that_makes_children_one_by_one_is_no_hot_loop() -> None:
    async def fill(found: Order, ctx: Context) -> None:
        children = await ctx.children(Parcel)
        if len(children) < 300:
            name = f"{found.name}-{len(children)}"
            await ctx.create(Parcel.new(name, found.spec, namespace=found.namespace), owner=found)

    async def main() -> None:
        async with open_cluster() as cluster, cluster.running(Controller(Order, fill, owns(Parcel))):
            await cluster.create(order())
            await cluster.settled()
            assert len(await cluster.list(Parcel)) == 300

    run(main())
