"""Runs a command of levelset that serves, for suites of other projects: a process, its kubeconfig and its log."""

import json
import os
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from scripts.kube_binaries import Missing

__all__ = ["ROOT", "run_levelset"]

ROOT: Final = Path(__file__).resolve().parent.parent
_COMMAND: Final = "from levelset.cli.main import main; main()"


@contextmanager
def run_levelset(
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str] | None = None,
    *,
    through: Sequence[str] = (),
) -> Generator[Path]:
    """Runs `levelset ARGUMENTS` in a folder; yields its kubeconfig when it is ready, and ends it afterwards.

    Its log is `server.log` in the folder. `through` is a command that executes the one behind it. Raises `Missing` if
    it does not start.
    """
    kubeconfig, log = folder / "kubeconfig", folder / "server.log"
    command = [
        *through,
        sys.executable,
        "-c",
        _COMMAND,
        *arguments,
        "--kubeconfig",
        str(kubeconfig),
        "--output",
        "json",
    ]
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line.startswith("{"):
                raise Missing(f"levelset {' '.join(arguments)} did not start: {log.read_text('utf-8')[-2000:]}")
            print(f"levelset {' '.join(arguments)}: {json.loads(line)['url']}, logs in {folder}", flush=True)
            yield kubeconfig
        finally:
            process.terminate()
            process.wait(60)
