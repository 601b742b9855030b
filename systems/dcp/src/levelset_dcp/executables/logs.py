"""What `log` shows of an Executable: its output, its errors, or what was said of it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

from levelset import BadRequest, NotFound
from levelset.apiserver import Asked
from levelset_dcp.executables.places import log_place, system_key
from levelset_dcp.executables.transitions import FINAL
from levelset_dcp.executables.world import Executables
from levelset_machine import LogOptions, LogStore

__all__ = ["executable_logs"]

_SOURCES: Final = ("stdout", "stderr", "system")


def executable_logs(world: Executables) -> Callable[[Asked], Awaitable[AsyncIterator[bytes]]]:
    """The source of the logs of Executables; `source` is stdout, stderr or system.

    Who follows a program that has not started yet waits for it, until it starts or its object is gone.
    """

    async def read(asked: Asked) -> AsyncIterator[bytes]:
        query = dict(asked.query)
        source = query.pop("source", None) or "stdout"
        _check(asked, source)
        options = LogOptions.of_query(query, now=world.runner.now())
        uid = asked.tree["metadata"]["uid"]
        store, key = _place(world, asked, source)
        if store.has(key):
            return _read(store, key, options)
        if not options.follow or source == "system" or _state(asked.tree) in FINAL:
            return _nothing()
        return _later(world, uid, store, key, options)

    return read


def _check(asked: Asked, source: str) -> None:
    if source not in _SOURCES:
        raise BadRequest(f"source: {source!r} is none; an Executable has {', '.join(_SOURCES)}")
    if asked.tree["metadata"].get("deletionTimestamp"):
        raise BadRequest(f"{asked.name} is being deleted, so its logs are about to go")
    if source != "system" and asked.tree["spec"].get("terminal") is not None:
        raise BadRequest(f"{asked.name} runs on a terminal, which has no {source}; connect to its socket instead")


def _place(world: Executables, asked: Asked, source: str) -> tuple[LogStore, str]:
    uid, spec = asked.tree["metadata"]["uid"], asked.tree["spec"]
    if source == "system":
        return world.logs, system_key(uid)
    lasts = bool(spec.get("persistent")) or spec.get("mode", "session") != "session"
    place = log_place(world, asked.name, uid, lasts=lasts)
    return place.store, place.out if source == "stdout" else place.err


def _state(tree: Any) -> str:
    status: Any = tree.get("status") or {}
    return status.get("state") or ""


async def _read(store: LogStore, key: str, options: LogOptions) -> AsyncIterator[bytes]:
    try:
        async for piece in store.read(key, options):
            yield piece
    except NotFound:
        return  # it was removed just now, with its object


async def _later(world: Executables, uid: str, store: LogStore, key: str, options: LogOptions) -> AsyncIterator[bytes]:
    """The log of a program that is yet to start; it may have done so since the request came, before this is read."""
    if store.has(key) or await world.waiting.wait(uid):
        async for piece in _read(store, key, options):
            yield piece


async def _nothing() -> AsyncIterator[bytes]:
    """The log of a program that has not written anything yet, or never did."""
    for piece in tuple[bytes, ...]():
        yield piece
