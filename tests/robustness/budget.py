"""How long the tests of `make test-robustness` search: LEVELSET_ROBUSTNESS_SECONDS for all of them together."""

import os
import time
from collections.abc import Iterator

__all__ = ["TOTAL_SECONDS", "rounds"]

TOTAL_SECONDS = float(os.environ.get("LEVELSET_ROBUSTNESS_SECONDS", "600"))


def rounds(*, share: int) -> Iterator[int]:
    """Seeds 0, 1, 2, ... until this test has used one `share`-th of the time; at least one.

    LEVELSET_ROBUSTNESS_SEED is the first one: to repeat what has failed, or to try others.
    """
    end = time.monotonic() + TOTAL_SECONDS / share
    seed = int(os.environ.get("LEVELSET_ROBUSTNESS_SEED", "0"))
    while True:
        print(f"LEVELSET_ROBUSTNESS_SEED={seed}")
        yield seed
        seed += 1
        if time.monotonic() > end:
            return
