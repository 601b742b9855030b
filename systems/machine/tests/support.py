"""Helpers for tests with real processes: commands, their output, and waiting for the end of a process."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable

from levelset_machine import Command, Identity, LogOptions, LogStore, is_alive
from levelset_machine.process.process_run import ExitWatch

__all__ = ["cat", "command", "first_line", "python", "read", "shell", "wait_gone", "wait_until"]

TIMEOUT = 15.0


def command(*argv: str, cwd: str | None = None, **env: str) -> Command:
    return Command(argv=argv, env={"PATH": os.environ["PATH"], **env}, cwd=cwd)


def shell(script: str, **env: str) -> Command:
    return command("/bin/sh", "-c", script, **env)


def python(script: str, **env: str) -> Command:
    return command(sys.executable, "-I", "-S", "-c", script, **env)


async def read(store: LogStore, key: str, **options: object) -> bytes:
    return b"".join([chunk async for chunk in store.read(key, LogOptions(**options))])  # type: ignore[arg-type]  # as given


def cat(**env: str) -> "subprocess.Popen[bytes]":
    """A process that has already executed its program: before that the kernel may not show its environment."""
    child = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(b"\n")
    child.stdin.flush()
    child.stdout.readline()
    return child


async def first_line(store: LogStore, key: str) -> bytes:
    """Waits for the first line of a log."""
    async for chunk in store.read(key, LogOptions(follow=True)):
        return chunk.partition(b"\n")[0]
    raise AssertionError(f"the log {key} ended without a line")


async def wait_gone(identity: Identity) -> None:
    """Waits until a process has ended, whether it is a child of this one or not; fails after a timeout."""
    gone = asyncio.Event()
    try:
        watch = ExitWatch(identity.pid, gone.set, lambda: not is_alive(identity))
    except ProcessLookupError:
        return
    try:
        if watch.identity == identity:
            async with asyncio.timeout(TIMEOUT):
                await gone.wait()
    finally:
        watch.close()


async def wait_until(holds: Callable[[], bool]) -> None:
    """Polls until a condition holds that has no event; fails after a timeout."""
    async with asyncio.timeout(TIMEOUT):
        while not holds():  # noqa: ASYNC110  (the condition has no event)
            await asyncio.sleep(0.005)
