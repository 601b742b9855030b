"""Builds all packages, installs the wheels into empty environments, one for each Python, and tries them there.

`python -m scripts.package_trials` uses every supported Python that it finds on PATH, in pyenv or with uv, and names
those that it does not find; `--python 3.12`, which may be given several times, fails where that one is missing.
It works in `build/packages`. Dependencies come from the configured index; levelset comes from the wheels only.
"""

import argparse
import base64
import json
import os
import re
import shlex
import shutil
import signal
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from scripts.build_packages import ROOT, Package, build_all, problems_of

from tests.project.markdown import blocks

__all__ = ["PYTHONS", "Installation", "TrialFailed", "find_python", "main"]

PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
"""The versions that are tried where they are found."""
_FOLDER: Final = ROOT / "build" / "packages"
_SYSTEMS: Final = ("levelset_local:local_system", "levelset_omnia:laptop_system", "levelset_dcp:laptop_system")
_LIMIT: Final = 300.0
"""The seconds that a command may take."""


class TrialFailed(Exception):
    """A command did not do what it should; the message has its output."""


class Installation:
    """An empty environment of one Python with wheels in it, and a folder to run commands in."""

    def __init__(self, python: str, folder: Path) -> None:
        self._bin = folder / "env" / "bin"
        self._uv = shutil.which("uv")
        self.folder = folder / "work"
        """Where commands run; empty at first."""
        self.folder.mkdir(parents=True)
        venv = [self._uv, "venv", "--quiet", "--python", python] if self._uv else [python, "-m", "venv"]
        self._call([*venv, str(folder / "env")], ROOT)

    def install(self, *words: str) -> None:
        """Installs wheels and packages of the configured index."""
        if self._uv:
            installer = [self._uv, "pip", "install", "--quiet", "--python", str(self._bin / "python")]
        else:
            installer = [str(self._bin / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        self._call([*installer, *words], ROOT)

    def remove_installer(self) -> None:
        """Removes the pip and setuptools that `venv` puts into an environment; nothing can be installed afterwards."""
        if not self._uv:
            self._call([str(self._bin / "python"), "-m", "pip", "uninstall", "--yes", "setuptools", "pip"], ROOT)

    def run(self, command: str, *, code: int = 0, folder: Path | None = None) -> str:
        """Runs a command of the environment, and returns its output; TrialFailed if the exit code is another."""
        return self._call(self._words(command), folder or self.folder, code=code)

    @contextmanager
    def serving(self, command: str, *, folder: Path | None = None) -> Generator[Mapping[str, Any], None, None]:
        """Runs a command until the end of the block, with what it prints as JSON when it is ready.

        TrialFailed if it prints no JSON, or does not stop with 0 at a SIGTERM.
        """
        where = folder or self.folder
        errors = where / "stderr"
        with (
            errors.open("w") as log,
            subprocess.Popen(
                self._words(command), cwd=where, env=self._environment(), stdout=subprocess.PIPE, stderr=log, text=True
            ) as process,
        ):
            try:
                assert process.stdout is not None, "it is a pipe"
                line = process.stdout.readline()
                if not line.startswith("{"):
                    raise TrialFailed(f"{command} printed {line!r} instead of JSON:\n{errors.read_text()}")
                yield json.loads(line)
                process.send_signal(signal.SIGTERM)
                code = process.wait(_LIMIT)
            finally:
                process.kill()
        if code != 0:
            raise TrialFailed(f"{command} stopped with {code} at SIGTERM:\n{errors.read_text()}")

    def _words(self, command: str) -> list[str]:
        name, *words = shlex.split(command)
        return [str(self._bin / name), *words]

    def _environment(self) -> dict[str, str]:
        """The environment of a user who has activated this one and has set nothing else."""
        unchanged = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LEVELSET_"))}
        path = f"{self._bin}{os.pathsep}{os.environ['PATH']}"
        return {**unchanged, "PATH": path, "VIRTUAL_ENV": str(self._bin.parent), "NO_COLOR": "1"}

    def _call(self, words: Sequence[str], folder: Path, *, code: int = 0) -> str:
        outcome = subprocess.run(
            words, cwd=folder, env=self._environment(), check=False, capture_output=True, text=True, timeout=_LIMIT
        )
        if outcome.returncode != code:
            shown = f"{shlex.join(words)} ended with {outcome.returncode}, expected {code}"
            raise TrialFailed(f"{shown}:\n{outcome.stdout}{outcome.stderr}")
        return outcome.stdout + outcome.stderr


def find_python(version: str) -> str | None:
    """The path of a Python of this version that runs: on PATH, in pyenv, or one that uv knows."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    found = [shutil.which(f"python{version}"), *map(str, sorted(pyenv.glob(f"versions/{version}.*/bin/python")))]
    if uv := shutil.which("uv"):
        answer = subprocess.run([uv, "python", "find", version], check=False, capture_output=True, text=True)
        found.append(answer.stdout.strip())
    return next((path for path in found if path and _is_python(path, version)), None)


def _is_python(path: str, version: str) -> bool:
    """Whether it runs and is of that version: a shim of pyenv may be on PATH and still not run."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    answer = subprocess.run([path, "-c", code], check=False, capture_output=True, text=True)
    return answer.stdout.strip() == version


def _try_without_extras(python: str, folder: Path, packages: Sequence[Package]) -> None:
    """Installed without extras, it is imported, and the command names what it needs."""
    it = Installation(python, folder)
    it.install(str(packages[0].wheel))
    _expect(packages[0].version, it.run('python -c "import levelset; print(levelset.__version__)"'))
    _expect("pip install 'levelset[cli]'", it.run("levelset --version", code=2))


def _try_version(it: Installation, packages: Sequence[Package]) -> None:
    """The command and the package have the version of the wheel."""
    _expect(f"levelset {packages[0].version}", it.run("levelset --version"))
    _expect(packages[0].version, it.run('python -c "import levelset; print(levelset.__version__)"'))
    where = it.run('python -c "import levelset; print(levelset.__file__)"')
    _expect(str(it.folder.parent / "env"), where)


def _try_serve(it: Installation, _: Sequence[Package]) -> None:
    """`levelset serve` answers at /readyz, and stops."""
    with it.serving("levelset serve --output json --kubeconfig serve.kubeconfig") as ready:
        text = (it.folder / "serve.kubeconfig").read_text(encoding="utf-8")
        found = re.search(r"certificate-authority-data\W+([\w+/=]+)", text)
        if found is None:
            raise TrialFailed(f"serve.kubeconfig has no certificate-authority-data:\n{text}")
        context = ssl.create_default_context(cadata=base64.b64decode(found[1]).decode())
        with urllib.request.urlopen(f"{ready['url']}/readyz", timeout=30, context=context) as response:
            _expect("ok", response.read().decode())


def _try_up(it: Installation, _: Sequence[Package]) -> None:
    """`levelset up` in an empty folder is a control plane, and names the missing systems where they are wanted."""
    with it.serving("levelset up --output json") as ready:
        _expect("https://", ready["url"])
    _expect("levelset_local", it.run("levelset up levelset_local:local_system", code=2))


def _try_project(it: Installation, _: Sequence[Package]) -> None:
    """`levelset init` makes a project whose tests pass and that runs."""
    it.run("levelset init shop --kind Order --api shop.example.dev/v1")
    shop = it.folder / "shop"
    _expect("2 passed", it.run("python -m pytest -q", folder=shop))
    _expect("no problems found", it.run("levelset check shop.operator", folder=shop))
    _expect("install.yaml", it.run("levelset generate manifests shop.operator --name shop --image shop:1", folder=shop))
    with it.serving("levelset up --output json", folder=shop) as ready:
        _expect("Order (shop.example.dev/v1)", ready["watches"])


def _try_readme(it: Installation, _: Sequence[Package]) -> None:
    """The programs of the README run."""
    example = it.folder / "02_hello.py"
    shutil.copy(ROOT / "examples" / example.name, example)
    with it.serving(f"python {example.name} --local --output json") as ready:
        _expect("Greeting (demo.example.dev/v1)", ready["watches"])
    for number, block in enumerate(block for block in blocks(ROOT / "README.md") if block.info == "python"):
        path = it.folder / f"readme{number}.py"
        path.write_text(block.text, encoding="utf-8")
        printed = it.run(f"python {path.name}")
        if "reconciles in a day" in block.text:
            _expect("292 reconciles in a day", printed)


def _try_tutorial(it: Installation, _: Sequence[Package]) -> None:
    """Every command of the tutorial prints what the page shows."""
    page = ROOT / "docs" / "tutorial.md"
    lines = page.read_text(encoding="utf-8").splitlines()
    folder = it.folder
    for block in blocks(page):
        if block.info == "python":
            named: list[str] = re.findall(r"Write into `([^`]+)`:", "\n".join(lines[: block.line - 1]))
            (folder / named[-1]).write_text(block.text, encoding="utf-8")
            continue
        printed = ""
        for line in block.text.splitlines():
            if line.startswith("$ cd "):
                folder /= line.removeprefix("$ cd ")
            elif not line.startswith("$ "):
                _expect(line, printed)
            elif not line.startswith(("$ python3 -m venv ", "$ source ", "$ pip ")):  # it is installed from the wheel
                printed = it.run(line.removeprefix("$ "), folder=folder)


def _try_systems(it: Installation, packages: Sequence[Package]) -> None:
    """The wheels of the systems are installed beside it, and run."""
    it.install(*(str(package.wheel) for package in packages[1:]))
    for package in packages[1:]:
        it.run(f'python -c "import {package.module}"')
    it.run("levelset-omnia --help")
    _expect(packages[0].version, it.run("levelset-dcp version"))
    with it.serving(f"levelset up {' '.join(_SYSTEMS)} --output json") as ready:
        _expect("Deployment (apps/v1)", ready["watches"])
        _expect("AgentRuntime (omnia.altairalabs.ai/v1alpha2)", ready["watches"])


_TRIALS: Final[Sequence[Callable[[Installation, Sequence[Package]], None]]] = (
    _try_version,
    _try_serve,
    _try_up,
    _try_project,
    _try_readme,
    _try_tutorial,
    _try_systems,
)
"""The trials of one environment, in this order: the last one installs more."""


def _expect(wanted: str, found: str | Sequence[str]) -> None:
    if wanted not in found:
        raise TrialFailed(f"expected {wanted!r}, found:\n{found}")


def _try_all(python: str, folder: Path, packages: Sequence[Package]) -> Iterator[str]:
    """Runs the trials with one Python, and yields what each has shown."""
    _try_without_extras(python, folder / "bare", packages)
    yield str(_try_without_extras.__doc__)
    it = Installation(python, folder / "all")
    it.install(f"{packages[0].wheel}[all]", "pytest", "ruff", "mypy")
    for trial in _TRIALS:
        trial(it, packages)
        yield str(trial.__doc__)


def _build() -> list[Package]:
    """Builds the packages and checks them; SystemExit with what is wrong."""
    shutil.rmtree(_FOLDER, ignore_errors=True)
    packages = build_all(_FOLDER / "dist")
    problems = [problem for package in packages for problem in problems_of(package)]
    if problems:
        raise SystemExit("\n".join(problems))
    files = [str(path) for package in packages for path in (package.sdist, package.wheel)]
    outcome = subprocess.run(
        [sys.executable, "-m", "twine", "--no-color", "check", "--strict", *files],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    if outcome.returncode != 0:
        raise SystemExit(outcome.stdout + outcome.stderr)
    for package in packages:
        print(f"built {package.sdist.name} and {package.wheel.name}", flush=True)
    return packages


def main(arguments: Sequence[str]) -> int:
    """Builds and tries everything; 1 if a trial failed, or a required Python is missing."""
    parser = argparse.ArgumentParser(prog="make test-packages", description="Builds and tries the packages.")
    parser.add_argument("--python", action="append", metavar="VERSION", help="a Python that must be there: 3.12")
    wanted: list[str] | None = parser.parse_args(arguments).python
    packages = _build()
    failed: list[str] = []
    for version in wanted or PYTHONS:
        python = find_python(version)
        if python is None:
            print(f"Python {version}: skipped, not found on PATH, in pyenv or with uv", flush=True)
            failed += [version] if wanted else []
            continue
        try:
            _report(version, python, packages)
        except (TrialFailed, OSError, subprocess.TimeoutExpired) as error:
            print(f"Python {version}: failed: {error}", flush=True)
            failed.append(version)
    print(f"failed: Python {', '.join(failed)}" if failed else f"all packages work; they are in {_FOLDER / 'dist'}")
    return 1 if failed else 0


def _report(version: str, python: str, packages: Sequence[Package]) -> None:
    began = time.monotonic()
    for shown in _try_all(python, _FOLDER / version, packages):
        now = time.monotonic()
        print(f"Python {version}: {now - began:5.1f} s  {shown}", flush=True)
        began = now


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
