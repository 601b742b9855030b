"""The time of a short call, for the benchmarks of CEL and of regular expressions."""

import time
from collections.abc import Callable
from typing import Any

__all__ = ["best"]


def best(run: Callable[[], Any], least: float = 0.05) -> float:
    """Microseconds of processor time of one call, in the best of five series that take `least` seconds or longer."""
    rounds = 1
    while (spent := _timed(run, rounds)) < least:
        rounds *= 2
    return min(spent, *(_timed(run, rounds) for _ in range(4))) / rounds * 1e6


def _timed(run: Callable[[], Any], rounds: int) -> float:
    start = time.process_time()
    for _ in range(rounds):
        run()
    return time.process_time() - start
