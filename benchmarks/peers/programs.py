"""The programs that `bench-runtimes` measures, built or installed on first use, or why one cannot be had.

Builds are cached in .cache/peers, Python clients in .venv-clients. Versions are those of go.sum and of Cargo.lock.pinned.
"""

import hashlib
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

__all__ = ["HERE", "Absent", "Peer", "build_go", "build_rust", "levelset", "python_client"]

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
CACHE: Final = ROOT / ".cache" / "peers"
_MORE: Final = {"cloudcoil": "cloudcoil-models-kubernetes"}
"""Packages that a client needs for this work, beside itself."""


class Absent(Exception):
    """A program cannot be had; the message says why."""


@dataclass(frozen=True)
class Peer:
    """A program of the benchmark: its command without the work, and the command of its start."""

    name: str
    version: str
    command: tuple[str, ...]
    start: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)

    def command_of(self, words: Sequence[str]) -> list[str]:
        return [*self.start] if words == ["start"] and self.start else [*self.command, *words]


def levelset(name: str = "levelset", python: str = sys.executable, loop: str = "") -> Peer:
    """levelset of this tree, in a Python and on an event loop (by default that of `levelset.run`)."""
    code = "import sys, levelset; print(levelset.__version__, '%d.%d.%d' % sys.version_info[:3])"
    # Bytecode is written even where the environment says no: a start would compile everything again.
    environment = {"PYTHONPATH": str(ROOT / "src"), "BENCH_LOOP": loop, "PYTHONDONTWRITEBYTECODE": ""}
    done = subprocess.run([python, "-c", code], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Absent(f"{python} does not import levelset: {done.stderr.strip().splitlines()[-1]}")
    version, number = done.stdout.split()
    command, start = (python, str(HERE / "levelset_peer.py")), (python, str(HERE / "levelset_start.py"))
    return Peer(name, f"{version} on Python {number}", command, start, environment)


def build_go() -> Peer:
    """The program in Go, with controller-runtime."""
    if (go := shutil.which("go")) is None:
        raise Absent("Go is not installed")
    source, program = HERE / "go", CACHE / "go" / "peer"
    if not _is_built(program, source):
        _do((go, "build", "-p", "2", "-o", str(program), "."), source)
        _stamp(program, source)
    lines = (source / "go.mod").read_text().splitlines()
    version = next(line.split()[1] for line in lines if "sigs.k8s.io/controller-runtime " in line)
    return Peer("controller-runtime", version.removeprefix("v"), (str(program),))


def build_rust() -> Peer:
    """The program in Rust, with kube-rs."""
    if (cargo := shutil.which("cargo")) is None:
        raise Absent("Rust is not installed")
    source, target = HERE / "rust", CACHE / "rust"
    program, pinned = target / "release" / "peer", source / "Cargo.lock.pinned"
    if not _is_built(program, source):
        copy = shutil.copytree(source, CACHE / "rust-source", dirs_exist_ok=True)
        (copy / "Cargo.lock").unlink(missing_ok=True)
        _do((cargo, "generate-lockfile", "--quiet"), copy)
        made = (copy / "Cargo.lock").read_text()
        (copy / "Cargo.lock").write_text(_with_sources(pinned.read_text(), made))
        _do((cargo, "build", "--release", "--locked", "--quiet", "-j", "2", "--target-dir", str(target)), copy)
        _stamp(program, source)
    packages = tomllib.loads(pinned.read_text())["package"]
    return Peer("kube-rs", next(one["version"] for one in packages if one["name"] == "kube"), (str(program),))


def pin(lock: str) -> str:
    """A lock file without the address of the registry, for the repository."""
    return "".join(line for line in lock.splitlines(keepends=True) if not line.startswith("source = "))


def _with_sources(pinned: str, made: str) -> str:
    """The pinned lock file, with the registry of one that cargo has made here."""
    source = next(line for line in made.splitlines() if line.startswith("source = "))
    lines = [line if not line.startswith("checksum = ") else f"{source}\n{line}" for line in pinned.splitlines()]
    return "\n".join(lines) + "\n"


def python_client(package: str, script: str) -> Peer:
    """A Python client in an environment of its own."""
    from tests.clients.environments import find_python

    found = find_python(package)
    if found.failure:
        raise Absent(found.failure)
    python = Path(found.command[0])
    if (more := _MORE.get(package)) and not (mark := python.parents[1] / "more-installed").exists():
        _do((str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", more), ROOT)
        mark.touch()
    name, _, version = found.name.partition(" ")
    return Peer(name, version, (found.command[0], str(HERE / script), package))


def _is_built(program: Path, source: Path) -> bool:
    """Whether the program was built of these sources; their times say nothing, since a checkout changes them."""
    stamp = program.with_suffix(".sha256")
    return program.exists() and stamp.exists() and stamp.read_text() == _digest(source)


def _stamp(program: Path, source: Path) -> None:
    program.with_suffix(".sha256").write_text(_digest(source))


def _digest(source: Path) -> str:
    found = hashlib.sha256()
    for path in sorted(one for one in source.rglob("*") if one.is_file()):
        found.update(path.relative_to(source).as_posix().encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


def _do(command: tuple[str, ...], folder: Path) -> None:
    print(f"{' '.join(Path(one).name for one in command[:2])} in {folder.name} ...", file=sys.stderr, flush=True)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        tail = "\n".join(done.stderr.strip().splitlines()[-5:])
        raise Absent(f"`{' '.join(command[:2])}` failed: {tail}")
