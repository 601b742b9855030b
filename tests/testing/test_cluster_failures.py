"""`settled` and `advance` while reconciles fail: a test never passes quietly on a controller that only fails."""

import asyncio
from typing import Any

import pytest

from levelset import Conflict, Context, Controller, GiveUp, Ref, Retry
from levelset.errors import ConfigError
from levelset.testing import Cluster, RealWork, open_cluster, virtual
from tests.testing.shop import Order, OrderStatus, order

ONE = Ref(Order, "one")


class Broken(Exception):
    """What the controllers of these tests raise."""


def failing(error: Exception, *, times: int = 1_000_000, **options: Any) -> Controller[Order]:
    """A controller that raises so many times, and then writes the status."""
    left = [times]

    async def reconcile(found: Order, ctx: Context) -> None:
        if left[0] > 0:
            left[0] -= 1
            raise error
        await ctx.set_status(found, OrderStatus(packed=1))

    return Controller(Order, reconcile, name="packing", **options)


async def unsettled(cluster: Cluster, controller: Controller[Order]) -> AssertionError:
    await cluster.create(order())
    async with cluster.running(controller):
        with pytest.raises(AssertionError) as caught:
            await cluster.settled()
    return caught.value


@virtual
async def test_settled_fails_with_the_error_the_object_and_its_history() -> None:
    error = Broken("no stock")
    async with open_cluster() as cluster:
        caught = await unsettled(cluster, failing(error))
    text = str(caught)
    assert "not settled within 60 seconds" in text
    assert "packing fails to reconcile Order/test/one: Broken: no stock" in text
    assert "history of Order/test/one" in text
    assert "allow_errors=Broken" in text
    assert caught.__cause__ is error


@virtual
async def test_settled_waits_for_a_retry_that_succeeds() -> None:
    async with open_cluster() as cluster:
        await cluster.create(order())
        async with cluster.running(failing(Broken(), times=2)):
            await cluster.settled()
            await cluster.expect(ONE, lambda it: it.status is not None and it.status.packed == 1)
            assert 5 < asyncio.get_running_loop().time() < 60, "two retries, after some 5 and 10 seconds"


@virtual
async def test_settled_waits_no_longer_than_within() -> None:
    async with open_cluster() as cluster:
        await cluster.create(order())
        async with cluster.running(failing(Broken(), times=2)):
            with pytest.raises(AssertionError, match="within 3 seconds"):
                await cluster.settled(within=3)
            assert asyncio.get_running_loop().time() == pytest.approx(3, abs=0.1)


@pytest.mark.parametrize("error", [GiveUp("never"), Conflict("another writer was first")])
@virtual
async def test_an_object_that_was_given_up_or_always_conflicts_is_not_settled(error: Exception) -> None:
    async with open_cluster() as cluster:
        assert f"{type(error).__name__}: {error}" in str(await unsettled(cluster, failing(error)))


@virtual
async def test_an_object_that_waits_with_retry_is_settled() -> None:
    async with open_cluster() as cluster:
        await cluster.create(order())
        async with cluster.running(failing(Retry("not yet", seconds=30))):
            await cluster.settled()
            await cluster.advance(40)


@virtual
async def test_a_deleted_object_and_an_ended_process_fail_no_more() -> None:
    async with open_cluster() as cluster:
        await cluster.create(order())
        async with cluster.running(failing(Broken())):
            await cluster.delete(ONE)
            await cluster.settled()
            await cluster.create(order())
        await cluster.settled()


@virtual
async def test_an_error_on_one_object_is_reported_although_others_succeed() -> None:
    async def picky(found: Order, ctx: Context) -> None:
        if found.name == "one":
            raise Broken("rejected")
        await ctx.set_status(found, OrderStatus(packed=1))

    async with open_cluster() as cluster:
        await cluster.create(order())
        await cluster.create(order("two"))
        async with cluster.running(Controller(Order, picky)):
            with pytest.raises(AssertionError, match="Order/test/one: Broken: rejected") as caught:
                await cluster.settled()
        assert "Order/test/two" not in str(caught.value)


@virtual
async def test_advance_says_what_fails_at_its_end() -> None:
    async with open_cluster() as cluster:
        await cluster.create(order())
        async with cluster.running(failing(Broken("no stock"))):
            with pytest.raises(AssertionError, match="after 600 seconds") as caught:
                await cluster.advance(600)
            assert "packing fails to reconcile Order/test/one: Broken: no stock" in str(caught.value)
            assert asyncio.get_running_loop().time() == pytest.approx(600)


@virtual
async def test_advance_says_nothing_of_a_failure_that_has_passed() -> None:
    async with open_cluster() as cluster:
        await cluster.create(order())
        async with cluster.running(failing(Broken(), times=2)):
            await cluster.advance(600)


@pytest.mark.parametrize("allowed", [True, Broken, (ValueError, Broken), Exception])
@virtual
async def test_a_test_that_expects_failures_says_so(allowed: Any) -> None:
    async with open_cluster() as cluster:
        await cluster.create(order())
        async with cluster.running(failing(Broken())):
            await cluster.settled(allow_errors=allowed)
            await cluster.advance(60, allow_errors=allowed)
        async with cluster.running(failing(Broken()), allow_errors=allowed):
            await cluster.settled()
            await cluster.advance(60)
            with pytest.raises(AssertionError):
                await cluster.settled(allow_errors=False)
            with pytest.raises(AssertionError):
                await cluster.settled(allow_errors=KeyError)


@virtual
async def test_a_group_of_errors_is_allowed_if_all_inside_are() -> None:
    async with open_cluster() as cluster:
        await cluster.create(order())
        group = ExceptionGroup("several", [Broken("one"), ExceptionGroup("more", [KeyError("two")])])
        async with cluster.running(failing(group)):
            await cluster.settled(allow_errors=(Broken, KeyError))
            with pytest.raises(AssertionError, match="Broken: one; KeyError: 'two'"):
                await cluster.settled(allow_errors=Broken)


@pytest.mark.parametrize("wrong", [[ValueError], ValueError("an instance"), "ValueError", (ValueError, 3)])
@virtual
async def test_other_values_of_allow_errors_are_refused(wrong: Any) -> None:
    async with open_cluster() as cluster:
        with pytest.raises(ConfigError, match="allow_errors="):
            await cluster.settled(allow_errors=wrong)
        with pytest.raises(ConfigError, match="allow_errors="):
            await cluster.advance(1, allow_errors=wrong)
        with pytest.raises(ConfigError, match="allow_errors="):
            cluster.process(failing(Broken()), allow_errors=wrong)


@virtual
async def test_real_work_inside_a_task_group_shows_its_text_in_the_history() -> None:
    async def calls_out(found: Order, ctx: Context) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.open_connection("example.com", 80))

    async with open_cluster() as cluster:
        caught = await unsettled(cluster, Controller(Order, calls_out, name="packing"))
        story = cluster.story(ONE)
    assert "RealWork: create_connection('example.com', 80)" in story
    assert "RealWork: create_connection('example.com', 80)" in str(caught)
    assert "allow_errors=RealWork" in str(caught)
    assert RealWork.__name__ in story
