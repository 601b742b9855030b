"""Measures levelset on several Pythons, with and without uvloop, on the work of `runtimes.py` and against one server.

    make bench-pythons                   # or with BENCH="--quick"; BENCH="--python 3.13"

Every Python that pyenv or PATH has gets an environment in .cache/pythons with the locked dependencies; the server runs on
the Python of `.venv`, the same for all. A Python that is missing, or for which a dependency has no package, is named with
the reason.
"""

import argparse
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

import runtimes
from figures import Figures
from programs import ROOT, Absent, Peer, levelset
from report import ROWS, table

from readme import write_table

VERSIONS: Final = ("3.11", "3.12", "3.13", "3.14", "3.14t")
SAVED: Final = ROOT / "build" / "bench" / "pythons.json"
WORK: Final = ("websites", "pods", "storm", "noop", "operator", "start")


def interpreter(version: str) -> str:
    """The program of a version: pyenv's newest one, or the one on PATH."""
    pyenv = Path.home() / ".pyenv" / "versions"
    found = [pyenv / folder.name / "bin" / "python" for folder in sorted(pyenv.glob(f"{version}.*"))]
    if found and found[-1].exists():
        return str(found[-1])
    if (path := shutil.which(f"python{version}")) is not None:
        return path
    raise Absent(f"there is no python{version} on PATH or in pyenv")


def environment(version: str) -> str:
    """The Python of an environment with what levelset needs, made on first use."""
    program, folder = interpreter(version), ROOT / ".cache" / "pythons" / version
    python = folder / "bin" / "python"
    if not (folder / "installed").exists():
        print(f"installing what levelset needs for Python {version} ...", file=sys.stderr, flush=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        locked = [*pip, "--require-hashes", "-r", str(ROOT / "requirements" / "run.txt")]
        ours = [*pip, "--no-deps", "--no-build-isolation", "--editable", str(ROOT)]
        for command in ([program, "-m", "venv", str(folder)], locked, ours):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise Absent((done.stderr.strip().splitlines() or ["it cannot be installed"])[-1])
        (folder / "installed").touch()
    return str(python)


def find(wanted: list[str], figures: Figures) -> list[Peer]:
    """levelset on each Python and event loop."""
    found: list[Peer] = []
    for version in wanted:
        for loop in ("uvloop", "asyncio"):
            name = f"{version}, {loop}"
            try:
                found.append(levelset(name, environment(version), "" if loop == "uvloop" else loop))
            except Absent as error:
                figures.leave_out(version, str(error))
                print(f"{name} is left out: {error}", file=sys.stderr)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of it, one turn")
    parser.add_argument("--turns", type=int, help="how often each is measured")
    parser.add_argument("--python", action="append", help=f"only these of {', '.join(VERSIONS)}")
    parser.add_argument("--work", help=f"only some of {','.join(WORK)}")
    parser.add_argument("--write", action="store_true", help="write the table into benchmarks/README.md")
    options = parser.parse_args()
    saved = SAVED.with_stem("pythons-quick") if options.quick else SAVED
    tables = Figures.load(saved, ("pythons",))
    figures = tables["pythons"]
    sizes = runtimes.QUICK if options.quick else runtimes.PYTHONS
    if options.turns:
        sizes = replace(sizes, turns=options.turns)
    chosen = options.work.split(",") if options.work else WORK
    peers = find(options.python or list(VERSIONS), figures)
    if not peers:
        sys.exit("there is no Python to measure")
    with runtimes.serving() as bench:
        for work in WORK:
            if work in chosen:
                figures.forget([peer.name for peer in peers], runtimes.MEASURES[work])
                runtimes.take_turns(bench, peers, work, sizes, figures)
                Figures.save(saved, tables)
    rows = [row for row in ROWS if row.is_compared]
    print(table(figures, rows))
    if options.write:
        write_table("bench-pythons", table(figures, rows))


if __name__ == "__main__":
    main()
