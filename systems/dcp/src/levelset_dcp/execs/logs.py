"""What `log` shows of a ContainerExec: its output or its errors."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from levelset import BadRequest
from levelset.apiserver import Asked
from levelset_dcp.containers.logs import read_kept, status_in
from levelset_dcp.containers.world import Containers
from levelset_dcp.execs.places import exec_keys
from levelset_dcp.execs.plan import FINAL
from levelset_machine import LogOptions

__all__ = ["exec_logs"]

_SOURCES: Final = ("stdout", "stderr")


def exec_logs(world: Containers) -> Callable[[Asked], Awaitable[AsyncIterator[bytes]]]:
    """The source of the logs of ContainerExecs; `source` is stdout or stderr.

    Who follows a command that has not started yet waits for it, until it starts or its object is gone.
    """

    async def read(asked: Asked) -> AsyncIterator[bytes]:
        query = dict(asked.query)
        source = query.pop("source", None) or "stdout"
        if source not in _SOURCES:
            raise BadRequest(f"source: {source!r} is none; a ContainerExec has {', '.join(_SOURCES)}")
        if asked.tree["metadata"].get("deletionTimestamp"):
            raise BadRequest(f"{asked.name} is being deleted, so its logs are about to go")
        options = LogOptions.of_query(query, now=world.now())
        uid = asked.tree["metadata"]["uid"]
        key = exec_keys(uid)[_SOURCES.index(source)]
        is_over = status_in(asked.tree).get("state") in FINAL
        return _follow(world, uid, key, options, is_over=is_over)

    return read


async def _follow(world: Containers, uid: str, key: str, options: LogOptions, *, is_over: bool) -> AsyncIterator[bytes]:
    if not world.logs.has(key) and options.follow and not is_over:
        await world.waiting.wait(uid)
    async for piece in read_kept(world.logs, key, options):
        yield piece
