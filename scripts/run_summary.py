"""The last lines of a suite that runs the programs of others: how long it took, and what it skipped and why."""

import time
from collections import Counter
from collections.abc import Iterable

__all__ = ["run_summary"]


def run_summary(began: float, skipped: Iterable[str]) -> list[str]:
    """A line for each reason why something was skipped, and the time since `began` (of `time.monotonic`)."""
    counts = Counter(skipped).most_common()
    minutes, seconds = divmod(round(time.monotonic() - began), 60)
    lines = [f"skipped {count}: {why}" for why, count in counts] or ["skipped nothing"]
    return [*lines, f"took {minutes} min {seconds} s"]
