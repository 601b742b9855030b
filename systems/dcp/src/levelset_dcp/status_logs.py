"""The `log` subresources of a server without controllers: what the status names is read.

Another process runs the controllers then, and writes `status.stdOutFile` and its like. The output of a container comes
from the engine, by `status.containerId`.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from msgspec import Struct

from levelset import Client, Manager, NotFound, Object, Ref
from levelset.aio import timing
from levelset.apiserver import LogRequest
from levelset.errors import BadRequest, LevelsetError, NotReady
from levelset_dcp import kinds
from levelset_dcp.containers.logs import read_output, status_in
from levelset_dcp.engines.interface import Engine
from levelset_dcp.engines.models import LogOrigin
from levelset_machine import ForeignLogFile, LogOptions

__all__ = ["StatusLogs"]

_FILES: Final[Mapping[type[Object], Mapping[str, str]]] = {
    kinds.Executable: {"stdout": "std_out_file", "stderr": "std_err_file"},
    kinds.ContainerExec: {"stdout": "std_out_file", "stderr": "std_err_file"},
    kinds.Container: {"startup_stdout": "startup_std_out_file", "startup_stderr": "startup_std_err_file"},
}
"""The fields of the status with the path of a log, by kind and source."""
_ORIGINS: Final[Mapping[str, LogOrigin]] = {"stdout": "stdout", "stderr": "stderr"}
_JSON_NAMES: Final = {
    "std_out_file": "stdOutFile",
    "std_err_file": "stdErrFile",
    "startup_std_out_file": "startupStdOutFile",
    "startup_std_err_file": "startupStdErrFile",
    "container_id": "containerId",
}
_POLL: Final = 0.2
"""Seconds between looks for a file that the status names, and that does not exist yet."""
_LINGER: Final = 5.0
"""Seconds that a log is followed after its object is over: its last lines may be written later, as upstream."""


class StatusLogs:
    """The logs that the status of an object names; `connect` before the first request."""

    def __init__(self, engine: Engine | None = None, *, linger: float = _LINGER) -> None:
        self._engine = engine
        self._linger = linger
        self._manager: Manager | None = None

    def connect(self, manager: Manager) -> None:
        """Gives it the manager with whose client it waits for changes of the status."""
        self._manager = manager

    def source(self, kind: type[Object]) -> Callable[[LogRequest], Awaitable[AsyncIterator[bytes]]]:
        """The handler of the logs of Executables, Containers or ContainerExecs.

        A follow request for a log that the status does not name yet waits until it does, or the object is over.
        """
        files = _FILES[kind]
        origins = _ORIGINS if kind is kinds.Container else {}

        async def read(request: LogRequest) -> AsyncIterator[bytes]:
            query = dict(request.query)
            source = query.pop("source", None) or "stdout"
            _check(request, kind, source, (*origins, *files))
            options = LogOptions.of_query(query, now=datetime.now(UTC))
            log = _Log(Ref(kind, request.name), request.tree["metadata"]["uid"], files.get(source, "container_id"))
            value = status_in(request.tree).get(_JSON_NAMES[log.field], "")
            if source not in origins:
                await _check_file(value)
                return self._lines(log, value, options)
            if self._engine is None:
                raise BadRequest("this server has no container engine: name one with --container-runtime")
            return self._output(self._engine, log, value, origins[source], options)

        return read

    async def _lines(self, log: "_Log", path: str, options: LogOptions) -> AsyncIterator[bytes]:
        """The lines of a file; it may not exist yet."""
        file = await _open(path)
        if file is None and options.follow:
            file = await self._wait_file(log)
        if file is None:
            return
        with file:
            over = asyncio.Event()
            watching = asyncio.create_task(self._watch_end(log, over), name=f"end of {log.ref}")
            try:
                async for piece in file.read(options, over=over):
                    yield piece
            finally:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)

    async def _output(
        self, engine: Engine, log: "_Log", container: str, origin: LogOrigin, options: LogOptions
    ) -> AsyncIterator[bytes]:
        """The output of a container; it may not exist yet."""
        if not container and options.follow:
            container = await self._wait_value(log)
        if container:
            async for piece in read_output(engine, container, origin, options):
                yield piece

    async def _wait_file(self, log: "_Log") -> ForeignLogFile | None:
        """The file that the status names, once it exists; None if it never will."""
        path = await self._wait_value(log)
        while path:
            try:
                file = await _open(path)
            except LevelsetError:
                return None  # the response has begun: it ends without a line
            if file is not None or await self._is_over(log):
                return file
            await timing.sleep(_POLL)
        return None

    async def _wait_value(self, log: "_Log") -> str:
        """The value of the field, once the status has it; empty if the object is over or deleted before."""
        found = await self._wait(log, lambda one: bool(log.value(one)) or _is_over(one))
        return "" if found is None else log.value(found)

    async def _watch_end(self, log: "_Log", over: asyncio.Event) -> None:
        """Sets the event some time after the object is over or deleted, so that late lines are read."""
        if await self._wait(log, _is_over) is not None:
            await timing.sleep(self._linger)
        over.set()

    async def _is_over(self, log: "_Log") -> bool:
        found = await self._connected().find(log.ref)
        return found is None or found.metadata.uid != log.uid or _is_over(found)

    async def _wait(self, log: "_Log", condition: Callable[[Any], bool]) -> Any:
        """The object when the condition holds; None if it was deleted before."""
        client = self._connected()
        holds = asyncio.create_task(client.wait(log.ref, condition, within=None), name=f"status of {log.ref}")
        gone = asyncio.create_task(client.wait_gone(log.ref, uid=log.uid, within=None), name=f"deletion of {log.ref}")
        try:
            await asyncio.wait([holds, gone], return_when=asyncio.FIRST_COMPLETED)
            return holds.result() if holds.done() and not gone.done() else None
        finally:
            holds.cancel()
            gone.cancel()
            await asyncio.gather(holds, gone, return_exceptions=True)

    def _connected(self) -> Client:
        if self._manager is None:
            raise NotReady("the server is starting; try again")
        return self._manager.client


class _Log(Struct, frozen=True):
    """A log: its object, and the field of the status that names its file or container."""

    ref: Ref[Any]
    uid: str
    field: str

    def value(self, one: Any) -> str:
        """The value of the field; empty if there is none."""
        return "" if one.status is None else str(getattr(one.status, self.field))


def _check(request: LogRequest, kind: type[Object], source: str, sources: tuple[str, ...]) -> None:
    if source == "system":
        raise BadRequest("source: the system log belongs to the controllers, which are in another process")
    if source not in sources:
        raise BadRequest(f"source: unknown source {source!r}; {kind.__name__} has {', '.join(sources)}")
    if request.tree["metadata"].get("deletionTimestamp"):
        raise BadRequest(f"{request.name} is being deleted, and its logs with it")
    if request.tree["spec"].get("terminal") is not None:
        raise BadRequest(f"{request.name} runs on a terminal, which has no {source}; connect to its socket instead")


def _is_over(one: Any) -> bool:
    return one.status is not None and one.status.finish_timestamp is not None


async def _check_file(path: str) -> None:
    """Raises BadRequest, which can be said only before the response begins, if the file must not be read."""
    file = await _open(path)
    if file is not None:
        file.close()


async def _open(path: str) -> ForeignLogFile | None:
    """The file of this path; None if there is none yet."""
    if not path:
        return None
    try:
        return await asyncio.to_thread(ForeignLogFile.open, path)
    except NotFound:
        return None
