"""Measures creates of built-in kinds inside the process, from several source trees by turns.

`python benchmarks/creates.py [--source TREE/src ...]` starts a process for each source, with an API server in memory and
without a socket. The processes take turns: each creates a slice of objects, and sums the CPU time that its requests
took. With `--instructions` a process counts under callgrind instead (valgrind), which no load disturbs.
"""

import argparse
import asyncio
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parents[1] / "src"
SLICE = 150
WARM = 60
COUNTED = 12
_SPEC: dict[str, Any] = {
    "containers": [
        {
            "name": "web",
            "image": "registry.example.com/shop/web:1.2.3",
            "ports": [{"name": "http", "containerPort": 8080}],
            "env": [{"name": "MODE", "value": "fast"}, {"name": "NUMBER", "value": "1"}],
            "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
            "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 5},
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        }
    ],
    "volumes": [{"name": "data", "emptyDir": {}}],
}
_PODS = "/api/v1/namespaces/default/pods"
_DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def _pod(number: int, *, image: bool = False, amount: bool = False) -> tuple[str, Any]:
    """A Pod from a template that was seen before; or with an image, or an amount of cpu and a probe, of its own."""
    spec = json.loads(json.dumps(_SPEC))
    container = spec["containers"][0]
    if image:
        container["image"] = f"registry.example.com/shop/web:1.2.{number}"
    if amount:
        container["resources"]["requests"]["cpu"] = f"{number + 1}m"
        container["readinessProbe"]["httpGet"]["path"] = f"/ready/{number}"
    metadata = {"name": f"web-{number}", "labels": {"app": "web"}}
    return _PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _deployment(number: int, *, image: bool = False) -> tuple[str, Any]:
    _, pod = _pod(number, image=image)
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod["spec"]}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    metadata = {"name": f"web-{number}", "labels": {"app": "web"}}
    return _DEPLOYMENTS, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def _config_map(number: int) -> tuple[str, Any]:
    tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c-{number}"}, "data": {"text": "x" * 700}}
    return "/api/v1/namespaces/default/configmaps", tree


WORK = {
    "Pod, the template seen before": _pod,
    "Pod, another image each time": lambda number: _pod(number, image=True),
    "Pod, an amount of cpu and a probe never seen": lambda number: _pod(number, amount=True),
    "Deployment, the template seen before": _deployment,
    "Deployment, another image each time": lambda number: _deployment(number, image=True),
    "ConfigMap": _config_map,
}


class Creator:
    """An API server in memory, and the objects that are created on it."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self._number = 0

    def make(self, work: str, count: int) -> list[Any]:
        """The requests that create so many objects."""
        from levelset.http import Headers, Request

        made = [WORK[work](self._number + number) for number in range(count)]
        self._number += count
        headers = Headers({"content-type": "application/json"})
        owner = type(self._server).owner
        return [Request("POST", path, "", headers, json.dumps(tree).encode(), owner) for path, tree in made]

    async def send(self, requests: list[Any]) -> float:
        """Seconds of CPU time that the requests take."""
        from levelset.http import Response

        began = time.process_time()
        for request in requests:
            answer = self._server.handle(request)
            response = answer if isinstance(answer, Response) else await answer
            assert response.status == 201, response.body
        return time.process_time() - began


async def _serve_turns() -> None:
    """Creates what each line of stdin names, and prints how long it took."""
    from levelset.apiserver.server import ApiServer
    from levelset.storage import MemoryStorage

    server = ApiServer(MemoryStorage())
    await server.start(listen=False)
    creator = Creator(server)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        work, count = json.loads(line)
        print(await creator.send(creator.make(work, count)), flush=True)
    await server.stop()


async def _create_counted(work: str) -> None:
    """Creates objects, of which the last few are counted."""
    from levelset.apiserver.server import ApiServer
    from levelset.storage import MemoryStorage

    server = ApiServer(MemoryStorage())
    await server.start(listen=False)
    creator = Creator(server)
    await creator.send(creator.make(work, WARM))
    requests = creator.make(work, COUNTED)
    gc.collect()
    gc.disable()
    _control("-z")
    await creator.send(requests)
    _control("-d")
    await server.stop()


def _control(option: str) -> None:
    """Zeroes or dumps the counters of the callgrind under which this process runs."""
    subprocess.run(["callgrind_control", option, str(os.getpid())], check=True, capture_output=True)


def _environment(source: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(source), "PYTHONHASHSEED": "0"}


def by_turns(sources: list[Path], turns: int, wanted: list[str]) -> None:
    """Prints the microseconds of a create of each kind for each source: the least slice, and the median."""
    command = [sys.executable, __file__, "--turns-of-stdin"]
    processes = [
        subprocess.Popen(command, env=_environment(one), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for one in sources
    ]

    def turn(process: "subprocess.Popen[str]", work: str, count: int) -> float:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps([work, count]) + "\n")
        process.stdin.flush()
        return float(process.stdout.readline()) / count * 1e6

    print("| | " + " | ".join(f"{one}, least (median) us" for one in sources) + " | least | medians |")
    print("|---|" + "---|" * (len(sources) + 2))
    for work in wanted:
        for process in processes:
            turn(process, work, SLICE)
        slices: list[list[float]] = [[] for _ in processes]
        for number in range(turns):
            order = list(enumerate(processes))
            for index, process in order if number % 2 else reversed(order):
                slices[index].append(turn(process, work, SLICE))
        least, medians = [min(one) for one in slices], [statistics.median(one) for one in slices]
        cells = " | ".join(f"{low:.1f} ({mid:.1f})" for low, mid in zip(least, medians, strict=True))
        print(f"| {work} | {cells} | {least[-1] / least[0]:.2f} | {medians[-1] / medians[0]:.2f} |", flush=True)
    for process in processes:
        process.communicate()


def instructions(source: Path, work: str) -> float:
    """Thousands of instructions of one create, counted by callgrind."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "out")
        tool = ["valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={output}", "--instr-atstart=yes"]
        subprocess.run([*tool, sys.executable, __file__, "--counted", work], env=_environment(source), check=True)
        text = Path(f"{output}.1").read_text()
    total = next(line for line in text.splitlines() if line.startswith(("summary:", "totals:")))
    return int(total.split()[1]) / COUNTED / 1000


def main() -> None:
    """Runs the measurements of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--source", type=Path, action="append", help="a source tree; the last is compared with the first"
    )
    parser.add_argument("--turns", type=int, default=80)
    parser.add_argument("--work", action="append", choices=list(WORK))
    parser.add_argument("--instructions", action="store_true")
    parser.add_argument("--turns-of-stdin", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--counted", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.turns_of_stdin:
        asyncio.run(_serve_turns())
    elif given.counted:
        asyncio.run(_create_counted(given.counted))
    elif given.instructions:
        for work in given.work or WORK:
            counts = [instructions(one, work) for one in given.source or [SOURCE]]
            print(
                f"{work}: {', '.join(f'{one:,.0f}' for one in counts)} thousand; {counts[-1] / counts[0]:.2f}",
                flush=True,
            )
    else:
        by_turns(given.source or [SOURCE], given.turns, given.work or list(WORK))


if __name__ == "__main__":
    main()
