"""The `log` subresource of Containers: output, startup output and the system log."""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Final

from levelset import NotFound
from levelset.apiserver import LogRequest
from levelset.errors import BadRequest, LevelsetError
from levelset.objects import parse_time
from levelset_dcp.containers.host import ContainerHost
from levelset_dcp.engines.errors import EngineError, EngineNotFound
from levelset_dcp.engines.interface import Engine
from levelset_dcp.engines.models import LogOrigin
from levelset_machine import LogOptions, LogStore

__all__ = [
    "LogLineFilter",
    "container_logs",
    "read_output",
    "read_stored_log",
    "startup_keys",
    "status_in",
    "system_key",
]

_ORIGINS: Final[dict[str, LogOrigin]] = {"stdout": "stdout", "stderr": "stderr"}
_OVER: Final = ("FailedToStart", "Exited", "Unknown")
_SOURCES: Final = (*_ORIGINS, "startup_stdout", "startup_stderr", "system")


def startup_keys(uid: str) -> tuple[str, str]:
    """The log keys of a container's startup output: stdout and stderr of the engine."""
    return f"{uid}_startup_out", f"{uid}_startup_err"


def system_key(uid: str) -> str:
    """The key of a container's system log."""
    return f"{uid}_system"


class LogLineFilter:
    """Selects and formats log lines of an engine, which begin with a timestamp; skips the first `after` lines; pure."""

    def __init__(self, options: LogOptions, *, after: int = 0) -> None:
        self._options = options
        self._after = after
        self._rest = b""
        self._lines_left = options.limit_lines
        self._bytes_left = options.limit_bytes
        self.count = 0
        """How many lines were read."""

    @property
    def is_full(self) -> bool:
        """Whether the limit of lines or bytes is reached."""
        return (self._lines_left is not None and self._lines_left <= 0) or (
            self._bytes_left is not None and self._bytes_left <= 0
        )

    def add(self, data: bytes) -> bytes:
        """The output for these bytes, which may be cut anywhere."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        return self._limited(b"".join(self._line(one) for one in lines))

    def end(self) -> bytes:
        """The output for a last line without a newline."""
        rest, self._rest = self._rest, b""
        return self._limited(self._line(rest).removesuffix(b"\n")) if rest else b""

    def _line(self, line: bytes) -> bytes:
        self.count += 1
        time, text = _split(line)
        options = self._options
        if self.count <= self._after or (self._lines_left is not None and self._lines_left <= 0):
            return b""
        if options.since is not None and time is not None and time < options.since:
            return b""
        if self._lines_left is not None:
            self._lines_left -= 1
        columns = [b"%d" % self.count] if options.line_numbers else []
        if options.timestamps and time is not None:
            columns.append(f"{time.astimezone(UTC):%Y-%m-%dT%H:%M:%S}.{time.microsecond // 1000:03d}Z".encode())
        return b" ".join([*columns, text]) + b"\n"

    def _limited(self, answer: bytes) -> bytes:
        if self._bytes_left is None:
            return answer
        answer = answer[: self._bytes_left]
        self._bytes_left -= len(answer)
        return answer


def _split(line: bytes) -> tuple[datetime | None, bytes]:
    """The timestamp of a line, if it has one, and its text."""
    head, _, text = line.partition(b" ")
    try:
        return parse_time(head.decode("ascii")), text.removesuffix(b"\r")
    except (LevelsetError, UnicodeDecodeError):
        return None, line.removesuffix(b"\r")


def container_logs(host: ContainerHost) -> Callable[[LogRequest], Awaitable[AsyncIterator[bytes]]]:
    """The handler of the logs of Containers; `source` is stdout, stderr, startup_stdout, startup_stderr or system.

    A follow request for a container that has not started waits until it starts or its object is deleted.
    """

    async def read(request: LogRequest) -> AsyncIterator[bytes]:
        query = dict(request.query)
        source = query.pop("source", None) or "stdout"
        _check(request, source)
        options = LogOptions.of_query(query, now=host.now())
        uid = request.tree["metadata"]["uid"]
        if source in _ORIGINS:
            status = status_in(request.tree)
            found, is_over = host.ids.get(uid) or status.get("containerId", ""), status.get("state") in _OVER
            return _follow(host, uid, found, _ORIGINS[source], options, is_over=is_over)
        keys = {
            "startup_stdout": startup_keys(uid)[0],
            "startup_stderr": startup_keys(uid)[1],
            "system": system_key(uid),
        }
        return read_stored_log(host.logs, keys[source], options)

    return read


async def read_stored_log(store: LogStore, key: str, options: LogOptions) -> AsyncIterator[bytes]:
    """The stored log of a key; empty if there is none."""
    if not store.has(key):
        return
    try:
        async for piece in store.read(key, options):
            yield piece
    except NotFound:
        return  # removed with its object in the meantime


def _check(request: LogRequest, source: str) -> None:
    if source not in _SOURCES:
        raise BadRequest(f"source: unknown source {source!r}; a Container has {', '.join(_SOURCES)}")
    if request.tree["metadata"].get("deletionTimestamp"):
        raise BadRequest(f"{request.name} is being deleted, and its logs with it")
    if source in _ORIGINS and request.tree["spec"].get("terminal") is not None:
        raise BadRequest(f"{request.name} runs on a terminal, which has no {source}; connect to its socket instead")


def status_in(tree: Any) -> dict[str, str]:
    """The string fields of an object's status; empty if it has no status."""
    found: dict[str, Any] = tree.get("status") or {}
    return {name: value for name, value in found.items() if isinstance(value, str)}


async def _follow(
    host: ContainerHost, uid: str, container_id: str, origin: LogOrigin, options: LogOptions, *, is_over: bool
) -> AsyncIterator[bytes]:
    """The output of a container, which may not have started yet."""
    if not container_id:
        if is_over or not options.follow or not await host.start_waiters.wait(uid):
            return
        container_id = host.ids.get(uid, "")
    try:
        async for piece in read_output(host.ready_engine, container_id, origin, options):
            yield piece
    except EngineError as error:
        raise BadRequest(f"cannot read the output of the container: {error}") from error


async def read_output(engine: Engine, container: str, origin: LogOrigin, options: LogOptions) -> AsyncIterator[bytes]:
    """The output of a container by its ID; it ends if the container was removed. Raises EngineError."""
    try:
        async for piece in _read(engine, container, origin, options):
            yield piece
    except EngineNotFound:
        return


async def _read(engine: Engine, container_id: str, origin: LogOrigin, options: LogOptions) -> AsyncIterator[bytes]:
    after = options.skip or 0
    if options.tail is not None:
        count = LogLineFilter(LogOptions())
        async for piece in engine.logs(container_id, origin=origin):
            count.add(piece)
        count.end()
        after = max(after, count.count - options.tail)
    line_filter = LogLineFilter(options, after=after)
    async for piece in engine.logs(container_id, origin=origin, follow=options.follow, timestamps=True):
        if chosen := line_filter.add(piece):
            yield chosen
        if line_filter.is_full:
            return
    if chosen := line_filter.end():
        yield chosen
