"""All kinds of one server, put together: the catalog with the built-in kinds, and what keeps it up to date."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

from levelset.apiserver import definitions
from levelset.apiserver.builtins import builtin_kinds
from levelset.apiserver.catalog import Catalog
from levelset.apiserver.definitions import Definitions
from levelset.apiserver.services import RANGE, Services
from levelset.apiserver.world import World, utc_now

__all__ = ["Kinds"]


class Kinds:
    """The catalog of a server with its definitions and services; `load` once, before the first request."""

    def __init__(self, *, now: Callable[[], datetime] = utc_now, service_addresses: str = RANGE) -> None:
        self.services = Services(service_addresses)
        self.definitions = Definitions(now=now)
        special = {
            ("", "Service"): self.services.rules,
            (definitions.GROUP, definitions.KIND): self.definitions.rules,
        }
        self.catalog = Catalog(builtin_kinds(special))

    def serve_logs(self, group: str, kind: str, handler: Callable[..., Any]) -> None:
        """Has the `log` subresource of a kind answered by `handler(world, served, namespace, name, request)`."""
        served = self.catalog.kinds(group, kind)
        if served is None or served.custom:
            self.definitions.serve_logs(group, kind, handler)
        else:
            self.catalog.change(remove=[served], add=[replace(served, logs=handler)])

    async def load(self, world: World) -> None:
        """Takes in what is stored, and from then on follows every write to this world."""
        await self.services.load(world)
        await self.definitions.load(world)
