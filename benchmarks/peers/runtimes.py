"""Measures levelset, controller-runtime and kube-rs, and clients for Python, on the same work and against one server.

    make bench-runtimes                                     # the full form, some 20 minutes
    make bench-runtimes BENCH="--quick"                     # a small form, to see that it works
    make bench-runtimes BENCH="--work operator,start"       # some of the work; the other figures stay

Every program is a process of its own on one core, the server (`server.py`) on the other. The programs take turns, in
an order that changes with each turn; the table has the median of the turns with the lowest and the highest. Figures are
saved in build/bench/runtimes.json, and `--write` writes the tables and the plot into benchmarks/README.md.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src"), str(ROOT / "benchmarks")]

from figures import Figures  # noqa: E402 - beside this file
from programs import HERE, Absent, Peer, build_go, build_rust, levelset, python_client  # noqa: E402
from report import show, write  # noqa: E402

CORES: Final = sorted(os.sched_getaffinity(0))
PATIENCE: Final = 300.0
CONCURRENCY: Final = "32"
SAVED: Final = ROOT / "build" / "bench" / "runtimes.json"


@dataclass(frozen=True)
class Sizes:
    """How much work there is, and how often."""

    turns: int
    websites: int
    pods: int
    storm: int
    rounds: int
    burst: int
    paced: int
    """At 200 in a second; a tenth of it at 20 in a second."""


FULL: Final = Sizes(turns=5, websites=20_000, pods=5_000, storm=10_000, rounds=100_000, burst=2_000, paced=1_000)
QUICK: Final = Sizes(turns=1, websites=2_000, pods=500, storm=1_000, rounds=20_000, burst=200, paced=200)
PYTHONS: Final = Sizes(turns=3, websites=10_000, pods=2_000, storm=5_000, rounds=100_000, burst=1_000, paced=600)
# Several of the clients take milliseconds where runtimes take microseconds: less of the same work, for levelset too.
FULL_PYTHON: Final = Sizes(turns=5, websites=2_000, pods=500, storm=2_000, rounds=0, burst=300, paced=400)
QUICK_PYTHON: Final = Sizes(turns=1, websites=300, pods=100, storm=300, rounds=0, burst=50, paced=100)


class Process:
    """A program under measurement, or the server: lines in, lines of JSON out."""

    def __init__(self, command: Sequence[str], environment: dict[str, str], *, last: bool) -> None:
        cores = CORES[-1:] if last else CORES[:-1] or CORES
        self._errors = TemporaryFile("w+")  # noqa: SIM115 - closed by `end`
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=os.environ | environment,
            text=True,
            # Before it starts: Go and tokio have as many threads as there are cores then.
            preexec_fn=lambda: os.sched_setaffinity(0, cores),  # noqa: PLW1509 - there are no threads here
        )

    def say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def read(self, phase: str | None = None) -> dict[str, Any]:
        """The next line, or the next one about a phase."""
        assert self._process.stdout is not None
        timer = threading.Timer(PATIENCE, self._process.kill)
        timer.start()
        try:
            for line in self._process.stdout:
                if not line.startswith("{"):
                    continue
                report: dict[str, Any] = json.loads(line)
                if phase in {None, report.get("phase")}:
                    return report
        finally:
            timer.cancel()
        self._errors.seek(0)
        last = "".join(self._errors.readlines()[-1:]).strip()
        raise Absent(f"it ended before it said {phase or 'anything'}: {last}")

    def command(self, line: str, phase: str | None = None) -> dict[str, Any]:
        self.say(line)
        return self.read(phase)

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(3)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()


class Bench:
    """The server, and the work that is done against it by one peer at a time."""

    def __init__(self, server: Process, kubeconfig: Path) -> None:
        self.server = server
        self._kubeconfig = kubeconfig

    @contextmanager
    def running(self, peer: Peer, *words: str) -> Iterator[Process]:
        environment = {"KUBECONFIG": str(self._kubeconfig), **peer.environment}
        process = Process(peer.command_of(list(words)), environment, last=True)
        try:
            yield process
        finally:
            process.end()

    def websites(self, peer: Peer, sizes: Sizes) -> dict[str, float]:
        self.server.command(f"fill websites {sizes.websites}")
        with self.running(peer, "websites") as process:
            synced, read = process.read("synced"), process.read("read each")
        each = 1e6 / sizes.websites
        found = {"sync website us": synced["cpu"] * each, "sync website KiB": synced["memory"] / sizes.websites / 1024}
        if read["number"]:
            assert read["number"] == sizes.websites, read
            found["list and read website us"] = (synced["cpu"] + read["cpu"]) * each
        return found

    def pods(self, peer: Peer, sizes: Sizes) -> dict[str, float]:
        self.server.command(f"fill pods {sizes.pods}")
        names = {"read all": "read pod us", "read again": "read pod again us", "read uncopied": "read pod uncopied us"}
        with self.running(peer, "pods") as process:
            synced = process.read("synced")
            phases = [process.read("read all"), process.read("read again")]
            if peer.name == "controller-runtime":
                phases.append(process.read("read uncopied"))
        each = 1e6 / sizes.pods
        found = {"sync pod us": synced["cpu"] * each, "sync pod KiB": synced["memory"] / sizes.pods / 1024}
        for phase in phases:
            if phase["number"]:
                assert phase["number"] == sizes.pods, phase
                found[names[phase["phase"]]] = phase["cpu"] * each
        return found

    def storm(self, peer: Peer, sizes: Sizes) -> dict[str, float]:
        """The first storm of three warms up; the second and the third are measured."""
        self.server.command(f"fill websites {sizes.storm}")
        spent = 0.0
        with self.running(peer, "storm", str(sizes.storm), CONCURRENCY) as process:
            process.read("watching")
            for number in range(3):
                process.command("storm", "begun")
                self.server.say("storm")
                watched = process.read("watched")
                self.server.read()
                spent += watched["cpu"] if number else 0.0
        return {"storm us": spent / 2 / sizes.storm * 1e6}

    def noop(self, peer: Peer, sizes: Sizes) -> dict[str, float]:
        found: dict[str, float] = {}
        for keys in (1_000, 20_000):
            self.server.command("clear")
            self.server.command(f"fill websites {keys}")
            rounds = max(sizes.rounds // keys, 2)
            with self.running(peer, "noop", str(keys), str(rounds), CONCURRENCY) as process:
                reconciled = process.read("reconciled")
            found[f"noop {keys}"] = reconciled["number"] / reconciled["cpu"]
        return found

    def operator(self, peer: Peer, sizes: Sizes) -> dict[str, float]:
        found: dict[str, float] = {}
        with self.running(peer, "operator", CONCURRENCY) as process:
            process.read("started")
            self.server.command("burst 100")
            work = {"burst": (f"burst {sizes.burst}", sizes.burst), "200/s": (f"pace {sizes.paced} 200", sizes.paced)}
            if sizes.rounds:
                work["20/s"] = (f"pace {sizes.paced // 10} 20", sizes.paced // 10)
            for name, (command, count) in work.items():
                before = process.command("cpu", "cpu")["cpu"]
                report = self.server.command(command)
                found[f"{name} us"] = (process.command("cpu", "cpu")["cpu"] - before) / count * 1e6
                found[f"{name} writes"] = report["writes"]
                found[f"{name} requests"] = sum(report["requests"].values())
                found[f"{name} p99 ms" if name != "burst" else "burst s"] = (
                    report["p99"] if name != "burst" else report["seconds"]
                )
        return found

    def start(self, peer: Peer, _: Sizes) -> dict[str, float]:
        self.server.command("fill websites 1")
        with self.running(peer, "start") as process:
            started = process.read("started")
        return {"start ms": started["cpu"] * 1e3, "start MB": started["memory"] / 1e6}


MEASURES: Final = {
    "websites": ("sync website us", "sync website KiB", "list and read website us"),
    "pods": ("sync pod us", "sync pod KiB", "read pod us", "read pod again us", "read pod uncopied us"),
    "storm": ("storm us",),
    "noop": ("noop 1000", "noop 20000"),
    "operator": tuple(
        f"{name} {unit}" for name in ("burst", "200/s", "20/s") for unit in ("us", "s", "p99 ms", "writes", "requests")
    ),
    "start": ("start ms", "start MB"),
}
WORK: Final = tuple(MEASURES)
PYTHON_WORK: Final = ("websites", "pods", "storm", "operator")
CLIENTS: Final = ("kopf", "lightkube", "kubernetes", "kubernetes_asyncio", "kr8s", "cloudcoil")


@contextmanager
def serving() -> Iterator[Bench]:
    with TemporaryDirectory() as folder:
        kubeconfig = Path(folder, "config")
        command = [sys.executable, str(HERE / "server.py"), str(kubeconfig)]
        server = Process(command, {"PYTHONPATH": str(ROOT / "src")}, last=False)
        try:
            server.read()
            yield Bench(server, kubeconfig)
        finally:
            server.end()


def take_turns(bench: Bench, peers: Sequence[Peer], work: str, sizes: Sizes, figures: Figures) -> None:
    """Measures one kind of work, by turns; a peer that fails is left out from then on, with the reason."""
    failed: set[str] = set()
    turns = sizes.turns * 2 if work == "start" else sizes.turns
    for turn in range(turns):
        at = turn % len(peers)
        for peer in (*peers[at:], *peers[:at]):
            if peer.name in failed:
                continue
            bench.server.command("clear")
            measure: Callable[[Peer, Sizes], dict[str, float]] = getattr(bench, work)
            began = time.perf_counter()
            try:
                found = measure(peer, sizes)
            except Absent as error:
                failed.add(peer.name)
                figures.leave_out(peer.name, f"{work}: {error}")
                print(f"{peer.name} is left out of {work}: {error}", file=sys.stderr)
                continue
            figures.add(peer.name, found)
            shown = ", ".join(f"{name} {value:,.4g}" for name, value in found.items())
            print(f"{time.perf_counter() - began:5.1f} s  {work}, {peer.name}: {shown}", file=sys.stderr, flush=True)


def find(makers: dict[str, Callable[[], Peer]], wanted: Sequence[str], figures: Figures) -> list[Peer]:
    """The peers that can be had; prints why others cannot."""
    found: list[Peer] = []
    for name, make in makers.items():
        if wanted and name not in wanted:
            continue
        try:
            peer = make()
        except Absent as error:
            figures.leave_out(name, str(error))
            print(f"{name} is left out: {error}", file=sys.stderr)
            continue
        figures.versions[peer.name] = peer.version
        found.append(peer)
    return found


def measure_all(options: argparse.Namespace, tables: dict[str, Figures], saved: Path) -> None:
    wanted = options.peers.split(",") if options.peers else []
    chosen = options.work.split(",") if options.work else []
    runtimes = {"levelset": levelset, "controller-runtime": build_go, "kube-rs": build_rust}
    clients: dict[str, Callable[[], Peer]] = {"levelset": levelset}
    for name in CLIENTS:
        script = "kopf_peer.py" if name == "kopf" else "client_peer.py"
        clients[name] = lambda name=name, script=script: python_client(name, script)  # type: ignore[misc]
    sizes = [QUICK, QUICK_PYTHON] if options.quick else [FULL, FULL_PYTHON]
    if options.turns:
        sizes = [replace(one, turns=options.turns) for one in sizes]
    groups = (("runtimes", runtimes, WORK, sizes[0]), ("clients", clients, PYTHON_WORK, sizes[1]))
    with serving() as bench:
        for name, makers, works, size in groups:
            if options.group and options.group != name:
                continue
            figures = tables[name]
            peers = find(makers, wanted, figures)
            for work in works:
                if not chosen or work in chosen:
                    if not options.more:
                        figures.forget([peer.name for peer in peers], MEASURES[work])
                    take_turns(bench, peers, work, size, figures)
                    Figures.save(saved, tables)  # the next one may be interrupted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of it, one turn, in less than three minutes")
    parser.add_argument("--group", choices=["runtimes", "clients"], help="only one of the tables")
    parser.add_argument("--peers", help="only these, by name and separated by commas")
    parser.add_argument("--work", help=f"only some of {','.join(WORK)}")
    parser.add_argument("--turns", type=int, help="how often each is measured: 5, or 1 with --quick")
    parser.add_argument("--more", action="store_true", help="add the turns to those that are saved")
    parser.add_argument("--report", action="store_true", help="measure nothing, print the figures that are saved")
    parser.add_argument("--write", action="store_true", help="write the tables into benchmarks/README.md, and the plot")
    options = parser.parse_args()
    saved = SAVED.with_stem("runtimes-quick") if options.quick else SAVED
    tables = Figures.load(saved, ("runtimes", "clients"))
    if not options.report:
        measure_all(options, tables, saved)
    print(show(tables))
    if options.write:
        write(tables)


if __name__ == "__main__":
    main()
