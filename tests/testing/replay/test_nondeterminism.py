"""Hidden inputs of a reconciler: each is named with its file and line when the recording is replayed."""

import asyncio
import os
import platform
import random
import secrets
import socket
import sqlite3
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from levelset import Context, Controller
from levelset.testing import Cluster
from levelset.testing.replay import replay
from tests.testing.replay.operators import Website, WebsiteStatus, record, site


def in_a_thread() -> str:
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append("x"))
    thread.start()
    thread.join()
    return found[0]


def resolved() -> str:
    return str(socket.getaddrinfo("127.0.0.1", 80)[0])


def stored() -> str:
    connection = sqlite3.connect(":memory:")
    connection.close()
    return "x"


HIDDEN: dict[str, tuple[Callable[[], Any], str]] = {
    "the wall clock": (time.time, "time.time()"),
    "a monotonic clock": (time.monotonic, "time.monotonic()"),
    "a counter of time": (time.perf_counter_ns, "time.perf_counter_ns()"),
    "now": (lambda: datetime.now(UTC), "datetime.now()"),
    "today": (date.today, "date.today()"),
    "the time of the loop": (lambda: asyncio.get_running_loop().time(), "loop.time()"),
    "shared random numbers": (lambda: random.choice("abc"), "random.getrandbits()"),
    "own random numbers": (lambda: random.Random().random(), "random.Random() without a seed"),
    "secrets": (lambda: secrets.token_hex(4), "os.urandom()"),
    "a random uuid": (uuid.uuid4, "os.urandom()"),
    "an environment variable": (lambda: os.environ.get("HOME"), "os.environ"),
    "an environment variable by getenv": (lambda: os.getenv("HIDDEN_INPUT", "none"), "os.environ"),
    "a file": (lambda: Path(__file__).read_text()[:1], "open()"),
    "whether a file exists": (lambda: Path(__file__).exists(), "os.stat()"),
    "a folder": (lambda: len(list(Path(tempfile.gettempdir()).iterdir())), "os."),
    "the process id": (os.getpid, "os.getpid()"),
    "the name of the machine": (socket.gethostname, "gethostname()"),
    "a thread": (in_a_thread, "start_new_thread()"),
    "a program": (lambda: subprocess.run(["/bin/true"], check=True).returncode, "fork_exec()"),
    "a name server": (resolved, "getaddrinfo()"),
    "a database": (stored, "connect()"),
}


@pytest.mark.parametrize("kind", HIDDEN)
def test_a_hidden_input_is_named_with_its_file_and_line(kind: str, tmp_path: Path, file_access: None) -> None:
    read, words = HIDDEN[kind]

    async def reconcile(found: Website, ctx: Context) -> None:
        value = read()
        await ctx.set_status(found, WebsiteStatus(seen=str(value)))

    async def use(cluster: Cluster) -> None:
        await cluster.create(site())
        await cluster.advance(1)

    controller = Controller(Website, reconcile, name="websites")
    record(tmp_path / "run", controller, use=use)
    result = replay(tmp_path / "run", controller)
    named = [one for one in result.notes if words in one.what]
    assert named, [str(one) for one in result.notes]
    assert all("test_nondeterminism.py:" in one.place for one in named)


def test_what_is_repeated_is_not_named(tmp_path: Path) -> None:
    async def reconcile(found: Website, ctx: Context) -> None:
        import colorsys  # noqa: PLC0415 -- imports read files, which is not an input

        seeded = random.Random(7).random()
        text = f"{seeded} {ctx.now()} {ctx.random.random()} {platform.python_implementation()} {colorsys.ONE_SIXTH}"
        await asyncio.sleep(0.1)
        async with asyncio.timeout(5):
            await ctx.set_status(found, WebsiteStatus(seen=text))

    async def use(cluster: Cluster) -> None:
        await cluster.create(site())
        await cluster.advance(1)

    controller = Controller(Website, reconcile, name="websites")
    record(tmp_path / "run", controller, use=use)
    result = replay(tmp_path / "run", controller)
    assert result.ok
    assert [str(one) for one in result.notes] == []
