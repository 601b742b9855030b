"""The in-process API server of a test: in-memory storage, its own clock, and seeded randomness.

`install_kinds` creates the CRDs of missing kinds; what is served is read from the server's catalog, without requests.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from random import Random
from typing import Any, Final

from levelset.apiserver.package_data import wait_package_data
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import Tree
from levelset.apiserver.server import ApiServer
from levelset.client.client import Client
from levelset.client.object_types import View, view_of
from levelset.errors import ConfigError
from levelset.objects import codec
from levelset.objects.kind_definition import definition_of
from levelset.objects.resource import Object
from levelset.runtime.manager.crd_install import crds_for
from levelset.storage import MemoryStorage

__all__ = ["START", "CustomResourceDefinition", "EmbeddedServer", "clock_from", "install_kinds"]

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""The time at which a test begins, unless it says otherwise."""


class EmbeddedServer:
    """An in-process API server and its storage, between `start` and `stop`."""

    def __init__(self, *, seed: int, now: Callable[[], datetime], storage: MemoryStorage | None = None) -> None:
        self.storage = MemoryStorage() if storage is None else storage
        random = Random(seed)  # noqa: S311 -- it has to be the same each time
        self.server = ApiServer(self.storage, tls=False, token="of-a-test", now=now, random=random)  # noqa: S106
        self.server.state.expensive_work.is_inline = True
        self.times: dict[int, float] = {}
        """The loop time at which each revision was written."""
        self.server.state.listeners.append(self._note)

    async def start(self) -> None:
        """Starts the server, without a socket."""
        await wait_package_data()
        await self.server.start(listen=False)

    async def stop(self) -> None:
        """Stops the server and closes the storage."""
        await self.server.stop()
        await self.storage.close()

    def _note(self, _: ServedResource, _before: Tree | None, _after: Tree | None) -> None:
        self.times[self.storage.revision] = asyncio.get_running_loop().time()


def clock_from(start: datetime) -> Callable[[], datetime]:
    """A clock that starts at `start` and advances with the event loop's time."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    return lambda: start + timedelta(seconds=loop.time() - began)


class CustomResourceDefinition(Object, api="apiextensions.k8s.io/v1", scope="Cluster"):
    """The fields of a CustomResourceDefinition that the installation needs."""

    spec: dict[str, Any] = {}


async def install_kinds(embedded: EmbeddedServer, control: Client, views: Iterable[View[Any]]) -> Sequence[str]:
    """Installs the CRDs of these kinds that are not served yet; returns the names of the created CRDs.

    ConfigError if a kind is not served although its CRD exists: another CRD may have taken its names.
    """
    catalog = embedded.server.state.catalog
    missing = tuple(one.class_ for one in views if one.definition is not None and catalog.by_gvk(*one.gvk) is None)
    made = _definitions(missing)
    for tree in made.values():
        await control.create(codec.decode(CustomResourceDefinition, tree))
    if made:
        await embedded.server.idle()
    for one in missing:
        gvk = definition_of(one).gvk
        if catalog.by_gvk(*gvk) is None:
            raise ConfigError(
                f"{gvk} is not served although its CRD exists; check the conditions in the status of the CRD"
            )
    return tuple(made)


@lru_cache(maxsize=256)  # every test installs the same kinds
def _definitions(classes: tuple[type[Any], ...]) -> Mapping[str, bytes]:
    return {name: codec.encode_tree(tree) for name, tree in crds_for(map(view_of, classes)).items()}
