"""Sets up .venv: what running needs, or what development needs, in the versions of the lock files.

`scripts/environment.py run` installs requirements/run.txt and the packages of this repository, which are used from
their sources; `dev` adds requirements/dev.txt. It uses uv where that is on PATH and pip otherwise, and prints a line
for each step with the elapsed seconds. It needs the standard library only.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

__all__ = ["LOCKS", "PACKAGES", "Environment", "StepFailed", "has_host_pip", "main", "progress_of"]

ROOT: Final = Path(__file__).resolve().parent.parent
LOCKS: Final = {"run": "requirements/run.txt", "dev": "requirements/dev.txt"}
"""The lock file of each set of packages."""
PACKAGES: Final = (".", "systems/machine", "systems/local", "systems/omnia", "systems/dcp")
"""The packages of this repository."""
_PIP_OPTIONS: Final = ("--disable-pip-version-check", "--no-input", "--progress-bar", "off", "--no-deps")
_IS_USABLE: Final = "import sys; sys.exit(sys.version_info < (3, 11))"


class StepFailed(Exception):
    """A command of the installation failed; the message has the end of its output and the next step."""


class Environment:
    """The virtual environment of a repository, and the installer that fills it."""

    def __init__(self, root: Path, *, uv: str | None, host_pip: bool = False) -> None:
        self._root = root
        self._uv = uv
        self._host_pip = host_pip
        self._began = time.monotonic()
        self._python = root / ".venv" / "bin" / "python"

    def set_up(self, what: str) -> None:
        """Creates the environment if it is missing, and installs the set `what`, which is a key of `LOCKS`."""
        if not self._is_usable():
            self._create()
        lock = self._root / LOCKS[what]
        count = len(re.findall(r"^[\w.-]+==", lock.read_text(encoding="utf-8"), re.MULTILINE))
        self._say(f"{'uv' if self._uv else 'pip'} installs up to {count} packages of {LOCKS[what]}")
        with self._compiling_sources():
            self._install("--require-hashes", "--requirement", LOCKS[what])
            if what == "run":
                self._install_packages()
        (self._root / ".venv" / f"{what}.installed").touch()
        self._say("the environment is ready")

    def _is_usable(self) -> bool:
        """Whether there is an environment whose Python runs: a Python that was removed leaves a dead link."""
        try:
            check = subprocess.run([self._python, "-c", _IS_USABLE], check=False, capture_output=True)
        except OSError:
            return False
        return check.returncode == 0

    def _create(self) -> None:
        self._say(f"creating .venv with Python {sys.version.split()[0]}")
        shutil.rmtree(self._root / ".venv", ignore_errors=True)
        if self._uv:
            self._run([self._uv, "venv", "--quiet", "--python", sys.executable, ".venv"])
            return
        # Copying pip into the environment takes a third of the installation; the pip of this Python can do without.
        if self._host_pip:
            self._run([sys.executable, "-m", "venv", "--without-pip", ".venv"])
            return
        hint = "on Debian: apt-get install python3-venv. Then type make again"
        self._run([sys.executable, "-m", "venv", ".venv"], hint=hint)

    @contextmanager
    def _compiling_sources(self) -> Generator[None, None, None]:
        """Compiles the sources of this repository while the block waits for downloads; ends after both.

        Installers compile what they unpack, and not what is used from its sources: the first start would do it.
        """
        sources = [str(self._root / "examples"), *(str(self._root / path / "src") for path in PACKAGES)]
        compiling = [str(self._python), "-m", "compileall", "-qq", *sources]
        # It gets a Ctrl-C too, and would show a traceback.
        with subprocess.Popen(compiling, stderr=subprocess.DEVNULL) as process:
            try:
                yield
            except BaseException:
                process.terminate()
                raise

    def _install_packages(self) -> None:
        """Installs the packages of this repository from their sources; hatchling, which builds them, is in the lock."""
        self._say("adding levelset and its systems, from their sources")
        editables = [word for path in PACKAGES for word in ("--editable", path)]
        self._install("--no-index", "--no-build-isolation", *editables)

    def _install(self, *words: str) -> None:
        if self._uv:
            target = ("--python", str(self._python), "--no-deps", "--compile-bytecode")
            self._run([self._uv, "pip", "install", *target, *words])
        elif self._host_pip:
            self._run([sys.executable, "-m", "pip", "--python", str(self._python), "install", *_PIP_OPTIONS, *words])
        else:
            self._run([str(self._python), "-m", "pip", "install", *_PIP_OPTIONS, *words])

    def _run(self, command: Sequence[str], *, hint: str = "") -> None:
        """Runs a command, and shows the packages that its output names; StepFailed if it fails."""
        output: list[str] = []
        # A configured index or environment is the user's; only the target is ours.
        environment = {**os.environ, "VIRTUAL_ENV": str(self._root / ".venv")}
        with subprocess.Popen(
            command, cwd=self._root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            assert process.stdout is not None, "it is a pipe"
            for line in process.stdout:
                output.append(line)
                if shown := progress_of(line):
                    self._say(shown)
        if process.returncode != 0:
            tail = "".join(output[-20:]).rstrip()
            raise StepFailed(f"{' '.join(command[:4])} ... failed:\n{tail}\n{hint}".rstrip())

    def _say(self, what: str) -> None:
        sys.stdout.write(f"{time.monotonic() - self._began:6.1f} s  {what}\n")
        sys.stdout.flush()


def progress_of(line: str) -> str | None:
    """What to show for a line of the installer's output: the package it works on, if the line names one."""
    if match := re.match(r"Collecting ([\w.-]+)==(\S+)", line):
        return f"  {match[1]} {match[2]}"
    if match := re.match(r"Installing collected packages: (.*)", line):
        return f"  unpacking {match[1].count(',') + 1} packages"
    if match := re.match(r"((?:Resolved|Prepared|Installed) \d+ packages? in .*)", line):
        return f"  {match[1].lower()}"
    return None


def has_host_pip() -> bool:
    """Whether the Python that runs this has a pip that can install into another environment: 22.3 or newer."""
    try:
        found = re.match(r"(\d+)\.(\d+)", version("pip"))
    except PackageNotFoundError:
        return False
    return found is not None and (int(found[1]), int(found[2])) >= (22, 3)


def main(arguments: Sequence[str]) -> int:
    """Sets up the set that is named; returns the exit code."""
    if len(arguments) != 1 or arguments[0] not in LOCKS:
        sys.stderr.write(f"usage: scripts/environment.py {'|'.join(LOCKS)}\n")
        return 2
    try:
        Environment(ROOT, uv=shutil.which("uv"), host_pip=has_host_pip()).set_up(arguments[0])
    except StepFailed as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; type make again to go on\n")
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
