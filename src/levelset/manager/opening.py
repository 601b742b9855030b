"""A server of one's own with systems on it, for the length of a block: what `run --local` is, for tests and scripts.

```python
async with open_local(websites) as local:
    await local.client.create(site)
```
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from levelset.client.client import Client
from levelset.manager.definitions import install_definitions, kinds_served
from levelset.manager.locally import open_box, open_inside
from levelset.manager.manager import Manager
from levelset.manager.system import Part, open_parts
from levelset.webhook.group import Webhooks

if TYPE_CHECKING:
    from levelset.apiserver.server import ApiServer

__all__ = ["Local", "open_local"]


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
