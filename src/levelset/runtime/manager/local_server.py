"""A control plane in a box, for `run(..., local=True)`: an API server in this process that kubectl can reach, too.

A server of one's own with systems on it, for the length of a block: what `run --local` is, for tests and scripts.

```python
async with open_local(websites) as local:
    await local.client.create(site)
```
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from levelset.client.client import Client
from levelset.errors import ConfigError
from levelset.objects.kind_definition import definition_of
from levelset.runtime.manager.crd_install import install_definitions, kinds_served
from levelset.runtime.manager.manager import Manager
from levelset.runtime.manager.system import Part, System, open_parts
from levelset.runtime.webhook.webhook_set import Webhooks

__all__ = ["Box", "Local", "open_box", "open_inside", "open_local"]

if TYPE_CHECKING:
    from levelset.apiserver.server import ApiServer
    from levelset.storage import Storage


KUBECONFIG: Final = "levelset.kubeconfig"


@dataclass(frozen=True, slots=True)
class Box:
    """The server, and the file that leads to it, if it listens."""

    server: "ApiServer"
    kubeconfig: Path | None


@asynccontextmanager
async def open_box(
    kubeconfig: str | None = None, *, data: str | None = None, port: int | None = None, system: System | None = None
) -> AsyncGenerator[Box, None]:
    """A server for the length of a block; its kubeconfig is there as long as it is.

    Everything is in memory, or in the file `data`, with which its secrets stay. ConfigError if the kubeconfig is
    somebody else's. Without the extra `tls` it speaks plain HTTP, on the loopback interface. The `system` says where
    Services get their addresses from, and who answers for logs.
    """
    # Late: the server takes a while to load, and most programs talk to one that is there already.
    from levelset.apiserver.data_directory import MEMORY, check_data, open_data, secrets_of  # noqa: PLC0415
    from levelset.apiserver.kubeconfig_file import Contact, check_kubeconfig, write_kubeconfig  # noqa: PLC0415

    path, where = Path(kubeconfig or KUBECONFIG), data or MEMORY
    await asyncio.to_thread(check_kubeconfig, path)
    await asyncio.to_thread(check_data, where)
    storage = await open_data(where)
    try:
        (first, *more), authority = await asyncio.to_thread(secrets_of, where)
        options: dict[str, Any] = {
            "token": first,
            "tokens": more,
            "authority": authority,
            "tls": find_spec("cryptography") is not None,
        }
        async with _server(storage, system, port=port or 0, **options) as server:
            await asyncio.to_thread(write_kubeconfig, path, Contact(server.url, server.token, server.ca))
            try:
                yield Box(server, path)
            finally:
                await asyncio.to_thread(_remove, path, server.url)
    finally:
        await storage.close()


@asynccontextmanager
async def open_inside(data: str | None = None, *, system: System | None = None) -> AsyncGenerator[Box, None]:
    """A server for the length of a block that only this process can reach."""
    from levelset.apiserver.data_directory import MEMORY, check_data, open_data  # noqa: PLC0415  # as above

    await asyncio.to_thread(check_data, data or MEMORY)
    storage = await open_data(data or MEMORY)
    try:
        server = _server(storage, system)
        await server.start(listen=False)
        try:
            yield Box(server, None)
        finally:
            await server.stop()
    finally:
        await storage.close()


def _server(storage: "Storage", system: System | None, **options: Any) -> "ApiServer":
    from levelset.apiserver.server import ApiServer  # noqa: PLC0415  # as above

    if system is None:
        return ApiServer(storage, **options)
    if system.service_addresses is not None:
        options["service_addresses"] = system.service_addresses
    server = ApiServer(storage, **options)
    for kind, source in system.logs.items():
        gvk = definition_of(kind).gvk
        server.serve_logs(gvk.group, gvk.kind, source)
    return server


def _remove(path: Path, url: str) -> None:
    """Removes the file, unless a server that was started later has written its own there."""
    from levelset.apiserver.kubeconfig_file import read_kubeconfig  # noqa: PLC0415  # as above

    try:
        is_ours = read_kubeconfig(path).url == url
    except ConfigError:
        return  # gone, or somebody else's by now
    if is_ours:
        path.unlink(missing_ok=True)


if TYPE_CHECKING:
    from levelset.apiserver.server import ApiServer


@dataclass(frozen=True, slots=True)
class Local:
    """What there is inside of the block; `kubeconfig` only if the server listens."""

    server: "ApiServer"
    client: Client
    manager: Manager
    kubeconfig: Path | None


@asynccontextmanager
async def open_local(
    *parts: Part,
    listen: bool = False,
    kubeconfig: str | None = None,
    data: str | None = None,
    port: int | None = None,
    **options: Any,
) -> AsyncGenerator[Local, None]:
    """A server in this process, the definitions of all kinds in use, and a manager that runs the parts; all are ready.

    It is reached through `client`, and with `listen` by others too, who find it in the file `kubeconfig`. The `options`
    are those of `Manager`.
    """
    async with open_parts(*parts) as whole:
        opened = open_box(kubeconfig, data=data, port=port, system=whole) if listen else open_inside(data, system=whole)
        async with opened as box, await Client.connect(box.server) as client:
            webhooks = Webhooks(options.pop("webhooks", ()), whole.webhooks)
            await install_definitions(client, kinds_served(whole, webhooks))
            manager = Manager(client, webhooks=webhooks, **options)
            hosted = [manager.add(one) for one in whole.controllers]
            if whole.setup is not None:
                whole.setup(manager)
            async with manager:
                async with asyncio.TaskGroup() as group:
                    for one in hosted:
                        group.create_task(_ready(one))
                yield Local(box.server, client, manager, box.kubeconfig)


async def _ready(hosted: Any) -> None:
    await (await hosted.wait_running()).wait_ready()
