"""The persistent data of a local server: its storage, and the token and certificate authority files beside it.

With `memory` nothing outlives the process. With a database file, `<file>.token` and `<file>.authority` (both 0600) make
clients survive a restart.
"""

import asyncio
import os
import shlex
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from levelset.apiserver.authn.secret_box import SecretBox, load_or_create_secret
from levelset.apiserver.authn.token_file import load_users, new_token
from levelset.apiserver.authn.users import ADMIN, User
from levelset.errors import ConfigError, ServerFailed
from levelset.http import CertificateAuthority, Identity, validity_of, write_private
from levelset.storage import MemoryStorage, Storage, warn_if_exposed

if TYPE_CHECKING:
    from levelset.storage import Durability

__all__ = ["MEMORY", "check_data_path", "load_authority", "load_secrets", "load_shared_secrets", "open_storage"]


_CERTIFICATE_START = b"-----BEGIN CERTIFICATE-----"
MEMORY: Final = "memory"
_MILLISECONDS_TO_2020: Final = 1_577_836_800_000


def check_data_path(data: str) -> None:
    """Raises ConfigError if the path cannot be a database file; creates and changes nothing."""
    if data != MEMORY and Path(data).is_dir():
        example = shlex.quote(str(Path(data, "levelset.db")))
        raise ConfigError(f"{data} is a directory, but --data needs a database file: try --data {example}")


async def open_storage(data: str, durability: "Durability" = "full") -> Storage:
    """Opens the storage in memory, or in this database file."""
    if data == MEMORY:
        return MemoryStorage(after=_first_revision())
    from levelset.storage import SqliteStorage  # noqa: PLC0415  # loads the library; most local servers are in memory

    return await SqliteStorage.open(data, durability=durability)


def load_secrets(data: str, token_file: Path | None = None) -> tuple[dict[str, User], CertificateAuthority | None]:
    """Loads the users by token, and the certificate authority; None in memory, where the server creates its own.

    With a database file both are stored beside it, so that clients survive a restart.
    """
    if data == MEMORY:
        return {new_token(): ADMIN} if token_file is None else load_users(token_file), None
    return load_users(token_file or f"{data}.token"), load_authority(f"{data}.authority")


async def load_shared_secrets(
    storage: Storage, key_file: Path, token_file: Path | None = None
) -> tuple[dict[str, User], CertificateAuthority, SecretBox]:
    """As `load_secrets`, for several servers on one storage: in the storage, encrypted with the key in a file.

    The first server creates them. The users are those of the token file, if there is one.
    """
    box = await asyncio.to_thread(SecretBox.from_file, key_file)
    try:
        content = await load_or_create_secret(storage, box, "authority", _new_authority)
        token = await load_or_create_secret(storage, box, "token", lambda: new_token().encode())
    except ServerFailed as error:
        raise ConfigError(f"{error}.") from error
    users = {token.decode(): ADMIN} if token_file is None else await asyncio.to_thread(load_users, token_file)
    return users, _parse_authority(content, "the storage", datetime.now(UTC)), box


def load_authority(
    path: str | os.PathLike[str], *, now: Callable[[], datetime] = lambda: datetime.now(UTC)
) -> CertificateAuthority:
    """Reads the CA key and certificate (PEM) from the file, or creates the file with new ones.

    Raises ConfigError, also if the certificate is not valid now: no client could connect.
    """
    target = Path(path)
    try:
        content = target.read_bytes()
    except FileNotFoundError:
        return _create_authority(target)
    except OSError as error:
        raise ConfigError(
            f"The certificate authority file {target} cannot be read: {error.strerror or error}."
        ) from error
    warn_if_exposed("the key of the certificate authority", target)
    return _parse_authority(content, target, now())


def _parse_authority(content: bytes, target: Path | str, now: datetime) -> CertificateAuthority:
    key, begin, certificate = content.partition(_CERTIFICATE_START)
    if b"PRIVATE KEY" not in key or not begin:
        raise ConfigError(
            f"The file {target} has no CA key and certificate: restore it, or remove it to generate new ones."
        )
    _check_validity(target, begin + certificate, now)
    return CertificateAuthority(Identity(begin + certificate, key))


def _new_authority() -> bytes:
    identity = CertificateAuthority.create("levelset").identity
    return identity.key + identity.certificate


def _check_validity(target: Path | str, certificate: bytes, now: datetime) -> None:
    begin, end = validity_of(certificate)
    problem = f"has expired at {end:%Y-%m-%d %H:%M}" if end <= now else f"is not valid before {begin:%Y-%m-%d %H:%M}"
    if not begin <= now < end:
        raise ConfigError(
            f"The certificate authority in {target} {problem}: check the clock of this machine, or remove the file to"
            " have a new one, and get the kubeconfig again."
        )


def _create_authority(target: Path) -> CertificateAuthority:
    content = _new_authority()
    try:
        write_private(target, content)
    except OSError as error:
        raise ConfigError(
            f"The certificate authority file {target} cannot be written: {error.strerror or error}."
        ) from error
    return _parse_authority(content, target, datetime.now(UTC))


def _first_revision() -> int:
    """Returns a first revision above those of any earlier process: the milliseconds since 2020.

    Revisions of an earlier process (at most 1,000 writes per second on average) are then too old, and their clients
    relist. If revisions began at 1, such a client would wait for a revision that has nothing to do with what it saw.
    """
    return time.time_ns() // 1_000_000 - _MILLISECONDS_TO_2020
