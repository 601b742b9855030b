"""Where a server of one's own keeps its objects, and the secrets that must outlive it with them."""

import shlex
import time
from pathlib import Path
from typing import Final

from levelset.apiserver.authorities import load_authority
from levelset.apiserver.callers import OWNER, Caller
from levelset.apiserver.tokens import load_users, new_token
from levelset.errors import ConfigError
from levelset.storage import MemoryStorage, SqliteStorage, Storage
from levelset.web import Authority

__all__ = ["MEMORY", "check_data", "open_data", "secrets_of"]

MEMORY: Final = "memory"

_MILLISECONDS_TO_2020: Final = 1_577_836_800_000


def check_data(data: str) -> None:
    """ConfigError if objects cannot be kept there; nothing is made or changed."""
    if data != MEMORY and Path(data).is_dir():
        example = shlex.quote(str(Path(data, "levelset.db")))
        raise ConfigError(f"{data} is a directory, and the objects are kept in a file: try --data {example}")


async def open_data(data: str) -> Storage:
    """The storage in memory, or in this file."""
    if data == MEMORY:
        return MemoryStorage(after=_revisions_before())
    # A large file takes a while to read.
    return await SqliteStorage.open(data)


def secrets_of(data: str, token_file: Path | None = None) -> tuple[dict[str, Caller], Authority | None]:
    """Who is known by which token, and the authority.

    With data in a file they stay beside it, so that clients survive a restart.
    """
    if data == MEMORY:
        return {new_token(): OWNER} if token_file is None else load_users(token_file), None
    return load_users(token_file or f"{data}.token"), load_authority(f"{data}.authority")


def _revisions_before() -> int:
    """More than a process before this one has used, unless it wrote a thousand times a second all its life.

    Clients that come back with one of those are told to list again; a store that began at 1 would let them wait for a
    future that has nothing to do with what they have seen.
    """
    return time.time_ns() // 1_000_000 - _MILLISECONDS_TO_2020
