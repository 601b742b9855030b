"""Runs the programs of the fake tool, each under a process that records its exit code and output."""

import contextlib
import os
import signal
import subprocess
import threading
from typing import Any

from systems.dcp.tests.engines.cli import fake_output as output
from systems.dcp.tests.engines.cli.fake_state import State

__all__ = ["supervise"]


def supervise(state: State, key: str) -> int:
    """Runs the program of a container to its end."""
    held = state.get("containers", key)
    process = subprocess.Popen(
        held["args"],
        env={**os.environ, **held["env"]},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    with state.locked():
        state.update("containers", key, pid=process.pid)
    streams = (("stdout", process.stdout), ("stderr", process.stderr))
    threads = [threading.Thread(target=_append_lines, args=(state, key, *one)) for one in streams]
    for thread in threads:
        thread.start()
    code = process.wait()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for thread in threads:
        thread.join()
    code = code if code >= 0 else 128 - code
    with state.locked():
        state.update("containers", key, status="exited", code=code, finished=output.now(), ports={})
    state.emit(output.container_event(state.dialect, held, "die", code))
    return 0


def _append_lines(state: State, key: str, origin: str, stream: Any) -> None:
    for line in stream:
        state.append(f"{key}.log", f"{origin} {output.now()} {line.decode().rstrip()}")
