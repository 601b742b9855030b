"""The little controller of definitions: it clears the objects of one that is being deleted, and frees its names.

It is told of every write and does what follows from it, each definition by itself: a definition that is being deleted
loses its objects, then its finalizer; a definition that waits for a name is looked at again when one becomes free.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import cast

from levelset.apiserver.registry.crd.definitions import CLEANUP, GROUP, PLURAL, Definition, Definitions
from levelset.apiserver.registry.crd.names import has_all_names, is_terminating
from levelset.apiserver.resources.json_members import items
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import World
from levelset.apiserver.verbs import create_and_update, delete
from levelset.apiserver.wire.request_options import DeleteOptions
from levelset.errors import ApiError, NotFound
from levelset.objects import decode_tree

__all__ = ["Cleanup"]

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0


class Cleanup:
    """Runs beside the server: `run` goes on until it is cancelled, and `settle` does what there is to do now."""

    def __init__(self, world: World, definitions: Definitions) -> None:
        self._world = world
        self._definitions = definitions
        self._waiting: dict[str, None] = {}  # in order, each once
        self._woken = asyncio.Event()
        definitions.changed = self._changed
        world.removal_listeners.append(self._removed)
        for one in definitions.all():
            self._changed(None, one)

    async def run(self) -> None:
        """Does what there is to do, as it comes."""
        while True:
            await self._woken.wait()
            try:
                await self.settle()
            except ApiError as error:
                log.warning("definition not settled, will try again", extra={"error": str(error)})
                await asyncio.sleep(RETRY_SECONDS)

    async def settle(self) -> None:
        """Does what there is to do now, and returns when nothing is left that does not wait for somebody else."""
        self._woken.clear()
        while self._waiting:
            name = next(iter(self._waiting))
            del self._waiting[name]
            try:
                await self._look_at(name)
            except BaseException:
                self._wake(name)  # not done: it stays on the list
                raise

    async def _look_at(self, name: str) -> None:
        definition = self._definitions.find(name)
        if definition is None:
            return
        if is_terminating(definition.tree):
            await self._clear(definition)
        else:
            await self._mutate(name, self._settled)

    def _changed(self, former: Definition | None, present: Definition | None) -> None:
        """A definition that changed is looked at; if a name may have become free, so are those that wait for one."""
        if present is not None and (is_terminating(present.tree) or self._is_unsettled(present)):
            self._wake(present.name)
        if former is None:
            return
        for one in self._definitions.all():
            same_group = one.tree["spec"]["group"] == former.tree["spec"]["group"]
            if same_group and not has_all_names(one.tree) and self._is_unsettled(one):
                self._wake(one.name)

    def _removed(self, served: ServedResource, _before: Object | None, _after: Object | None) -> None:
        if not served.custom:
            return
        # Not `served.terminating`: who removes an object may have got to know its kind before the deletion began.
        definition = self._definitions.of_kind(served)
        if definition is not None and is_terminating(definition.tree):
            self._wake(definition.name)

    def _wake(self, name: str) -> None:
        self._waiting[name] = None
        self._woken.set()

    async def _clear(self, definition: Definition) -> None:
        """Deletes the objects; when none is left, lets the definition go."""
        served = definition.storage
        # New objects are refused by now; those that were let in before must be seen, or they would outlive it.
        await self._world.arrivals.wait_landed(served.prefix)
        page = await self._world.storage.list(served.prefix)
        for item in page.items:
            metadata = cast("Object", decode_tree(item.value))["metadata"]
            if metadata.get("deletionTimestamp") and metadata.get("finalizers"):
                continue
            try:
                await delete.delete(self._world, served, metadata.get("namespace"), metadata["name"], DeleteOptions())
            except NotFound:
                continue  # somebody else was faster
        if await self._world.storage.count(served.prefix) == 0:
            await self._mutate(definition.name, _without_finalizer)

    def _settled(self, tree: Object) -> Object | None:
        status = self._definitions.settle(tree)
        if status == tree.get("status"):
            return None
        return {**tree, "status": status}

    def _is_unsettled(self, definition: Definition) -> bool:
        return self._definitions.settle(definition.tree) != definition.tree.get("status")

    async def _mutate(self, name: str, change: Callable[[Object], Object | None]) -> None:
        kind = self._world.catalog.find(GROUP, "v1", PLURAL)
        if kind is not None:
            await create_and_update.mutate(self._world, kind, None, name, change)


def _without_finalizer(tree: Object) -> Object | None:
    finalizers = items(tree["metadata"], "finalizers")
    if CLEANUP not in finalizers:
        return None
    tree["metadata"]["finalizers"] = [one for one in finalizers if one != CLEANUP]
    return tree
