"""Faults as values, over a real server: what each does to a client, and that everything else passes."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from levelset import (
    Client,
    Cluster,
    ConfigError,
    Conflict,
    Context,
    Controller,
    LeaderElection,
    Manager,
    MergePatch,
    Object,
    ObjectMeta,
    ServerFailed,
    TimedOut,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from levelset.aio import Crashed
from levelset.apiserver import ApiServer
from levelset.apiserver.package_data import read_data
from levelset.client import Retries
from levelset.errors import LeaseLost
from levelset.testing import faults, open_cluster
from levelset.testing.faults import Fault, hooks_of, wrapped
from tests.apiserver.clock import virtual

read_data()


class Settings(Object, api="v1", kind="ConfigMap"):
    data: dict[str, str] = {}


def settings(name: str = "a") -> Settings:
    return Settings(metadata=ObjectMeta(name=name, namespace="default"))


def now() -> float:
    return asyncio.get_running_loop().time()


@asynccontextmanager
async def world(*given: Fault) -> AsyncGenerator[tuple[Client, Client]]:
    """Somebody who has no trouble, and somebody who has these faults and never asks again by himself."""
    server = ApiServer()
    await server.start(listen=False)
    try:
        async with (
            await Client.connect(server) as people,
            await Client.connect(server, wire_hooks=hooks_of(given), retries=Retries(attempts=1)) as troubled,
        ):
            await people.create(settings())
            yield people, troubled
    finally:
        await server.stop()


CHANGE = MergePatch({"data": {"key": "new"}})
REFUSALS = [
    (faults.conflict(), Conflict),
    (faults.too_many(3), TooManyRequests),
    (faults.server_error(), ServerFailed),
    (faults.server_error(503), ServerFailed),
    (faults.unreachable(), Unreachable),
    (faults.expired_token(), Unauthorized),
    (faults.timeout(), TimedOut),
]


@pytest.mark.parametrize(("fault", "error"), REFUSALS, ids=[repr(fault) for fault, _ in REFUSALS])
@virtual
async def test_a_call_that_is_struck_fails_and_nothing_happens(fault: Fault, error: type[Exception]) -> None:
    async with world(fault) as (people, troubled):
        with pytest.raises(error):
            await troubled.patch(settings().ref, CHANGE)
        assert (await people.get(settings().ref)).data == {}


@pytest.mark.parametrize("fault", [faults.lost_answer(), faults.timeout(took_effect=True)], ids=repr)
@virtual
async def test_a_write_whose_answer_is_lost_has_happened(fault: Fault) -> None:
    async with world(fault) as (people, troubled):
        with pytest.raises(Unreachable) as caught:
            await troubled.patch(settings().ref, CHANGE)
        assert caught.value.is_sent
        assert (await people.get(settings().ref)).data == {"key": "new"}


@virtual
async def test_a_server_with_too_much_to_do_says_when_to_come_back() -> None:
    async with world(faults.too_many(7, verbs=("get",))) as (_, troubled):
        with pytest.raises(TooManyRequests) as caught:
            await troubled.get(settings().ref)
        assert caught.value.retry_after == 7
        await troubled.patch(settings().ref, CHANGE)


@pytest.mark.parametrize("answer", [False, True])
@virtual
async def test_a_slow_call_takes_effect_before_or_after_the_wait(answer: bool) -> None:
    async with world(faults.slow(5, answer=answer, kinds=(Settings,))) as (people, troubled):
        writing = asyncio.create_task(troubled.patch(settings().ref, CHANGE))
        await asyncio.sleep(1)
        assert bool((await people.get(settings().ref)).data) is answer
        await writing
        assert now() == pytest.approx(5)


@virtual
async def test_a_hook_counts_and_each_begins_anew() -> None:
    fault = faults.conflict(count=2)
    async with world(fault) as (_, troubled):
        for error in (Conflict, Conflict):
            with pytest.raises(error):
                await troubled.patch(settings().ref, CHANGE)
        await troubled.patch(settings().ref, CHANGE)
    assert fault.hook().struck == 0


async def wait_seen(cluster: Cluster, name: str) -> float:
    while await cluster.find(settings(name).ref, read="stale") is None:  # noqa: ASYNC110  # the time is virtual
        await asyncio.sleep(0.1)
    return now()


@virtual
async def test_a_delayed_watch_keeps_a_cache_behind() -> None:
    async with world(faults.delayed_watch(2)) as (people, troubled), Cluster(troubled) as cluster:
        cluster.declare(Settings)
        await cluster.wait_ready()
        began = now()
        await people.create(settings("b"))
        assert await wait_seen(cluster, "b") - began == pytest.approx(2, abs=0.2)


@pytest.mark.parametrize("fault", [faults.dropped_watch(3), faults.compaction(3), faults.repeated_events(3)], ids=repr)
@virtual
async def test_a_cache_comes_through_watches_that_do_not_last(fault: Fault) -> None:
    striking = fault.hook()
    server = ApiServer()
    await server.start(listen=False)
    async with (
        await Client.connect(server) as people,
        await Client.connect(server, wire_hooks=[striking]) as troubled,
        Cluster(troubled) as cluster,
    ):
        cluster.declare(Settings)
        await cluster.wait_ready()
        for number in range(5):
            await people.create(settings(f"b-{number}"))
            await asyncio.sleep(4)
        await wait_seen(cluster, "b-4")
        assert len(await cluster.list(Settings, read="stale", namespace="default")) == 5
        assert striking.struck >= 4
    await server.stop()


@virtual
async def test_repeated_events_come_again() -> None:
    async with world(faults.repeated_events(3, back=2, count=2)) as (people, troubled):
        version = (await people.create(settings("b"))).metadata.resource_version
        await people.create(settings("c"))
        async with troubled.watch(Settings, namespace="default", resource_version=version) as watch:
            first = [event.kept.head.name async for batch in _until_broken(watch) for event in batch]
        assert first == ["a", "b", "c"]


async def _until_broken(watch):
    try:
        async for batch in watch:
            yield batch
    except Unreachable:
        return


@virtual
async def test_who_cannot_renew_its_lease_loses_the_lead() -> None:
    election = LeaderElection(name="a", namespace="default", identity="first")

    async def lead(client: Client) -> None:
        async with Manager(client, health=None, leader=election) as manager:
            await asyncio.sleep(15)
            assert manager.is_leader
            await asyncio.sleep(60)

    async with world(faults.lost_leadership(after=20, during=60)) as (_, troubled):
        with pytest.raises(Crashed) as caught:
            await lead(troubled)
        assert caught.group_contains(LeaseLost)
        assert 25 < now() < 35


@virtual
async def test_a_slow_handler_begins_later_and_only_for_those_who_are_chosen() -> None:
    begun: dict[str, float] = {}

    async def reconcile(one: Settings, ctx: Context) -> None:
        begun[one.name] = now()

    slow = [faults.slow_handler(30, kinds=(Settings,), names=("b",))]
    async with world(*slow) as (people, plain), Manager(plain, health=None) as manager:
        await people.create(settings("b"))
        for one in wrapped([Controller(Settings, reconcile, namespace="default")], slow):
            manager.add(one)
        await asyncio.sleep(60)
    assert (round(begun["a"]), round(begun["b"])) == (0, 30)


@virtual
async def test_a_cluster_for_tests_takes_faults_on_the_wire_and_around_controllers() -> None:
    async def reconcile(one: Settings, ctx: Context) -> None:
        if "seen" not in one.data:
            await ctx.patch(one.ref, MergePatch({"data": {"seen": f"{now():.0f}"}}))

    trouble = [faults.slow_handler(30), faults.server_error(count=1, verbs=("patch",))]
    async with open_cluster() as cluster, cluster.running(Controller(Settings, reconcile), faults=trouble):
        made = await cluster.create(Settings(metadata=ObjectMeta(name="a")))
        found = await cluster.until(made.ref, lambda one: "seen" in one.data, within=300)
    assert 60 <= int(found.data["seen"]) < 90


def test_a_slow_handler_leaves_controllers_of_other_kinds_and_all_options_as_they_are() -> None:
    async def reconcile(one: Settings, ctx: Context) -> None:
        raise AssertionError

    controller = Controller(Settings, reconcile, cleanup=reconcile, finalizer="a.dev/b", concurrency=7)
    assert wrapped([controller], [faults.slow_handler(1, kinds=("Secret",))]) == [controller]
    (slowed,) = wrapped([controller], [faults.slow_handler(1), faults.conflict()])
    assert (slowed.name, slowed.finalizer, slowed.concurrency) == ("configmaps", "a.dev/b", 7)
    assert slowed.cleanup is not controller.cleanup


def test_a_fault_is_a_value_that_says_what_it_is() -> None:
    one = faults.conflict(share=0.2, verbs=("update", "patch"), seed=5)
    assert one == faults.conflict(share=0.2, verbs=("update", "patch"), seed=5)
    assert one != faults.conflict(share=0.2)
    assert repr(one) == "conflict(verbs=('update', 'patch'), share=0.2, seed=5)"
    assert repr(faults.too_many(2.0, kinds=(Settings,))) == "too_many(retry_after=2.0, kinds=('ConfigMap',))"
    assert repr(faults.slow(1)) == "slow(seconds=1, answer=False)"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: faults.server_error(404), "500 to 599"),
        (lambda: faults.slow(-1), "0 or more"),
        (lambda: faults.repeated_events(1, back=0), "1 or more"),
        (lambda: faults.conflict(verbs=("put",)), "conflict: verbs="),
    ],
)
def test_a_fault_that_means_nothing_is_refused(make, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make()
