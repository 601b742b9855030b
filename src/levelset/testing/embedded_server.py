"""An API server inside the test: everything in memory, a clock of its own, and chance that repeats itself.

Makes kinds known to a server inside a test, without asking it for anything: what it serves can be seen.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from random import Random
from typing import Any, Final

from levelset.apiserver.package_data import wait_data
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import Tree
from levelset.apiserver.server import ApiServer
from levelset.client.client import Client
from levelset.client.object_types import View, view_of
from levelset.errors import ConfigError
from levelset.objects import codec
from levelset.objects.kind_definition import definition_of
from levelset.objects.resource import Object
from levelset.runtime.manager.crd_install import definitions_for
from levelset.storage import MemoryStorage

__all__ = ["START", "CustomResourceDefinition", "Inside", "clock_from", "define_inside"]

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""What time of day it is when a test begins."""


class Inside:
    """A server and its storage, from `start` until `stop`."""

    def __init__(self, *, seed: int, now: Callable[[], datetime], storage: MemoryStorage | None = None) -> None:
        self.storage = MemoryStorage() if storage is None else storage
        random = Random(seed)  # noqa: S311 -- it has to be the same each time
        self.server = ApiServer(self.storage, tls=False, token="of-a-test", now=now, random=random)  # noqa: S106
        self.times: dict[int, float] = {}
        """When each revision was written, on the loop's clock."""
        self.server.world.listeners.append(self._note)

    async def start(self) -> None:
        """Brings the server to life; there is no socket."""
        await wait_data()
        await self.server.start(listen=False)

    async def stop(self) -> None:
        """Ends it."""
        await self.server.stop()
        await self.storage.close()

    def _note(self, _: ServedResource, _before: Tree | None, _after: Tree | None) -> None:
        self.times[self.storage.revision] = asyncio.get_running_loop().time()


def clock_from(start: datetime) -> Callable[[], datetime]:
    """The time of day, which goes on from `start` as the event loop's clock does."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    return lambda: start + timedelta(seconds=loop.time() - began)


class CustomResourceDefinition(Object, api="apiextensions.k8s.io/v1", scope="Cluster"):
    """What makes a server know a kind."""

    spec: dict[str, Any] = {}


async def define_inside(inside: Inside, control: Client, views: Iterable[View[Any]]) -> Sequence[str]:
    """Has the server serve these kinds, as far as it does not yet; gives the names of what was made.

    ConfigError if it does not serve one although it has a definition for it: another kind may have taken its names.
    """
    catalog = inside.server.world.catalog
    missing = tuple(one.class_ for one in views if one.definition is not None and catalog.by_gvk(*one.gvk) is None)
    made = _definitions(missing)
    for tree in made.values():
        await control.create(codec.decode(CustomResourceDefinition, tree))
    if made:
        await inside.server.idle()
    for one in missing:
        gvk = definition_of(one).gvk
        if catalog.by_gvk(*gvk) is None:
            raise ConfigError(f"{gvk} is not served although there is a definition for it; look at its status")
    return tuple(made)


@lru_cache(maxsize=256)  # every test defines the same kinds anew
def _definitions(classes: tuple[type[Any], ...]) -> Mapping[str, bytes]:
    return {name: codec.encode_tree(tree) for name, tree in definitions_for(map(view_of, classes)).items()}
