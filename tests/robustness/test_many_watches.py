"""5,000 watches on one server, in a process of its own: memory and time for each, and none is dropped."""

import asyncio
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

import levelset
from tests.apiserver.support.in_process_server import configmap
from tests.apiserver.support.many_watches import allow_files, open_watches

WATCHES = 5000
MAPS = "/api/v1/namespaces/default/configmaps"
SERVER = """
import asyncio, resource, sys, time
from levelset.aio import event_loop
from levelset.apiserver import ApiServer

async def main():
    async with ApiServer(tls=False, token="t") as server:
        print(server.url, flush=True)
        ended = asyncio.ensure_future(asyncio.to_thread(sys.stdin.readline))
        longest = 0.0
        while not ended.done():
            before = time.thread_time()  # what other processes take does not count
            await asyncio.sleep(0.001)
            longest = max(longest, time.thread_time() - before)
        print(longest, flush=True)

hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
event_loop.run(main())
"""


@contextmanager
def server_process() -> Iterator[tuple[str, int, Callable[[], float]]]:
    """Its URL and process id, and a function that ends it and returns the longest time for which its loop was held."""
    environment = {**os.environ, "PYTHONPATH": str(Path(levelset.__file__).parents[1])}
    command = [sys.executable, "-c", SERVER]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None

        def end() -> float:
            return float(process.communicate("\n")[0])

        yield process.stdout.readline().strip(), process.pid, end
        process.terminate()


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def measure(url: str, pid: int, end: Callable[[], float]) -> dict[str, float]:
    async with open_watches(url, "t") as watches:
        before = resident(pid)
        opened = await watches.open(WATCHES)
        times, others = list[float](), list[float]()
        for number in range(20):
            body = configmap(f"c{number}", labels={"a": "x" * 60})
            event = asyncio.create_task(watches.measure_event(partial(watches.request, "POST", MAPS, body)))
            status, seconds = await watches.request("GET", "/readyz")
            assert status == 200
            others.append(seconds)
            times.append(await event)
        assert {one.events for one in watches.watches} == {20}
        assert watches.lost == 0
        return {
            "opened in s": opened,
            "kB for each": (resident(pid) - before) / WATCHES / 1024,
            "ms for an event to all": statistics.median(times) * 1000,
            "longest answer to others in ms": max(others) * 1000,
            "longest hold of the loop in ms": await asyncio.to_thread(end) * 1000,
        }


@pytest.mark.robustness
@pytest.mark.usefixtures("file_access")
def test_five_thousand_watches_get_every_event_and_the_server_answers_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    if not allow_files(WATCHES + 200):
        pytest.skip("the limit of open files (ulimit -Hn) is too low for 5,000 connections")
    with server_process() as (url, pid, end):
        found = asyncio.run(measure(url, pid, end))
    with capsys.disabled():
        print("\n" + ", ".join(f"{name} {value:.1f}" for name, value in found.items()))
    assert found["kB for each"] < 32
    assert found["ms for an event to all"] < 5000
    assert found["longest answer to others in ms"] < 5000
    assert found["longest hold of the loop in ms"] < 50
