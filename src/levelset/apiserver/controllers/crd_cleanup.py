"""The CRD controller: deletes the objects of a CustomResourceDefinition that is being deleted, and settles names.

A terminating definition loses its objects first, then its finalizer. A definition whose names were not accepted because
another one holds them is reconciled again when a definition of its group changes.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import cast

from levelset.aio.supervisor import explain_cancellation
from levelset.apiserver.registry.crd.definitions import (
    CLEANUP_FINALIZER,
    GROUP,
    PLURAL,
    CrdRegistry,
    CustomResourceDefinition,
)
from levelset.apiserver.registry.crd.names import has_all_names, is_terminating
from levelset.apiserver.resources.json_members import list_member
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.verbs import create_and_update, delete
from levelset.apiserver.wire.request_options import DeleteOptions
from levelset.errors import ApiError, NotFound
from levelset.objects import decode_tree

__all__ = ["CrdCleanup"]

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0


class CrdCleanup:
    """Reconciles definitions: `run` continues until it is cancelled, `settle` processes the queue once."""

    def __init__(self, state: ServerState, definitions: CrdRegistry) -> None:
        self._state = state
        self._definitions = definitions
        self._queue: dict[str, None] = {}  # an ordered set
        self._has_work = asyncio.Event()
        self._settling = asyncio.Lock()
        self._is_paused = False
        definitions.on_change = self._changed
        state.removal_listeners.append(self._removed)
        for one in definitions.all():
            self._changed(None, one)

    async def run(self) -> None:
        """Reconciles the queued definitions as they are added."""
        while True:
            await self._has_work.wait()
            try:
                await self.settle()
            except ApiError as error:
                log.warning("definition not reconciled, will retry", extra={"error": str(error)})
            except asyncio.CancelledError as error:
                log.exception("definition not reconciled, will retry", exc_info=explain_cancellation(error))
            except Exception:
                log.exception("definition not reconciled, will retry")
            else:
                continue
            await asyncio.sleep(RETRY_SECONDS)

    def pause(self) -> None:
        """Leaves the definitions to another server."""
        self._is_paused = True
        self._queue.clear()

    async def resume(self) -> None:
        """Reconciles from now on, beginning with all definitions."""
        self._is_paused = False
        for one in self._definitions.all():
            self._changed(None, one)

    async def settle(self) -> None:
        """Reconciles all queued definitions; returns when none is queued or being reconciled."""
        async with self._settling:
            self._has_work.clear()
            while self._queue:
                name = next(iter(self._queue))
                del self._queue[name]
                try:
                    await self._reconcile(name)
                except BaseException:
                    self._enqueue(name)  # not done: stays in the queue
                    raise

    async def _reconcile(self, name: str) -> None:
        definition = self._definitions.find(name)
        if definition is None:
            return
        if is_terminating(definition.tree):
            await self._delete_objects(definition)
        else:
            await self._mutate(name, self._with_desired_status)

    def _changed(self, previous: CustomResourceDefinition | None, current: CustomResourceDefinition | None) -> None:
        """Enqueues a changed definition, and those of its group that wait for a name that may be free now."""
        if current is not None and (is_terminating(current.tree) or self._is_status_outdated(current)):
            self._enqueue(current.name)
        if previous is None:
            return
        for one in self._definitions.all():
            same_group = one.tree["spec"]["group"] == previous.tree["spec"]["group"]
            if same_group and not has_all_names(one.tree) and self._is_status_outdated(one):
                self._enqueue(one.name)

    def _removed(self, served: ServedResource, _before: Object | None, _after: Object | None) -> None:
        if not served.custom:
            return
        # Not `served.terminating`: the removing request may have resolved the resource before the deletion began.
        definition = self._definitions.of_kind(served)
        if definition is not None and is_terminating(definition.tree):
            self._enqueue(definition.name)

    def _enqueue(self, name: str) -> None:
        if self._is_paused:
            return
        self._queue[name] = None
        self._has_work.set()

    async def _delete_objects(self, definition: CustomResourceDefinition) -> None:
        """Deletes the objects of a terminating definition; removes its finalizer when none is left."""
        served = definition.storage
        # Creates are rejected by now; those that passed the check before must be committed first, or they are missed.
        await self._state.in_flight_creates.wait_until_none(prefix=served.prefix)
        page = await self._state.storage.list(served.prefix)
        for item in page.items:
            metadata = cast("Object", decode_tree(item.value))["metadata"]
            if metadata.get("deletionTimestamp") and metadata.get("finalizers"):
                continue
            try:
                await delete.delete(self._state, served, metadata.get("namespace"), metadata["name"], DeleteOptions())
            except NotFound:
                continue  # deleted meanwhile
        if await self._state.storage.count(served.prefix) == 0:
            await self._mutate(definition.name, _without_finalizer)

    def _with_desired_status(self, tree: Object) -> Object | None:
        status = self._definitions.desired_status(tree)
        if status == tree.get("status"):
            return None
        return {**tree, "status": status}

    def _is_status_outdated(self, definition: CustomResourceDefinition) -> bool:
        return self._definitions.desired_status(definition.tree) != definition.tree.get("status")

    async def _mutate(self, name: str, change: Callable[[Object], Object | None]) -> None:
        kind = self._state.catalog.find(GROUP, "v1", PLURAL)
        if kind is not None:
            await create_and_update.mutate(self._state, kind, None, name, change)


def _without_finalizer(tree: Object) -> Object | None:
    finalizers = list_member(tree["metadata"], "finalizers")
    if CLEANUP_FINALIZER not in finalizers:
        return None
    tree["metadata"]["finalizers"] = [one for one in finalizers if one != CLEANUP_FINALIZER]
    return tree
