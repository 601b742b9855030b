"""Measures what a recording costs an operator, how large it is, and whether its replays are all the same.

`python benchmarks/recording.py` runs the operator of `make bench-loop` by turns without and with a recording, each on a
core of its own; CPU time includes that of the thread that writes. Then it replays the last recording again and again,
also with the other Pythons that are named by --python.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from loop import ENVIRONMENT, HERE, work

PEER = HERE / "loop_peers" / "levelset_peer.py"


def turn(count: int, *arguments: str) -> float:
    """The CPU microseconds per object of one run of the operator."""
    return work((sys.executable, str(PEER), "owns", *arguments), count)["cpu"] / count * 1e6


def describe(path: Path) -> dict[str, float]:
    from levelset.runtime.recording import read_recording
    from levelset.runtime.recording.entries import Batch, Begin, Request

    entries = read_recording(path)
    events = sum(event.code in {1, 3, 4} for one in entries if isinstance(one, Batch) for event in one.events)
    return {
        "entries": len(entries),
        "events": events,
        "reconciles": sum(isinstance(one, Begin) for one in entries),
        "requests": sum(isinstance(one, Request) for one in entries),
        "bytes_per_event": path.stat().st_size / max(1, events),
    }


def replay_all(path: str, times: int) -> dict[str, object]:
    """Replays a recording several times in this process."""
    from levelset.testing.replay import replay
    from loop_peers.levelset_operator import controllers

    began = time.perf_counter()
    results = [replay(path, controllers()) for _ in range(times)]
    differing = [str(one.difference) for one in results if one.difference is not None]
    return {
        "python": sys.version.split()[0],
        "reconciles": results[0].reconciles,
        "requests": results[0].requests,
        "digests": sorted({one.digest for one in results}),
        "differences": differing[:1],
        "seconds": (time.perf_counter() - began) / times,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5_000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--replays", type=int, default=20)
    parser.add_argument("--python", action="append", default=[], help="another Python with levelset's dependencies")
    parser.add_argument("--replay", metavar="FILE", help="only replays this recording, and prints a line of JSON")
    options = parser.parse_args()
    if options.replay:
        print(json.dumps(replay_all(options.replay, options.replays)))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.levelset"
        plain, recorded = list[float](), list[float]()
        for _ in range(options.turns):
            plain.append(turn(options.count))
            recorded.append(turn(options.count, f"record={path}"))
            print(f"{plain[-1]:.0f} us/object plain, {recorded[-1]:.0f} recorded", flush=True)
        ratio = statistics.median(recorded) / statistics.median(plain)
        print(f"median {statistics.median(plain):.0f} and {statistics.median(recorded):.0f}: {ratio - 1:+.1%}")
        print(json.dumps(describe(path)), flush=True)
        for python in [sys.executable, *options.python]:
            command = [python, __file__, "--replay", str(path), "--replays", str(options.replays)]
            print(subprocess.run(command, check=True, capture_output=True, text=True, env=ENVIRONMENT).stdout, end="")


if __name__ == "__main__":
    main()
