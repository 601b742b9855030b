"""levelset's start: an operator with one kind of its own, by `levelset.run`, that ends at its first reconcile.

It prints the CPU time since the first instruction of Python, and the resident memory.
"""

import json
import os
import sys
import time
from pathlib import Path

from levelset import Context, Controller, run

sys.path.insert(0, str(Path(__file__).parents[1]))

from models_levelset import Website


async def reconcile(_: Website, __: Context) -> None:
    spent = time.process_time()
    pages = int(Path("/proc/self/statm").read_text().split()[1])  # noqa: ASYNC240  # it is no file on a disk
    report = {"phase": "started", "number": 1, "cpu": spent, "memory": pages * os.sysconf("SC_PAGE_SIZE")}
    print(json.dumps(report), flush=True)
    os._exit(0)


if __name__ == "__main__":
    if os.environ.get("BENCH_LOOP") == "asyncio":
        sys.modules["uvloop"] = None  # type: ignore[assignment]  # as if it were not installed
    run(Controller(Website, reconcile), arguments=())
