"""What Docker and Podman have in common: an engine that is asked by way of its command line tool.

```python
async with DockerEngine() as engine:  # inside, its health is looked after in the background
    await engine.check_status(cached=True)
```
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from types import TracebackType
from typing import Final, Self

from levelset.aio import Backoff, timing
from levelset_dcp.engines.arguments import Invocation
from levelset_dcp.engines.cli_containers import CliContainers
from levelset_dcp.engines.dialects import Dialect
from levelset_dcp.engines.errors import EngineError, RuntimeNotHealthy
from levelset_dcp.engines.health import PERIOD, Health
from levelset_dcp.engines.models import EngineEvent, EngineStatus
from levelset_dcp.engines.parsing_events import parse_event
from levelset_dcp.engines.tool import Tool
from levelset_dcp.engines.versions import is_older, version_of

__all__ = ["CliEngine"]

_CONNECTED: Final = EngineEvent(kind="engine", action="connected")
_VERSION_CALL: Final = 2.0
_AGAIN: Final = Backoff(first=0.2, cap=10.0)


class CliEngine(CliContainers):
    """An engine behind a command line tool, which speaks a dialect."""

    def __init__(
        self, dialect: Dialect, program: str, *, env: Mapping[str, str] | None = None, period: float = PERIOD
    ) -> None:
        self._dialect = dialect
        self._tool = Tool(program, env=env)
        self._health = Health(self._look, period=period)

    @property
    def name(self) -> str:
        """What it is called."""
        return self._dialect.name

    @property
    def host_name(self) -> str:
        """The name by which containers reach this machine."""
        return self._dialect.host_name

    @property
    def default_network(self) -> str:
        """The network that a container is in unless it was told another."""
        return self._dialect.default_network

    async def __aenter__(self) -> Self:
        await self._health.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._health.__aexit__(kind, error, trace)

    async def check_status(self, *, cached: bool = False) -> EngineStatus:
        """How the engine is; see Engine."""
        return await (self._health.cached() if cached else self._health.now())

    async def watch(self) -> AsyncGenerator[EngineEvent, None]:
        """What happens from now on; see Engine."""
        delays = _AGAIN.delays()
        while True:
            if (await self.check_status()).is_healthy:
                begun = timing.now()
                try:
                    async with aclosing(self._events()) as events:
                        async for event in events:
                            yield event
                except RuntimeNotHealthy:
                    pass  # it went away in between; looked at again below
                if timing.now() - begun > _AGAIN.cap:
                    delays.reset()
            await timing.sleep(next(delays))

    async def _events(self) -> AsyncGenerator[EngineEvent, None]:
        """One run of the tool: all that has happened since before it was started, so that nothing is missed."""
        since = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        async with self._tool.started(Invocation(("events", "--since", since, *self._dialect.event_words))) as child:
            yield _CONNECTED
            stream = child.out
            while stream is not None:
                try:
                    line = await stream.readline()
                except ValueError:
                    continue  # longer than any event; the rest of it is no JSON either
                if not line:
                    return
                event = parse_event(line)
                if event is not None:
                    yield event

    async def _look(self) -> EngineStatus:
        """Whether it is there, is young enough, and answers."""
        name = self._tool.program
        try:
            said = await self._tool.run(Invocation(("--version",)), asked=f"{name} --version", limit=_VERSION_CALL)
        except RuntimeNotHealthy as error:
            return EngineStatus(is_installed=False, is_running=False, message=str(error))
        except EngineError as error:
            return EngineStatus(is_installed=True, is_running=False, message=str(error))
        version = version_of(said.out)
        if is_older(version, self._dialect.oldest):
            oldest = ".".join(str(part) for part in self._dialect.oldest)
            words = f"{name} {version} is too old; install {oldest} or later"
            return EngineStatus(is_installed=True, is_running=False, version=version, message=words)
        try:
            await self._tool.run(Invocation(("network", "ls", "--format", "{{.ID}}")), asked=f"{name} network ls")
        except EngineError as error:
            return EngineStatus(is_installed=True, is_running=False, version=version, message=str(error))
        return EngineStatus(is_installed=True, is_running=True, version=version)
