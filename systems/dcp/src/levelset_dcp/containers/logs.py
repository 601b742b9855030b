"""What `log` shows of a Container: its output, its errors, the engine's words about its start, or its story."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

from levelset import BadRequest, NotFound
from levelset.apiserver import Asked
from levelset_dcp.containers.loglines import Picker
from levelset_dcp.containers.places import startup_keys, system_key
from levelset_dcp.containers.world import Containers
from levelset_dcp.engines.errors import EngineError, EngineNotFound
from levelset_dcp.engines.models import LogOrigin
from levelset_machine import LogOptions, LogStore

__all__ = ["container_logs", "read_kept", "status_in"]

_ORIGINS: Final[dict[str, LogOrigin]] = {"stdout": "stdout", "stderr": "stderr"}
_OVER: Final = ("FailedToStart", "Exited", "Unknown")
_SOURCES: Final = (*_ORIGINS, "startup_stdout", "startup_stderr", "system")


def container_logs(world: Containers) -> Callable[[Asked], Awaitable[AsyncIterator[bytes]]]:
    """The source of the logs of Containers; `source` is stdout, stderr, startup_stdout, startup_stderr or system.

    Who follows a container that has not started yet waits for it, until it starts or its object is gone.
    """

    async def read(asked: Asked) -> AsyncIterator[bytes]:
        query = dict(asked.query)
        source = query.pop("source", None) or "stdout"
        _check(asked, source)
        options = LogOptions.of_query(query, now=world.now())
        uid = asked.tree["metadata"]["uid"]
        if source in _ORIGINS:
            status = status_in(asked.tree)
            found, is_over = world.ids.get(uid) or status.get("containerId", ""), status.get("state") in _OVER
            return _follow(world, uid, found, _ORIGINS[source], options, is_over=is_over)
        keys = {
            "startup_stdout": startup_keys(uid)[0],
            "startup_stderr": startup_keys(uid)[1],
            "system": system_key(uid),
        }
        return read_kept(world.logs, keys[source], options)

    return read


async def read_kept(store: LogStore, key: str, options: LogOptions) -> AsyncIterator[bytes]:
    """What is kept under a key; nothing if there is none."""
    if not store.has(key):
        return
    try:
        async for piece in store.read(key, options):
            yield piece
    except NotFound:
        return  # it was removed just now, with its object


def _check(asked: Asked, source: str) -> None:
    if source not in _SOURCES:
        raise BadRequest(f"source: {source!r} is none; a Container has {', '.join(_SOURCES)}")
    if asked.tree["metadata"].get("deletionTimestamp"):
        raise BadRequest(f"{asked.name} is being deleted, so its logs are about to go")
    if source in _ORIGINS and asked.tree["spec"].get("terminal") is not None:
        raise BadRequest(f"{asked.name} runs on a terminal, which has no {source}")


def status_in(tree: Any) -> dict[str, str]:
    """The texts of the status of an object; none if it has no status."""
    found: dict[str, Any] = tree.get("status") or {}
    return {name: value for name, value in found.items() if isinstance(value, str)}


async def _follow(
    world: Containers, uid: str, container_id: str, origin: LogOrigin, options: LogOptions, *, is_over: bool
) -> AsyncIterator[bytes]:
    """The output of a container, which may be yet to start."""
    if not container_id:
        if is_over or not options.follow or not await world.waiting.wait(uid):
            return
        container_id = world.ids.get(uid, "")
    try:
        async for piece in _read(world, container_id, origin, options):
            yield piece
    except EngineNotFound:
        return  # it is gone, and with it what it has written
    except EngineError as error:
        raise BadRequest(f"the engine does not show the output of the container: {error}") from error


async def _read(world: Containers, container_id: str, origin: LogOrigin, options: LogOptions) -> AsyncIterator[bytes]:
    engine, after = world.ready_engine, options.skip or 0
    if options.tail is not None:
        count = Picker(LogOptions())
        async for piece in engine.logs(container_id, origin=origin):
            count.add(piece)
        count.end()
        after = max(after, count.count - options.tail)
    picker = Picker(options, after=after)
    async for piece in engine.logs(container_id, origin=origin, follow=options.follow, timestamps=True):
        if chosen := picker.add(piece):
            yield chosen
        if picker.is_full:
            return
    if chosen := picker.end():
        yield chosen
