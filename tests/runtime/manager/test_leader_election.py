"""Candidates and leaders on a real API server, in virtual time."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from levelset.aio import timing
from levelset.apiserver import ApiServer
from levelset.client import Call, Client
from levelset.errors import Fenced, LeaseLost, Unreachable
from levelset.objects import ObjectMeta, Ref
from levelset.runtime.manager import fence_hook
from levelset.runtime.manager.leader_election import LeaderElection, LeaderElector, Lease, lease_time
from levelset.testing.virtual_time import virtual
from tests.client.fixtures import ConfigMap, open_client
from tests.runtime.manager.network import Network

LEASE = Ref(Lease, "shop", "default")


def elector(client, identity, **options) -> LeaderElector:
    return LeaderElector(client, LeaderElection(name="shop", identity=identity, **options), random=lambda: 0.0)


@asynccontextmanager
async def leading(one: LeaderElector):
    """Acquires the Lease; returns the task that renews it."""
    await one.acquire()
    task = asyncio.get_running_loop().create_task(one.renew())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


@asynccontextmanager
async def open_clients(network: Network):
    """Two clients of one server, the first behind a network that may break."""
    server = ApiServer()
    await server.start(listen=False)
    try:
        yield await Client.connect(server, wire_hooks=[network.hook]), await Client.connect(server)
    finally:
        await server.stop()


@virtual
async def test_the_first_candidate_leads_at_once_and_the_lease_says_so():
    async with open_client() as client:
        one = elector(client, "one", labels={"app": "shop"})
        await one.acquire()
        lease = await client.get(LEASE)
        assert one.is_leader
        assert lease.metadata.labels == {"app": "shop"}
        assert (lease.spec.holder_identity, lease.spec.lease_duration_seconds) == ("one", 15)
        assert lease.spec.renew_time is not None
        assert len(lease.spec.renew_time.rpartition(".")[2]) == len("000000Z")


@virtual
async def test_a_leader_renews_and_no_other_candidate_leads():
    async with open_client() as client:
        one, other = elector(client, "one"), elector(client, "other")
        async with leading(one):
            with pytest.raises(TimeoutError):
                async with timing.within(120):
                    await other.acquire()
            assert one.is_leader
            assert not other.is_leader


@virtual
async def test_a_candidate_takes_over_when_the_leader_has_died():
    async with open_client() as client:
        one, other = elector(client, "one"), elector(client, "other")
        await one.acquire()
        await other.acquire()
        assert 15 <= timing.now() <= 18
        assert not one.is_leader
        assert (await client.get(LEASE)).spec.lease_transitions == 1


@virtual
async def test_two_concurrent_candidates_get_one_leader():
    async with open_client() as client:
        candidates = [elector(client, str(number)) for number in range(5)]
        tasks = [asyncio.get_running_loop().create_task(one.acquire()) for one in candidates]
        await asyncio.wait(tasks, timeout=5)
        assert sum(one.is_leader for one in candidates) == 1
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


@virtual
async def test_a_leader_that_cannot_renew_stops_before_another_can_lead():
    network = Network()
    async with open_clients(network) as (client, healthy):
        one, other = elector(client, "one"), elector(healthy, "other")
        async with leading(one) as task:
            network.breaks(Unreachable("no route"))
            taking = asyncio.get_running_loop().create_task(other.acquire())
            with pytest.raises(
                LeaseLost, match=r"could not be renewed within 10 s \((no route|the server did not respond in time)\)"
            ):
                await task
            assert not other.is_leader
            lost = timing.now()
            await taking
            assert timing.now() - lost >= 4


@virtual
async def test_one_slow_request_does_not_demote_a_leader():
    network = Network()
    async with open_client(wire_hooks=[network.hook]) as client:
        one = elector(client, "one")
        async with leading(one) as task:
            network.delays(60, times=1)
            await timing.sleep(9)
            assert one.is_leader
            await timing.sleep(60)
            assert one.is_leader
            assert not task.done()


@virtual
async def test_a_renewal_whose_response_was_lost_does_no_harm():
    network = Network()
    async with open_client(wire_hooks=[network.hook]) as client:
        one = elector(client, "one")
        async with leading(one):
            network.loses_response(times=1)
            await timing.sleep(60)
            assert one.is_leader


@virtual
async def test_a_leader_whose_lease_was_taken_stops_leading():
    async with open_client() as client:
        one = elector(client, "one")
        async with leading(one) as task:
            lease = await client.get(LEASE)
            await client.update(lease.with_spec(holder_identity="thief"))
            with pytest.raises(LeaseLost, match="thief holds it"):
                await task


@virtual
async def test_a_deleted_lease_is_created_again():
    async with open_client() as client:
        one = elector(client, "one")
        async with leading(one) as task:
            await client.delete(LEASE)
            await timing.sleep(5)
            assert one.is_leader
            assert not task.done()
            assert (await client.get(LEASE)).spec.holder_identity == "one"


@virtual
async def test_a_released_lease_is_acquired_at_the_next_retry():
    async with open_client() as client:
        one, other = elector(client, "one"), elector(client, "other")
        await one.acquire()
        taking = asyncio.get_running_loop().create_task(other.acquire())
        await timing.sleep(3)
        await one.release()
        assert not one.is_leader
        await taking
        assert timing.now() <= 5
        assert (await client.get(LEASE)).spec.lease_transitions == 1


@virtual
async def test_a_release_is_retried_after_a_conflict():
    network = Network()
    async with open_client(wire_hooks=[network.hook]) as client:
        one = elector(client, "one")
        await one.acquire()
        network.conflicts(times=2)
        await one.release()
        assert (await client.get(LEASE)).spec.holder_identity == ""


@virtual
async def test_a_lease_is_not_released_without_the_option_or_by_a_candidate_that_never_held_it():
    async with open_client() as client:
        one, other = elector(client, "one", release=False), elector(client, "other")
        await one.acquire()
        await other.release()
        await one.release()
        assert (await client.get(LEASE)).spec.holder_identity == "one"


@virtual
async def test_a_release_that_fails_is_ignored():
    network = Network()
    async with open_client(wire_hooks=[network.hook]) as client:
        one = elector(client, "one")
        await one.acquire()
        network.breaks(Unreachable("no route"))
        await one.release()
        assert isinstance(one.last_error, Unreachable)


@virtual
async def test_the_fence_raises_before_any_write_once_the_lease_may_be_lost():
    async with open_client() as client:
        one = elector(client, "one")
        with pytest.raises(Fenced, match="one does not hold Lease"):
            one.fence()
        await one.acquire()
        one.fence()
        await timing.sleep(10)
        with pytest.raises(Fenced):
            one.fence()


@virtual
async def test_a_fenced_client_reads_but_does_not_write():
    def closed() -> None:
        raise Fenced("closed")

    calls: list[Call] = []

    async def note(call, send):
        calls.append(call)
        return await send(call)

    async with open_client(hooks=[fence_hook(closed)], wire_hooks=[note]) as client:
        assert await client.find(ConfigMap, "none") is None
        with pytest.raises(Fenced):
            await client.create(ConfigMap(metadata=ObjectMeta(name="a")))
        assert {call.method for call in calls} == {"GET"}


@virtual
async def test_generated_identities_differ():
    async with open_client() as client:
        names = {elector(client, None).identity for _ in range(3)}
        assert len(names) == 3


@virtual
async def test_a_leader_whose_machine_was_suspended_is_fenced_when_it_wakes_before_it_has_asked_the_server():
    """The monotonic clock stands still while a machine is suspended; the time of the suspension counts all the same."""
    asleep = [0.0]
    async with open_client() as client:
        settings = LeaderElection(name="shop", identity="one")
        one = LeaderElector(client, settings, random=lambda: 0.0, suspended=lambda: asleep[0])
        async with leading(one) as renewing:
            await asyncio.sleep(5)
            one.fence()
            asleep[0] = 3600.0
            with pytest.raises(Fenced):
                one.fence()
            await asyncio.wait([renewing], timeout=5)
            assert isinstance(renewing.exception(), LeaseLost)


@virtual
async def test_a_short_suspension_costs_a_leader_nothing():
    asleep = [0.0]
    async with open_client() as client:
        settings = LeaderElection(name="shop", identity="one")
        one = LeaderElector(client, settings, random=lambda: 0.0, suspended=lambda: asleep[0])
        async with leading(one) as renewing:
            for _ in range(10):
                await asyncio.sleep(5)
                asleep[0] += 5.0
                one.fence()
            assert not renewing.done()


@virtual
async def test_a_candidate_counts_its_own_suspension_as_time_without_a_renewal_only_after_it_has_read_again():
    """It wakes with an old view of the Lease; the holder may have renewed it meanwhile."""
    asleep = [0.0]
    async with open_client() as client:
        holder = elector(client, "holder")
        other = LeaderElector(
            client, LeaderElection(name="shop", identity="other"), random=lambda: 0.0, suspended=lambda: asleep[0]
        )
        async with leading(holder):
            waiting = asyncio.create_task(other.acquire())
            await asyncio.sleep(5)
            asleep[0] = 3600.0
            await asyncio.sleep(60)
            assert (holder.is_leader, other.is_leader, waiting.done()) == (True, False, False)
            waiting.cancel()
            await asyncio.wait([waiting])


@pytest.mark.parametrize("jump", [timedelta(days=400), timedelta(days=-400), None], ids=["forward", "back", "stands"])
@virtual
async def test_a_wall_clock_that_jumps_or_stands_still_neither_ends_nor_doubles_the_lead(jump):
    """The time in the Lease only has to change: a candidate that sees no change considers the holder gone."""
    wall = datetime(2026, 1, 1, tzinfo=UTC)

    def stamp() -> str:
        seconds = 0.0 if jump is None else timing.now()
        return lease_time(
            wall + timedelta(seconds=seconds) + ((jump or timedelta()) if timing.now() > 30 else timedelta())
        )

    async with open_client() as client:
        settings = LeaderElection(name="shop", identity="one")
        one = LeaderElector(client, settings, random=lambda: 0.0, stamp=stamp)
        other = LeaderElector(client, replace(settings, identity="other"), random=lambda: 0.0, stamp=stamp)
        async with leading(one) as renewing:
            waiting = asyncio.create_task(other.acquire())
            await asyncio.sleep(120)
            assert (one.is_leader, other.is_leader) == (True, False)
            assert not renewing.done()
            waiting.cancel()
            await asyncio.wait([waiting])
