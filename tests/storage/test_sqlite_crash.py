"""kill -9 during many writes: acknowledged writes are stored, and none is stored partially."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from levelset.storage import SqliteStorage

ROUNDS = 50
WRITER = Path(__file__).with_name("crash_writer.py")


@pytest.fixture(params=["normal", "full"])
def writer(tmp_path, request):
    command = [sys.executable, WRITER, tmp_path / "data.db", request.param]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process


@pytest.mark.slow
@pytest.mark.usefixtures("file_access")
async def test_a_killed_writer_loses_no_acknowledged_write(tmp_path, writer):
    dice, newest = random.Random(7), 0
    for _ in range(ROUNDS):
        started, lines = run_until_killed(writer.stdin, writer.stdout, acknowledged=dice.randrange(200))
        assert started >= newest, "revisions went back at the start"
        async with await SqliteStorage.open(tmp_path / "data.db") as storage:
            newest = check(storage, lines)


def run_until_killed(stdin: IO[str], stdout: IO[str], *, acknowledged: int) -> tuple[int, list[str]]:
    """The first revision of a child, and all writes that it acknowledged until it was killed."""
    print("go", file=stdin, flush=True)
    _, pid, revision = stdout.readline().split()
    lines = [stdout.readline() for _ in range(acknowledged)]
    os.kill(int(pid), signal.SIGKILL)
    lines += iter(stdout.readline, "dead\n")
    return int(revision), lines


def check(storage: SqliteStorage, lines: list[str]) -> int:
    """Compares the file with what was acknowledged; the newest revision that was acknowledged."""
    acknowledged: dict[str, int] = {}
    newest = 0
    for line in lines:
        _, key, written, _ = line.split()
        acknowledged[key] = max(acknowledged.get(key, 0), int(written))
        newest = max(newest, int(written))
    assert storage.revision >= newest, "the newest acknowledged write is lost"
    touched: dict[str, int] = {}
    for change in storage._mvcc.history.since(storage.compacted):
        touched[change.key] = change.revision
    for key, revision in acknowledged.items():
        item = storage.get_nowait(key)
        last = touched.get(key, storage.compacted if item is None else item.revision)
        assert last >= revision or revision <= storage.compacted, f"{key} lost the write {revision}"
        assert item is None or item.revision == last, f"{key} is not what its last change says"
    for item in storage.list_nowait("").items:
        whole = bytes([item.value[0]]) * (100 * (len(item.value) // 100)) if item.value else b""
        assert item.value == whole, f"{item.key} is half written"
    return storage.revision
