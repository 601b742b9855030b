"""Faults between a client and an in-process server: the effect of each, and that other calls pass."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from levelset import (
    Client,
    Cluster,
    Conflict,
    Context,
    Controller,
    LeaderElection,
    Manager,
    MergePatch,
    Object,
    ObjectMeta,
)
from levelset.aio import Crashed
from levelset.apiserver import ApiServer
from levelset.apiserver.package_data import load_package_data
from levelset.client import Retries
from levelset.errors import (
    ConfigError,
    LeaseLost,
    NotFound,
    ServerFailed,
    TimedOut,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from levelset.testing import faults, open_cluster
from levelset.testing.faults import Fault, hooks_of, wrap_controllers
from levelset.testing.virtual_time import virtual

load_package_data()


class Settings(Object, api="v1", kind="ConfigMap"):
    data: dict[str, str] = {}


def settings(name: str = "a") -> Settings:
    return Settings(metadata=ObjectMeta(name=name, namespace="default"))


def now() -> float:
    return asyncio.get_running_loop().time()


@asynccontextmanager
async def clients(*given: Fault) -> AsyncGenerator[tuple[Client, Client]]:
    """A client without faults, and a client with these faults and without retries."""
    server = ApiServer()
    await server.start(listen=False)
    try:
        async with (
            await Client.connect(server) as client,
            await Client.connect(server, wire_hooks=hooks_of(given), retries=Retries(attempts=1)) as faulty,
        ):
            await client.create(settings())
            yield client, faulty
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
async def test_a_call_with_a_fault_fails_without_effect(fault: Fault, error: type[Exception]) -> None:
    async with clients(fault) as (client, faulty):
        with pytest.raises(error):
            await faulty.patch(settings().ref, CHANGE)
        assert (await client.get(settings().ref)).data == {}


@pytest.mark.parametrize("fault", [faults.lost_response(), faults.timeout(took_effect=True)], ids=repr)
@virtual
async def test_a_write_whose_response_is_lost_has_taken_effect(fault: Fault) -> None:
    async with clients(fault) as (client, faulty):
        with pytest.raises(Unreachable) as caught:
            await faulty.patch(settings().ref, CHANGE)
        assert caught.value.is_sent
        assert (await client.get(settings().ref)).data == {"key": "new"}


@virtual
async def test_too_many_requests_carries_retry_after() -> None:
    async with clients(faults.too_many(7, verbs=("get",))) as (_, faulty):
        with pytest.raises(TooManyRequests) as caught:
            await faulty.get(settings().ref)
        assert caught.value.retry_after == 7
        await faulty.patch(settings().ref, CHANGE)


@pytest.mark.parametrize("response", [False, True])
@virtual
async def test_a_slow_call_takes_effect_before_or_after_the_wait(response: bool) -> None:
    async with clients(faults.slow(5, response=response, kinds=(Settings,))) as (client, faulty):
        writing = asyncio.create_task(faulty.patch(settings().ref, CHANGE))
        await asyncio.sleep(1)
        assert bool((await client.get(settings().ref)).data) is response
        await writing
        assert now() == pytest.approx(5)


@virtual
async def test_each_hook_has_its_own_counter() -> None:
    fault = faults.conflict(count=2)
    async with clients(fault) as (_, faulty):
        for error in (Conflict, Conflict):
            with pytest.raises(error):
                await faulty.patch(settings().ref, CHANGE)
        await faulty.patch(settings().ref, CHANGE)
    assert fault.hook().injected == 0


async def wait_seen(cluster: Cluster, name: str) -> float:
    while await cluster.find(settings(name).ref, read="stale") is None:  # noqa: ASYNC110  # the time is virtual
        await asyncio.sleep(0.1)
    return now()


@virtual
async def test_a_delayed_watch_makes_a_cache_stale() -> None:
    async with clients(faults.delayed_watch(2)) as (client, faulty), Cluster(faulty) as cluster:
        cluster.declare(Settings)
        await cluster.wait_ready()
        began = now()
        await client.create(settings("b"))
        assert await wait_seen(cluster, "b") - began == pytest.approx(2, abs=0.2)


@pytest.mark.parametrize("fault", [faults.dropped_watch(3), faults.compaction(3), faults.repeated_events(3)], ids=repr)
@virtual
async def test_a_cache_recovers_from_broken_watches(fault: Fault) -> None:
    hook = fault.hook()
    server = ApiServer()
    await server.start(listen=False)
    async with (
        await Client.connect(server) as client,
        await Client.connect(server, wire_hooks=[hook]) as faulty,
        Cluster(faulty) as cluster,
    ):
        cluster.declare(Settings)
        await cluster.wait_ready()
        for number in range(5):
            await client.create(settings(f"b-{number}"))
            await asyncio.sleep(4)
        await wait_seen(cluster, "b-4")
        assert len(await cluster.list(Settings, read="stale", namespace="default")) == 5
        assert hook.injected >= 4
    await server.stop()


@virtual
async def test_repeated_events_are_delivered_again() -> None:
    async with clients(faults.repeated_events(3, back=2, count=2)) as (client, faulty):
        version = (await client.create(settings("b"))).metadata.resource_version
        await client.create(settings("c"))
        async with faulty.watch(Settings, namespace="default", resource_version=version) as watch:
            first = [event.cached.head.name async for batch in _until_broken(watch) for event in batch]
        assert first == ["a", "b", "c"]


async def _until_broken(watch):
    try:
        async for batch in watch:
            yield batch
    except Unreachable:
        return


@virtual
async def test_a_leader_that_cannot_renew_its_lease_loses_it() -> None:
    election = LeaderElection(name="a", namespace="default", identity="first")

    async def lead(faulty: Client) -> None:
        async with Manager(faulty, health=None, leader=election) as manager:
            await asyncio.sleep(15)
            assert manager.is_leader
            await asyncio.sleep(60)

    async with clients(faults.lost_leadership(after=20, during=60)) as (_, faulty):
        with pytest.raises(Crashed) as caught:
            await lead(faulty)
        assert caught.group_contains(LeaseLost)
        assert 25 < now() < 35


@virtual
async def test_a_slow_handler_delays_selected_objects_only() -> None:
    begun: dict[str, float] = {}

    async def reconcile(one: Settings, ctx: Context) -> None:
        begun[one.name] = now()

    slow = [faults.slow_handler(30, kinds=(Settings,), names=("b",))]
    async with clients(*slow) as (client, plain), Manager(plain, health=None) as manager:
        await client.create(settings("b"))
        for one in wrap_controllers([Controller(Settings, reconcile, namespace="default")], slow):
            manager.add(one)
        await asyncio.sleep(60)
    assert (round(begun["a"]), round(begun["b"])) == (0, 30)


@virtual
async def test_a_test_cluster_takes_faults_on_the_wire_and_around_controllers() -> None:
    async def reconcile(one: Settings, ctx: Context) -> None:
        if "seen" not in one.data:
            await ctx.patch(one.ref, MergePatch({"data": {"seen": f"{now():.0f}"}}))

    injected = [faults.slow_handler(30), faults.server_error(count=1, verbs=("patch",))]
    async with open_cluster() as cluster, cluster.running(Controller(Settings, reconcile), faults=injected):
        made = await cluster.create(Settings(metadata=ObjectMeta(name="a")))
        found = await cluster.until(made.ref, lambda one: "seen" in one.data, within=300)
    assert 60 <= int(found.data["seen"]) < 90


def test_a_slow_handler_preserves_other_kinds_and_all_options() -> None:
    async def reconcile(one: Settings, ctx: Context) -> None:
        raise AssertionError

    controller = Controller(Settings, reconcile, cleanup=reconcile, finalizer="a.dev/b", concurrency=7)
    assert wrap_controllers([controller], [faults.slow_handler(1, kinds=("Secret",))]) == [controller]
    (slowed,) = wrap_controllers([controller], [faults.slow_handler(1), faults.conflict()])
    assert (slowed.name, slowed.finalizer, slowed.concurrency) == ("configmaps", "a.dev/b", 7)
    assert slowed.cleanup is not controller.cleanup


def test_a_fault_is_a_value_with_a_repr() -> None:
    one = faults.conflict(share=0.2, verbs=("update", "patch"), seed=5)
    assert one == faults.conflict(share=0.2, verbs=("update", "patch"), seed=5)
    assert one != faults.conflict(share=0.2)
    assert repr(one) == "conflict(verbs=('update', 'patch'), share=0.2, seed=5)"
    assert repr(faults.too_many(2.0, kinds=(Settings,))) == "too_many(retry_after=2.0, kinds=('ConfigMap',))"
    assert repr(faults.slow(1)) == "slow(seconds=1, response=False)"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: faults.server_error(404), "500 to 599"),
        (lambda: faults.slow(-1), "0 or more"),
        (lambda: faults.repeated_events(1, back=0), "1 or more"),
        (lambda: faults.conflict(verbs=("put",)), "conflict: verbs="),
        (lambda: faults.conflict(verbs=("create",)), "no server responds 409 Conflict to create"),
    ],
)
def test_an_invalid_fault_is_refused(make, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


@virtual
async def test_a_conflict_is_one_that_a_server_could_give() -> None:
    async with clients(faults.conflict()) as (client, faulty):
        made = await faulty.apply(settings("new"), force=True)
        with pytest.raises(Conflict):
            await faulty.apply(settings("new"), force=True)
        with pytest.raises(Conflict):
            await faulty.update(made)
        await faulty.delete(made.ref)
        assert await client.find(made.ref) is None
        with pytest.raises(NotFound):
            await faulty.patch(made.ref, CHANGE)


@virtual
async def test_a_call_that_cannot_conflict_does_not_count() -> None:
    async with clients(faults.conflict(count=1)) as (_, faulty):
        await faulty.apply(settings("new"), force=True)
        with pytest.raises(Conflict):
            await faulty.apply(settings("new"), force=True)
        await faulty.apply(settings("new"), force=True)
