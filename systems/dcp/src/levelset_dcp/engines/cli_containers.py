"""Containers by way of a command line tool."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from subprocess import DEVNULL, PIPE, STDOUT
from typing import Final

from levelset.aio import timing
from levelset_dcp.engines import arguments
from levelset_dcp.engines.arguments import Invocation, filters, named
from levelset_dcp.engines.cli_images import CliImages
from levelset_dcp.engines.errors import EngineError, EngineNotFound, EngineRefused, EngineTimedOut, Incomplete
from levelset_dcp.engines.interface import CALL, LONG_CALL, Sink
from levelset_dcp.engines.models import ContainerInfo, LogOrigin, NewContainer, NewExec
from levelset_dcp.engines.parsing import parse_container
from levelset_dcp.engines.refusals import explain, is_about_the_container
from levelset_dcp.engines.tool import Tail, pump

__all__ = ["CliContainers"]

_CHUNK: Final = 65536
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 10.0
_LAST_PAUSE: Final = 0.5


class CliContainers(CliImages):
    """Creates, starts, stops and removes containers, and shows what they write."""

    async def create_container(self, spec: NewContainer, *, out: Sink | None = None, err: Sink | None = None) -> str:
        """Creates a container; see Engine."""
        asked = f"create the container {spec.name or 'of ' + spec.image}"
        invocation = arguments.create_container(spec)
        printed = (await self._tool.run(invocation, asked=asked, limit=LONG_CALL, out=out, err=err)).out.split()
        if not printed:
            raise Incomplete(f"{asked}: the engine did not say which ID it has; look for it by its name")
        return printed[-1]

    async def start_container(self, container: str) -> None:
        """Starts a container; see Engine."""
        words = ("container", "start", named(container, "container"))
        await self._tool.run(Invocation(words), asked=f"start the container {container}")

    async def stop_container(self, container: str, *, grace: float = 10.0) -> None:
        """Stops a container; see Engine."""
        words = ("container", "stop", "--time", f"{max(0, round(grace))}", named(container, "container"))
        await self._tool.run(Invocation(words), asked=f"stop the container {container}", limit=CALL + grace)

    async def remove_container(self, container: str, *, force: bool = False) -> None:
        """Removes a container; see Engine."""
        asked = f"remove the container {container}"
        words = ("container", "rm", "--volumes", *(("--force",) if force else ()), named(container, "container"))
        answer = await self._tool.run(Invocation(words), asked=asked)
        if not answer.out.strip():
            # With force some versions say that it is not there, and that all is well.
            raise explain(asked, answer.code, answer.err) if answer.err else EngineNotFound(f"{asked}: it is not there")

    async def inspect_container(self, container: str) -> ContainerInfo:
        """What is known of a container; see Engine."""
        return parse_container(await self._inspect("container", container))

    async def list_containers(self, *, labels: Mapping[str, str] | None = None) -> tuple[ContainerInfo, ...]:
        """All containers with these labels; see Engine."""
        words = ("ps", "--all", "--no-trunc", *filters(labels), "--format", "{{.ID}}")
        found = (await self._tool.run(Invocation(words), asked="list containers")).out.split()
        return tuple(parse_container(one) for one in await self._inspect_all("container", found)) if found else ()

    async def exec(self, container: str, what: NewExec, *, out: Sink, err: Sink) -> int:
        """Runs a command inside of a container; see Engine."""
        asked = f"run {' '.join(what.command[:1])} in the container {container}"
        said = Tail(err)
        async with self._tool.started(arguments.execute(container, what)) as child:
            await asyncio.gather(pump(child.out, out), pump(child.err, said))
            code = await child.wait()
        # The command may have said this by itself; the engine knows.
        is_doubtful = code != 0 and is_about_the_container(said.text)
        if is_doubtful and not (await self.inspect_container(container)).is_running:
            raise EngineRefused(f"{asked}: it does not run")
        return code

    async def logs(
        self,
        container: str,
        *,
        origin: LogOrigin = "all",
        follow: bool = False,
        timestamps: bool = False,
        tail: int | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """What a container has written; see Engine."""
        await self.inspect_container(container)
        asked = f"read the log of the container {container}"
        invocation = arguments.logs(container, follow=follow, timestamps=timestamps, tail=tail)
        out, err = {"all": (PIPE, STDOUT), "stdout": (PIPE, DEVNULL), "stderr": (DEVNULL, PIPE)}[origin]
        said = Tail()
        async with self._tool.started(invocation, out=out, err=err) as child:
            stream = child.err if origin == "stderr" else child.out
            reading = self._followed(container, stream) if follow else _read(stream, asked)
            async with aclosing(reading) as chunks:
                async for data in chunks:
                    said.write(data)
                    yield data
            if not child.is_done:
                return  # the container has ended, and the tool did not notice
            code = await child.wait()
        if code != 0:
            why = explain(asked, code, said.text)
            if not isinstance(why, EngineNotFound):  # it was removed meanwhile
                raise why

    async def _followed(self, container: str, stream: asyncio.StreamReader | None) -> AsyncGenerator[bytes, None]:
        """What comes until nothing can come any more: some tools go on to wait when the container has ended."""
        pause, is_over = _FIRST_PAUSE, False
        while True:
            try:
                async with timing.within(_LAST_PAUSE if is_over else pause):
                    data = b"" if stream is None else await stream.read(_CHUNK)
            except TimeoutError:
                if is_over:
                    return
                is_over = await self._is_over(container)
                pause = min(2 * pause, _LONGEST_PAUSE)
                continue
            if not data:
                return
            pause = _FIRST_PAUSE
            yield data

    async def _is_over(self, container: str) -> bool:
        try:
            return (await self.inspect_container(container)).status in ("exited", "dead", "removing")
        except EngineNotFound:
            return True
        except EngineError:
            return False  # not known; the tool itself finds out if the engine is gone

    async def copy_in(self, container: str, folder: str, archive: bytes) -> None:
        """Unpacks an archive; see Engine."""
        invocation = arguments.copy_in(container, folder)
        await self._tool.run(invocation, asked=f"copy to {folder} of the container {container}", given=archive)

    def attach_command(self, container: str) -> tuple[str, ...]:
        """The words of a command that joins a terminal; see Engine."""
        return (self._tool.program, "attach", named(container, "container"))


async def _read(stream: asyncio.StreamReader | None, asked: str) -> AsyncGenerator[bytes, None]:
    """What comes until the tool has ended, which never waits for long."""
    while stream is not None:
        try:
            async with timing.within(CALL):
                data = await stream.read(_CHUNK)
        except TimeoutError as error:
            raise EngineTimedOut(f"{asked}: nothing came for {CALL:g} s") from error
        if not data:
            return
        yield data
