"""Finds the server that is meant: one of this process, one that a value describes, or one from a file."""

import asyncio
from pathlib import Path
from typing import Any

from levelset.client.calls import Transport
from levelset.client.config import Config
from levelset.client.inside import Handles, InsideTransport
from levelset.client.loading import load_config
from levelset.client.sockets import SocketTransport
from levelset.errors import ConfigError
from levelset.web.messages import Peer

__all__ = ["Where", "open_transport"]

Where = Handles | Config | str | Path | None
"""A server of this process, a Config, the path of a kubeconfig, or None for the usual places."""


async def open_transport(
    where: Where = None, *, context: str | None = None, peer: Peer | None = None
) -> tuple[Transport, str | None]:
    """The transport to a server, and the namespace that its configuration names; ConfigError says what is missing."""
    if context is not None and where is not None and not isinstance(where, str | Path):
        raise ConfigError(f"context {context!r} is chosen in a kubeconfig; give the path of one, or nothing")
    if where is None or isinstance(where, str | Path):
        where = await asyncio.to_thread(load_config, where, context)
    if isinstance(where, Config):
        return SocketTransport(where), where.namespace
    handle: Any = getattr(where, "handle", None)
    if not callable(handle):
        raise ConfigError(f"a {type(where).__name__} is no server to connect to; give a path, a Config or a server")
    return InsideTransport(where, peer=peer), None
