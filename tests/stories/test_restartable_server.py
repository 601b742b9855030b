"""The restartable server of the stories, and the faults that they use."""

import asyncio

import pytest

from levelset import Client, Cluster, Object, ObjectMeta
from levelset.errors import ServerFailed
from levelset.testing.faults import WRITES, delayed_watch, server_error
from levelset.testing.virtual_time import virtual
from tests.stories.network import CutOff
from tests.stories.restartable_server import open_restartable_server


class Settings(Object, api="v1", kind="ConfigMap"):
    data: dict[str, str] = {}


def settings(name: str) -> Settings:
    return Settings(metadata=ObjectMeta(name=name, namespace="default"))


def now() -> float:
    return asyncio.get_running_loop().time()


async def seen(cluster: Cluster, name: str) -> float:
    """When the cache has an object."""
    while await cluster.find(settings(name).ref, read="stale") is None:  # noqa: ASYNC110  # the time is virtual
        await asyncio.sleep(0.1)
    return now()


@virtual
async def test_events_of_a_delayed_watch_arrive_later() -> None:
    async with open_restartable_server() as (server, people):
        late = await server.client("late", delayed_watch(2.0).hook())
        async with late, Cluster(late) as cluster:
            cluster.declare(Settings)
            await cluster.wait_ready()
            for name in ("a", "b"):
                began = now()
                await people.create(settings(name))
                await people.create(settings(f"{name}-2"))
                assert await seen(cluster, f"{name}-2") - began == pytest.approx(2.0, abs=0.2)


@virtual
async def test_a_restarted_server_has_its_objects_and_watches_resume() -> None:
    async with open_restartable_server() as (server, people), Cluster(people) as cluster:
        cluster.declare(Settings)
        await cluster.wait_ready()
        await people.create(settings("before"))
        await server.restart(down=5.0)
        await people.create(settings("after"))
        assert (await people.get(settings("before").ref)).name == "before"
        assert await seen(cluster, "after") < 120


@virtual
async def test_injected_write_failures_are_not_in_the_journal() -> None:
    async with open_restartable_server() as (server, _):
        refusals = server_error(share=0.5, verbs=WRITES, seed=1).hook()
        async with await server.client("writer", refusals) as client:
            outcomes = [await _tried(client, f"n{number}") for number in range(40)]
        assert refusals.injected == outcomes.count(False) > 10
        assert len(server.writes(who="writer")) == outcomes.count(True) > 10


async def _tried(client: Client, name: str) -> bool:
    try:
        await client.create(settings(name))
    except ServerFailed:
        return False
    return True


@virtual
async def test_a_client_that_is_cut_off_cannot_connect() -> None:
    async with open_restartable_server() as (server, _):
        cut = CutOff(lambda call: "/leases" in call.path)
        async with await server.client("lonely", cut) as client:
            cut.is_cut = True
            await client.create(settings("passes"))
        assert [one.path for one in server.writes(who="lonely")] == ["/api/v1/namespaces/default/configmaps"]
