"""A test bench with a fake command line tool on the PATH, and an engine that uses it."""

import ast
import asyncio
import os
import signal
import sys
from pathlib import Path

from levelset_dcp.engines import DockerEngine, PodmanEngine
from levelset_dcp.engines.cli.engine import CliEngine
from systems.dcp.tests.engines.bench import Bench
from systems.dcp.tests.engines.cli.fake_state import LAUNCH, State

__all__ = ["FakeBench"]

_ROOT = Path(__file__).parents[5]
_SCRIPT = """#!/bin/sh
exec '{python}' {flag} '{code}' '{root}' {dialect} '{folder}' "$@"
"""


class FakeBench(Bench):
    """An engine with a fake tool."""

    seconds = 10.0

    def __init__(self, folder: Path, dialect: str, *, period: float = 5.0) -> None:
        self.folder = folder / "state"
        self.folder.mkdir()
        path = folder / "bin"
        path.mkdir()
        text = _SCRIPT.format(
            python=sys.executable, flag=LAUNCH[0], code=LAUNCH[1], root=_ROOT, dialect=dialect, folder=self.folder
        )
        (path / dialect).write_text(text)
        (path / dialect).chmod(0o755)
        self.state = State(self.folder, dialect)
        self.state.add_network("bridge" if dialect == "docker" else "podman", {})
        image = {"id": self.state.new_id(), "name": self.image, "labels": {}}
        self.state.put("images", self.image, image)
        env = {"PATH": f"{path}:{os.environ['PATH']}", "HOME": str(folder)}
        self.tool = str(path / dialect)
        self.cli: CliEngine = (DockerEngine if dialect == "docker" else PodmanEngine)(self.tool, env=env, period=period)
        super().__init__(self.cli)

    async def calls(self) -> list[list[str]]:
        """The arguments of all calls."""
        return await asyncio.to_thread(self._calls)

    async def set_fault(self, name: str, text: str = "") -> None:
        """Enables a fault of the tool."""
        await asyncio.to_thread((self.folder / name).write_text, text)

    async def clear_fault(self, name: str) -> None:
        """Disables a fault of the tool."""
        await asyncio.to_thread((self.folder / name).unlink)

    def _calls(self) -> list[list[str]]:
        path = self.folder / "calls"
        return [ast.literal_eval(line) for line in path.read_text().splitlines()] if path.exists() else []

    def end(self) -> None:
        """Kills the programs that still run."""
        for one in self.state.table("containers").values():
            if one["status"] == "running" and "pid" in one:
                try:
                    os.killpg(one["pid"], signal.SIGKILL)
                except ProcessLookupError:
                    continue
