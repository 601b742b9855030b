"""Measures our cache and other Python clients that list and watch, against the same server. Run by `make bench-cache`.

Every client is a process of its own on a core of its own, with the server on the other; the server is ours, plain
HTTP, filled with the same objects. For each client: CPU time per listed and cached object and per watch event that
reached its cache, resident memory per cached object, and the longest time for which its event loop was blocked.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from apiserver_load import CORES, SOURCE, TOKEN

HERE = Path(__file__).parent
CLIENTS = HERE.parent / ".venv-clients"
PEERS = ("lightkube", "kubernetes", "kopf", "kr8s")
PATIENCE = 900


class Load(NamedTuple):
    """The load of one client: how many objects it holds and how many events it receives."""

    kind: str
    count: int
    events: int


class Result(NamedTuple):
    """The measurements, per object and per event."""

    list_us: float
    kib: float
    list_stall_ms: float
    event_us: float
    watch_stall_ms: float
    events_per_second: float


@contextmanager
def serving(kind: str, count: int) -> Iterator[tuple[int, Callable[[int], None]]]:
    """A filled server, and its command channel."""
    run = [sys.executable, str(HERE / "cache_server.py"), kind, str(count)]
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    process = subprocess.Popen(run, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        port = json.loads(process.stdout.readline())["port"]
        pin(process.pid, CORES[:-1])

        def storm(events: int) -> None:
            process.stdin.write(f"storm {events}\n")  # type: ignore[union-attr]  # opened above
            process.stdin.flush()  # type: ignore[union-attr]

        yield port, storm
    finally:
        process.stdin.close()
        process.wait(60)


def pin(process: int, cores: list[int]) -> None:
    if cores:
        os.sched_setaffinity(process, cores)


def measure(client: str, load: Load) -> Result:
    """One client in one process, from its first list to its last event."""
    python = sys.executable if client.startswith("levelset") else str(CLIENTS / client / "bin/python")
    script = HERE / "cache_peers" / f"{client.split(maxsplit=1)[0]}_peer.py"
    with serving(load.kind, load.count) as (port, storm):
        run = [python, str(script), load.kind, str(load.count), str(load.events), str(port), TOKEN]
        environment = os.environ | {"PYTHONPATH": f"{SOURCE}{os.pathsep}{HERE}"}
        process = subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        pin(process.pid, CORES[-1:] if len(CORES) > 1 else [])
        report = follow(process, lambda: storm(load.events))
    if "watched" not in report:
        error = process.stderr.read() if process.stderr else ""
        raise SystemExit(f"{client} on {load.kind} did not finish:\n{error[-2000:]}")
    listed, watched = report["listed"], report["watched"]
    return Result(
        listed["cpu"] / listed["number"] * 1e6,
        listed["memory"] / listed["number"] / 1024,
        listed["stall"] * 1e3,
        watched["cpu"] / watched["number"] * 1e6,
        watched["stall"] * 1e3,
        watched["number"] / watched["cpu"],
    )


def start(client: str, load: Load, port: int) -> "subprocess.Popen[str]":
    """The client's process, on a core of its own."""
    python = sys.executable if client == "levelset" else str(CLIENTS / client / "bin/python")
    script = HERE / "cache_peers" / f"{client}_peer.py"
    run = [python, str(script), load.kind, str(load.count), str(load.events), str(port), TOKEN]
    environment = os.environ | {"PYTHONPATH": f"{SOURCE}{os.pathsep}{HERE}"}
    process = subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    pin(process.pid, CORES[-1:] if len(CORES) > 1 else [])
    return process


def follow(process: "subprocess.Popen[str]", begin: Callable[[], None]) -> dict[str, Any]:
    report: dict[str, Any] = {}
    until = time.monotonic() + PATIENCE
    try:
        assert process.stdout is not None
        for line in process.stdout:
            phase = json.loads(line)
            report[phase["phase"]] = phase
            if phase["phase"] == "watching":
                begin()
            if time.monotonic() > until:
                break
        process.wait(30)
    finally:
        process.kill()
    return report


def index_growth() -> None:
    """The cost of adding an index to a full store, for two sizes."""
    print(
        "\n#### An index added to a full store\n\n| objects | by label, us/object | by a function of the typed object |"
    )
    print("|---|---|---|")
    for count in (25_000, 100_000):
        with serving("Website", count) as (port, storm):
            report = follow(start("levelset", Load("Website", count, 100), port), lambda: storm(100))
        each = [report[f"indexed by {how}"]["cpu"] / count * 1e6 for how in ("label", "function")]
        print(f"| {count:,} | {each[0]:.2f} | {each[1]:.2f} |")


def table(title: str, rows: list[tuple[str, Load, Result]]) -> None:
    print(f"\n#### {title}\n")
    print("| client | objects | list us/object | KiB/object | list stall ms | watch us/event | watch stall ms |")
    print("|---|---|---|---|---|---|---|")
    for client, load, found in rows:
        print(
            f"| {client} | {load.count:,} | {found.list_us:.1f} | {found.kib:.2f} | {found.list_stall_ms:.0f} "
            f"| {found.event_us:.1f} | {found.watch_stall_ms:.0f} |"
        )
    ours, peers = rows[0][2], [found for client, _, found in rows if client != "levelset"]
    if peers:
        best = min(one.list_us for one in peers), min(one.event_us for one in peers), min(one.kib for one in peers)
        print(
            f"\nagainst the best peer in each: {best[0] / ours.list_us:.1f} times per listed object, "
            f"{best[1] / ours.event_us:.1f} times per event, {best[2] / ours.kib:.1f} times less memory"
        )


def installed() -> tuple[str, ...]:
    """The peers that are installed, each in its own environment; prints why one is missing."""
    from tests.clients.environments import find_python

    found = {name: find_python(name) for name in PEERS}
    for name, client in found.items():
        if client.failure:
            print(f"{name} is left out: {client.failure}", file=sys.stderr)
    return tuple(name for name, client in found.items() if not client.failure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a twentieth of it, to see that it works")
    parser.add_argument("--alone", action="store_true", help="levelset only")
    options = parser.parse_args()
    scale = 20 if options.quick else 1
    peers = () if options.alone else installed()
    for kind, count, events, fewer in (("Pod", 2_000, 20_000, 2_000), ("Website", 100_000, 100_000, 5_000)):
        load = Load(kind, max(count // scale, 100), max(events // scale, 100))
        rows = [("levelset", load, measure("levelset", load))]
        for peer in peers:
            # The slow ones are measured on fewer objects and events: their cost per object does not decrease.
            slow = load if peer == "lightkube" else Load(kind, min(load.count, fewer), min(load.events, 2_000))
            rows.append((peer, slow, measure(peer, slow)))
        table(f"{kind}: {count:,} objects, {events:,} events", rows)
    index_growth()


if __name__ == "__main__":
    main()
