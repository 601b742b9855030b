"""Measures the reconcile loop: cost and latency of a reconcile, and the speed of an operator, compared with kopf.

Run by `make bench-loop`. Operators are processes of their own on a core of their own, with the server on the other; the
server checks when all is done, and counts the writes.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from apiserver_load import CORES, SOURCE, TOKEN

HERE = Path(__file__).parent
CLIENTS = HERE.parent / ".venv-clients"
ENVIRONMENT = os.environ | {"PYTHONPATH": f"{SOURCE}{os.pathsep}{HERE}"}
PATIENCE = 1200.0
STORMS = 9


def are_there(*peers: str) -> bool:
    """Whether the peers are installed, each in an environment of its own; prints why not."""
    from tests.clients.environments import find_python

    found = [find_python(peer) for peer in peers]
    for one in found:
        if one.failure:
            print(f"{one.name} is left out: {one.failure}", file=sys.stderr)
    return not any(one.failure for one in found)


def spawn(*command: str, last: bool, server: str = "") -> "subprocess.Popen[str]":
    """A process on a core of its own, controlled through stdin and stdout."""
    env = ENVIRONMENT | {"PEER_SERVER": server, "PEER_TOKEN": TOKEN}
    if "walkthrough" in command[-1]:
        env["PYTHONPATH"] += f"{os.pathsep}{packages_of('kubernetes')}"
    errors = subprocess.DEVNULL if "kopf" in command[0] else None  # its log
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=env
    )
    if len(CORES) > 1:
        os.sched_setaffinity(process.pid, CORES[-1:] if last else CORES[:-1])
    return process


def packages_of(peer: str) -> Path:
    """The site-packages of an environment, for use in another one."""
    return next((CLIENTS / peer / "lib").glob("python*/site-packages"))


@contextmanager
def serving(count: int) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    process = spawn(sys.executable, str(HERE / "loop_server.py"), str(count), last=False)
    try:
        yield process, read(process)["port"]
    finally:
        finish(process)


def finish(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()


def read(process: "subprocess.Popen[str]", phase: str | None = None) -> dict[str, Any]:
    """The next line, or the next one about a phase."""
    assert process.stdout is not None
    timer = threading.Timer(PATIENCE, process.kill)
    timer.start()
    try:
        for line in process.stdout:
            report: dict[str, Any] = json.loads(line)
            if phase in {None, report.get("phase")}:
                return report
    finally:
        timer.cancel()
    raise SystemExit(f"{process.args} ended before it said {phase or 'anything'}")


def say(process: "subprocess.Popen[str]", line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def inside(what: str) -> dict[str, float]:
    process = spawn(sys.executable, str(HERE / "loop_inside.py"), what, last=True)
    report = read(process)
    finish(process)
    return report


def events(count: int) -> list[float]:
    """So many changes of each object, one after the other: events for each second of CPU time, by storm.

    Each storm changes every object once, so that none of its events can be merged with another.
    """
    with serving(count) as (server, port):
        peer = HERE / "loop_peers" / "events_peer.py"
        process = spawn(sys.executable, str(peer), str(port), TOKEN, str(count), str(STORMS), last=True)
        read(process, "watching")
        say(server, f"storm {STORMS * count}")
        storms = [read(process, "watched") for _ in range(STORMS)]
        finish(process)
    return sorted(report["number"] / report["cpu"] for report in storms)


def operators() -> dict[str, tuple[str, ...]]:
    """The operators and their commands: kopf three times, levelset twice."""
    ours, theirs = HERE / "loop_peers" / "levelset_peer.py", HERE / "loop_peers" / "kopf_peer.py"
    taught = HERE / "loop_peers" / "kopf_walkthrough_peer.py"
    programs = CLIENTS / "kopf" / "bin"
    run = (str(programs / "kopf"), "run", "--standalone", "--all-namespaces")
    return {
        "levelset": (sys.executable, str(ours)),
        "levelset, its children watched": (sys.executable, str(ours), "owns"),
        "kopf, at its cheapest": (str(programs / "python"), str(theirs)),
        "kopf, by `kopf run`": (*run, str(theirs)),
        "kopf, as its walkthrough teaches it": (*run, str(taught)),
    }


def work(command: tuple[str, ...], count: int) -> dict[str, Any]:
    """Each of so many objects gets a child and a status; wall seconds, and CPU seconds of the operator."""
    with serving(count) as (server, port):
        process = spawn(*command, last=True, server=f"http://127.0.0.1:{port}")
        read(process, "started")
        say(server, "go")
        read(server, "right")
        say(process, "enough")
        cpu = read(process, "spent")["cpu"]
        report = read(server, "judged")
        process.terminate()
        finish(process)
    return report | {"cpu": cpu, "count": count}


def row(what: str, measured: str, goal: str) -> None:
    print(f"| {what} | {measured} | {goal} |", flush=True)


def work_rows(quick: bool, *, alone: bool) -> None:
    print("\n| operator | objects | seconds | us by the clock/object | us of CPU/object | writes/object | children |")
    print("|---|---|---|---|---|---|---|")
    found: dict[str, dict[str, Any]] = {}
    for who, command in operators().items():
        if who.startswith("kopf") and (alone or not are_there("kopf", "kubernetes")):
            continue
        report = found[who] = work(command, 500 if quick else 10_000)
        each = 1e6 / report["count"]
        print(
            f"| {who} | {report['count']:,} | {report['seconds']:.1f} | {report['seconds'] * each:.0f} | {report['cpu'] * each:.0f} "
            f"| {report['writes'] / report['count']:.2f} | {report['children']:,} |",
            flush=True,
        )
    ours = found["levelset"]
    for who, theirs in found.items():
        if who.startswith("kopf"):
            print(
                f"\nagainst {who}: {theirs['seconds'] / ours['seconds']:.1f} times by the clock, "
                f"{theirs['cpu'] / ours['cpu']:.1f} times in CPU (goal: 10)"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a twentieth of it, to see that it works")
    parser.add_argument("--alone", action="store_true", help="levelset only")
    options = parser.parse_args()
    print("| what | measured | goal |\n|---|---|---|")
    row("no-op reconciles, 1,000 keys", f"{inside('dispatch')['per_second']:,.0f}/s and core", ">= 250,000")
    storms = events(5_000 if options.quick else 100_000)
    row(
        "watch event to a reconcile with the typed object",
        f"{statistics.median(storms):,.0f}/s and core, the middle of {STORMS} storms ({storms[0]:,.0f} to {storms[-1]:,.0f})",
        ">= 60,000",
    )
    late = inside("latency")
    row(
        "event to reconcile at 1,000 events/s, in process",
        f"p50 {late['p50']:.2f} ms, p99 {late['p99']:.2f} ms, worst {late['worst']:.1f} ms",
        "p99 <= 5 ms",
    )
    queued = inside("memory")
    row("100,000 queued keys", f"{queued['bytes_per_key']:.0f} bytes/key, {queued['enqueue_us']:.2f} us to queue", "")
    work_rows(options.quick, alone=options.alone)
    print("\nwhat a recording costs the operator with its children watched (goal: at most 10 % more CPU):", flush=True)
    turns = 4 if options.quick else 100
    subprocess.run([sys.executable, str(HERE / "recording.py"), "--cost", "--turns", str(turns)], check=True)


if __name__ == "__main__":
    main()
