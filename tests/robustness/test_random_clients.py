"""Random clients of a server in this process, with failpoints, in virtual time: histories are linearizable."""

import asyncio
from collections import Counter

import pytest

from levelset.apiserver import ApiServer
from levelset.apiserver.package_data import load_package_data
from levelset.client.client import open_transport
from levelset.testing.virtual_time import run
from tests.robustness.budget import rounds
from tests.robustness.failpoints import FailpointMemory, Failpoints, FailpointSqlite
from tests.robustness.history_check import check_history
from tests.robustness.random_clients import RandomClients
from tests.robustness.simulated_disk import SimulatedDisk
from tests.robustness.simulated_storage import on_disk

pytestmark = pytest.mark.usefixtures("file_access")

load_package_data()


async def play(storage, seed, *, errors=0.05, delays=0.5, retained=12, **options):
    """One run of random clients on a server with this storage; returns the history and what the failpoints did."""
    failpoints = Failpoints(seed, errors=errors, delays=delays)
    storage.failpoints = failpoints
    server = ApiServer(storage, tls=False)
    failpoints.listen_to(server)
    await server.start(listen=False)
    transport, _ = await open_transport(server)
    clients = RandomClients(lambda: transport, seed, cancelled=0.05)
    compacting = asyncio.create_task(compact(storage, retained))
    failpoints.is_armed = True
    try:
        return await clients.run(**options), failpoints
    finally:
        failpoints.is_armed = False
        compacting.cancel()
        await transport.aclose()
        await server.stop()
        await storage.close()


async def compact(storage, retained):
    """Removes old history again and again, so that slow watchers have to list again."""
    while True:
        await asyncio.sleep(0.01)
        if storage.revision - storage.compacted > retained:
            await storage.compact(storage.revision - retained)


def play_in_memory(seed, storage_class=FailpointMemory, **options):
    history, failpoints = run(play(storage_class(), seed, **options))
    check_history(history)
    return history, failpoints


def play_on_disk(seed, folder, storage_class=FailpointSqlite, **options):
    disk = SimulatedDisk(folder / "data.db")
    try:
        with on_disk(disk):
            history, failpoints = run(play(storage_class(disk.path, durability="full"), seed, **options))
    finally:
        disk.close()
    check_history(history)
    return history, failpoints


def test_histories_in_memory_are_linearizable_and_watches_complete():
    outcomes, points = Counter(), Counter()
    for seed in range(4):
        history, failpoints = play_in_memory(seed)
        outcomes.update((one.verb, one.outcome) for one in history.operations)
        points.update(failpoints.hits)
    # The search is worth something only if it comes to all of these.
    for verb, outcome in (("update", "done"), ("update", "conflict"), ("create", "conflict"), ("delete", "done")):
        assert outcomes[verb, outcome] > 5
    assert outcomes["update", "unknown"]
    assert set(points) >= {"delay before a put", "delay after a put", "delay before a delete", "delay after a delete"}
    assert set(points) >= {"error before a put", "error after a put", "error in a listener"}


def test_histories_on_sqlite_are_linearizable_and_watches_complete(folders):
    for seed in range(3):
        play_on_disk(seed, folders())


def test_a_watch_without_its_history_lists_again_and_continues():
    history, _ = play_in_memory(5, operations=60, watchers=4, retained=0)
    assert len(history.watches) > 5


def test_a_run_of_random_clients_is_the_same_each_time():
    one, other = (play_in_memory(3)[0] for _ in range(2))
    assert one.operations == other.operations


@pytest.mark.robustness
@pytest.mark.timeout(3600)
def test_histories_in_memory_are_linearizable_for_minutes():
    for seed in rounds(share=8):
        play_in_memory(seed, clients=2 + seed % 6, operations=20 + seed % 50, watchers=seed % 4)


@pytest.mark.robustness
@pytest.mark.timeout(3600)
def test_histories_on_sqlite_are_linearizable_for_minutes(folders):
    for seed in rounds(share=8):
        play_on_disk(seed, folders(), clients=2 + seed % 6, operations=20 + seed % 50, watchers=seed % 4)
