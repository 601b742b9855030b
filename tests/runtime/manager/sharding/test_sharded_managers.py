"""Several managers that share the objects of their controllers, on a real API server in virtual time."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from levelset import (
    Action,
    Context,
    Controller,
    LeaderElection,
    Manager,
    MergePatch,
    Resource,
    Sharding,
    Spec,
    Status,
    every,
    owns,
)
from levelset.aio import timing
from levelset.dashboard.queries import DashboardSource, Queries
from levelset.errors import ConfigError, Fenced, LeaseLost, Unreachable
from levelset.kinds.core_v1 import ConfigMap
from levelset.objects import ObjectMeta, Ref
from levelset.runtime.manager import Lease
from levelset.runtime.manager.leader_election import LeaseSpec
from levelset.testing import Cluster, Process, open_cluster
from levelset.testing.virtual_time import virtual
from tests.runtime.manager.network import Network

SHARDS = Sharding(name="sites")
NAMES = [f"site-{number}" for number in range(24)]


class SiteSpec(Spec):
    """The desired state."""

    title: str = ""


class Site(Resource[SiteSpec, Status], api="shop.example.dev/v1"):
    """A site of the shop."""


class Log:
    """Which process reconciles which object, and when."""

    def __init__(self, *, seconds: float = 0.0) -> None:
        self.reconciles: list[tuple[str, str]] = []
        self.gone: list[tuple[str, str]] = []
        self.running: set[str] = set()
        self.seconds = seconds

    def controller(self, process: str, *relations: Any, **options: Any) -> Controller[Site]:
        async def reconcile(site: Site, ctx: Context) -> None:
            assert site.name not in self.running, f"two at {site.name}"
            self.running.add(site.name)
            self.reconciles.append((process, site.name))
            try:
                await asyncio.sleep(self.seconds)
            finally:
                self.running.discard(site.name)

        async def gone(ref: Ref[Site], ctx: Context) -> None:
            self.gone.append((process, ref.name))

        return Controller(Site, reconcile, *relations, name="sites", gone=gone, **options)

    def of(self, process: str) -> list[str]:
        return [name for one, name in self.reconciles if one == process]


@asynccontextmanager
async def started(cluster: Cluster, name: str, controller: Controller[Site], **options: Any) -> AsyncIterator[Process]:
    async with cluster.running(controller, name=name, shards=options.pop("shards", SHARDS), **options) as process:
        await process.manager.wait_elected()
        yield process


async def create_sites(cluster: Cluster, names: list[str] = NAMES) -> None:
    for name in names:
        await cluster.create(Site.new(name, SiteSpec()))


@virtual
async def test_each_object_is_reconciled_by_one_of_the_members():
    log = Log()
    async with (
        open_cluster() as cluster,
        started(cluster, "a", log.controller("a")),
        started(cluster, "b", log.controller("b")),
    ):
        await create_sites(cluster)
        await cluster.settled()
        assert sorted(name for _, name in log.reconciles) == sorted(NAMES)
        assert log.of("a")
        assert log.of("b")


@virtual
async def test_a_member_that_joins_takes_its_share_and_nothing_else_is_reconciled_again():
    log = Log()
    async with open_cluster() as cluster:
        await create_sites(cluster)
        async with started(cluster, "a", log.controller("a")) as a:
            await cluster.settled()
            log.reconciles.clear()
            async with started(cluster, "b", log.controller("b")) as b:
                await cluster.settled()
                moved = log.of("b")
                assert (log.of("a"), len(set(moved))) == ([], len(moved))
                assert 4 < len(moved) < 20
                await asyncio.sleep(3)
                assert [one.keys for one in b.manager.shard_member.members()] == [len(moved), 24 - len(moved)]
                await cluster.patch(Ref(Site, moved[0]), MergePatch({"spec": {"title": "changed"}}))
                await cluster.settled()
                assert log.reconciles[len(moved) :] == [("b", moved[0])]
                log.reconciles.clear()
                stopped = timing.now()
            await cluster.settled()
            assert sorted(log.of("a")) == sorted(moved)
            assert timing.now() - stopped < 2
            assert a.manager.shard_member.handovers == 2


@virtual
async def test_a_rolling_update_reconciles_each_object_once_for_each_owner_and_leaves_none_behind():
    log, owners, old = Log(), dict[str, str](), list[Process]()

    def check_moves() -> None:
        """One membership change moves an object once at most: its new owner reconciles it once, and nothing else is."""
        moved = {name: process for process, name in log.reconciles}
        assert len(moved) == len(log.reconciles), "once"
        assert not moved.items() & owners.items(), "an owner that stays does not reconcile it again"
        owners.update(moved)
        log.reconciles.clear()

    async with open_cluster() as cluster, AsyncExitStack() as last:
        await create_sites(cluster)
        for generation in range(2):
            for number in range(3):
                name = f"{generation}.{number}"
                process = cluster.process(log.controller(name), name=name, shards=SHARDS)
                await process.start()
                last.push_async_callback(process.stop)
                await process.manager.wait_elected()
                await cluster.settled()
                check_moves()
                old.append(process)
                if generation:
                    await old.pop(0).stop()
                    await cluster.settled()
                    check_moves()
        assert set(owners) == set(NAMES)
        assert {process.partition(".")[0] for process in owners.values()} == {"1"}
        log.reconciles.clear()
        for name in NAMES:
            await cluster.patch(Ref(Site, name), MergePatch({"spec": {"title": "new"}}))
        await cluster.settled()
        assert {name: process for process, name in log.reconciles} == owners
        assert len(log.reconciles) == len(NAMES)


@virtual
async def test_an_object_that_moves_is_stopped_before_its_new_owner_starts():
    log = Log(seconds=6.0)  # two at once would fail there
    async with open_cluster() as cluster:
        await create_sites(cluster)
        async with started(cluster, "a", log.controller("a", concurrency=24)) as a:
            await asyncio.sleep(1.0)
            began = timing.now()
            async with started(cluster, "b", log.controller("b", concurrency=24)):
                joined = timing.now() - began
                assert 4 < joined < 9, "it waits for the reconciles that run"
                await cluster.settled()
            assert len(log.of("a")) == 24
            assert not a.failures.failing


@virtual
async def test_a_reconcile_that_takes_too_long_is_cancelled_when_its_object_moves():
    log = Log(seconds=3600.0)
    async with open_cluster() as cluster:
        await create_sites(cluster)
        async with started(cluster, "a", log.controller("a", concurrency=24), allow_errors=True) as a:
            await asyncio.sleep(1.0)
            log.seconds = 0.0
            began = timing.now()
            async with started(cluster, "b", log.controller("b")) as b:
                assert 10 < timing.now() - began < 15
                await asyncio.sleep(5)
                assert len(log.of("b")) == b.manager.shard_member.members()[0].keys > 0
                running = a.controllers["sites"].scheduler.running_keys()
                assert len(running) == 24 - len(log.of("b")), "only those that move are cancelled"
                a.controllers["sites"].cancel_running(running, "the test is over")


@virtual
async def test_background_work_is_stopped_before_its_object_moves():
    ended: list[str] = []

    async def reconcile(site: Site, ctx: Context) -> None:
        async def work() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(site.name)

        ctx.background(work)

    log = Log()
    async with open_cluster() as cluster:
        await create_sites(cluster, NAMES[:8])
        slow = Controller(Site, reconcile, name="sites")
        # Of fixed identities: of eight objects a member with a random one may get none.
        first, second = (replace(SHARDS, identity=f"host-{one}") for one in "ab")
        async with started(cluster, "a", slow, shards=first):
            await asyncio.sleep(1.0)
            async with started(cluster, "b", log.controller("b"), shards=second):
                await asyncio.sleep(1.0)
                assert sorted(ended) == sorted(log.of("b"))
                assert ended


@virtual
async def test_a_tick_reconciles_each_object_once_and_a_deleted_one_is_gone_on_one_member():
    log = Log()
    async with open_cluster() as cluster:
        await create_sites(cluster)
        async with (
            started(cluster, "a", log.controller("a", every(60))),
            started(cluster, "b", log.controller("b", every(60))),
        ):
            await cluster.settled()
            log.reconciles.clear()
            await asyncio.sleep(70)
            assert sorted(name for _, name in log.reconciles) == sorted(NAMES)
            for name in NAMES[:10]:
                await cluster.delete(Site, name)
            await cluster.settled()
            assert sorted(name for _, name in log.gone) == sorted(NAMES[:10])


@virtual
async def test_an_object_that_is_deleted_while_it_has_no_owner_is_gone_on_the_next_one():
    log = Log()
    async with open_cluster() as cluster:
        await create_sites(cluster)
        async with started(cluster, "a", log.controller("a")):
            b = cluster.process(log.controller("b"), name="b", shards=SHARDS)
            await b.start()
            await b.manager.wait_elected()
            await cluster.settled()
            of_b = log.of("b")
            await b.kill()
            for name in of_b:
                await cluster.delete(Site, name)
            await asyncio.sleep(10)
            assert not log.gone, "b may still be at them"
            await asyncio.sleep(7)
            assert sorted(log.gone) == sorted(("a", name) for name in of_b)


@virtual
async def test_a_member_that_does_not_renew_is_reported_as_stopped_until_another_has_taken_over():
    log = Log()
    async with open_cluster() as cluster, started(cluster, "a", log.controller("a")) as a:
        b = cluster.process(log.controller("b"), name="b", shards=SHARDS)
        await b.start()
        await b.manager.wait_elected()
        queries = Queries(DashboardSource.of(a.manager))
        await asyncio.sleep(30)
        _, other = a.manager.shard_member.members()
        assert (other.is_stopped, other.silent < 3) == (False, True)
        await b.kill()
        await asyncio.sleep(4)  # the last renewal was up to two seconds before the kill, which takes as long
        _, other = a.manager.shard_member.members()
        assert (other.is_stopped, other.silent >= 4) == (False, True)
        before = queries.pulse()
        await asyncio.sleep(5)
        _, other = a.manager.shard_member.members()
        assert (other.is_stopped, other.silent > SHARDS.renew) == (True, True)
        assert queries.pulse() != before, "an open page is notified although nothing has happened"
        await asyncio.sleep(6)
        assert len(a.manager.shard_member.members()) == 1


@virtual
async def test_children_go_with_their_owner():
    async def reconcile(site: Site, ctx: Context) -> None:
        page = ConfigMap(metadata=ObjectMeta(name=site.name, namespace=site.namespace), data={"by": "controller"})
        await ctx.apply(page, owner=site)

    log = Log()
    async with open_cluster() as cluster:
        names = NAMES[:8]
        await create_sites(cluster, names)
        controllers = [
            Controller(Site, both(log.controller(process).reconcile, reconcile), owns(ConfigMap), name="sites")
            for process in "ab"
        ]
        async with started(cluster, "a", controllers[0]), started(cluster, "b", controllers[1]):
            await cluster.settled()
            owners = {name: process for process, name in log.reconciles}
            log.reconciles.clear()
            for name in names:
                await cluster.patch(Ref(ConfigMap, name), MergePatch({"data": {"by": "another"}}))
            await cluster.settled()
            assert {name: process for process, name in log.reconciles} == owners
            assert {one.data["by"] for one in await cluster.list(ConfigMap, namespace="test")} == {"controller"}


def both(first: Callable[..., Any], second: Callable[..., Any]) -> Callable[..., Any]:
    async def reconcile(obj: Any, ctx: Context) -> Action | None:
        await first(obj, ctx)
        found: Action | None = await second(obj, ctx)
        return found

    return reconcile


@virtual
async def test_a_task_runs_on_one_member_and_ends_there_before_it_starts_on_another():
    running: list[str] = []
    history: list[str] = []

    def task(process: str) -> Callable[[], Any]:
        async def work() -> None:
            assert not running, "two run it"
            running.append(process)
            history.append(process)
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(1.0)
                running.remove(process)

        return work

    async with open_cluster() as cluster, AsyncExitStack() as stack:
        for process in "abcdef":
            shards = replace(SHARDS, identity=f"host-{process}")
            manager = await stack.enter_async_context(Manager(cluster, shards=shards, health=None))
            manager.add_task("report", task(process))
            await manager.wait_elected()
            await asyncio.sleep(5)
            assert len(running) == 1
    assert not running
    assert history == ["a", "b", "e", "b", "a"]  # by the hash of its name and of the identities


@virtual
async def test_a_member_that_is_cut_off_ends_before_the_others_take_over_and_they_do_in_time():
    log = Log()
    async with open_cluster() as cluster:
        await create_sites(cluster)
        network = Network()
        b = cluster.process(log.controller("b"), name="b", shards=SHARDS, faults=[network.hook])
        async with started(cluster, "a", log.controller("a")) as a:
            await b.start()
            await b.manager.wait_elected()
            await cluster.settled()
            lost, fence = len(log.of("b")), b.manager.shard_member.fence
            log.reconciles.clear()
            network.breaks(Unreachable("no route to host"))
            cut = timing.now()
            await b.wait_ended()
            assert 7.5 < timing.now() - cut < 10.1
            assert isinstance(b.error, ExceptionGroup)
            assert b.error.subgroup(LeaseLost) is not None
            with pytest.raises(Fenced):
                fence()
            assert not log.reconciles
            await asyncio.sleep(13 - (timing.now() - cut))
            assert not log.of("a")
            await asyncio.sleep(4)
            assert len(log.of("a")) == lost
            assert len(a.manager.shard_member.members()) == 1


@virtual
async def test_a_process_that_starts_beside_leases_of_dead_ones_reconciles_everything_once_they_have_run_out():
    log = Log()
    async with open_cluster() as cluster:
        dead = [cluster.process(log.controller(name), name=name, shards=SHARDS) for name in "ab"]
        for process in dead:
            await process.start()
            await process.manager.wait_elected()
        for process in dead:
            await process.kill()
        await create_sites(cluster)
        began = timing.now()
        async with (
            started(cluster, "c", log.controller("c")),
            started(cluster, "d", log.controller("d")),
        ):
            await cluster.settled()
            assert 15 < timing.now() - began < 22
            assert {name for _, name in log.reconciles} == set(NAMES)
            assert max(Counter(log.reconciles).values()) == 1, "none twice by one member"


@virtual
async def test_a_lease_that_is_deleted_by_hand_ends_its_member():
    log = Log()
    async with open_cluster() as cluster:
        a = cluster.process(log.controller("a"), name="a", shards=SHARDS)
        await a.start()
        await a.manager.wait_elected()
        await cluster.delete(a.manager.shard_member.ref)
        await a.wait_ended()
        assert "it was deleted" in str(a.error.exceptions)


@virtual
async def test_a_controller_of_every_replica_is_not_divided():
    log = Log()
    async with open_cluster() as cluster:
        await create_sites(cluster, NAMES[:5])
        async with (
            started(cluster, "a", log.controller("a", leader_only=False)),
            started(cluster, "b", log.controller("b", leader_only=False)),
        ):
            await cluster.settled()
            assert (len(log.of("a")), len(log.of("b"))) == (5, 5)


@virtual
async def test_a_member_of_another_algorithm_is_not_joined():
    async def join(cluster: Cluster) -> None:
        async with Manager(cluster, shards=SHARDS, health=None):
            await asyncio.sleep(3600)

    async with open_cluster() as cluster, Manager(cluster, shards=SHARDS, health=None) as first:
        await first.wait_elected()
        ref = first.shard_member.ref
        lease = await cluster.get(ref)
        annotations = {**lease.metadata.annotations, "sharding.levelset.dev/algorithm": "0"}
        metadata = ObjectMeta(
            name="sites-other", namespace=ref.namespace, labels=lease.metadata.labels, annotations=annotations
        )
        await cluster.create(Lease(metadata=metadata, spec=lease.spec))
        with pytest.raises(ExceptionGroup) as caught:
            await join(cluster)
        assert caught.value.subgroup(ConfigError) is not None


@virtual
async def test_the_metrics_show_members_keys_and_hand_overs():
    log = Log()
    async with open_cluster() as cluster:
        await create_sites(cluster)
        async with started(cluster, "a", log.controller("a")) as a, started(cluster, "b", log.controller("b")) as b:
            await cluster.settled()
            moved = len(log.of("b"))
            await asyncio.sleep(3)
            shown, theirs = (one.manager.metrics.registry.render() for one in (a, b))
            member = b.manager.shard_member.name
            assert 'levelset_shard_members{name="sites"} 2' in shown
            assert f'levelset_shard_member_keys{{name="sites",member="{member}"}} {moved}' in shown
            assert f'levelset_shard_keys{{name="sites",controller="sites"}} {24 - moved}' in shown
            kinds = 'name="sites",controller="sites",direction="lost"'
            assert f"levelset_shard_handovers_total{{{kinds}}} {moved}" in shown
            assert f'levelset_shard_keys{{name="sites",controller="sites"}} {moved}' in theirs


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "Shop"}, "name"),
        ({"name": "x" * 51}, "name"),
        ({"lease": 10}, "lease"),
        ({"lease": 0}, "lease"),
        ({"renew": 2.0}, "renew"),
        ({"retry": 0.0}, "retry"),
        ({"drain": 15.0}, "drain"),
        ({"allowance": -1.0}, "allowance"),
        ({"namespace": ""}, "namespace"),
        ({"identity": ""}, "identity"),
    ],
)
def test_settings_that_cannot_work_are_refused(options: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError, match=rf"Sharding\({field}="):
        Sharding(**{"name": "shop", **options})


def test_shards_and_a_leader_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match="give one of them"):
        Manager(leader=LeaderElection(name="shop"), shards=SHARDS)


FORGED: dict[str, dict[str, Any]] = {
    "numbers without end": {"annotations": {"keys": "9" * 100_000, "retry-milliseconds": "9" * 100_000}},
    "numbers of another alphabet": {"annotations": {"keys": "\u0662", "retry-milliseconds": "\u0663\u0663"}},
    "names of nobody": {"annotations": {"acknowledged": ",,a,b," * 10_000}},
    "a holder without end": {"holder_identity": "x" * 100_000},
    "a duration of a second": {"lease_duration_seconds": 1},
    "no duration": {"lease_duration_seconds": None},
}


@virtual
@pytest.mark.parametrize("name", FORGED)
async def test_a_forged_lease_crashes_no_member_and_gives_back_its_share_when_it_ends(
    name: str, caplog: pytest.LogCaptureFixture
):
    parts = dict(FORGED[name])
    annotations = {"algorithm": "1", **parts.pop("annotations", {})}
    spec = LeaseSpec(**{"holder_identity": "forger", "lease_duration_seconds": 15, **parts})
    metadata = ObjectMeta(
        name="sites-forged",
        namespace="default",
        labels={"sharding.levelset.dev/name": "sites"},
        annotations={f"sharding.levelset.dev/{key}": value for key, value in annotations.items()},
    )
    log = Log()
    async with (
        open_cluster() as cluster,
        started(cluster, "a", log.controller("a")),
        started(cluster, "b", log.controller("b")),
    ):
        await create_sites(cluster)
        await cluster.settled()
        await cluster.create(Lease(metadata=metadata, spec=spec))
        async with started(cluster, "c", log.controller("c")):
            await asyncio.sleep(25)
        await cluster.settled()
        log.reconciles.clear()
        for one in NAMES:
            await cluster.patch(Ref(Site, one), MergePatch({"spec": {"title": "changed"}}))
        await cluster.settled()
        assert sorted(one for _, one in log.reconciles) == sorted(NAMES)
    assert not [one for one in caplog.records if one.levelname == "ERROR"]
