"""Writes the bill of materials (CycloneDX, JSON) of levelset with all extras and its systems.

`python -m scripts.sbom FILE` installs the wheels into an empty environment, in the versions of the lock, and lets
cyclonedx-py describe it: every package that running needs, its licence, and what depends on what; no tools of
development. It is the same text for the same commit and lock, without addresses and paths of the machine that made it.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from scripts.build_packages import ROOT, build_all
from scripts.environment import LOCKS
from scripts.package_trials import Installation

__all__ = ["constraints_of", "main", "write_sbom"]

_SPEC_VERSION: Final = "1.6"


def constraints_of(lock: str) -> str:
    """The names, versions and markers of a lock file, without its hashes: what an installer takes as constraints."""
    entries: list[str] = re.findall(r"^[\w.-]+==[^\\\n]+", lock, re.MULTILINE)
    return "".join(f"{entry.partition(' --hash')[0].strip()}\n" for entry in entries)


def write_sbom(path: Path) -> None:
    """Writes the bill of materials, valid by the schema of CycloneDX."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = _install(folder)
        command = [sys.executable, "-m", "cyclonedx_py", "environment", "--pyproject", str(ROOT / "pyproject.toml")]
        command += ["--mc-type", "library", "--spec-version", _SPEC_VERSION, "--output-reproducible", "--validate"]
        command += ["--output-file", str(path.resolve()), str(environment)]
        subprocess.run(command, check=True)


def _install(folder: Path) -> Path:
    """Installs all packages into an environment below the folder, and returns its path."""
    constraints = folder / "constraints.txt"
    constraints.write_text(constraints_of((ROOT / LOCKS["dev"]).read_text(encoding="utf-8")), encoding="utf-8")
    levelset, *systems = build_all(folder / "dist")
    it = Installation(sys.executable, folder / "installed")
    it.install("--constraint", str(constraints), f"{levelset.wheel}[all]", *(str(one.wheel) for one in systems))
    it.remove_installer()
    environment = folder / "installed" / "env"
    for origin in environment.glob("lib/python*/site-packages/levelset*.dist-info/direct_url.json"):
        origin.unlink()  # it has the path of the wheel on this machine
    return environment


def main(arguments: Sequence[str]) -> int:
    """Writes the file that is named."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m scripts.sbom FILE\n")
        return 2
    path = Path(arguments[0])
    write_sbom(path)
    print(f"wrote {path}, CycloneDX {_SPEC_VERSION}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
