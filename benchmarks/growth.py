"""Measures what grows with the number of objects: the API server, a manager with 500 watches, and a restart.

`python benchmarks/growth.py` prints one table for 1,000 to 1,000,000 objects, and with `--plots FOLDER` draws them. Each
part and size is a process of its own, in which the server is used without sockets; objects are put straight into the
storage, a hundred in each namespace. Times are CPU time. *hold* is the longest CPU time that the event loop's thread
took between two turns of a ticker: how long everything else had to wait, whatever else the machine does.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from levelset import Client, Context, Controller, Manager, Resource, Spec, Status, owns
from levelset.aio.event_loop import run as run_loop
from levelset.apiserver import ApiServer
from levelset.http import Headers, Request, Response
from levelset.storage import MemoryStorage, SqliteStorage

SIZES: Final = (1_000, 10_000, 100_000, 1_000_000)
PER_NAMESPACE: Final = 100
CONTROLLERS, KINDS = 50, 500
EVENTS, TOGETHER = 5_000, 100
GROUP: Final = "growth.example"
HEADERS: Final = Headers({"content-type": "application/json"})
Found = dict[str, float]


class Ticker:
    """The longest CPU time of the loop's thread between two of its turns, since the last reading."""

    def __init__(self) -> None:
        self._worst = 0.0
        self._last = time.thread_time()
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while True:
            now = time.thread_time()
            self._worst, self._last = max(self._worst, now - self._last), now
            await asyncio.sleep(0.001)  # less would be no time for uvloop, and the ticker would spin

    async def read(self) -> float:
        """Milliseconds; begins again."""
        await asyncio.sleep(0.002)
        worst, self._worst = self._worst, 0.0
        return worst * 1e3

    def stop(self) -> None:
        self._task.cancel()


async def send(server: ApiServer, method: str, path: str, body: bytes = b"", query: str = "") -> Response:
    answer: Any = server.handle(Request(method, path, query, HEADERS, body, ApiServer.owner))
    found: Response = answer if isinstance(answer, Response) else await answer
    assert found.status in (200, 201), found.body
    return found


def config_map(name: str, text: str = "x" * 400) -> dict[str, Any]:
    metadata = {"name": name, "labels": {"app": "growth"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": text}}


def namespace_of(number: int) -> str:
    return f"team-{number // PER_NAMESPACE}"


async def stored(server: ApiServer, storage: Any, path: str, key: str, tree: dict[str, Any]) -> bytes:
    """The bytes that the server stores for a new object; it is removed again."""
    await send(server, "POST", path, json.dumps(tree).encode())
    item = storage.get_nowait(key)
    assert item is not None
    await storage.delete(key, expected=None)
    value: bytes = item.value
    return value


async def sample(server: ApiServer, storage: Any) -> Callable[[int], tuple[str, bytes]]:
    """Makes the key and the bytes of the config map with a number, as the server would store it."""
    key = "/registry/core/configmaps/default/sample-name"
    value = await stored(server, storage, "/api/v1/namespaces/default/configmaps", key, config_map("sample-name"))

    def make(number: int) -> tuple[str, bytes]:
        namespace, name = namespace_of(number), f"o-{number}"
        body = value.replace(b'"sample-name"', b'"%b"' % name.encode())
        body = body.replace(b'"namespace":"default"', b'"namespace":"%b"' % namespace.encode())
        return f"/registry/core/configmaps/{namespace}/{name}", body

    return make


async def namespaces(server: ApiServer, storage: Any, count: int) -> list[tuple[str, bytes]]:
    tree = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "sample-name"}}
    value = await stored(server, storage, "/api/v1/namespaces", "/registry/core/namespaces/sample-name", tree)
    return [
        (f"/registry/core/namespaces/team-{n}", value.replace(b'"sample-name"', b'"team-%d"' % n)) for n in range(count)
    ]


async def timed(count: int, ticker: Ticker, one: Callable[[int], Awaitable[object]]) -> tuple[float, float]:
    """Microseconds of CPU per call, with a turn of the loop after each, and the longest hold in milliseconds."""
    await ticker.read()
    began = time.process_time()
    for number in range(count):
        await one(number)
        await asyncio.sleep(0)
    spent = time.process_time() - began
    return spent / count * 1e6, await ticker.read()


def resident() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


async def server_part(size: int) -> Found:
    """A server that holds so many config maps: verbs, lists, the longest hold, and the memory that a list takes."""
    storage = MemoryStorage()
    server = ApiServer(storage, tls=False)
    await server.start(listen=False)
    make = await sample(server, storage)
    for key, value in await namespaces(server, storage, max(1, size // PER_NAMESPACE)):
        storage.put_nowait(key, value, expected=0)
    before = resident()
    for number in range(size):
        storage.put_nowait(*make(number), expected=0)
    found: Found = {"server, bytes per object": (resident() - before) / size * 1e6}
    ticker = Ticker()
    maps = "/api/v1/namespaces/team-0/configmaps"

    async def create(number: int) -> None:
        await send(server, "POST", maps, json.dumps(config_map(f"new-{number}")).encode())

    async def update(number: int) -> None:
        body = json.dumps(config_map(f"new-{number}", f"changed {number}")).encode()
        await send(server, "PUT", f"{maps}/new-{number}", body)

    async def get(_: int) -> None:
        await send(server, "GET", f"{maps}/o-5")

    async def page(_: int) -> None:
        await send(server, "GET", "/api/v1/configmaps", query="limit=500")

    lengths: list[int] = []

    async def everything(_: int) -> None:
        body: Any = (await send(server, "GET", "/api/v1/configmaps")).body
        if isinstance(body, bytes):
            lengths.append(len(body))
            return
        assert hasattr(body, "__aiter__")
        lengths.append(sum([len(piece) async for piece in body]))

    await timed(200, ticker, get)
    holds: list[float] = []
    for name, count, one in (
        ("create", 1_000, create),
        ("update", 1_000, update),
        ("GET", 1_000, get),
        ("list of 500", 10, page),
    ):
        found[f"{name}, us"], hold = await timed(count, ticker, one)
        holds.append(hold)
    await asyncio.sleep(0)
    memory = resident()
    first, hold = await timed(1, ticker, everything)
    holds.append(hold)
    found["list of all, us per object"] = first / (size + 1_000)
    found["list of all, MB more"] = max(0.0, resident() - memory)
    found["list of all, MB sent"] = lengths[0] / 1e6
    found["server, longest hold, ms"] = max(holds)
    ticker.stop()
    await server.stop()
    return found


def kinds() -> list[type[Resource[Any, Any]]]:
    return [
        types.new_class(f"Kind{number}", (Resource[Spec, Status],), {"api": f"{GROUP}/v1"}) for number in range(KINDS)
    ]


def definition(number: int) -> bytes:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": f"kind{number}s", "kind": f"Kind{number}"}
    tree = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"kind{number}s.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }
    return json.dumps(tree).encode()


def custom_object(number: int, revision: int = 0) -> tuple[str, bytes]:
    kind, namespace, name = number % KINDS, namespace_of(number), f"o-{number}"
    tree = {
        "apiVersion": f"{GROUP}/v1",
        "kind": f"Kind{kind}",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"00000000-0000-4000-8000-{number:012}",
            "creationTimestamp": "2026-01-31T12:00:00Z",
            "generation": 1 + revision,
        },
        "spec": {"text": "x" * 300, "revision": revision},
    }
    return f"/registry/{GROUP}/kind{kind}s/{namespace}/{name}", json.dumps(tree, separators=(",", ":")).encode()


async def manager_part(size: int) -> Found:
    """A manager with 50 controllers and 500 watches that caches so many objects: an event from commit to reconcile."""
    storage = MemoryStorage()
    server = ApiServer(storage, tls=False)
    await server.start(listen=False)
    for number in range(KINDS):
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        await send(server, "POST", path, definition(number))
    for key, value in await namespaces(server, storage, max(1, size // PER_NAMESPACE)):
        storage.put_nowait(key, value, expected=0)
    for number in range(size):
        storage.put_nowait(*custom_object(number), expected=0)
    seen = 0

    async def reconcile(_: Any, __: Context) -> None:
        nonlocal seen
        seen += 1

    classes, each = kinds(), KINDS // CONTROLLERS
    found: Found = {}
    ticker = Ticker()
    before, began = resident(), time.process_time()
    async with await Client.connect(server) as client, Manager(client, health=None) as manager:
        for first in range(0, KINDS, each):
            children = [owns(one) for one in classes[first + 1 : first + each]]
            manager.add(Controller(classes[first], reconcile, *children))
            await asyncio.sleep(0)
        await manager.wait_elected()
        for one in manager.controllers.values():
            await one.wait_idle()
        found["manager, start, us per object"] = (time.process_time() - began) / size * 1e6
        found["manager, bytes per object"] = (resident() - before) / size * 1e6
        found["manager, longest hold at start, ms"] = await ticker.read()
        owners = size // each  # those that a controller reconciles
        for what, distinct in (
            ("event to reconcile, the same 100 objects, us", TOGETHER),
            ("event to reconcile, another object each time, us", owners),
        ):
            seen, began = 0, time.process_time()
            for batch in range(EVENTS // TOGETHER):
                for number in range(batch * TOGETHER, (batch + 1) * TOGETHER):
                    tree = custom_object(number % distinct * each, 1 + number)
                    storage.put_nowait(*tree, expected=None)
                while seen < (batch + 1) * TOGETHER:  # noqa: ASYNC110  # there is no notification
                    await asyncio.sleep(0.001)  # less would be no time for uvloop, and the ticker would spin
            found[what] = (time.process_time() - began) / EVENTS * 1e6
        found["manager, longest hold, ms"] = await ticker.read()
    ticker.stop()
    await server.stop()
    return found


async def floor_part(size: int) -> Found:
    """What no server and cache of Python avoids at an event: an object is decoded, and replaced in a dict of each."""
    server = dict(custom_object(number) for number in range(size))
    cached = {key: bytes(bytearray(value)) for key, value in server.items()}
    owners = size // (KINDS // CONTROLLERS)
    decode = msgspec.json.Decoder().decode
    found: Found = {}
    for what, distinct in (("the same 100 objects", TOGETHER), ("another object each time", owners)):
        changes = [custom_object(at % distinct * (KINDS // CONTROLLERS), 1 + at) for at in range(EVENTS)]
        began = time.process_time()
        for key, value in changes:
            server[key] = value
            cached[key] = bytes(bytearray(value))
            decode(value)
        found[f"decoded and replaced in two dicts, {what}, us"] = (time.process_time() - began) / EVENTS * 1e6
    return found


async def restart_part(size: int) -> Found:
    """A server on a SQLite file with so many objects: from opening the file to being ready."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.db"
        storage = await SqliteStorage.open(path)
        server = ApiServer(storage, tls=False)
        await server.start(listen=False)
        make = await sample(server, storage)
        await server.stop()
        for key, value in await namespaces_of_file(storage, size):
            await storage.put(key, value, expected=0)
        for start in range(0, size, 1_000):
            await asyncio.gather(*[storage.put(*make(n), expected=0) for n in range(start, min(size, start + 1_000))])
        await storage.close()
        seconds, cpu, _ = await restart(path, is_watched=False)
        _, _, hold = await restart(path, is_watched=True)
    return {"restart, s": seconds, "restart, CPU s": cpu, "restart, longest hold, ms": hold}


async def restart(path: Path, *, is_watched: bool) -> list[float]:
    """Seconds by the clock and of CPU, and the longest hold; a ticker, which watches the loop, slows the start."""
    code = RESTART.replace("PATH", str(path)).replace("WATCHED", str(is_watched))
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    return [float(one) for one in output.split()]


async def namespaces_of_file(storage: Any, size: int) -> list[tuple[str, bytes]]:
    item = storage.get_nowait("/registry/core/namespaces/default")
    assert item is not None
    count = max(1, size // PER_NAMESPACE)
    return [
        (f"/registry/core/namespaces/team-{n}", item.value.replace(b'"default"', b'"team-%d"' % n))
        for n in range(count)
    ]


RESTART: Final = """
import asyncio, time
from levelset.aio.event_loop import run
from levelset.apiserver import ApiServer
from levelset.storage import SqliteStorage
async def main():
    worst, last = 0.0, time.thread_time()
    async def tick():
        nonlocal worst, last
        while WATCHED:
            now = time.thread_time()
            worst, last = max(worst, now - last), now
            await asyncio.sleep(0.001)
    ticking = asyncio.create_task(tick())
    await asyncio.sleep(0)
    began, cpu = time.perf_counter(), time.process_time()
    storage = await SqliteStorage.open("PATH")
    server = ApiServer(storage, tls=False)
    await server.start()
    print(time.perf_counter() - began, time.process_time() - cpu)
    await asyncio.sleep(0.01)
    print(worst * 1e3)
    ticking.cancel()
    await server.stop()
    await storage.close()
run(main())
"""

PARTS: Final[dict[str, Callable[[int], Any]]] = {
    "server": server_part,
    "manager": manager_part,
    "floor": floor_part,
    "restart": restart_part,
}


def measure(part: str, size: int) -> Found:
    """One part with one size, in a process of its own."""
    command = [sys.executable, __file__, "--part", part, "--sizes", str(size)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found: Found = json.loads(output.splitlines()[-1])
    return found


def table(results: dict[int, Found]) -> str:
    rows = list(dict.fromkeys(name for found in results.values() for name in found))
    lines = [f"| objects | {' | '.join(f'{size:,}' for size in results)} |", f"|---|{'---|' * len(results)}"]
    for row in rows:
        cells = [f"{found[row]:,.1f}" if row in found else "" for found in results.values()]
        lines.append(f"| {row} | {' | '.join(cells)} |")
    return "\n".join(lines)


COLORS: Final = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#e377c2")
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 760, 300, 60, 36, 74


def plot(results: dict[int, Found], names: list[str], title: str) -> str:
    """The figures over the number of objects, whose axis is logarithmic, as SVG."""
    tall, wide, sizes = HEIGHT - TOP - BOTTOM, WIDTH - LEFT - 30, list(results)
    most = max(found.get(name, 0.0) for found in results.values() for name in names) or 1.0
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-size="14">{title}</text>',
    ]
    place = {size: LEFT + wide * at / max(1, len(sizes) - 1) for at, size in enumerate(sizes)}
    for step in range(5):
        y = TOP + tall - tall * step / 4
        parts.append(f'<line x1="{LEFT}" x2="{LEFT + wide}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{most * step / 4:,.3g}</text>')
    for size, x in place.items():
        parts.append(f'<text x="{x:.1f}" y="{TOP + tall + 18}" text-anchor="middle">{size:,}</text>')
    for at, name in enumerate(names):
        color = COLORS[at % len(COLORS)]
        points = [
            (place[size], TOP + tall - tall * found[name] / most) for size, found in results.items() if name in found
        ]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>' for x, y in points]
        left = LEFT + (at % 3) * 230
        parts.append(f'<text x="{left}" y="{HEIGHT - 30 + 16 * (at // 3)}" fill="{color}" font-size="11">{name}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


PLOTS: Final = {
    "growth-cpu.svg": (
        "CPU microseconds, by the number of objects",
        [
            "create, us",
            "update, us",
            "GET, us",
            "event to reconcile, the same 100 objects, us",
            "list of all, us per object",
        ],
    ),
    "growth-holds.svg": (
        "Longest time that the event loop was held, in CPU milliseconds, by the number of objects",
        ["server, longest hold, ms", "manager, longest hold, ms", "manager, longest hold at start, ms"],
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--part", choices=list(PARTS), help=argparse.SUPPRESS)
    parser.add_argument("--plots", type=Path, help="the folder that plots are written to")
    given = parser.parse_args()
    if given.part:
        print(json.dumps(run_loop(PARTS[given.part](given.sizes[0]))), flush=True)
        return
    results: dict[int, Found] = {}
    for size in given.sizes:
        results[size] = {}
        for part in given.parts:
            results[size] |= measure(part, size)
            print(f"{part}, {size:,}: {results[size]}", file=sys.stderr, flush=True)
    print(table(results))
    if given.plots:
        for name, (title, names) in PLOTS.items():
            (given.plots / name).write_text(plot(results, names, title), "utf-8")


if __name__ == "__main__":
    main()
