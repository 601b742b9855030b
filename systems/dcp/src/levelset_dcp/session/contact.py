"""How another command finds a session: the file that leads to its server, and its admin page."""

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from levelset.apiserver import Contact, read_kubeconfig
from levelset.errors import ConfigError, LevelsetError, Unreachable
from levelset_dcp.records import HOME

__all__ = ["ask_session", "default_kubeconfig", "find_session"]

_PATIENCE: Final = 5.0


def default_kubeconfig() -> Path:
    """Where a session writes its kubeconfig, and others look for it, unless they are told otherwise."""
    return Path.home() / HOME / "kubeconfig"


def find_session(path: Path) -> Contact:
    """The server of the session that the file leads to; ConfigError if there is none. Blocks."""
    try:
        contact = read_kubeconfig(path)
    except ConfigError as error:
        raise ConfigError(f"no session is found by {path}: `levelset-dcp start`, or name its --kubeconfig") from error
    if not contact.is_answered():
        raise ConfigError(f"the session that {path} leads to runs no longer: `levelset-dcp start`")
    return contact


def ask_session(contact: Contact, change: Mapping[str, str] | None = None) -> Any:
    """What the admin page says, after this change if there is one; LevelsetError if it refuses. Blocks."""
    headers = {"Authorization": f"Bearer {contact.token}", "Content-Type": "application/merge-patch+json"}
    body = None if change is None else json.dumps(change).encode()
    url = f"{contact.url}/admin/execution"
    request = urllib.request.Request(url, body, headers, method="GET" if change is None else "PATCH")  # noqa: S310
    context = ssl.create_default_context(cadata=contact.ca.decode()) if contact.ca else None
    try:
        with urllib.request.urlopen(request, timeout=_PATIENCE, context=context) as answer:  # noqa: S310
            return json.loads(answer.read() or b"{}")
    except urllib.error.HTTPError as error:
        raise LevelsetError(f"the session says no ({error.code}): {error.read().decode(errors='replace')}") from error
    except OSError as error:
        raise Unreachable(f"the session at {contact.url} does not answer: {error}") from error
