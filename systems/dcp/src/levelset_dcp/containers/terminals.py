"""The terminals of containers: the engine's tool shows each on a terminal of this machine, which is served on a socket.

The tool starts the container, so that no output is missed, and ends with its exit code. The socket is served until the
Container is deleted: a client that connects later gets the last output and the exit code.
"""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from msgspec import Struct

from levelset.aio import timing
from levelset_dcp.engines.errors import EngineRefused
from levelset_dcp.engines.interface import CALL, Engine
from levelset_dcp.kinds import Container
from levelset_dcp.kinds import Terminal as TerminalSettings
from levelset_dcp.workloads.terminals import TerminalRunner, open_terminal
from levelset_machine import CannotStart, Command, Run

__all__ = ["ContainerTerminals"]

_EXIT_SECONDS: Final = 3.0
"""How long the tool may take to see that its container was removed."""
_PAUSE: Final = 0.1


class _Shown(Struct, eq=False, frozen=True):
    """A container that is shown on a terminal."""

    run: Run
    """The engine's tool."""
    closing: AsyncExitStack
    socket: str


class ContainerTerminals:
    """Opens the terminals of containers, and closes them."""

    def __init__(self, runner: TerminalRunner, *, folder: Path, env: Mapping[str, str]) -> None:
        """`folder` is for the sockets without a path of their own, `env` the environment of the engine's tool."""
        self._runner = runner
        self._folder = folder
        self._env = env
        self._shown: dict[str, _Shown] = {}

    async def show(
        self, container: Container, settings: TerminalSettings, engine: Engine, container_id: str, *, start: bool
    ) -> str:
        """Shows a container, and starts it if `start`; returns the path of the socket. Raises EngineError.

        A container that is shown already is not started twice, unless the tool has ended.
        """
        uid = container.metadata.uid
        shown = self._shown.get(uid)
        if shown is not None and shown.run.ended is not None:
            await self.close(uid)
            shown = None
        if shown is None:
            shown = await self._open(uid, settings, engine.terminal_command(container_id, start=start))
        if start:
            await _started(engine, container_id, shown.run)
        return shown.socket

    async def _open(self, uid: str, settings: TerminalSettings, argv: tuple[str, ...]) -> _Shown:
        async with AsyncExitStack() as closing:
            try:
                terminal, socket = await open_terminal(settings, self._folder, uid, closing)
                run = self._runner.start_on(terminal, Command(argv=argv, env=self._env))
            except (OSError, CannotStart) as error:
                raise EngineRefused(f"cannot open the terminal: {error}") from error
            # No await between the start of the tool and its registration: a cancellation would lose it.
            shown = self._shown[uid] = _Shown(run, closing.pop_all(), socket)
            return shown

    async def close(self, uid: str) -> None:
        """Closes the terminal of a container that was removed, when its clients have the exit code."""
        shown = self._shown.pop(uid, None)
        if shown is None:
            return
        try:
            async with timing.within(_EXIT_SECONDS):
                await shown.run.wait()
        except TimeoutError:
            pass
        await shown.closing.aclose()

    async def close_all(self) -> None:
        """Closes all terminals; the containers keep running."""
        for uid in tuple(self._shown):
            await self._shown.pop(uid).closing.aclose()


async def _started(engine: Engine, container_id: str, run: Run) -> None:
    """Returns when the container was started, or the tool takes too long; raises EngineError if it cannot be."""
    until = timing.now() + CALL
    while timing.now() < until:
        has_ended = run.ended is not None
        if (await engine.inspect_container(container_id)).status != "created":
            return
        if has_ended:
            await engine.start_container(container_id)  # says why it cannot be started: the tool told the terminal
            raise EngineRefused("the engine has started the container without its terminal; delete it and try again")
        await timing.sleep(_PAUSE)
