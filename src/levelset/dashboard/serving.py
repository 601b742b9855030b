"""The dashboard as a part of a program: `run(websites, dashboard())` serves it, and says where it is.

```python
from levelset import run
from levelset.dashboard import dashboard

run(websites, dashboard(), local=True)
```
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from levelset.dashboard.app import Dashboard
from levelset.dashboard.reading import Sight
from levelset.manager import Manager, System
from levelset.web import Limits, Server

__all__ = ["dashboard"]

_LIMITS: Final = Limits(connections=100, body_bytes=0)
_SHUTDOWN: Final = 1.0


def dashboard(port: int = 0) -> System:
    """A part to run with others: serves the page on this port of the loopback interface, or on any free one.

    ConfigError, before anything else has begun, if the port cannot be had.
    """
    return System(name="dashboard", around=partial(_serve, port))


@asynccontextmanager
async def _serve(port: int) -> AsyncGenerator[System, None]:
    page = Dashboard()

    def show(manager: Manager) -> None:
        page.show(Sight.of(manager))
        manager.on_stop(page.close)  # before the client is closed that its watches use

    async with Server(page.handle, port=port, limits=_LIMITS) as server:
        try:
            yield System(name="dashboard", setup=show, urls={"dashboard": page.address(server.url)})
        finally:
            await page.close()
            await server.stop(within=_SHUTDOWN)
