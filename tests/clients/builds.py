"""Clients that have to be built first: the operators beside this file in Go and in Rust, and helm from its sources.

Build results are cached under `.venv-clients`, and a second run only checks whether they are up to date. A program is
skipped if its language is not installed or its packages cannot be fetched; a program that does not build is a failure.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from tests.clients.environments import FOLDER, Client

__all__ = ["find_built"]

HERE = Path(__file__).parent
HELMS = ("helm.sh/helm/v3/cmd/helm@v3.22.0", "helm.sh/helm/v4/cmd/helm@v4.3.1")
_WITHIN = 1800
# Messages of build tools for problems of the environment, not of the sources.
_UNREACHABLE = ("dial tcp", "i/o timeout", "proxyconnect", "connection refused", "no such host", "could not resolve")
_UNREACHABLE += ("could not connect", "network failure", "timed out", "unexpected eof", "502 bad gateway")
_TOO_OLD = ("requires go >=", "requires rustc", "module requires go", "toolchain not available")


def find_built(words: Collection[str] = ()) -> Iterator[Client]:
    """The operators and helm, built if necessary; with `words`, only those whose name contains one of them."""
    known = {"operator in Go": _go_operator, "operator in Rust": _rust_operator}
    known |= {_name_helm(module): partial(_helm, module) for module in HELMS}
    for name, find in known.items():
        if not words or any(word in name for word in words):
            yield find(name)


def _go_operator(name: str) -> Client:
    source, program = HERE / "go-operator", FOLDER / "go-operator/operator"
    if (go := shutil.which("go")) is None:
        return Client(name, absent="Go is not installed")
    steps = ((go, "list", "-deps", "."), (go, "build", "-p", "2", "-o", str(program), "."))
    return replace(_built(name, steps, source, ("operators", "go", str(program))), options=("--rbac",))


def _rust_operator(name: str) -> Client:
    folder = FOLDER / "rust-operator"
    if (cargo := shutil.which("cargo")) is None:
        return Client(name, absent="Rust is not installed")
    # A copy, because cargo writes its lock file beside the sources.
    source = shutil.copytree(HERE / "rust-operator", folder / "source", dirs_exist_ok=True)
    build = (cargo, "build", "--locked", "--quiet", "-j", "2", "--target-dir", str(folder))
    command = ("operators", "rust", str(folder / "debug/rust-operator"))
    return replace(_built(name, ((cargo, "fetch", "--quiet"), build), source, command), options=("--rbac",))


def _name_helm(module: str) -> str:
    return f"helm {module.partition('@v')[2]}"


def _helm(module: str, name: str) -> Client:
    folder = FOLDER / name.replace(" ", "-")
    program = folder / "helm"
    if program.exists():
        return Client(name, (sys.executable, "-m", "tests.clients.helm", str(program)))
    if (go := shutil.which("go")) is None:
        return Client(name, absent="Go is not installed, so that helm cannot be built")
    folder.mkdir(parents=True, exist_ok=True)
    return _built(name, ((go, "install", "-p", "2", module),), folder, ("helm", str(program)), {"GOBIN": str(folder)})


def _built(
    name: str,
    steps: tuple[tuple[str, ...], ...],
    source: Path,
    command: tuple[str, ...],
    more: Mapping[str, str] | None = None,
) -> Client:
    """Runs the steps of a build in its source folder; returns the client, with the reason if it cannot be used."""
    print(f"building {name} ...", file=sys.stderr, flush=True)
    for step in steps:
        if problem := _do(step, source, more or {}):
            said = problem.lower()
            if any(word in said for word in (*_UNREACHABLE, *_TOO_OLD)):
                return Client(name, absent=f"it cannot be built here: {_last_line(problem)}")
            return Client(name, failure=f"{' '.join(step[:2])}: {_last_line(problem)}")
    return Client(name, (sys.executable, "-m", f"tests.clients.{command[0]}", *command[1:]))


def _do(command: tuple[str, ...], folder: Path, more: Mapping[str, str]) -> str:
    """Runs a build step with low priority; returns its error message, or an empty string."""
    nice = ("nice", "-n", "10") if shutil.which("nice") else ()
    try:
        done = subprocess.run(
            [*nice, *command], cwd=folder, env={**os.environ, **more}, capture_output=True, text=True,
            timeout=_WITHIN, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"timed out after {_WITHIN} s"
    return "" if done.returncode == 0 else done.stderr.strip() or f"exit code {done.returncode}"


def _last_line(text: str) -> str:
    return text.splitlines()[-1][:300]
