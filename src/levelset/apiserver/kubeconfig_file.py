"""Reads and writes the kubeconfig of an embedded server (0600).

The file is written atomically, and never over a kubeconfig that levelset did not write. Writers and removers of a file
take turns by a lock on its folder, which leaves no further file behind.
"""

import base64
import binascii
import os
import socket
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from levelset.errors import BadObject, ConfigError
from levelset.http import write_private
from levelset.objects.json_tree import is_list, is_map

if sys.platform != "win32":
    import fcntl

__all__ = [
    "ConnectionInfo",
    "check_kubeconfig",
    "claim_kubeconfig",
    "read_kubeconfig",
    "release_kubeconfig",
    "write_kubeconfig",
]

_NAME: Final = "levelset"
_CONNECT_TIMEOUT_SECONDS: Final = 2.0
_LOCK_SECONDS: Final = 5.0
"""How long a lock is waited for: who can read the folder can hold it, and must not keep a server from starting."""


class ConnectionInfo(msgspec.Struct, frozen=True):
    """How to reach a server: its URL, the owner's token and, with TLS, the CA certificate (PEM)."""

    url: str
    token: str
    ca: bytes | None = None
    servers: tuple[str, ...] = ()
    """The URLs of further servers on the same storage; clients of levelset try them when `url` cannot be reached."""

    def __repr__(self) -> str:
        # The generated repr would put the token into logs.
        return f"ConnectionInfo({self.url!r})"

    def is_reachable(self) -> bool:
        """Whether a server accepts connections there; blocks for at most 2 s."""
        parts = urlsplit(self.url)
        try:
            with socket.create_connection((parts.hostname or "127.0.0.1", parts.port or 443), _CONNECT_TIMEOUT_SECONDS):
                return True
        except OSError:
            return False


def write_kubeconfig(path: str | os.PathLike[str], connection: ConnectionInfo) -> None:
    """Writes the file with mode 0600; raises ConfigError if levelset did not write the existing file."""
    target = Path(path)
    _require_ours(target)
    with _lock_for_writing(target):
        write_private(target, _text(connection).encode())


def claim_kubeconfig(path: str | os.PathLike[str], connection: ConnectionInfo) -> None:
    """Writes the file as `write_kubeconfig`; raises ConfigError if it belongs to another server that is running.

    `check_kubeconfig` says so before a server starts; this one says so for two that start at the same time. Blocks.
    """
    target = Path(path)
    _require_ours(target)
    with _lock_for_writing(target):
        _require_unused(target, but=connection.url)
        write_private(target, _text(connection).encode())


def release_kubeconfig(path: str | os.PathLike[str], connection: ConnectionInfo) -> None:
    """Removes the file if it is still the one that was written for this connection. Blocks."""
    target = Path(path)
    with _locked(target.parent):
        try:
            found = read_kubeconfig(target)
        except ConfigError:
            return  # gone, or overwritten with another kubeconfig
        if (found.url, found.token) == (connection.url, connection.token):
            target.unlink(missing_ok=True)


def check_kubeconfig(path: str | os.PathLike[str]) -> None:
    """Raises ConfigError if the file must not be overwritten: it is not ours, or its server is still running.

    Blocks, because it connects to that server: a coroutine calls it with `asyncio.to_thread`.
    """
    _require_ours(Path(path))
    _require_unused(Path(path))


def read_kubeconfig(path: str | os.PathLike[str]) -> ConnectionInfo:
    """Returns the connection in a kubeconfig that levelset wrote; raises ConfigError for any other file."""
    target = Path(path)
    tree = _read(target)
    if tree is None:
        raise ConfigError(f"There is no kubeconfig {target}: start `levelset serve`, or name its file.")
    if not _is_ours(tree):
        raise ConfigError(f"{target} was not written by `levelset serve`: name the file that it printed.")
    try:
        cluster = tree["clusters"][0]["cluster"]
        encoded = cluster.get("certificate-authority-data")
        ca = None if encoded is None else base64.b64decode(encoded, validate=True)
        return ConnectionInfo(str(cluster["server"]), str(tree["users"][0]["user"]["token"]), ca)
    except (KeyError, IndexError, TypeError, AttributeError, binascii.Error) as error:
        raise ConfigError(f"{target} is damaged: start `levelset serve` again to rewrite it.") from error


def _require_ours(path: Path) -> None:
    tree = _read(path)
    if tree is not None and not _is_ours(tree):
        raise ConfigError(
            f"{path} was not written by levelset and is left alone: choose another with --kubeconfig, or remove it."
        )


def _require_unused(path: Path, *, but: str = "") -> None:
    """Raises ConfigError if the server of the file is running, unless it is the one at the address `but`."""
    try:
        known = read_kubeconfig(path)
    except ConfigError:
        return  # missing or damaged: nothing to preserve
    if known.url != but and known.is_reachable():
        raise ConfigError(
            f"{path} belongs to a running server ({known.url}): choose another file with --kubeconfig, or stop it."
        )


@contextmanager
def _lock_for_writing(path: Path) -> Generator[None, None, None]:
    """Makes the folder of the file and locks it; an OSError of the block becomes a ConfigError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path.parent):
            yield
    except OSError as error:
        text = f"The kubeconfig {path} cannot be written: {error.strerror or error}. Choose another with --kubeconfig."
        raise ConfigError(text) from error


@contextmanager
def _locked(folder: Path) -> Generator[None, None, None]:
    """Holds the lock of a folder, if it can be had within `_LOCK_SECONDS`."""
    if sys.platform == "win32":  # a folder cannot be locked there
        yield
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # a folder that is gone has no file to protect; one that cannot be read may still be written
        yield
        return
    try:
        end = time.monotonic() + _LOCK_SECONDS
        while time.monotonic() < end:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                time.sleep(0.01)
            else:
                break
        yield
    finally:
        os.close(descriptor)


def _read(path: Path) -> Any:
    """Returns the parsed file; None if it is missing or empty."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"The kubeconfig {path} cannot be read: {error.strerror or error}.") from error
    # Imported late: yaml takes a while to load, and the first start of a server finds no file.
    from levelset.objects.yaml_codec import read_yaml  # noqa: PLC0415

    try:
        documents = read_yaml(text)
    except BadObject:
        return ""  # not empty, but not a kubeconfig
    return documents[0] if documents else None


def _is_ours(tree: Any) -> bool:
    """Whether its only cluster, user and context are those that levelset writes."""
    if not is_map(tree):
        return False
    for part in ("clusters", "users", "contexts"):
        entries = tree.get(part)
        if not is_list(entries) or [one.get("name") for one in entries if is_map(one)] != [_NAME]:
            return False
    return True


def _text(connection: ConnectionInfo) -> str:
    lines = [
        f"# Written by `{_NAME} serve` at every start: changes are lost.",
        "apiVersion: v1",
        "kind: Config",
        f"current-context: {_NAME}",
        "clusters:",
        f"- name: {_NAME}",
        "  cluster:",
        f"    server: {connection.url}",
    ]
    if connection.ca is not None:
        lines.append(f"    certificate-authority-data: {base64.b64encode(connection.ca).decode()}")
    if connection.servers:
        lines += ["    extensions:", "    - name: levelset.dev/servers", "      extension:", "        servers:"]
        lines += [f"        - {_quoted(one)}" for one in connection.servers]
    lines += [
        "users:",
        f"- name: {_NAME}",
        "  user:",
        f"    token: {_quoted(connection.token)}",
        "contexts:",
        f"- name: {_NAME}",
        "  context:",
        f"    cluster: {_NAME}",
        f"    user: {_NAME}",
        "    namespace: default",
        "",
    ]
    return "\n".join(lines)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
