"""The file that tells kubectl where the server is, what to trust and which secret to show.

It is private, written whole or not at all, and never over a kubeconfig that somebody else wrote.
"""

import base64
import binascii
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from levelset.errors import BadObject, ConfigError
from levelset.http import write_private
from levelset.objects.json_tree import is_list, is_map
from levelset.objects.yaml_codec import read_yaml

__all__ = ["Contact", "check_kubeconfig", "read_kubeconfig", "write_kubeconfig"]

_NAME: Final = "levelset"
_PATIENCE: Final = 2.0


@dataclass(frozen=True, slots=True, repr=False)
class Contact:
    """How to reach a server: its URL, the owner's token and, with TLS, the certificate to trust."""

    url: str
    token: str
    ca: bytes | None = None

    def __repr__(self) -> str:
        # The generated one would put the token into logs.
        return f"Contact({self.url!r})"

    def is_answered(self) -> bool:
        """Whether somebody listens there. Blocks."""
        parts = urlsplit(self.url)
        try:
            with socket.create_connection((parts.hostname or "127.0.0.1", parts.port or 443), _PATIENCE):
                return True
        except OSError:
            return False


def write_kubeconfig(path: str | os.PathLike[str], contact: Contact) -> None:
    """Writes the file with mode 0600; raises ConfigError if there is a file that levelset did not write."""
    target = Path(path)
    _require_ours(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_private(target, _text(contact).encode())
    except OSError as error:
        text = (
            f"The kubeconfig {target} cannot be written: {error.strerror or error}. Choose another with --kubeconfig."
        )
        raise ConfigError(text) from error


def check_kubeconfig(path: str | os.PathLike[str]) -> None:
    """Makes sure that the file may be written: there is none, or it is ours, and nobody needs it; raises ConfigError.

    It asks whether the server that the file leads to is still there, so a coroutine calls it with `asyncio.to_thread`.
    """
    _require_ours(Path(path))
    try:
        known = read_kubeconfig(path)
    except ConfigError:
        return  # not there, or damaged and of no use to anybody
    if known.is_answered():
        raise ConfigError(
            f"{path} leads to a server that runs ({known.url}): choose another file with --kubeconfig, or stop it."
        )


def read_kubeconfig(path: str | os.PathLike[str]) -> Contact:
    """The server that a kubeconfig of ours leads to; raises ConfigError if it is none."""
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
        return Contact(str(cluster["server"]), str(tree["users"][0]["user"]["token"]), ca)
    except (KeyError, IndexError, TypeError, AttributeError, binascii.Error) as error:
        raise ConfigError(f"{target} is damaged: start `levelset serve` again to have it written anew.") from error


def _require_ours(path: Path) -> None:
    tree = _read(path)
    if tree is not None and not _is_ours(tree):
        raise ConfigError(
            f"{path} is a file of somebody else's and stays as it is: choose another with --kubeconfig, or remove it."
        )


def _read(path: Path) -> Any:
    """The content of the file; None if there is none, or nothing in it."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"The kubeconfig {path} cannot be read: {error.strerror or error}.") from error
    try:
        documents = read_yaml(text)
    except BadObject:
        return ""  # something, but no kubeconfig
    return documents[0] if documents else None


def _is_ours(tree: Any) -> bool:
    """Whether every cluster, user and context in it is the one that we write."""
    if not is_map(tree):
        return False
    for part in ("clusters", "users", "contexts"):
        entries = tree.get(part)
        if not is_list(entries) or [one.get("name") for one in entries if is_map(one)] != [_NAME]:
            return False
    return True


def _text(contact: Contact) -> str:
    lines = [
        f"# Written by `{_NAME} serve`, anew with every start: changes in here are lost.",
        "apiVersion: v1",
        "kind: Config",
        f"current-context: {_NAME}",
        "clusters:",
        f"- name: {_NAME}",
        "  cluster:",
        f"    server: {contact.url}",
    ]
    if contact.ca is not None:
        lines.append(f"    certificate-authority-data: {base64.b64encode(contact.ca).decode()}")
    lines += [
        "users:",
        f"- name: {_NAME}",
        "  user:",
        f"    token: {_quoted(contact.token)}",
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
