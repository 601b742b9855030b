"""Measures what a recording costs an operator, how large it is, and whether its replays are all the same.

`python benchmarks/recording.py` runs the operator of `make bench-loop` on a core of its own, with the server on the
other. One process takes all turns, with the recording switched off and on: two processes differ by more than a
recording costs, and the speed of a machine changes from second to second. So turns are many and short, in both orders
by turns, and what counts is the sum of all of them; the interval in which it would be in nine of ten such measurements
is that of samples of the pairs. In each turn there are so many new objects; CPU time includes that of the thread that
writes, until all is written. With `chrt -r 10` in front, other programs interrupt the operator less. If valgrind is
installed, instructions in user space are counted by turns in the same way: they hardly depend on what else runs. `make
bench-loop` prints both (`--cost`).

Then it records a run from its start, and replays that again and again, also with the other Pythons that are named by
--python.
"""

import argparse
import json
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from loop import ENVIRONMENT, HERE, finish, read, say, serving, spawn, work

PEER = HERE / "loop_peers" / "levelset_peer.py"
SWITCHED = HERE / "loop_peers" / "switched_peer.py"


def record(path: Path, count: int) -> None:
    """Records a whole run of the operator."""
    work((sys.executable, str(PEER), "owns", f"record={path}"), count)


class Turns:
    """The turns of one operator process, with the recording off and on."""

    def __init__(self, server: "subprocess.Popen[str]", operator: "subprocess.Popen[str]") -> None:
        self._server, self._operator = server, operator

    def take(self, count: int, *, is_recorded: bool) -> "Spent":
        """The CPU microseconds per object of one turn."""
        self._send("on" if is_recorded else "off")
        before = self._send("cpu")
        say(self._server, f"more {count}")
        read(self._server, "right")
        after = self._send("cpu")
        return Spent(*((b - a) / count * 1e6 for a, b in zip(before, after, strict=True)))

    def _send(self, command: str) -> "Spent":
        say(self._operator, command)
        report = read(self._operator, command)
        return Spent(report["cpu"], report["loop"])


class Spent(NamedTuple):
    """CPU time: of the process, and of the thread of its event loop."""

    all: float
    loop: float


def compare(count: int, turns: int, path: Path) -> None:
    """Prints the cost of a recording, from so many pairs of turns."""
    spent: dict[bool, list[Spent]] = {False: [], True: []}
    with serving(0) as (server, port):
        operator = spawn(sys.executable, str(SWITCHED), str(path), last=True, server=f"http://127.0.0.1:{port}")
        read(operator, "started")
        measured = Turns(server, operator)
        for is_recorded in (False, True):
            measured.take(count, is_recorded=is_recorded)  # to warm up
        for number in range(turns):
            for is_recorded in (False, True) if number % 2 else (True, False):
                spent[is_recorded].append(measured.take(count, is_recorded=is_recorded))
            words = f"{spent[False][-1].all:.0f} us/object plain, {spent[True][-1].all:.0f} recorded"
            print(words, file=sys.stderr, flush=True)
        finish(operator)
    plain, recorded = [one.all for one in spent[False]], [one.all for one in spent[True]]
    ratios = sorted(b / a - 1 for a, b in zip(plain, recorded, strict=True))
    low, high = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
    ordered = f"medians {statistics.median(plain):.0f} and {statistics.median(recorded):.0f} us of CPU per object"
    print(f"{ordered}; median of the ratios {statistics.median(ratios):+.1%}, quartiles {low:+.1%} and {high:+.1%}")
    loops = [statistics.median(one.loop for one in spent[is_recorded]) for is_recorded in (False, True)]
    print(
        f"of it the event loop's thread: medians {loops[0]:.0f} and {loops[1]:.0f}; least {min(plain):.0f} and {min(recorded):.0f} in all"
    )
    least, most = interval(plain, recorded)
    total = sum(recorded) / sum(plain) - 1
    print(f"{turns} pairs of turns; sum of all {total:+.1%}, nine of ten times {least:+.1%} to {most:+.1%}", flush=True)


def interval(plain: list[float], recorded: list[float]) -> tuple[float, float]:
    """The range of the cost in nine of ten samples of so many pairs, drawn from these."""
    draw, pairs = random.Random(1), list(zip(plain, recorded, strict=True))
    drawn = [[*zip(*draw.choices(pairs, k=len(pairs)), strict=True)] for _ in range(1000)]
    costs = sorted(sum(after) / sum(before) - 1 for before, after in drawn)
    return costs[50], costs[-51]


def count_instructions(count: int, turns: int, path: Path) -> None:
    """Prints the instructions in user space that a recording costs, from so many pairs of turns under callgrind."""
    if shutil.which("valgrind") is None or shutil.which("vgdb") is None:
        print("instructions are not counted: valgrind is not installed", file=sys.stderr)
        return
    output = path.with_name("callgrind")
    tool = ("valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={output}")
    spent: dict[bool, list[float]] = {False: [], True: []}
    with serving(0) as (server, port):
        command = (*tool, sys.executable, str(SWITCHED), str(path), "uncompressed")
        operator = spawn(*command, last=True, server=f"http://127.0.0.1:{port}")
        read(operator, "started")
        measured = Turns(server, operator)
        for number in range(-1, turns):  # the first one to warm up
            for is_recorded in (False, True) if number % 2 else (True, False):
                measured.take(count, is_recorded=is_recorded)
                found = dumped(operator.pid, output)
                if number >= 0:
                    spent[is_recorded].append(found / count)
        finish(operator)
    plain, recorded = (statistics.mean(spent[is_recorded]) for is_recorded in (False, True))
    ranges = [f"{min(one):,.0f} to {max(one):,.0f}" for one in (spent[False], spent[True])]
    print(
        f"instructions in user space per object: {plain:,.0f} plain ({ranges[0]}), {recorded:,.0f} recorded ({ranges[1]})"
    )
    print(
        f"{turns} pairs of {count} objects under callgrind, no block compressed: {recorded / plain - 1:+.1%}",
        flush=True,
    )


def dumped(process: int, output: Path) -> int:
    """The instructions of a process under callgrind since this was called last."""
    subprocess.run(["vgdb", f"--pid={process}", "dump"], check=True, capture_output=True)
    [file] = output.parent.glob(f"{output.name}.*")
    total = re.search(r"^totals: (\d+)", file.read_text(), re.MULTILINE)
    file.unlink()
    assert total is not None, "a whole dump"
    return int(total[1])


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
    parser.add_argument("--count", type=int, default=100, help="objects of a turn")
    parser.add_argument("--turns", type=int, default=300, help="pairs of turns")
    parser.add_argument("--replayed", type=int, default=5_000, help="objects of the run that is replayed")
    parser.add_argument("--replays", type=int, default=20)
    parser.add_argument("--python", action="append", default=[], help="another Python with levelset's dependencies")
    parser.add_argument("--cost", action="store_true", help="only what a recording costs")
    parser.add_argument("--replay", metavar="FILE", help="only replays this recording, and prints a line of JSON")
    options = parser.parse_args()
    if options.replay:
        print(json.dumps(replay_all(options.replay, options.replays)))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.levelset"
        compare(options.count, options.turns, path)
        count_instructions(options.count, max(1, options.turns // 40), path)
        if options.cost:
            return
        record(path, options.replayed)
        print(json.dumps(describe(path)), flush=True)
        for python in [sys.executable, *options.python]:
            command = [python, __file__, "--replay", str(path), "--replays", str(options.replays)]
            print(subprocess.run(command, check=True, capture_output=True, text=True, env=ENVIRONMENT).stdout, end="")


if __name__ == "__main__":
    main()
