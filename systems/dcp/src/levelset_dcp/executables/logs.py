"""The `log` subresource of Executables, and where their logs are stored."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

from msgspec import Struct

from levelset import NotFound
from levelset.apiserver import LogRequest
from levelset.errors import BadRequest
from levelset_dcp.executables.host import ExecutableHost
from levelset_dcp.executables.state import FINAL
from levelset_machine import LogOptions, LogSink, LogStore

__all__ = ["LogLocation", "executable_logs", "log_location", "system_key"]

_SOURCES: Final = ("stdout", "stderr", "system")


class LogLocation(Struct, frozen=True):
    """The store and the keys of an Executable's stdout and stderr."""

    store: LogStore
    out: str
    err: str

    @property
    def files(self) -> tuple[str, str]:
        """The paths of both logs; empty for logs in memory."""
        found = [self.store.path(key) for key in (self.out, self.err)]
        return str(found[0] or ""), str(found[1] or "")

    def open(self) -> tuple[LogSink, LogSink]:
        """Opens both logs for writing."""
        return self.store.open(self.out), self.store.open(self.err)

    def remove(self) -> None:
        """Removes both logs."""
        for key in (self.out, self.err):
            self.store.remove(key)


def log_location(host: ExecutableHost, name: str, uid: str, *, is_persistent: bool) -> LogLocation:
    """The location of an Executable's logs; with `is_persistent` they are found by name in later sessions."""
    stem = name if is_persistent else uid
    store = host.persistent_logs if is_persistent and host.persistent_logs else host.logs
    return LogLocation(store, f"{stem}_out", f"{stem}_err")


def system_key(uid: str) -> str:
    """The key of an Executable's system log."""
    return f"{uid}_system"


def executable_logs(host: ExecutableHost) -> Callable[[LogRequest], Awaitable[AsyncIterator[bytes]]]:
    """The handler of the logs of Executables; `source` is stdout, stderr or system.

    A follow request for a program that has not started waits until it starts or its object is deleted.
    """

    async def read(request: LogRequest) -> AsyncIterator[bytes]:
        query = dict(request.query)
        source = query.pop("source", None) or "stdout"
        _check(request, source)
        options = LogOptions.of_query(query, now=host.runner.now())
        uid = request.tree["metadata"]["uid"]
        store, key = _log_key(host, request, source)
        if store.has(key):
            return _read(store, key, options)
        if not options.follow or source == "system" or _state(request.tree) in FINAL:
            return _nothing()
        return _read_after_start(host, uid, store, key, options)

    return read


def _check(request: LogRequest, source: str) -> None:
    if source not in _SOURCES:
        raise BadRequest(f"source: unknown source {source!r}; an Executable has {', '.join(_SOURCES)}")
    if request.tree["metadata"].get("deletionTimestamp"):
        raise BadRequest(f"{request.name} is being deleted, and its logs with it")
    if source != "system" and request.tree["spec"].get("terminal") is not None:
        raise BadRequest(f"{request.name} runs on a terminal, which has no {source}; connect to its socket instead")


def _log_key(host: ExecutableHost, request: LogRequest, source: str) -> tuple[LogStore, str]:
    uid, spec = request.tree["metadata"]["uid"], request.tree["spec"]
    if source == "system":
        return host.logs, system_key(uid)
    is_persistent = bool(spec.get("persistent")) or (spec.get("mode") or "session") != "session"
    location = log_location(host, request.name, uid, is_persistent=is_persistent)
    return location.store, location.out if source == "stdout" else location.err


def _state(tree: Any) -> str:
    status: Any = tree.get("status") or {}
    return status.get("state") or ""


async def _read(store: LogStore, key: str, options: LogOptions) -> AsyncIterator[bytes]:
    try:
        async for piece in store.read(key, options):
            yield piece
    except NotFound:
        return  # removed with its object in the meantime


async def _read_after_start(
    host: ExecutableHost, uid: str, store: LogStore, key: str, options: LogOptions
) -> AsyncIterator[bytes]:
    """The log of a program that had not started when the request arrived; it may have started since."""
    if store.has(key) or await host.start_waiters.wait(uid):
        async for piece in _read(store, key, options):
            yield piece


async def _nothing() -> AsyncIterator[bytes]:
    """An empty log."""
    for piece in tuple[bytes, ...]():
        yield piece
