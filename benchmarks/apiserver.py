"""Measures the API server: start-up, memory, and the rates of writes, reads, lists and watch events.

`python benchmarks/apiserver.py` prints a markdown table with the goals beside. The server is a process of its own,
started as users start it (TLS, a token); this process is the load generator, which only writes and counts bytes. All
of it stays on the loopback interface and is bounded in count and time. `--quick` does a tenth, as a smoke test.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence

from apiserver_clients import PATIENCE, to_bytes, watching
from apiserver_load import SOURCE, Load, Running, load, serve, serving

MAPS = "/api/v1/namespaces/default/configmaps"
TEXT = "x" * 400
Row = tuple[str, str, str]


def configmap(name: str, text: str = TEXT) -> bytes:
    labels = {"app": "bench"}
    tree = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": labels},
        "data": {"text": text},
    }
    return json.dumps(tree).encode()


async def startup(scale: float) -> AsyncIterator[Row]:
    """Start-up time in process and as a process, and the memory of an idle server."""
    code = (
        "import asyncio, time\n"
        "from levelset.apiserver.server import ApiServer\n"
        "async def main():\n"
        "    for _ in range(5):\n"
        "        began = time.perf_counter()\n"
        "        server = ApiServer(tls=TLS)\n"
        "        await server.start()\n"
        "        print(time.perf_counter() - began)\n"
        "        await server.stop()\n"
        "asyncio.run(main())\n"
    )
    for tls in (False, True):
        output = await run_python(code.replace("TLS", str(tls)))
        first, *others = [float(line) * 1000 for line in output.split()]
        text = f"{first:.1f} ms the first, {statistics.median(others):.1f} ms then"
        yield f"ready in process, {'TLS' if tls else 'plain'}", text, "<= 50 ms"
    times = []
    memory = 0.0
    for _ in range(max(3, int(7 * scale))):
        with serving() as server:
            times.append(server.started * 1000)
            await asyncio.sleep(0.2)
            memory = server.memory
    yield "ready as a process, TLS", f"{statistics.median(times):.0f} ms", "<= 400 ms"
    yield "idle memory", f"{memory:.1f} MB", "<= 50 MB"


async def run_python(code: str) -> str:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE, env=os.environ | {"PYTHONPATH": str(SOURCE)}
    )
    output, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode == 0
    return output.decode()


async def creates(scale: float) -> AsyncIterator[Row]:
    """Creates over TLS for both backends, and in the same process."""
    goals = {1: ">= 2,040/s (6 x 340)", 32: ">= 7,386/s (6 x 1,231)"}
    with tempfile.TemporaryDirectory() as folder:
        for name, data, durability in (
            ("memory", "memory", "normal"),
            ("SQLite", f"{folder}/data.db", "normal"),
            ("SQLite with full durability", f"{folder}/full.db", "full"),
        ):
            with serving(data=data, durability=durability) as server:
                for connections, count in ((1, int(8_000 * scale)), (32, int(20_000 * scale))):
                    sent = [to_bytes("POST", MAPS, configmap(f"c{connections}-{n}")) for n in range(count)]
                    got = await load(server, sent, connections=connections, expected=b"201")
                    yield f"creates, {name}, TLS, {connections} connection(s)", described(got), goals[connections]
    code = INSIDE.replace("COUNT", str(int(40_000 * scale)))
    yield "creates in process, memory", f"{float(await run_python(code)):,.0f}/s", ">= 30,000/s"


async def updates(scale: float) -> AsyncIterator[Row]:
    """Updates and applies of existing objects over TLS, beside creates of the same server: CPU time of the server."""
    with tempfile.TemporaryDirectory() as folder:
        for name, data, durability in (
            ("memory", "memory", "normal"),
            ("SQLite", f"{folder}/data.db", "normal"),
            ("SQLite with full durability", f"{folder}/full.db", "full"),
        ):
            with serving(data=data, durability=durability) as server:
                for connections, count in ((1, int(2_000 * scale)), (32, int(10_000 * scale))):
                    names = [f"u{connections}-{n}" for n in range(count)]
                    sent = {
                        "creates": [to_bytes("POST", MAPS, configmap(one)) for one in names],
                        "updates": [to_bytes("PUT", f"{MAPS}/{one}", configmap(one, "y" * 400)) for one in names],
                        "applies": [applied(one, "z" * 400) for one in names],
                    }
                    for verb, requests in sent.items():
                        code = b"201" if verb == "creates" else b"200"
                        got = await load(server, requests, connections=connections, expected=code)
                        text = f"{got.cpu / count * 1e6:.0f} us of CPU, {described(got)}"
                        yield f"{verb}, {name}, TLS, {connections} connection(s)", text, ""


def applied(name: str, text: str) -> bytes:
    path = f"{MAPS}/{name}?fieldManager=bench&force=true"
    return to_bytes("PATCH", path, configmap(name, text), content="application/apply-patch+yaml")


def described(got: Load) -> str:
    median = statistics.median(got.times) * 1000
    return (
        f"{got.rate:,.0f}/s ({got.per_core:,.0f} per core-second), median {median:.2f} ms, p99 {got.p99 * 1000:.2f} ms"
    )


INSIDE = """
import asyncio, json, time
from levelset.apiserver.server import ApiServer
from levelset.http import Headers, Request, Response
async def main():
    server = ApiServer(tls=False)
    await server.start(listen=False)
    headers = Headers({"content-type": "application/json"})
    body = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "NAME"}, "data": {"text": "x" * 400}})
    sent = [Request("POST", "/api/v1/namespaces/default/configmaps", "", headers,
                    body.replace("NAME", f"c-{n}").encode(), ApiServer.owner) for n in range(COUNT)]
    began = time.perf_counter()
    for request in sent:
        answer = server.handle(request)
        if not isinstance(answer, Response):
            answer = await answer
        assert answer.status == 201, answer.body
    print(COUNT / (time.perf_counter() - began))
    await server.stop()
asyncio.run(main())
"""


async def reads(scale: float) -> AsyncIterator[Row]:
    """GETs of one object without TLS, and a list of ten thousand."""
    with serving(tls=False) as server:
        await fill(server, 10_000)
        request = to_bytes("GET", f"{MAPS}/o-1")
        count = int(60_000 * scale)
        for connections in (1, 32):
            runs = [await load(server, [request] * count, connections=connections, expected=b"200") for _ in range(3)]
            got = max(runs, key=lambda run: run.rate)
            yield f"GETs, plain, {connections} connection(s)", described(got), ">= 40,000/s" if connections > 1 else ""
        got = await load(server, [to_bytes("GET", MAPS)] * 7, connections=1, expected=b"200")
        yield "list of 10,000 objects", f"{statistics.median(got.times) * 1000:.1f} ms", "<= 50 ms"


async def fill(server: Running, count: int, *, begin: int = 0) -> None:
    sent = [to_bytes("POST", MAPS, configmap(f"o-{number}")) for number in range(begin, count)]
    await load(server, sent, connections=32, expected=b"201")


async def fan_out(scale: float) -> AsyncIterator[Row]:
    """One thousand watchers of the same config maps; writes come from 32 connections."""
    with serving(tls=False) as server:
        watchers, events = int(1_000 * max(scale, 0.2)), int(2_000 * scale)
        with watching(server.port, server.tls, f"{MAPS}?watch=1", count=watchers) as crowd:
            sent = [to_bytes("POST", MAPS, configmap(f"f-{number}")) for number in range(events)]
            got = await load(server, sent, connections=32, expected=b"201", crowd=crowd, events=events)
        total = watchers * events / 1e6
        text = f"{total / got.seconds:.2f} M/s by the clock, {total / got.cpu:.2f} M per core-second of the server"
        yield f"fan-out: {events:,} events to {watchers:,} watchers", text, ">= 1.5 M event x watcher per second"


async def stalling(scale: float) -> AsyncIterator[Row]:
    """How long a write takes while a watcher does not read, while one does, and without any.

    The cost of a watcher is visible in CPU time. In wall time it can be negative: a server that has just sent an event is
    still awake when the next request comes, and an idle one has to be woken.
    """
    count = int(2_000 * scale)  # few enough that no watcher is cut off: the stalled one stays to the end
    found: dict[str, list[Load]] = {"stalled": [], "reading": [], "absent": []}
    with serving(tls=False) as server:
        for turn in range(5):
            for watcher, loads in found.items():
                big = [to_bytes("POST", MAPS, configmap(f"{watcher}-{turn}-{n}", "x" * 4000)) for n in range(count)]
                loads.append(await write_beside(watcher, server, big))
    text = "; ".join(
        f"{watcher}: {format_latency(loads[1:])}" for watcher, loads in found.items()
    )  # the first warms up
    yield "write latency with one watcher", text, "a stalled one changes nothing"


async def write_beside(watcher: str, server: Running, requests: Sequence[bytes]) -> Load:
    """Sends the requests on one connection while a watcher reads, does not read, or does not exist."""
    if watcher == "absent":
        return await load(server, requests, connections=1, expected=b"201")
    with watching(server.port, server.tls, f"{MAPS}?watch=1") as crowd:
        reading = (
            crowd if watcher == "reading" else None
        )  # a watcher that does not take part in `converse` is never read
        return await load(server, requests, connections=1, expected=b"201", crowd=reading)


def format_latency(loads: Sequence[Load]) -> str:
    times = sorted(taken for one in loads for taken in one.times)
    cpu = sum(one.cpu for one in loads) / len(times)
    return (
        f"median {statistics.median(times) * 1e6:.0f} us, p99 {times[int(len(times) * 0.99)] * 1e6:.0f} us"
        f" ({cpu * 1e6:.0f} us of the server's processor)"
    )


async def growth(scale: float) -> AsyncIterator[Row]:
    """From 1,000 to 100,000 objects: what is constant, and what grows with the response."""
    sizes = [int(size * scale) for size in (1_000, 10_000, 100_000)]
    cells: dict[str, list[str]] = {name: [] for name in ("create", "GET", "list of 500", "list of all", "memory")}
    with serving(tls=False) as server:
        have = 0
        for size in sizes:
            await fill(server, size, begin=have)
            have = size
            probe = [to_bytes("POST", MAPS, configmap(f"p{size}-{n}")) for n in range(1_000)]
            for name, sent, code in (
                ("create", probe, b"201"),
                ("GET", [to_bytes("GET", f"{MAPS}/o-5")] * 2_000, b"200"),
                ("list of 500", [to_bytes("GET", f"{MAPS}?limit=500")] * 20, b"200"),
                ("list of all", [to_bytes("GET", MAPS)] * 3, b"200"),
            ):
                got = await load(server, sent, connections=1, expected=code)
                cells[name].append(f"{statistics.median(got.times) * 1000:.2f} ms")
            cells["memory"].append(f"{server.memory:.0f} MB")
    goals = {"list of all": "linear", "memory": "linear"}
    for name, values in cells.items():
        yield (
            f"{name} at {' / '.join(f'{size:,}' for size in sizes)} objects",
            " / ".join(values),
            goals.get(name, "flat"),
        )


PARTS: dict[str, Callable[[float], AsyncIterator[Row]]] = {
    part.__name__: part for part in (startup, creates, updates, reads, fan_out, stalling, growth)
}


async def measure(names: Sequence[str], scale: float) -> None:
    print("| what | measured | goal |\n| --- | --- | --- |", flush=True)
    for name in names or PARTS:
        async for row in PARTS[name](scale):
            print(f"| {' | '.join(row)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"what to measure: {', '.join(PARTS)} (all)")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--durability", default="normal", help=argparse.SUPPRESS)
    parser.add_argument("--plain", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if unknown := set(given.parts) - PARTS.keys():
        parser.error(f"unknown: {', '.join(unknown)}")
    if given.serve:
        asyncio.run(serve(given.serve, tls=not given.plain, durability=given.durability))
    else:
        asyncio.run(measure(given.parts, 0.1 if given.quick else 1.0))


if __name__ == "__main__":
    main()
