"""A control plane in a box, for `run(..., local=True)`: an API server in this process that kubectl can reach, too."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from levelset.apiserver.server import ApiServer

__all__ = ["Box", "open_box"]

KUBECONFIG: Final = "levelset.kubeconfig"


@dataclass(frozen=True, slots=True)
class Box:
    """The server, and the file that leads to it."""

    server: "ApiServer"
    kubeconfig: Path


@asynccontextmanager
async def open_box(kubeconfig: str | None = None) -> AsyncGenerator[Box, None]:
    """A server with everything in memory, for the length of a block; its kubeconfig is there as long as it is.

    ConfigError if the file is somebody else's. Without the extra `tls` it speaks plain HTTP, on the loopback interface.
    """
    # Late: the server takes a while to load, and most programs talk to one that is there already.
    from levelset.apiserver.kubeconfig import Contact, check_kubeconfig, write_kubeconfig  # noqa: PLC0415
    from levelset.apiserver.server import ApiServer  # noqa: PLC0415

    path = Path(kubeconfig or KUBECONFIG)
    await asyncio.to_thread(check_kubeconfig, path)
    async with ApiServer(tls=find_spec("cryptography") is not None) as server:
        await asyncio.to_thread(write_kubeconfig, path, Contact(server.url, server.token, server.ca))
        try:
            yield Box(server, path)
        finally:
            await asyncio.to_thread(path.unlink, missing_ok=True)
