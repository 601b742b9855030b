"""levelset's API server on etcd against kube-apiserver on the same etcd, by turns: creates, lists, fan-out, start, stalls.

    python benchmarks/etcd.py [--quick]      # or: make bench-etcd

One etcd with its syncs on, of one member, has the objects of both servers, under different prefixes. kube-apiserver and
etcd are those of `scripts/kube_binaries.py`. Each measurement takes turns between the servers, several times, and the
best of each is compared. CPU time is that of the API servers without etcd.
"""

import argparse
import asyncio
import itertools
import json
import os
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from apiserver_clients import RequestSender, converse, to_bytes, watching

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from levelset.client.config.loader import load_config  # noqa: E402 - the tree that this file is in
from levelset.storage.etcd_client import EtcdClient, EtcdCredentials  # noqa: E402
from levelset.storage.etcd_messages import EncodedConditions  # noqa: E402
from tests.etcd.etcd_cluster import EtcdCluster, run_cluster  # noqa: E402
from tests.kube.kube_cluster import PROGRAMS, _run_apiserver  # noqa: E402

MAPS = "/api/v1/namespaces/{}/configmaps"
_numbers = itertools.count()
_HEADLINE = "| what | levelset | kube-apiserver | times, by the clock | times, by CPU time |"


def cpu_seconds(processes: Sequence[int]) -> float:
    """User and system time of these processes until now."""
    ticks = 0
    for pid in processes:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


@dataclass
class Server:
    """API servers behind one port, or several, and how to reach them."""

    name: str
    ports: Sequence[int]
    tls: ssl.SSLContext
    token: str
    processes: Sequence[int]
    started: float = 0.0
    """Seconds until it was ready, by its own word."""

    @property
    def cpu(self) -> float:
        """User and system time of all processes until now, in seconds."""
        return cpu_seconds(self.processes)

    @property
    def memory(self) -> float:
        """The resident memory of all processes, in MB."""
        found = [Path(f"/proc/{pid}/status").read_text() for pid in self.processes]
        return sum(int(text.partition("VmRSS:")[2].split()[0]) for text in found) / 1024


@dataclass(frozen=True)
class Result:
    """One run: how much was done in how much time, by the clock and by the CPU."""

    count: float
    seconds: float
    cpu: float

    @property
    def rate(self) -> float:
        return self.count / self.seconds

    @property
    def per_core(self) -> float:
        return self.count / max(self.cpu, 1e-6)


def run(server: Server, requests: Sequence[bytes], *, connections: int, expected: bytes) -> Result:
    """Sends requests over so many connections, spread over the ports."""
    left = iter(requests)
    ports = itertools.cycle(server.ports)
    senders = [RequestSender(next(ports), server.tls, left, expected) for _ in range(connections)]
    cpu, began = server.cpu, time.perf_counter()
    converse(senders)
    return Result(len(requests), time.perf_counter() - began, server.cpu - cpu)


def config_map(name: str) -> bytes:
    data = {"text": "x" * 700}
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}).encode()


def creates(server: Server, *, count: int, connections: int) -> Result:
    path = MAPS.format("default")
    names = [f"c{next(_numbers)}" for _ in range(count)]
    requests = [to_bytes("POST", path, config_map(name), token=server.token) for name in names]
    return run(server, requests, connections=connections, expected=b"201")


def lists(server: Server, *, count: int, query: str) -> Result:
    path = MAPS.format("full") + query
    return run(server, [to_bytes("GET", path, token=server.token)] * count, connections=1, expected=b"200")


def fan_out(server: Server, *, watchers: int, events: int) -> Result:
    """How many events arrive at so many watchers in a second, of creates on four connections."""
    namespace = f"fan-{next(_numbers)}"
    body = json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}).encode()
    create = [to_bytes("POST", "/api/v1/namespaces", body, token=server.token)]
    run(server, create, connections=1, expected=b"201")
    path = MAPS.format(namespace)
    requests = [to_bytes("POST", path, config_map(f"e{number}"), token=server.token) for number in range(events)]
    watch = f"{path}?watch=true&resourceVersion=0"
    with watching(server.ports[0], server.tls, watch, count=watchers, token=server.token) as crowd:
        left = iter(requests)
        senders = [RequestSender(server.ports[0], server.tls, left, b"201") for _ in range(4)]
        cpu, began = server.cpu, time.perf_counter()
        converse(senders, crowd, events=events)
        return Result(watchers * events, time.perf_counter() - began, server.cpu - cpu)


def by_turns(servers: Sequence[Server], measure: Callable[[Server], Result], *, turns: int) -> list[Result]:
    """The best result of each server by the clock, and by CPU time; the order changes with each turn."""
    found: dict[str, list[Result]] = {server.name: [] for server in servers}
    for turn in range(turns):
        for server in servers if turn % 2 == 0 else reversed(servers):
            found[server.name].append(measure(server))
    best: list[Result] = []
    for server in servers:
        results = found[server.name]
        clock, cpu = max(results, key=lambda one: one.rate), max(results, key=lambda one: one.per_core)
        best.append(Result(1.0, 1 / clock.rate, 1 / cpu.per_core))
    return best


def row(what: str, ours: Result, theirs: Result) -> None:
    clock, cpu = ours.rate / theirs.rate, ours.per_core / theirs.per_core
    shown = [f"{one.rate:,.0f}/s ({one.per_core:,.0f} per core-second)" for one in (ours, theirs)]
    print(f"| {what} | {shown[0]} | {shown[1]} | {clock:.2f} | {cpu:.2f} |", flush=True)


@contextmanager
def levelset(endpoints: str, folder: Path, *, workers: int = 1) -> Iterator[Server]:
    """`levelset serve` on this etcd, with workers or alone."""
    name = f"levelset-{workers}-{next(_numbers)}"
    kubeconfig = folder / f"{name}.kubeconfig"
    command = [sys.executable, "-c", "from levelset.cli.main import main; main()", "serve", "-o", "json"]
    command += ["--etcd", endpoints, "--kubeconfig", kubeconfig.name, "--secrets-key", "shared.key"]
    command += ["--workers", str(workers)]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, env=_environment())
    try:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        context = ssl.create_default_context(cadata=(load_config(kubeconfig).ca or b"").decode())
        line = next(one for one in kubeconfig.read_text().splitlines() if "token:" in one)
        token = line.partition("token:")[2].strip().strip("'")
        pids = [process.pid] if workers == 1 else _children(process.pid)
        yield Server(name, [int(ready["url"].rpartition(":")[2])], context, token, pids, ready["ready_ms"] / 1000)
    finally:
        process.terminate()
        process.wait(30)


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT / "src")}


def _children(parent: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(parent)], capture_output=True, text=True, check=True)
    return [int(line) for line in found.stdout.split()]


@contextmanager
def kube(endpoints: str, folder: Path, *, replicas: int = 1) -> Iterator[Server]:
    """kube-apiserver on this etcd; several have an authority each, so their certificates are not checked."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with ExitStack() as stack:
        running: list[Any] = []
        for number in range(replicas):
            place = folder / f"{replicas}-{number}" / "kube"  # the tokens are named after the last part
            place.mkdir(parents=True)
            run_one = contextmanager(_run_apiserver)
            running.append(stack.enter_context(run_one(PROGRAMS["kube-apiserver"], endpoints, place)))
        ports = [int(one.url.rpartition(":")[2]) for one in running]
        pids = [one.process.pid for one in running]
        yield Server(f"kube-{replicas}", ports, context, running[0].tokens["admin"], pids)


async def fill(endpoints: str, number: int, namespace: str, *, prefix: str = "/levelset") -> None:
    """Writes ConfigMaps straight into etcd, a hundred in a transaction."""
    client = EtcdClient(endpoints, EtcdCredentials(), timeout=30.0)
    await client.start()
    pairs = [
        (f"{prefix}/registry/core/configmaps/{namespace}/f{one:06}".encode(), _stored(namespace, one))
        for one in range(number)
    ]
    for start in range(0, number, 100):
        (key, value), *others = pairs[start : start + 100]
        await client.write(key, value, expected=None, conditions=EncodedConditions((), others, ()))
    await client.close()


def _stored(namespace: str, number: int) -> bytes:
    metadata = {
        "name": f"f{number:06}",
        "namespace": namespace,
        "uid": f"00000000-0000-4000-8000-{number:012x}",
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": "x" * 700}}
    return json.dumps(tree, separators=(",", ":")).encode()


async def bare_writes(endpoints: str, *, count: int, writers: int) -> float:
    """How many transactions a second etcd does for a client that does nothing else: no server on it makes more creates."""
    client = EtcdClient(endpoints, EtcdCredentials(), timeout=30.0)
    await client.start()
    keys = iter([f"/bare/{next(_numbers)}".encode() for _ in range(count)])

    async def write() -> None:
        for key in keys:
            await client.write(key, bytes(1_000), expected=0)

    await client.get(b"/bare/")  # it connects
    began = time.perf_counter()
    await asyncio.gather(*(write() for _ in range(writers)))
    taken = time.perf_counter() - began
    await client.close()
    return count / taken


def show_limit(endpoints: str, *, many: int, turns: int) -> None:
    """What etcd itself does, by the clock."""
    for writers, count in ((1, many // 10), (32, many)):
        best = max(asyncio.run(bare_writes(endpoints, count=count, writers=writers)) for _ in range(turns))
        print(f"etcd alone, a bare loop of transactions, {writers} at a time: {best:,.0f}/s")


def show_shares(servers: Sequence[Server], etcd: Sequence[int], *, count: int) -> None:
    """The CPU time of a create: that of the API server, of etcd, and of this load generator, which share the cores."""
    for connections in (1, 32):
        for server in servers:
            before = (server.cpu, cpu_seconds(etcd), time.process_time())
            done = creates(server, count=count, connections=connections)
            after = (server.cpu, cpu_seconds(etcd), time.process_time())
            api, storage, load = [(now - then) / count * 1e6 for now, then in zip(after, before, strict=True)]
            parts = f"API server {api:.0f}, etcd {storage:.0f}, load generator {load:.0f}"
            print(
                f"us of CPU per create, {connections} connection(s), {server.name}: {parts}; by the clock {1e6 / done.rate:.0f}"
            )


def prepare_lists(ours: Server, theirs: Server, endpoints: str, number: int) -> None:
    """Makes a namespace with so many ConfigMaps on both servers."""
    body = json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "full"}}).encode()
    for server in (ours, theirs):
        made = [to_bytes("POST", "/api/v1/namespaces", body, token=server.token)]
        run(server, made, connections=1, expected=b"201")
    asyncio.run(fill(endpoints, number, "full"))
    requests = [
        to_bytes("POST", MAPS.format("full"), config_map(f"f{one:06}"), token=theirs.token) for one in range(number)
    ]
    run(theirs, requests, connections=32, expected=b"201")


def compare(cluster: EtcdCluster, folder: Path, *, quick: bool) -> None:
    """One server each, and then two each."""
    endpoints, etcd = cluster.endpoints, [one.pid for one in cluster.members]
    turns, many = (2, 600) if quick else (5, 3_000)
    with levelset(endpoints, folder) as ours, kube(endpoints, folder) as theirs:
        pair = (ours, theirs)
        for connections, count in ((1, many // 10), (32, many)):
            best = by_turns(pair, lambda one, c=connections, n=count: creates(one, count=n, connections=c), turns=turns)
            row(f"creates, {connections} connection(s)", *best)
        show_shares(pair, etcd, count=many)
        watchers, events = (50, 100) if quick else (200, 300)
        best = by_turns(pair, lambda one: fan_out(one, watchers=watchers, events=events), turns=turns)
        row(f"events at {watchers} watchers, while {events} objects are created", *best)
        number = 1_000 if quick else 10_000
        prepare_lists(ours, theirs, endpoints, number)
        best = by_turns(pair, lambda one: lists(one, count=5, query=""), turns=turns)
        row(f"lists of {number:,} objects", *best)
        best = by_turns(pair, lambda one: lists(one, count=50, query="?limit=500"), turns=turns)
        row("lists of the first 500 of them", *best)
        best = by_turns(pair, lambda one: lists(one, count=5, query="?resourceVersion=0"), turns=turns)
        row(f"lists of {number:,} objects from the cache (resourceVersion=0)", *best)
        print(f"memory: levelset {ours.memory:.0f} MB, kube-apiserver {theirs.memory:.0f} MB")
    show_limit(endpoints, many=many, turns=turns)
    with levelset(endpoints, folder, workers=2) as ours, kube(endpoints, folder, replicas=2) as theirs:
        best = by_turns((ours, theirs), lambda one: creates(one, count=many, connections=32), turns=turns)
        row("creates, 32 connections, 2 servers", *best)


def start_and_stalls(endpoints: str, folder: Path, *, quick: bool) -> None:
    """The start of a server with many objects, and how long its event loop is held while it works."""
    number = 5_000 if quick else 100_000
    asyncio.run(fill(endpoints, number, "default", prefix="/large"))
    command = [sys.executable, str(Path(__file__)), "--serve", endpoints]
    starts: list[float] = []
    used: list[float] = []
    for turn in range(3):
        began = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_environment()
        )
        assert process.stdout is not None
        assert process.stdin is not None
        ready = json.loads(process.stdout.readline())
        starts.append(time.perf_counter() - began)
        used.append(Server("", [], ssl.create_default_context(), "", [process.pid]).cpu)
        if turn == 2:
            server = Server(
                "large", [ready["port"]], ssl.create_default_context(cadata=ready["ca"]), ready["token"], [process.pid]
            )
            creates(server, count=500 if quick else 5_000, connections=32)
            for query in ("?limit=500", "?limit=500&labelSelector=a%3Db", ""):
                path = MAPS.format("default") + query
                run(server, [to_bytes("GET", path, token=server.token)] * 4, connections=2, expected=b"200")
            print(f"memory with {number:,} objects of 1 kB: {server.memory:.0f} MB")
        process.stdin.close()
        held = json.loads(process.stdout.readline())
        process.wait(30)
        if turn == 2:
            print(f"longest hold of the event loop with {number:,} objects: {held}")
    shown = f"{min(starts):.2f} s by the clock, {min(used):.2f} s of CPU time"
    print(f"start with {number:,} objects, from the start of the process (best of 3): {shown}")


async def serve(endpoints: str) -> None:
    """A server that reports by how much CPU time its event loop was held; ends with standard input."""
    from levelset.apiserver import ApiServer
    from levelset.http import CertificateAuthority
    from levelset.storage import EtcdStorage

    loop = asyncio.get_running_loop()
    authority = CertificateAuthority.create("bench")
    async with (
        EtcdStorage(endpoints, prefix="/large", compaction=None) as storage,
        ApiServer(storage, authority=authority) as server,
    ):
        held: list[float] = []
        last = time.thread_time()

        def tick() -> None:
            nonlocal last
            now = time.thread_time()
            held.append(now - last)
            last = now
            loop.call_later(0.002, tick)

        loop.call_soon(tick)
        ready = {"port": int(server.url.rpartition(":")[2]), "ca": authority.certificate.decode()}
        print(json.dumps({**ready, "token": server.token}), flush=True)
        await loop.run_in_executor(None, sys.stdin.read)
        longest = sorted(held)[-5:]
        print(json.dumps([f"{1000 * one:.0f} ms" for one in reversed(longest)]), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer objects and turns")
    parser.add_argument("--only", choices=["compare", "start"])
    parser.add_argument("--serve", metavar="ENDPOINTS", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        asyncio.run(serve(given.serve))
        return
    missing = [str(path) for path in PROGRAMS.values() if not path.exists()]
    if missing:
        sys.exit(f"{', '.join(missing)} not found: run scripts/kube_binaries.py, which needs Go and its module proxy")
    print(_HEADLINE, "|---|---|---|---|---|", sep="\n")
    with TemporaryDirectory(prefix="levelset-bench-") as folder, run_cluster(PROGRAMS["etcd"]) as cluster:
        if given.only != "start":
            compare(cluster, Path(folder), quick=given.quick)
        if given.only != "compare":
            start_and_stalls(cluster.endpoints, Path(folder), quick=given.quick)


if __name__ == "__main__":
    main()
