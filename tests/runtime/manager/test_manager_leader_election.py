"""Several managers of which one leads, on a real API server, in virtual time."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from levelset.aio import Crashed, timing
from levelset.client import Client
from levelset.errors import Fenced, LeaseLost, Unreachable
from levelset.objects import ObjectMeta, Ref
from levelset.runtime.manager import LeaderElection, Lease, Manager
from levelset.testing.virtual_time import virtual
from tests.client.fixtures import ConfigMap, website
from tests.runtime.manager.network import Network
from tests.runtime.manager.recording import EventLog, open_server, recording_controller, run_manager, websites

LEASE = Ref(Lease, "shop", "default")


def election(identity: str, **options) -> LeaderElection:
    return LeaderElection(name="shop", identity=identity, **options)


@virtual
async def test_only_the_leader_reconciles_and_the_standby_takes_over_after_it_stops():
    one, other = EventLog(), EventLog()
    async with open_server() as server, await Client.connect(server) as client:
        await client.create(website("blog"))
        async with AsyncExitStack() as stack:
            async with Manager(server, leader=election("one")) as first:
                first.add(recording_controller(one))
                await first.wait_elected()
                second = await stack.enter_async_context(Manager(server, leader=election("other")))
                second.add(recording_controller(other))
                await asyncio.sleep(60)
                assert (one, other) == (["reconciles blog", "is done with blog"], [])
                assert (first.is_leader, second.is_leader) == (True, False)
                ended = timing.now()
            await second.wait_elected()
            await second.wait_idle()
            assert timing.now() - ended < 5
            assert other == ["reconciles blog", "is done with blog"]


@virtual
async def test_the_lease_can_be_in_another_cluster():
    events = EventLog()
    async with open_server() as here, open_server() as there, await Client.connect(here) as client:
        await client.create(website("blog"))
        async with await Client.connect(there) as far:
            async with Manager(here, leader=election("one", client=far)) as manager:
                manager.add(recording_controller(events))
                await manager.wait_elected()
                await manager.wait_idle()
                assert (await far.get(LEASE)).spec.holder_identity == "one"
            assert events == ["reconciles blog", "is done with blog"]
            assert await client.find(LEASE) is None
            assert not (await far.get(LEASE)).spec.holder_identity


async def waits_to_lead(server, client):
    """Creates a Lease that another candidate renews forever, in the returned task."""

    async def renew():
        for number in range(1000):
            spec = {"holder_identity": "other", "lease_duration_seconds": 15}
            lease = await client.find(LEASE)
            if lease is None:
                lease = await client.create(Lease(metadata=ObjectMeta(name="shop", namespace="default")))
            await client.update(lease.with_spec(renew_time=f"2026-01-01T00:00:00.{number:06d}Z", **spec))
            await asyncio.sleep(2)

    task = asyncio.get_running_loop().create_task(renew())
    await asyncio.sleep(0.5)
    return task


@virtual
async def test_a_manager_that_never_led_starts_nothing_when_it_stops_and_leaves_the_lease_alone():
    events = EventLog()
    async with open_server() as server, await Client.connect(server) as client:
        await client.create(website("blog"))
        renewing = await waits_to_lead(server, client)
        async with Manager(server, leader=election("me")) as manager:
            manager.add(recording_controller(events))
            manager.add_task("work", events.task("work"))
            manager.add_task("report", events.task("report"), leader_only=False)
            manager.on_elected(events.hook("leads"))
            await asyncio.sleep(60)
            assert events == ["report starts"]
        assert events == ["report starts", "report ends"]
        assert (await client.get(LEASE)).spec.holder_identity == "other"
        renewing.cancel()
        await asyncio.wait([renewing])


@virtual
async def test_a_standby_has_warm_caches():
    async with open_server() as server, await Client.connect(server) as client:
        await client.create(website("blog"))
        renewing = await waits_to_lead(server, client)
        async with Manager(server, leader=election("me")) as manager:
            manager.add(recording_controller(EventLog()))
            await asyncio.sleep(10)
            assert [one.objects for one in manager.cluster.stats()] == [1]
            assert manager.controllers["websites"].is_ready
        renewing.cancel()
        await asyncio.wait([renewing])


@virtual
async def test_a_lost_lease_stops_everything_without_grace_and_is_an_error():
    events, network = EventLog(), Network()
    async with open_server() as server, await Client.connect(server) as healthy:
        await healthy.create(website("blog"))
        client = await Client.connect(server, wire_hooks=[network.hook])
        manager = Manager(client, leader=election("me"), grace=3600)
        manager.add(recording_controller(events, seconds=1000))
        asyncio.get_running_loop().call_later(20, network.breaks, Unreachable("no route"))
        with pytest.raises(Crashed) as caught:
            await run_manager(manager)
        assert [type(error) for error in caught.value.exceptions] == [LeaseLost]
        assert events == ["reconciles blog", "is cancelled for blog"]
        assert 28 <= timing.now() <= 31
        network.heals()


@virtual
async def test_no_write_is_sent_after_the_lease_is_lost():
    fenced = []

    async def reconcile(site, ctx):
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            for write in (
                lambda: ctx.client.create(ConfigMap(metadata=ObjectMeta(name="late"))),
                lambda: ctx.create(ConfigMap(metadata=ObjectMeta(name="later"))),
            ):
                try:
                    await write()
                except Fenced as error:
                    fenced.append(error)
            raise

    async with open_server() as server, await Client.connect(server) as client:
        await client.create(website("blog"))
        manager = Manager(server, leader=election("me"))
        manager.add(websites(reconcile))
        asyncio.get_running_loop().call_later(5, lambda: thieves.append(asyncio.ensure_future(steal(client))))
        thieves: list[asyncio.Future[None]] = []
        with pytest.raises(Crashed):
            await run_manager(manager)
        assert len(fenced) == 2
        assert not list(await client.list(ConfigMap, namespace="default"))
        await asyncio.wait(thieves)


async def steal(client: Client) -> None:
    lease = await client.get(LEASE)
    await client.update(lease.with_spec(holder_identity="thief"))


@virtual
async def test_the_lease_is_released_only_when_everything_has_stopped():
    events = EventLog()

    async with open_server() as server, await Client.connect(server) as client:
        async with Manager(server, leader=election("me"), grace=60) as manager:
            manager.add_task("work", events.task("work", cleanup=40))
            await manager.wait_elected()
            await asyncio.sleep(1)
            stopping = asyncio.get_running_loop().create_task(manager.stop())
            await asyncio.sleep(39)
            assert events == ["work starts"]
            assert manager.is_leader
            assert (await client.get(LEASE)).spec.holder_identity == "me"
            await stopping
            assert events == ["work starts", "work ends"]
        assert (await client.get(LEASE)).spec.holder_identity == ""


@virtual
async def test_without_release_the_lease_stays_until_it_expires():
    async with open_server() as server, await Client.connect(server) as client:
        async with Manager(server, leader=election("me", release=False)) as manager:
            await manager.wait_elected()
        assert (await client.get(LEASE)).spec.holder_identity == "me"


@virtual
async def test_a_lease_lost_while_stopping_ends_the_grace_period():
    events = EventLog()
    async with open_server() as server, await Client.connect(server) as client:
        await client.create(website("blog"))
        manager = Manager(server, leader=election("me"), grace=3600)
        manager.add(recording_controller(events, seconds=1000))
        async with asyncio.timeout(100):
            with pytest.raises(Crashed) as caught:
                await stop_after_theft(manager, client)
        assert [type(error) for error in caught.value.exceptions] == [LeaseLost]
        assert events == ["reconciles blog", "is cancelled for blog"]


async def stop_after_theft(manager: Manager, client: Client) -> None:
    async with manager:
        await manager.wait_elected()
        await asyncio.sleep(1)
        asyncio.get_running_loop().call_later(
            5, lambda: setattr(manager, "thief", asyncio.ensure_future(steal(client)))
        )


@virtual
async def test_the_elected_hook_runs_while_the_lease_is_renewed():
    async with open_server() as server:
        manager = Manager(server, leader=election("me"))
        manager.on_elected(lambda: asyncio.sleep(120))
        async with manager:
            await manager.wait_elected()
            assert manager.is_leader
            assert 120 <= timing.now() <= 121


@virtual
async def test_whether_it_leads_is_in_the_metrics():
    async with open_server() as server, Manager(server, leader=election("me")) as manager:
        await manager.wait_elected()
        assert 'leader_election_master_status{name="shop"} 1' in manager.metrics.registry.render()
        assert 'rest_client_requests_total{code="201",method="POST",host="apiserver"} 1' in (
            manager.metrics.registry.render()
        )


@virtual
async def test_a_task_that_writes_with_the_leader_client_is_fenced_as_controllers_are():
    async with open_server() as server, await Client.connect(server) as client:
        manager = Manager(client, leader=election("one"))
        written: list[str] = []

        async def work() -> None:
            while True:
                await manager.leader_client.create(website(f"site-{len(written)}"))
                written.append("")
                await asyncio.sleep(1)

        manager.add_task("work", work)

        async def run() -> None:
            async with manager:
                await manager.wait_elected()
                await asyncio.sleep(5.5)
                assert manager._elector is not None
                manager._elector.election.resign()
                await asyncio.sleep(60)

        with pytest.raises(Crashed):
            await run()
        assert len(written) == 6
