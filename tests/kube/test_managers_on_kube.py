"""Leader election and shared work with the Leases of a real kube-apiserver, in real time."""

import asyncio
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from levelset import Client, Context, Controller, LeaderElection, Manager, ObjectMeta, Sharding
from levelset.kinds.core_v1 import ConfigMap, Namespace
from levelset.runtime.manager import Lease

NAMES = [f"site-{number}" for number in range(30)]
QUICK: dict[str, Any] = {"lease": 4, "renew": 2.5, "retry": 0.5}


@pytest.fixture
async def namespace(kube_client: Client) -> str:
    name = f"managers-{uuid.uuid4().hex[:8]}"
    await kube_client.create(Namespace(metadata=ObjectMeta(name=name)))
    return name


@pytest.fixture
async def clients(kubeconfig: Path, namespace: str) -> AsyncIterator[list[Client]]:
    """One client for each replica."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(await Client.connect(kubeconfig, namespace=namespace)) for _ in range(3)]


def recording(log: list[tuple[str, str]], replica: str, namespace: str) -> Controller[ConfigMap]:
    async def reconcile(one: ConfigMap, ctx: Context) -> None:
        log.append((replica, one.name))

    return Controller(ConfigMap, reconcile, labels="app=sites", namespace=namespace, name="sites")


async def create_all(client: Client, namespace: str) -> None:
    for name in NAMES:
        metadata = ObjectMeta(name=name, namespace=namespace, labels={"app": "sites"})
        await client.create(ConfigMap(metadata=metadata, data={"title": name}))


async def until(condition: Any, within: float = 60.0) -> None:
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110 - real time, and no event to wait for
            await asyncio.sleep(0.05)


async def test_one_replica_leads_and_the_next_takes_over_when_it_stops(clients: list[Client], namespace: str) -> None:
    log: list[tuple[str, str]] = []
    await create_all(clients[0], namespace)
    async with AsyncExitStack() as stack:
        async with Manager(clients[0], leader=LeaderElection(name="shop", **QUICK)) as first:
            first.add(recording(log, "a", namespace))
            await first.wait_elected()
            second = await stack.enter_async_context(Manager(clients[1], leader=LeaderElection(name="shop", **QUICK)))
            second.add(recording(log, "b", namespace))
            await until(lambda: len(log) >= len(NAMES))
            await asyncio.sleep(1)
            assert (sorted(log), second.is_leader) == (sorted(("a", name) for name in NAMES), False)
        await second.wait_elected()
        await until(lambda: len(log) >= 2 * len(NAMES))
        assert {replica for replica, _ in log[len(NAMES) :]} == {"b"}


async def test_replicas_share_the_objects_and_hand_them_over(clients: list[Client], namespace: str) -> None:
    log: list[tuple[str, str]] = []
    await create_all(clients[0], namespace)
    async with AsyncExitStack() as stack:
        managers = []
        for replica, client in zip("abc", clients, strict=True):
            manager = await stack.enter_async_context(Manager(client, shards=Sharding(name="shop", drain=2.0, **QUICK)))
            manager.add(recording(log, replica, namespace))
            await manager.wait_elected()
            await manager.wait_idle()
            managers.append(manager)
        member = managers[0].shard_member
        assert member is not None
        await until(lambda: sum(one.keys or 0 for one in member.members()) == len(NAMES))
        assert {replica for replica, _ in log} == {"a", "b", "c"}
        assert sorted(name for replica, name in log if replica == "a") == sorted(NAMES), "it had all of them first"
        moved = [name for replica, name in log if replica != "a"]
        assert len(moved) <= len(NAMES) + 5, "and gave some away once"
        log.clear()
        for name in NAMES:
            await clients[0].apply(
                ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace), data={"color": "red"}), manager="test"
            )
        await until(lambda: len(log) >= len(NAMES))
        await asyncio.sleep(1)
        assert sorted(name for _, name in log) == sorted(NAMES)
        log.clear()
        await managers[0].stop()
        await until(lambda: sum(one.shard_counts()["sites"][0] for one in managers[1:]) == len(NAMES))
        leases = await clients[1].list(Lease, namespace=namespace)
        assert len(leases) == 2


MEMBER = """
import asyncio
import sys

from levelset import Client, Context, Controller, Manager, Sharding
from levelset.kinds.core_v1 import ConfigMap


async def reconcile(one: ConfigMap, ctx: Context) -> None:
    pass


async def main(kubeconfig: str, namespace: str) -> None:
    shards = Sharding(name="shop", drain=2.0, lease=4, renew=2.5, retry=0.5)
    async with (
        await Client.connect(kubeconfig, namespace=namespace) as client,
        Manager(client, shards=shards) as manager,
    ):
        manager.add(Controller(ConfigMap, reconcile, labels="app=sites", namespace=namespace, name="sites"))
        await manager.wait_elected()
        print("joined", flush=True)
        await asyncio.sleep(600)


asyncio.run(main(*sys.argv[1:]))
"""


async def test_the_objects_of_a_process_that_is_killed_are_taken_over(
    clients: list[Client], namespace: str, kubeconfig: Path
) -> None:
    log: list[tuple[str, str]] = []
    await create_all(clients[0], namespace)
    async with Manager(clients[0], shards=Sharding(name="shop", drain=2.0, **QUICK)) as manager:
        manager.add(recording(log, "a", namespace))
        await manager.wait_elected()
        await until(lambda: len(log) == len(NAMES))
        arguments = [sys.executable, "-c", MEMBER, str(kubeconfig), namespace]
        other = await asyncio.create_subprocess_exec(*arguments, stdout=asyncio.subprocess.PIPE)
        try:
            assert other.stdout is not None
            assert await asyncio.wait_for(other.stdout.readline(), 60) == b"joined\n"
            await until(lambda: manager.shard_counts()["sites"][0] < len(NAMES))
            owned, moved = manager.shard_counts()["sites"][0], len(log)
        finally:
            other.kill()
            await other.wait()
        await until(lambda: manager.shard_counts()["sites"][0] == len(NAMES))
        await until(lambda: len(log) == moved + len(NAMES) - owned)
        await asyncio.sleep(1)
        assert len(log) == moved + len(NAMES) - owned, "each that moved was reconciled once, and no other"
        assert len(await clients[0].list(Lease, namespace=namespace)) == 1
