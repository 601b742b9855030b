"""Three API servers on three members of etcd, under writers and watchers, while any of them is killed or cut off."""

# ruff: noqa: ASYNC110 - what is waited for is in other processes

import asyncio
import json
import os
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from levelset.client import Client, Config
from levelset.client.config.loader import load_config
from levelset.client.transport.interface import Call
from levelset.errors import ApiError, Unreachable
from levelset.kinds.core_v1 import ConfigMap, Namespace
from levelset.objects import ObjectMeta, OwnerReference
from tests.etcd.etcd_cluster import EtcdCluster, run_cluster
from tests.etcd.replica_processes import Faults, ReplicaProcess, run_replicas
from tests.robustness.history_check import check_history
from tests.robustness.random_clients import RandomClients

pytestmark = [pytest.mark.usefixtures("file_access"), pytest.mark.timeout(300)]

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/levelset-controllers"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SECONDS = float(os.environ.get("LEVELSET_FAULT_SECONDS", "25"))


@pytest.fixture
def cluster(newest: Path) -> Iterator[EtcdCluster]:
    with run_cluster(newest, 3) as cluster:
        cluster.leader()
        yield cluster


async def until(what: Callable[[], Awaitable[bool]], *, within: float = 30.0) -> None:
    async with asyncio.timeout(within):
        while not await what():
            await asyncio.sleep(0.1)


async def disturb(faults: Faults, work: Callable[[], Awaitable[Any]]) -> Any:
    """Does the work while faults happen; mends all before it returns."""
    disturbing = asyncio.create_task(faults.run())
    try:
        return await work()
    finally:
        faults.is_over = True
        await disturbing


async def mend(cluster: EtcdCluster, replicas: list[ReplicaProcess]) -> None:
    await asyncio.to_thread(cluster.wait_ready)
    for one in replicas:
        await until(one.is_ready)


@pytest.mark.parametrize("seed", range(int(os.environ.get("LEVELSET_FAULT_SEEDS", "1"))))
async def test_histories_are_linearizable_and_watches_complete_whatever_is_killed_or_cut_off(
    cluster: EtcdCluster, tmp_path: Path, seed: int
):
    async with run_replicas(cluster, tmp_path) as replicas:
        dice = random.Random(f"{seed} replicas")
        clients = RandomClients(lambda: dice.choice(replicas), seed, keys=6, pause=0.2)
        faults = Faults(cluster, replicas, seed)

        async def work() -> Any:
            return await clients.run(clients=4, watchers=3, operations=round(SECONDS * 10), patience=60.0)

        history = await disturb(faults, work)
        outcomes = Counter((one.verb, one.outcome) for one in history.operations)
        print("faults", Counter(faults.done), "operations", outcomes, "watches", len(history.watches))
        check_history(history)
        assert len(faults.done) >= 3
        assert outcomes["create", "done"] > 10
        assert outcomes["update", "done"] > 10


def config_of(replicas: list[ReplicaProcess]) -> Config:
    first, *others = [load_config(one.kubeconfig) for one in replicas]
    return Config(
        server=first.server, servers=tuple(one.server for one in others), ca=first.ca, credentials=first.credentials
    )


async def insist(write: Callable[[], Awaitable[Any]]) -> None:
    """Repeats a write until it is done, or was."""
    async with asyncio.timeout(60):
        while True:
            try:
                await write()
            except (Unreachable, ApiError) as error:
                if getattr(error, "code", 0) in (404, 409):
                    return
                await asyncio.sleep(0.2)
            else:
                return


async def test_the_controllers_of_the_server_finish_their_work_whatever_is_killed_or_cut_off(
    cluster: EtcdCluster, tmp_path: Path
):
    async with run_replicas(cluster, tmp_path) as replicas:
        config = await asyncio.to_thread(config_of, replicas)
        async with await Client.connect(config) as client:

            async def work() -> int:
                number, end = 0, time.monotonic() + SECONDS
                while time.monotonic() < end:
                    await make_and_delete(client, number)
                    number += 1
                return number

            rounds = await disturb(Faults(cluster, replicas, "controllers"), work)
            await mend(cluster, replicas)
            assert rounds > 3

            async def is_clean() -> bool:
                try:
                    maps = await client.list(ConfigMap, namespace="default")
                    namespaces = await client.list(Namespace)
                except (Unreachable, ApiError):
                    return False
                left = [one.metadata.name for one in maps if str(one.metadata.name).startswith(("owner", "child"))]
                return not left and not [one for one in namespaces if str(one.metadata.name).startswith("shop")]

            await until(is_clean, within=60)


async def make_and_delete(client: Client, number: int) -> None:
    """An owner with children and a namespace with content, deleted at once."""
    owner = ConfigMap(metadata=ObjectMeta(name=f"owner-{number}", namespace="default"))
    await insist(lambda: client.create(owner))
    uid = ""

    async def read() -> None:
        nonlocal uid
        uid = str((await client.get(ConfigMap, f"owner-{number}", namespace="default")).metadata.uid)

    await insist(read)
    reference = OwnerReference(api_version="v1", kind="ConfigMap", name=f"owner-{number}", uid=uid)
    for index in range(3):
        metadata = ObjectMeta(name=f"child-{number}-{index}", namespace="default", owner_references=(reference,))
        await insist(partial(client.create, ConfigMap(metadata=metadata)))
    shop = f"shop-{number}"
    await insist(lambda: client.create(Namespace(metadata=ObjectMeta(name=shop))))
    await insist(lambda: client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace=shop))))
    await insist(lambda: client.delete(ConfigMap, f"owner-{number}", namespace="default"))
    await insist(lambda: client.delete(Namespace, shop))


async def request(replica: ReplicaProcess, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    content, headers = json.dumps(body).encode() if body else b"", {"content-type": "application/json"}
    response = await replica.send(Call(method=method, path=path, headers=headers, body=content, about=path))
    return response.status, json.loads(response.body)


async def test_a_killed_holder_of_the_lease_is_replaced_within_seconds(cluster: EtcdCluster, tmp_path: Path):
    async with run_replicas(cluster, tmp_path, 2) as (one, other):

        async def holder() -> str:
            _, lease = await request(other, "GET", LEASE)
            return str(lease["spec"]["holderIdentity"])

        before, began = await holder(), time.monotonic()
        await one.kill()

        async def has_moved() -> bool:
            return await holder() != before

        await until(has_moved, within=20)
        print(f"another server had the lease after {time.monotonic() - began:.1f} s")


async def test_a_definition_of_one_replica_is_served_by_all_at_once(cluster: EtcdCluster, tmp_path: Path):
    async with run_replicas(cluster, tmp_path) as (one, *others):
        times: list[float] = []
        for other in others:
            await request(other, "GET", "/version")  # connected before
        for number in range(20):
            status, made = await request(one, "POST", DEFINITIONS, definition(number))
            assert status == 201, made
            began = time.monotonic()
            path = f"/apis/example.com/v1/namespaces/default/widget{number}s"
            answers = await asyncio.gather(*(request(other, "GET", path) for other in others))
            times.append(time.monotonic() - began)
            assert [status for status, _ in answers] == [200, 200]
        typical, worst = 1000 * sorted(times)[len(times) // 2], 1000 * max(times)
        print(f"both others have answered with the new kind after {typical:.0f} ms, at most {worst:.0f} ms")
        assert typical < 100


def definition(number: int) -> Any:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": f"widget{number}s", "kind": f"Widget{number}"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widget{number}s.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }
