"""Measures CPU time, memory and the longest stall of the event loop, in the same way for every client.

A client lists everything and holds it, says `listed`, watches, says `watching` when its watch is open, counts the
events that the server then makes, and says `watched`. The harness reads these lines; see ../cache.py.
"""

import asyncio
import gc
import json
import sys
import time
from pathlib import Path
from typing import Any

__all__ = ["COUNT", "EVENTS", "KIND", "PATIENCE", "PORT", "TOKEN", "Meter", "kubeconfig"]

KIND, COUNT, EVENTS, PORT, TOKEN = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
PATIENCE = 600.0


class Meter:
    """Measures from its creation on."""

    def __init__(self) -> None:
        gc.collect()
        self.cached: Any = None
        self._memory = resident()
        self._beat = asyncio.create_task(self._beats(), name="beats")
        self._begin()

    def _begin(self) -> None:
        self._stall = 0.0
        self._began, self._clock = time.process_time(), time.perf_counter()

    async def _beats(self) -> None:
        """Wakes up every two milliseconds, and records the largest delay."""
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.002)
            self._stall = max(self._stall, time.perf_counter() - before - 0.002)

    def say(self, phase: str, number: int) -> None:
        """Prints the measurements of the phase, for so many objects or events, and begins the next one."""
        spent, passed = time.process_time() - self._began, time.perf_counter() - self._clock
        stall = self._stall
        gc.collect()
        report = {
            "phase": phase,
            "number": number,
            "cpu": spent,
            "wall": passed,
            "stall": stall,
            "memory": resident() - self._memory,
        }
        print(json.dumps(report), flush=True)
        self._begin()

    def watching(self) -> None:
        """Prints that the watch is open: the server starts to write."""
        self._begin()
        print(json.dumps({"phase": "watching"}), flush=True)


def resident() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("this benchmark reads /proc, which only Linux has")


def kubeconfig() -> dict[str, Any]:
    """A kubeconfig for the server, as a tree."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "bench",
        "clusters": [{"name": "bench", "cluster": {"server": f"http://127.0.0.1:{PORT}"}}],
        "users": [{"name": "bench", "user": {"token": TOKEN}}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
    }
