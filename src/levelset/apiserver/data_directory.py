"""Where a server of one's own keeps its objects, and the secrets that must outlive it with them.

The server's certificate authority in a file, so that clients go on trusting a server that was restarted.
"""

import os
import shlex
import time
from pathlib import Path
from typing import Final

from levelset.apiserver.authn.token_file import load_users, new_token
from levelset.apiserver.authn.users import OWNER, Caller
from levelset.errors import ConfigError
from levelset.http import Authority, Identity, write_private
from levelset.storage import MemoryStorage, SqliteStorage, Storage

__all__ = ["MEMORY", "check_data", "load_authority", "open_data", "secrets_of"]

_BETWEEN = b"-----BEGIN CERTIFICATE-----"


def load_authority(path: str | os.PathLike[str]) -> Authority:
    """The authority in the file, key and certificate as PEM; makes both if there is no file yet. Raises ConfigError."""
    target = Path(path)
    try:
        content = target.read_bytes()
    except FileNotFoundError:
        return _make(target)
    except OSError as error:
        raise ConfigError(f"The authority file {target} cannot be read: {error.strerror or error}.") from error
    key, begin, certificate = content.partition(_BETWEEN)
    if b"PRIVATE KEY" not in key or not begin:
        raise ConfigError(f"The file {target} holds no authority: restore it, or remove it to have a new one made.")
    return Authority(Identity(begin + certificate, key))


def _make(target: Path) -> Authority:
    authority = Authority.create("levelset")
    try:
        write_private(target, authority.identity.key + authority.identity.certificate)
    except OSError as error:
        raise ConfigError(f"The authority file {target} cannot be written: {error.strerror or error}.") from error
    return authority


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
