"""Finds or installs the clients: every installed kubectl version, and each Python client in its own environment."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

__all__ = ["FOLDER", "ROOT", "Client", "find_clients", "find_python"]

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".venv-clients"
PACKAGES = ("kopf", "kr8s", "lightkube", "kubernetes", "kubernetes_asyncio", "schemathesis")
_DEBIAN = "kubernetes-client"
_WITHIN = 600


@dataclass(frozen=True)
class Client:
    """A client and how to run its script; `absent` says why it cannot be run, `failure` why it failed."""

    name: str
    command: tuple[str, ...] = ()
    absent: str | None = None
    failure: str | None = None
    options: tuple[str, ...] = ()
    """Additional arguments of its server."""


def find_clients(words: Collection[str] = ()) -> Iterator[Client]:
    """All clients, installed if missing; with `words`, only those whose name contains one of them."""
    FOLDER.mkdir(exist_ok=True)
    found = chain(_kubectls() if _may_be("kubectl", words) else (), _pythons(words))
    yield from (client for client in found if not words or any(word in client.name for word in words))


def _pythons(words: Collection[str]) -> Iterator[Client]:
    return (find_python(package) for package in PACKAGES if _may_be(package, words))


def _may_be(name: str, words: Collection[str]) -> bool:
    """Whether a word may select this client; its version is not known before it is installed."""
    return not words or any(re.sub(r"[\d. ]+$", "", word) in name for word in words)


def _kubectls() -> Iterator[Client]:
    """Debian's kubectl, and every other one on PATH, including those with a version in their name."""
    found: dict[str, Path] = {}
    for program in (*_unpack_debian(), *_on_path()):
        if version := _version(program):
            found.setdefault(version, program)
    if not found:
        yield Client("kubectl", absent=f"there is no kubectl on PATH, and apt-get cannot download {_DEBIAN}")
    for version in sorted(found, key=lambda text: [int(part) for part in text.split(".")]):
        yield Client(f"kubectl {version}", (sys.executable, "-m", "tests.clients.kubectl", str(found[version])))


def _unpack_debian() -> Iterator[Path]:
    """Unpacks Debian's package into a local folder, without root and without installing it."""
    folder = FOLDER / "kubectl-debian"
    program = folder / "usr/bin/kubectl"
    if not program.exists() and shutil.which("apt-get") and shutil.which("dpkg"):
        folder.mkdir(exist_ok=True)
        _do("apt-get", "download", _DEBIAN, cwd=folder)
        for package in folder.glob("*.deb"):
            _do("dpkg", "-x", str(package), str(folder), cwd=folder)
    if program.exists():
        yield program
    else:
        print(f"kubectl of Debian is left out: apt-get cannot download {_DEBIAN} here", file=sys.stderr)


def _on_path() -> Iterator[Path]:
    folders = [Path(part) for part in os.environ.get("PATH", "").split(os.pathsep) if part]
    if linked := shutil.which("kubectl"):
        folders.append(Path(linked).resolve().parent)  # a dispatcher has its versions beside itself
    for folder in dict.fromkeys(folders):
        yield from (path for path in sorted(folder.glob("kubectl*")) if re.fullmatch(r"kubectl(\.1\.\d+)?", path.name))


def _version(program: Path) -> str | None:
    """The version without the patch number; None if it is not kubectl, or a dispatcher that runs another binary."""
    done = subprocess.run([program, "version", "--client"], capture_output=True, text=True, timeout=60, check=False)
    found = re.search(r'v(1\.\d+)\.\d+([^\s"]*)', done.stdout)
    return found[1] if found and "dispatcher" not in found[2] else None


def find_python(package: str) -> Client:
    """One Python client, installed if it is missing."""
    FOLDER.mkdir(exist_ok=True)
    folder = FOLDER / package
    python = folder / "bin/python"
    mark = folder / "installed"
    if not mark.exists():
        print(f"installing {package} ...", file=sys.stderr, flush=True)
        _do(sys.executable, "-m", "venv", "--clear", str(folder), cwd=ROOT)
        pip = (str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        if problem := _do(*pip, package, "PyYAML", cwd=ROOT):
            return Client(package, failure=f"pip cannot install it: {problem}")
        mark.touch()
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    version = subprocess.run(
        [python, "-c", code], capture_output=True, text=True, timeout=60, check=True
    ).stdout.strip()
    return Client(f"{package} {version}", (str(python), "-m", f"tests.clients.{package}"))


def _do(*command: str, cwd: Path) -> str:
    """Runs a command; returns the last line of its error output, or an empty string."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=_WITHIN, check=False)
    lines = done.stderr.strip().splitlines()
    return "" if done.returncode == 0 else (lines[-1] if lines else f"exit code {done.returncode}")
