"""How many cores the Pods of a node use: by their processor time between two measurements."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from levelset.aio import timing
from levelset_machine import read_cpu_seconds

__all__ = ["CpuUsage", "ProcessCpuUsage"]

CpuUsage = Callable[[], Awaitable[Mapping[str, float]]]
"""Returns the cores that Pods use, by uid; a Pod that was not measured twice is left out."""
_LEAST_SECONDS: Final = 5.0
"""The shortest time between two measurements; within it the last result is returned."""


class ProcessCpuUsage:
    """Measures the processes of containers; `find_processes` returns their pids with the uids of their Pods."""

    def __init__(self, find_processes: Callable[[], Mapping[int, str]]) -> None:
        self._find_processes = find_processes
        self._before: dict[int, float] = {}
        self._at: float | None = None
        self._usage: dict[str, float] = {}
        self._lock = asyncio.Lock()

    async def __call__(self) -> Mapping[str, float]:
        """The cores by Pod."""
        async with self._lock:
            if self._at is None or timing.now() - self._at >= _LEAST_SECONDS:
                await self._measure()
        return self._usage

    async def _measure(self) -> None:
        processes = self._find_processes()
        found = await asyncio.to_thread(read_cpu_seconds, processes.keys())
        now = timing.now()
        usage: dict[str, float] = {}
        if self._at is not None and now > self._at:
            for pid, seconds in found.items():
                if pid in self._before:
                    cores = max(0.0, seconds - self._before[pid]) / (now - self._at)
                    usage[processes[pid]] = usage.get(processes[pid], 0.0) + cores
        self._before, self._at, self._usage = found, now, usage
