"""Runs the programs of the pretended command line tool, each under a process that notes how it ends."""

import contextlib
import os
import signal
import subprocess
import threading
from typing import Any

from systems.dcp.tests import engine_fakeshapes as shapes
from systems.dcp.tests.engine_fakestate import State

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
    threads = [threading.Thread(target=_keep, args=(state, key, *one)) for one in streams]
    for thread in threads:
        thread.start()
    code = process.wait()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for thread in threads:
        thread.join()
    code = code if code >= 0 else 128 - code
    with state.locked():
        state.update("containers", key, status="exited", code=code, finished=shapes.now(), ports={})
    state.tell(shapes.container_event(state.dialect, held, "die", code))
    return 0


def _keep(state: State, key: str, origin: str, stream: Any) -> None:
    for line in stream:
        state.append(f"{key}.log", f"{origin} {shapes.now()} {line.decode().rstrip()}")
