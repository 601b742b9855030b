"""A real server process that is killed, stopped and started again while random clients use it."""

import asyncio
import random

import pytest

from tests.robustness.budget import rounds
from tests.robustness.history_check import check_history
from tests.robustness.random_clients import RandomClients
from tests.robustness.server_process import ServerProcess

pytestmark = pytest.mark.usefixtures("file_access")


async def play(folder, seed, disturbances, **options):
    server = ServerProcess(folder)
    await server.start()
    try:
        clients = RandomClients(lambda: server, seed, pause=0.05)
        running = asyncio.create_task(clients.run(**options))
        await disturb(server, disturbances, random.Random(seed))
        history = await running
    finally:
        await server.aclose()
    check_history(history)
    return history


async def disturb(server, disturbances, dice):
    for one in disturbances:
        await asyncio.sleep(dice.random() * 0.4)
        match one:
            case "kill":
                await server.kill()
                await server.start()
            case "pause":
                await server.pause(dice.random() * 0.3)
            case "second server":
                code, message = await server.start_second()
                assert code != 0
                assert "in use by another process" in message


@pytest.mark.slow
async def test_a_killed_a_stopped_and_a_second_server_lose_nothing(folders):
    # The kill comes before the second server, which may take longer to start than all the operations.
    history = await play(folders(), 1, ["pause", "kill", "second server"], operations=50)
    assert any(one.outcome == "unknown" for one in history.operations)


@pytest.mark.robustness
@pytest.mark.timeout(3600)
async def test_kills_pauses_and_second_servers_lose_nothing_for_minutes(folders):
    for seed in rounds(share=8):
        dice = random.Random(seed)
        disturbances = dice.choices(["kill", "pause", "second server"], [5, 3, 1], k=dice.randint(3, 8))
        await play(folders(), seed, disturbances, operations=200, clients=dice.randint(2, 8), watchers=seed % 4)
