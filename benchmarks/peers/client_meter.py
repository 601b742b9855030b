"""CPU time and memory of a Python client, and the lines by which it speaks with `bench-runtimes`."""

import asyncio
import gc
import json
import sys
import time
from pathlib import Path

__all__ = ["collected", "cpu", "memory", "next_command", "say"]


def cpu() -> float:
    """User and system time of all threads until now, in seconds."""
    return time.process_time()


def memory() -> int:
    """Resident memory in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def collected() -> int:
    gc.collect()
    return memory()


def say(phase: str, number: int = 0, spent: float = 0.0, used: float = 0.0) -> None:
    print(json.dumps({"phase": phase, "number": number, "cpu": spent, "memory": used}), flush=True)


async def next_command() -> str:
    return await asyncio.to_thread(sys.stdin.readline)
