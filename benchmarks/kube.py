"""levelset's API server against kube-apiserver with etcd: creates, updates, applies and lists, by CPU time and by the clock.

    python benchmarks/kube.py [--quick]      # or: make bench-kube

All servers run at the same time, and the load is put on one after the other, by turns: levelset in memory, on SQLite with
normal and with full durability, what no server in Python avoids (`kube_floor.py`), and kube-apiserver with an etcd of its
own that syncs every write. The last three lose nothing when the power fails, `normal` nothing when the process is killed,
and memory keeps nothing. CPU time is that of the server's processes, etcd included. Each figure is the median of the turns,
with the lowest and the highest. kube-apiserver and etcd are those of `scripts/kube_binaries.py`.
"""

import argparse
import itertools
import json
import os
import ssl
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import payloads
from apiserver_clients import to_bytes
from etcd import MAPS, ROOT, Result, Server, config_map, run
from levelset.client.config.loader import load_config
from readme import write_table
from tests.etcd.etcd_cluster import run_cluster
from tests.kube.kube_cluster import PROGRAMS, _run_apiserver

SAVED = ROOT / "build" / "bench" / "kube.json"
CONNECTIONS = (1, 32)
LIST = 1_000
_numbers = itertools.count()
Measure = Callable[[Server, int, int], Result]


@contextmanager
def levelset(name: str, folder: Path, *options: str) -> Iterator[Server]:
    """`levelset serve` with these options."""
    kubeconfig = folder / f"{name.replace(' ', '-').replace(',', '')}.kubeconfig"
    command = [sys.executable, "-c", "from levelset.cli.main import main; main()", "serve", "-o", "json"]
    command += ["--kubeconfig", kubeconfig.name, *options]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, env=environment)
    try:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        context = ssl.create_default_context(cadata=(load_config(kubeconfig).ca or b"").decode())
        line = next(one for one in kubeconfig.read_text().splitlines() if "token:" in one)
        token = line.partition("token:")[2].strip().strip("'\"")
        yield Server(name, [int(ready["url"].rpartition(":")[2])], context, token, [process.pid])
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def floor(folder: Path) -> Iterator[Server]:
    """The server that does nothing but decode, store, sync and encode."""
    command = [sys.executable, str(Path(__file__).with_name("kube_floor.py")), str(folder / "floor.db")]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
    try:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        context = ssl.create_default_context(cadata=ready["ca"])
        yield Server("floor, SQLite full", [ready["port"]], context, "none", [process.pid])
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def kube(folder: Path) -> Iterator[Server]:
    """kube-apiserver with an etcd of its own, whose syncs are on."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    place = folder / "kube"
    place.mkdir()
    with run_cluster(PROGRAMS["etcd"]) as cluster:
        run_one = contextmanager(_run_apiserver)
        with run_one(PROGRAMS["kube-apiserver"], cluster.endpoints, place) as one:
            pids = [one.process.pid, *(member._process.pid for member in cluster.members if member._process)]
            port = int(one.url.rpartition(":")[2])
            (folder / "kube.kubeconfig").symlink_to(one.kubeconfig)
            yield Server("kube-apiserver + etcd", [port], context, one.tokens["admin"], pids)


def creates(server: Server, count: int, connections: int) -> Result:
    bodies = [config_map(f"c{next(_numbers)}") for _ in range(count)]
    requests = [to_bytes("POST", MAPS.format("default"), body, token=server.token) for body in bodies]
    return run(server, requests, connections=connections, expected=b"201")


def updates(server: Server, count: int, connections: int) -> Result:
    """Each replaces one of 200 objects by one with other data."""
    return run(server, list(_changes(server, "PUT", count)), connections=connections, expected=b"200")


def applies(server: Server, count: int, connections: int) -> Result:
    """Each applies other data to one of 200 objects, on the side of the server."""
    return run(server, list(_changes(server, "PATCH", count)), connections=connections, expected=b"200")


def lists(server: Server, count: int, connections: int) -> Result:
    path = MAPS.format("listed")
    requests = [to_bytes("GET", path, token=server.token)] * max(count // 50, 4)
    return run(server, requests, connections=connections, expected=b"200")


VERBS: dict[str, Measure] = {"create": creates, "update": updates, "apply": applies, f"list of {LIST:,}": lists}
_OBJECTS = 200


def _changes(server: Server, method: str, count: int) -> Iterator[bytes]:
    query = "?fieldManager=bench&force=true" if method == "PATCH" else ""
    for _ in range(count):
        number = next(_numbers)
        name = f"{method.lower()}-{number % _OBJECTS}"
        data = {"text": "x" * 700, "number": str(number)}
        tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
        body = json.dumps(tree).encode()
        request = to_bytes(method, f"{MAPS.format('default')}/{name}{query}", body, token=server.token)
        kind = b"Content-Type: application/apply-patch+yaml" if method == "PATCH" else b"Content-Type: application/json"
        yield request.replace(b"Content-Type: application/json", kind, 1)


def prepare(server: Server) -> None:
    """The objects that are updated, applied and listed."""
    namespace = json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "listed"}}).encode()
    for one in ("listed", "default"):
        body = namespace.replace(b'"listed"', f'"{one}"'.encode())
        found = [to_bytes("POST", "/api/v1/namespaces", body, token=server.token)]
        try:
            run(server, found, connections=1, expected=b"201")
        except RuntimeError as error:
            if b"409" not in str(error).encode():
                raise
    for path, names in (
        (MAPS.format("listed"), [f"l{number}" for number in range(LIST)]),
        (MAPS.format("default"), [f"put-{number}" for number in range(_OBJECTS)]),
    ):
        requests = [to_bytes("POST", path, config_map(name), token=server.token) for name in names]
        run(server, requests, connections=8, expected=b"201")
    applied = (f"{MAPS.format('default')}/patch-{number}?fieldManager=bench" for number in range(_OBJECTS))
    for number, path in enumerate(applied):
        body = config_map(f"patch-{number}")
        request = to_bytes("PATCH", path, body, token=server.token)
        run(
            server,
            [request.replace(b"Content-Type: application/json", b"Content-Type: application/apply-patch+yaml", 1)],
            connections=1,
            expected=b"201",
        )


def measure(servers: Sequence[Server], *, quick: bool, turns: int, wanted: Sequence[str]) -> dict[str, list[float]]:
    """CPU and clock of each verb and server in microseconds, by turns; the order changes with each."""
    found: dict[str, list[float]] = {}
    for turn in range(turns):
        for verb, call in VERBS.items():
            if wanted and verb.split()[0] not in wanted:
                continue
            for connections in CONNECTIONS:
                count = (100 if connections == 1 else 400) if quick else (400 if connections == 1 else 2_000)
                at = turn % len(servers)
                for server in (*servers[at:], *servers[:at]):
                    result = call(server, count, connections)
                    for how, seconds in (("cpu", result.cpu), ("clock", result.seconds)):
                        key = f"{verb}|{connections}|{server.name}|{how}"
                        found.setdefault(key, []).append(seconds / result.count * 1e6)
        print(f"turn {turn + 1} of {turns}, load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
    return found


def sync_pods(kubeconfig: Path, theirs: Server, *, turns: int, count: int) -> str:
    """Pods of kube-apiserver into the caches of the runtimes: there Go gets them in protobuf, the others in JSON."""
    sys.path.insert(0, str(ROOT / "benchmarks" / "peers"))
    from figures import Figures
    from programs import Absent, build_go, build_rust
    from programs import levelset as build_levelset
    from report import ROWS, table
    from runtimes import Process

    for namespace in {f"team-{number}" for number in range(97)}:
        body = json.dumps({"metadata": {"name": namespace}}).encode()
        run(theirs, [to_bytes("POST", "/api/v1/namespaces", body, token=theirs.token)], connections=1, expected=b"201")
    requests: list[bytes] = []
    for number in range(count):
        tree = json.loads(payloads.pod(number))
        for name in ("ownerReferences", "resourceVersion", "uid", "managedFields", "creationTimestamp"):
            tree["metadata"].pop(name)
        for container in tree["spec"]["containers"]:  # of the others there are no volumes
            container["volumeMounts"] = [one for one in container["volumeMounts"] if one["name"] == "config"]
        path = f"/api/v1/namespaces/{tree['metadata']['namespace']}/pods"
        requests.append(to_bytes("POST", path, json.dumps(tree).encode(), token=theirs.token))
    run(theirs, requests, connections=8, expected=b"201")
    figures = Figures()
    peers: list[Any] = []
    for make in (build_levelset, build_go, build_rust):
        try:
            peers.append(make())
        except Absent as error:
            print(f"{make.__name__}: {error}", file=sys.stderr)
    for _, peer in itertools.product(range(turns), peers):
        figures.versions[peer.name] = peer.version
        process = Process(peer.command_of(["pods"]), {"KUBECONFIG": str(kubeconfig), **peer.environment}, last=True)
        synced = process.read("synced")
        process.end()
        each = {"sync pod us": synced["cpu"] * 1e6 / count, "sync pod KiB": synced["memory"] / count / 1024}
        figures.add(peer.name, each)
    rows = [row._replace(what=row.what.replace("of 6 KB", "without status")) for row in ROWS]
    return table(figures, rows)


def table(found: dict[str, list[float]]) -> str:
    """A Markdown table of medians, lowest and highest, and how many times kube-apiserver's cost that is."""
    servers = list(dict.fromkeys(key.split("|")[2] for key in found))
    lines = [f"| what | connections | {' | '.join(servers)} |", "|---" * (len(servers) + 2) + "|"]
    for verb, connections in dict.fromkeys(tuple(key.split("|")[:2]) for key in found):
        for how in ("cpu", "clock"):
            cells: list[str] = []
            theirs = found.get(f"{verb}|{connections}|kube-apiserver + etcd|{how}")
            for server in servers:
                values = found[f"{verb}|{connections}|{server}|{how}"]
                cell = f"{statistics.median(values):,.0f} ({min(values):,.0f} to {max(values):,.0f})"
                if theirs and server != "kube-apiserver + etcd":
                    cell += f", **{statistics.median(theirs) / statistics.median(values):.1f}x**"
                cells.append(cell)
            shown = "CPU us" if how == "cpu" else "us by the clock"
            lines.append(f"| {verb}, {shown} | {connections} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer requests, two turns")
    parser.add_argument("--turns", type=int, help="how often each server is measured: 7, or 2 with --quick")
    parser.add_argument("--verbs", default="", help="only some of create, update, apply, list; separated by commas")
    parser.add_argument("--write", action="store_true", help="write the table into benchmarks/README.md")
    given = parser.parse_args()
    missing = [str(path) for path in PROGRAMS.values() if not path.exists()]
    if missing:
        sys.exit(f"{', '.join(missing)} not found: run scripts/kube_binaries.py, which needs Go and its module proxy")
    build = ROOT / "build"  # on a disk, unlike a temporary folder in memory
    build.mkdir(exist_ok=True)
    with TemporaryDirectory(prefix="levelset-bench-", dir=build) as place, ExitStack() as stack:
        folder = Path(place)
        servers = [
            stack.enter_context(levelset("levelset, memory", folder)),
            stack.enter_context(levelset("levelset, SQLite", folder, "--data", "normal.db", "--durability", "normal")),
            stack.enter_context(levelset("levelset, SQLite full", folder, "--data", "full.db", "--durability", "full")),
            stack.enter_context(floor(folder)),
            stack.enter_context(kube(folder)),
        ]
        for server in servers:
            prepare(server)
        turns = given.turns or (2 if given.quick else 7)
        wanted = [one for one in given.verbs.split(",") if one]
        found = measure(servers, quick=given.quick, turns=turns, wanted=wanted)
        memory = ", ".join(f"{server.name} {server.memory:.0f} MB" for server in servers)
        synced = sync_pods(folder / "kube.kubeconfig", servers[-1], turns=turns, count=200 if given.quick else 2_000)
    if not given.quick:
        SAVED.parent.mkdir(parents=True, exist_ok=True)
        saved = json.loads(SAVED.read_text()) if SAVED.exists() else {}
        found = {**saved, **found}
        SAVED.write_text(json.dumps(found, indent=1))
    shown = f"{table(found)}\nMemory afterwards: {memory}.\n\nCaches that are filled from kube-apiserver:\n\n{synced}"
    print(shown)
    if given.write:
        write_table("bench-kube", shown)


if __name__ == "__main__":
    main()
