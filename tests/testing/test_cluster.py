"""The test cluster: its verbs, virtual time, running controllers and failure messages."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from levelset import (
    Context,
    Controller,
    GroupVersionKind,
    LeaderElection,
    MergePatch,
    NotFound,
    ObjectMeta,
    Ref,
    requeue,
)
from levelset.aio import Crashed
from levelset.client import Call, Response, Send
from levelset.errors import ConfigError, ServerFailed, Unreachable
from levelset.storage import MemoryStorage, Page
from levelset.testing import START, Cluster, Stuck, faults, open_cluster, run, virtual
from tests.testing.shop import ConfigMap, Order, OrderSpec, Parcel, make_packing, order

ONE = Ref(Order, "one")
PARCEL = Ref(Parcel, "one")


@virtual
async def test_the_crd_of_a_kind_is_installed_when_the_kind_is_used() -> None:
    async with open_cluster() as cluster:
        made = await cluster.create(order())
        assert made.namespace == cluster.namespace == "test"
        assert await cluster.find(PARCEL) is None
        assert [one.name for one in await cluster.list(Order)] == ["one"]


@virtual
async def test_the_crd_of_a_kind_is_installed_by_an_apply_and_by_a_patch() -> None:
    async with open_cluster() as cluster:
        assert (await cluster.apply(order())).name == "one"
    async with open_cluster() as cluster:
        with pytest.raises(NotFound) as caught:
            await cluster.patch(ONE, MergePatch({"spec": {"items": 2}}))
        assert caught.value.details.get("name") == "one", "the kind is served, the object does not exist"


@virtual
async def test_versions_of_a_kind_are_installed_together() -> None:
    class Early(Order, api="shop.example.dev/v1alpha1", plural="orders", kind="Order"):
        """The same kind in an older version."""

    async with open_cluster() as cluster:
        await cluster.define(Order, Early)
        await cluster.create(order())
        assert (await cluster.get(Early, "one")).spec.items == 1


@virtual
async def test_a_controller_runs_within_its_block_only() -> None:
    async with open_cluster() as cluster:
        await cluster.create(order(items=3))
        async with cluster.running(make_packing()):
            parcel = await cluster.until(PARCEL)
            assert parcel.spec.items == 3
            await cluster.until(ONE, lambda it: it.status is not None and it.status.packed == 3)
        await cluster.create(order("two"))
        await cluster.settled()
        assert await cluster.find(Ref(Parcel, "two")) is None


@virtual
async def test_settled_waits_for_all_reconciles_without_advancing_time() -> None:
    async with open_cluster() as cluster, cluster.running(make_packing()):
        for number in range(20):
            await cluster.create(order(f"order-{number}"))
        await cluster.settled()
        assert len(await cluster.list(Parcel)) == 20
        assert cluster.now() == START


@virtual
async def test_a_requeue_for_later_does_not_prevent_settling() -> None:
    async with open_cluster() as cluster:
        await cluster.create(order(items=11))
        async with cluster.running(make_packing()):
            await cluster.settled()
            with pytest.raises(NotFound):
                await cluster.get(PARCEL)
            await cluster.patch(ONE, MergePatch({"spec": {"items": 10}}))
            await cluster.settled()
            assert cluster.now() == START
            await cluster.get(PARCEL)


@virtual
async def test_settled_waits_for_retries_that_are_due_soon() -> None:
    async with open_cluster() as cluster:
        await cluster.create(order())
        async with cluster.running(make_packing(), faults=[faults.conflict(count=3), faults.server_error(count=2)]):
            await cluster.settled()
            assert await cluster.find(PARCEL) is not None


@virtual
async def test_settled_waits_for_a_slow_reconcile() -> None:
    async def dawdle(found: Order, ctx: Context) -> None:
        await asyncio.sleep(7)

    async with open_cluster() as cluster:
        await cluster.create(order())
        async with cluster.running(Controller(Order, dawdle, name="dawdling")):
            await cluster.settled()
            assert cluster.now() - START == timedelta(seconds=7)


@virtual
async def test_settled_waits_for_a_delayed_watch() -> None:
    late = faults.delayed_watch(5.0, kinds=("Order",))
    async with open_cluster() as cluster, cluster.running(make_packing(), faults=[late]):
        await cluster.settled()
        await cluster.create(order())
        await cluster.settled()
        assert await cluster.find(PARCEL) is not None
        assert cluster.now() - START >= timedelta(seconds=5)


@virtual
async def test_settled_names_the_reconcile_that_never_ends() -> None:
    async def hang(found: Order, ctx: Context) -> None:
        await asyncio.Event().wait()

    async with open_cluster() as cluster:
        await cluster.create(order())
        async with cluster.running(Controller(Order, hang, name="hanging"), grace=0):
            with pytest.raises(
                AssertionError, match=r"(?s)not settled within 60 s.*hanging is reconciling Order/test/one"
            ):
                await cluster.settled()


@virtual
async def test_settled_names_the_cache_that_stays_stale() -> None:
    async def held(call: Call, send: Send) -> Response:
        if held_back and call.verb in {"list", "watch"} and "orders" in call.path:
            raise Unreachable("no way", is_sent=False)
        return await send(call)

    held_back: list[bool] = []
    async with open_cluster() as cluster, cluster.running(make_packing(), faults=[faults.dropped_watch(5.0), held]):
        await cluster.settled()
        held_back.append(True)
        await cluster.advance(600)
        await cluster.create(order())
        with pytest.raises(AssertionError, match=r"(?s)the cache of .*Order is not up to date: test/one"):
            await cluster.settled()


@virtual
async def test_settled_names_a_stale_cache_beside_other_pending_work() -> None:
    late = faults.delayed_watch(600.0, kinds=("Order",))
    async with open_cluster() as cluster:
        await cluster.create(order())
        async with cluster.running(make_packing(), faults=[late]):
            with pytest.raises(AssertionError, match=r"(?s)caches are not synced.*Order is not up to date: test/one"):
                await cluster.settled()


@virtual
async def test_settled_reads_what_is_stored_only_when_no_work_is_pending() -> None:
    class CountingStorage(MemoryStorage):
        lists = 0

        def list_nowait(self, prefix: str, **options: Any) -> Page:
            self.lists += 1
            return super().list_nowait(prefix, **options)

    async def dawdle(found: Order, ctx: Context) -> None:
        for _ in range(50):
            await asyncio.sleep(1)

    storage = CountingStorage()
    async with open_cluster(storage=storage) as cluster:
        await cluster.create(order())
        async with cluster.running(Controller(Order, dawdle, name="dawdling")):
            await cluster.until(ONE)
            before = storage.lists
            await cluster.settled()
            assert cluster.now() - START == timedelta(seconds=50)
            assert storage.lists - before < 10


@virtual
async def test_caches_with_a_label_selector_settle() -> None:
    async def reconcile(found: Order, ctx: Context) -> None:
        seen.append(found.name)

    seen: list[str] = []
    async with open_cluster() as cluster:
        red = order("red")
        await cluster.create(Order(metadata=ObjectMeta(name="red", labels={"colour": "red"}), spec=red.spec))
        await cluster.create(order("blue"))
        async with cluster.running(Controller(Order, reconcile, labels={"colour": "red"})):
            await cluster.settled()
    assert seen == ["red"]


@virtual
async def test_advance_runs_everything_that_is_due() -> None:
    times: list[float] = []

    async def count(found: Order, ctx: Context):
        times.append((cluster.now() - START).total_seconds())
        return requeue(300)

    async with open_cluster() as cluster:
        await cluster.create(order())
        async with cluster.running(Controller(Order, count)):
            await cluster.settled()
            await cluster.advance(900)
    assert times == [0.0, 300.0, 600.0, 900.0]


@virtual
async def test_a_failed_wait_shows_the_condition_the_object_and_its_history() -> None:
    async with open_cluster() as cluster:
        await cluster.create(order(items=2))
        async with cluster.running(make_packing()):
            with pytest.raises(AssertionError) as caught:
                await cluster.until(ONE, lambda it: it.spec.items == 5, within=10)
    lines = str(caught.value).splitlines()
    assert lines[0] == "Order/test/one: this did not become true: it.spec.items == 5 within 10 seconds"
    assert lines[1].startswith('it is: {"apiVersion":"shop.example.dev/v1"')
    assert "managedFields" not in lines[1]
    assert lines[2] == "history of Order/test/one:"
    assert [line.split(" s  ")[1] for line in lines[3:]] == [
        "r7 created by user",
        'r10 changed by packing: status = {"packed": 2}',
        "packing reconciled (it was there at the start): requeued, requeue after 3600 s",
        "packing reconciled (Parcel/test/one has changed): requeued, requeue after 3600 s",
    ]


@virtual
async def test_a_failed_expectation_names_the_object_that_exists_or_is_missing() -> None:
    def is_large(it: Order) -> bool:
        return it.spec.items > 100

    async with open_cluster() as cluster:
        with pytest.raises(AssertionError, match=r"(?s)does not exist within 60 s.*no such object.*never written"):
            await cluster.until(ONE)
        await cluster.create(order())
        with pytest.raises(AssertionError, match="it still exists after 5 seconds"):
            await cluster.until_gone(ONE, within=5)
        with pytest.raises(AssertionError, match="is_large did not become true"):
            await cluster.until(ONE, is_large, within=5)
        with pytest.raises(AssertionError, match="is_large did not become true"):
            await cluster.expect(ONE, is_large)
        with pytest.raises(AssertionError, match="it does not exist"):
            await cluster.expect(PARCEL)
        assert (await cluster.expect(ONE)).name == "one"


@virtual
async def test_always_and_never_watch_the_object_for_a_while() -> None:
    async with open_cluster() as cluster:
        await cluster.create(order(items=1))
        await cluster.always(ONE, lambda it: it.spec.items == 1, during=100)
        assert cluster.now() - START == timedelta(seconds=100)
        await cluster.never(PARCEL, during=100)
        async with cluster.running(make_packing()):
            with pytest.raises(AssertionError, match="did not hold for 50 seconds"):
                await cluster.always(ONE, lambda it: it.status is None or it.status.packed == 0, during=50)
        await cluster.delete(PARCEL)
        async with cluster.running(make_packing()):
            with pytest.raises(AssertionError, match="it was created within 100 seconds"):
                await cluster.never(PARCEL, during=100)


@virtual
async def test_the_history_of_an_object_has_all_its_versions() -> None:
    async with open_cluster() as cluster:
        await cluster.create(order())
        await cluster.advance(5)
        await cluster.patch(ONE, MergePatch({"spec": {"items": 2}}), manager="clerk")
        await cluster.delete(ONE)
        history = cluster.history(ONE)
        assert [(one.at, one.writers) for one in history] == [(0.0, ["user"]), (5.0, ["clerk"]), (5.0, [])]
        assert [str(one).split(" ", 1)[1] for one in history] == [
            "created by user",
            "changed by clerk: spec.items: 1 -> 2",
            "removed",
        ]
        assert cluster.story(ONE).startswith("history of Order/test/one:")


@virtual
async def test_a_killed_process_stops_writing_and_does_not_release_its_lease() -> None:
    leader = LeaderElection(name="shop", identity="first")
    async with open_cluster() as cluster:
        first = cluster.process(make_packing(), leader=leader, name="first")
        await first.start()
        await cluster.settled()
        await first.kill()
        assert not first.is_alive
        revision = cluster.storage.revision
        await cluster.create(order())
        second = LeaderElection(name="shop", identity="second")
        async with cluster.running(make_packing(), leader=second, name="second"):
            await cluster.settled()
            assert cluster.now() - START > timedelta(seconds=15)
            assert await cluster.find(PARCEL) is not None
            assert cluster.storage.revision > revision


@virtual
async def test_a_stopped_process_releases_its_lease() -> None:
    async with open_cluster() as cluster:
        first = cluster.process(make_packing(), leader=LeaderElection(name="shop", identity="first"))
        await first.start()
        await cluster.settled()
        await first.stop()
        await cluster.create(order())
        async with cluster.running(make_packing(), leader=LeaderElection(name="shop", identity="second")):
            await cluster.settled()
            assert cluster.now() - START < timedelta(seconds=15)
            assert await cluster.find(PARCEL) is not None


@virtual
async def test_a_standby_counts_as_settled() -> None:
    async with open_cluster() as cluster:
        await cluster.create(order())
        leads = cluster.running(make_packing(), leader=LeaderElection(name="shop", identity="first"))
        waits = cluster.running(make_packing(), leader=LeaderElection(name="shop", identity="second"))
        async with leads as first, waits as second:
            await cluster.settled()
            assert (first.is_standby, second.is_standby) == (False, True)
            await first.kill()
            await cluster.patch(ONE, MergePatch({"spec": {"items": 4}}))
            await cluster.settled()
            assert not second.is_standby
            assert (await cluster.get(PARCEL)).spec.items == 4


@virtual
async def test_a_process_that_crashes_interrupts_its_block_or_keeps_its_error() -> None:
    lost = [faults.lost_leadership(after=5.0)]
    async with open_cluster() as cluster:
        process = cluster.process(make_packing(), leader=LeaderElection(name="shop"), faults=lost)
        await process.start()
        await cluster.advance(60)
        assert isinstance(process.error, Crashed)
        assert not process.is_alive
        with pytest.raises(Crashed):
            async with cluster.running(make_packing(), leader=LeaderElection(name="another"), faults=lost):
                await cluster.advance(60)


@virtual
async def test_faults_affect_one_process_only() -> None:
    async def cut(call: Call, send: Send) -> Response:
        raise Unreachable("no way", is_sent=False)

    async with open_cluster() as cluster, cluster.running(make_packing(), faults=[cut]):
        await cluster.create(order())
        with pytest.raises(AssertionError, match="packing is not ready"):
            await cluster.settled(within=5)


@virtual
async def test_hooks_inject_faults_into_the_client_of_the_test() -> None:
    async with open_cluster(hooks=[faults.server_error(verbs=("create",)).hook()]) as cluster:
        with pytest.raises(ServerFailed, match="injected fault: 500"):
            await cluster.create(order())
        await cluster.settled()


def test_a_cluster_is_deterministic_for_a_seed() -> None:
    async def play(cluster: Cluster) -> list[bytes]:
        async with cluster.running(make_packing(), faults=[faults.server_error(share=0.3, seed=2)]):
            for number in range(5):
                await cluster.create(order(f"order-{number}"))
            await cluster.create(ConfigMap(metadata=ObjectMeta(generate_name="map-")))
            await cluster.settled()
            await cluster.advance(4000)
        return [one.value for one in cluster.storage.list_nowait("/registry/").items]

    @virtual
    async def once(seed: int) -> list[bytes]:
        async with open_cluster(seed=seed) as cluster:
            return await play(cluster)

    assert once(1) == once(1)
    assert once(1) != once(2)


def test_a_test_that_hangs_beside_controllers_is_reported() -> None:
    async def never() -> None:
        async with open_cluster() as cluster, cluster.running(make_packing()):
            await asyncio.Event().wait()

    with pytest.raises(Stuck, match=r"(?s)1 days of virtual time have passed.*waits in .*never"):
        run(never())


@virtual
async def test_creation_timestamps_are_virtual_time() -> None:
    async with open_cluster() as cluster:
        await cluster.advance(60)
        made = await cluster.create(order())
        assert made.metadata.creation_timestamp == START + timedelta(seconds=60)


@virtual
async def test_times_of_leases_and_events_are_virtual_time() -> None:
    async def reconcile(found: Order, ctx: Context) -> None:
        ctx.record(found, "Reconciled", "the order was reconciled")

    async with open_cluster() as cluster:
        await cluster.advance(60)
        await cluster.create(order())
        leader = LeaderElection(name="shop", namespace=cluster.namespace)
        async with cluster.running(Controller(Order, reconcile), leader=leader):
            await cluster.settled()
            lease = await cluster.get(GroupVersionKind("coordination.k8s.io", "v1", "Lease"), "shop")
            [event] = await cluster.list(GroupVersionKind("events.k8s.io", "v1", "Event"), namespace=cluster.namespace)
    assert lease.tree["spec"]["acquireTime"] == "2026-01-01T00:01:00.000000Z"
    assert event.tree["eventTime"] == "2026-01-01T00:01:00.000000Z"


@virtual
async def test_a_cluster_in_another_namespace_is_still_a_cluster() -> None:
    async with open_cluster() as cluster:
        await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
        other = cluster.in_namespace("other")
        await other.create(order())
        assert (await other.until(ONE)).namespace == "other"
        assert await cluster.find(ONE) is None
        assert (await cluster.until(Ref(Order, "one", "other"))).spec == OrderSpec(items=1)


async def test_in_real_time_the_clock_is_the_real_one() -> None:
    async with open_cluster() as cluster:
        assert abs(cluster.now() - datetime.now(UTC)) < timedelta(seconds=60)


async def test_in_real_time_only_advance_is_refused() -> None:
    async with open_cluster() as cluster:
        await cluster.create(order())
        async with cluster.running(make_packing()):
            await cluster.until(PARCEL)
            await cluster.settled()
            with pytest.raises(ConfigError, match=r"advance\(5\) needs virtual time"):
                await cluster.advance(5)
