"""Measures a start: CPU time of an operator up to its first reconcile, its memory then, and `levelset --help`.

`python benchmarks/start.py [RUNS]` starts a server and, again and again, the operator of `start_operator.py` against
it. Each figure is the best of the runs: other programs on the machine make a run slower, never faster.
"""

import asyncio
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from levelset import Client, ObjectMeta
from levelset.client import view_of
from levelset.runtime.manager.crd_install import install_crds
from start_operator import Greeting, GreetingSpec

PYTHON = sys.executable
COMMAND = str(Path(PYTHON).with_name("levelset"))
OPERATOR = str(Path(__file__).with_name("start_operator.py"))
FLOOR = "import asyncio, msgspec, uvloop, yaml"
"""What an operator cannot do without: its event loop with TLS, JSON, and the reader of its kubeconfig."""


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = str(Path(folder, "kubeconfig"))
        serve = [COMMAND, "serve", "--kubeconfig", kubeconfig]
        with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as server:
            try:
                while server.stdout is not None and not server.stdout.readline().startswith("ready"):
                    pass
                asyncio.run(prepare(kubeconfig))
                figures = [start([PYTHON, OPERATOR, "--kubeconfig", kubeconfig]) for _ in range(runs)]
            finally:
                server.terminate()
    imported, reconciled, resident, modules = map(min, zip(*figures, strict=True))
    rows = {
        "Python alone, CPU ms": cpu(runs, PYTHON, "-c", "pass"),
        f"`{FLOOR}`, CPU ms": cpu(runs, PYTHON, "-c", FLOOR),
        "operator, imported, CPU ms": imported,
        "operator, first reconcile, CPU ms": reconciled,
        "operator, resident memory then, MB": resident,
        "operator, modules then": modules,
        "`levelset --help`, CPU ms": cpu(runs, COMMAND, "--help"),
    }
    print("| what | measured |\n|---|---|")
    for name, value in rows.items():
        print(f"| {name} | {value:.1f} |")


async def prepare(kubeconfig: str) -> None:
    """Defines the kind and creates an object, so that the operator has something to do at once."""
    async with await Client.connect(kubeconfig) as client:
        await install_crds(client, [view_of(Greeting)])
        metadata = ObjectMeta(name="one", namespace="default")
        await client.create(Greeting(metadata=metadata, spec=GreetingSpec(name="you")))


def start(command: list[str]) -> list[float]:
    """The figures that one run of the operator prints."""
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return [float(word) for word in ended.stderr.split()[-4:]]


def cpu(runs: int, *command: str) -> float:
    """The CPU time of a process in milliseconds, from its start to its end."""
    found: list[float] = []
    for _ in range(runs):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(found) * 1000


if __name__ == "__main__":
    main()
