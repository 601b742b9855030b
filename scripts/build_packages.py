"""Builds the sdist and the wheel of every package of this repository, and checks what they contain.

`scripts/build_packages.py FOLDER` writes them into FOLDER. It needs hatchling and packaging, and no network: the
backend runs in this environment. A wheel is also built from its sdist alone, and must be the same file.
"""

import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.metadata import InvalidMetadata, Metadata
from scripts.environment import PACKAGES

__all__ = ["ROOT", "Package", "build_all", "build_package", "main", "problems_of"]

ROOT: Final = Path(__file__).resolve().parent.parent
_OF_TESTS: Final = re.compile(r"(^|/)(tests?|__pycache__)/|(^|/)(test_[^/]*|conftest)\.py$|\.pyc$")
_IN_SDIST: Final = ("LICENSE", "PKG-INFO", "README.md", "pyproject.toml")


@dataclass(frozen=True, slots=True)
class Package:
    """A package that was built: its sources, and the two files."""

    source: Path
    sdist: Path
    wheel: Path

    @property
    def module(self) -> str:
        """The name that is imported: `levelset_dcp`."""
        return self.wheel.name.partition("-")[0]

    @property
    def version(self) -> str:
        """The version in the name of the wheel."""
        return self.wheel.name.split("-")[1]


def build_all(folder: Path, *, root: Path = ROOT) -> list[Package]:
    """Builds every package of the repository; levelset itself is the first."""
    return [build_package(root / path, folder) for path in PACKAGES]


def build_package(source: Path, folder: Path) -> Package:
    """Builds the sdist and the wheel of one package into the folder."""
    return Package(source, _build(source, "sdist", folder), _build(source, "wheel", folder))


def problems_of(package: Package) -> list[str]:
    """What is wrong with the files of a package, a sentence each; empty if nothing is."""
    return [*_wheel_problems(package), *_sdist_problems(package)]


def _wheel_problems(package: Package) -> Iterator[str]:
    with zipfile.ZipFile(package.wheel) as archive:
        names = set(archive.namelist())
        info = f"{package.module}-{package.version}.dist-info"
        metadata = archive.read(f"{info}/METADATA")
    name = package.wheel.name
    for path in sorted(names):
        if path.partition("/")[0] not in {package.module, info}:
            yield f"{name}: {path} is outside of the package {package.module}"
        if _OF_TESTS.search(path):
            yield f"{name}: {path} is for development only"
    sources = {path.relative_to(package.source / "src").as_posix() for path in package.source.glob("src/**/*.py")}
    wanted = {*sources, f"{package.module}/py.typed", f"{info}/licenses/LICENSE"}
    yield from (f"{name}: {path} is missing" for path in sorted(wanted - names))
    yield from (f"{name}: {problem}" for problem in _metadata_problems(metadata))


def _metadata_problems(text: bytes) -> Iterator[str]:
    try:
        metadata = Metadata.from_email(text, validate=True)
    except ExceptionGroup as error:
        yield from (str(one) for one in error.exceptions if isinstance(one, InvalidMetadata))
        return
    if not (metadata.description or "").strip():
        yield "METADATA has no description: add readme = to pyproject.toml"
    if metadata.license_expression != "Apache-2.0":
        yield f"METADATA has the licence {metadata.license_expression}, expected Apache-2.0"
    if metadata.requires_python is None:
        yield "METADATA has no Requires-Python: add requires-python = to pyproject.toml"


def _sdist_problems(package: Package) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(package.sdist) as archive:
            archive.extractall(folder, filter="data")
        (unpacked,) = Path(folder).iterdir()
        missing = [name for name in _IN_SDIST if not (unpacked / name).is_file()]
        yield from (f"{package.sdist.name}: {name} is missing" for name in missing)
        if missing:
            return
        again = _build(unpacked, "wheel", Path(folder, "again"))
        if again.name != package.wheel.name or again.read_bytes() != package.wheel.read_bytes():
            yield f"{package.sdist.name}: the wheel that is built from it differs from {package.wheel.name}"


def _build(source: Path, target: str, folder: Path) -> Path:
    """Runs hatchling for one target, and returns the file that it wrote."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as made:
        command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(Path(made).resolve())]
        outcome = subprocess.run(command, cwd=source, check=False, capture_output=True, text=True)
        if outcome.returncode != 0:
            raise SystemExit(f"building the {target} of {source} failed:\n{outcome.stdout}{outcome.stderr}".rstrip())
        (path,) = Path(made).iterdir()
        return path.replace(folder / path.name)


def main(arguments: Sequence[str]) -> int:
    """Builds into the folder that is named, and prints each file; 1 if something is wrong with one."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m scripts.build_packages FOLDER\n")
        return 2
    folder = Path(arguments[0])
    shutil.rmtree(folder, ignore_errors=True)
    problems: list[str] = []
    for package in build_all(folder):
        problems += problems_of(package)
        for path in (package.sdist, package.wheel):
            print(f"{path.stat().st_size / 1024:8.0f} KiB  {path.name}")
    for problem in problems:
        sys.stderr.write(f"{problem}\n")
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
