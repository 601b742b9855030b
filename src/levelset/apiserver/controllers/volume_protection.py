"""Releases deleted volumes: removes the protection finalizers of claims that no Pod uses, and of unbound volumes."""

from typing import Final

from levelset.apiserver.controllers.key_queue import KeyQueue
from levelset.apiserver.registry.builtin.volumes import CLAIM_PROTECTION, VOLUME_PROTECTION
from levelset.apiserver.registry.storage_codec import served_tree
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.object_location import ObjectLocation, location_of
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.verbs import create_and_update

__all__ = ["VolumeProtectionController", "claims_of"]

CLAIMS: Final = "persistentvolumeclaims"
VOLUMES: Final = "persistentvolumes"
_FINALIZERS: Final = {CLAIMS: CLAIM_PROTECTION, VOLUMES: VOLUME_PROTECTION}


def claims_of(pod: Object) -> set[str]:
    """The names of the claims that a Pod uses: those it names, and those of its ephemeral volumes.

    As upstream, a Pod uses them from being scheduled until it has ended.
    """
    spec = map_member(pod, "spec")
    if not spec.get("nodeName") or map_member(pod, "status").get("phase") in ("Succeeded", "Failed"):
        return set()
    found: set[str] = set()
    for volume in list_member(spec, "volumes"):
        name = map_member(volume, "persistentVolumeClaim").get("claimName")
        if volume.get("ephemeral") is not None:
            name = f"{pod['metadata']['name']}-{volume.get('name')}"
        if name:
            found.add(name)
    return found


class VolumeProtectionController:
    """Removes the finalizers whenever a claim or a volume is deleted, or a Pod ends."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        # The claims and volumes that are being deleted: only for them Pods matter.
        self._deleting: set[ObjectLocation] = set()
        self.queue: KeyQueue[ObjectLocation] = KeyQueue("volume protection", self._reconcile)

    async def start(self) -> None:
        """Enqueues what is being deleted, and listens to writes from then on."""
        for plural in (CLAIMS, VOLUMES):
            served = self._kind(plural)
            self._state.add_resource_listener(served.prefix, self._on_write)
            for item in (await self._state.storage.list(served.prefix)).items:
                self._on_write(served, None, served_tree(served, item))
        self._state.add_resource_listener(self._kind("pods").prefix, self._on_pod)
        self.queue.start()

    async def stop(self) -> None:
        """Stops the queue."""
        await self.queue.stop()

    async def resume(self) -> None:
        """Reconciles from now on, beginning with all that is being deleted."""
        await self.queue.resume(list(self._deleting))

    def _kind(self, plural: str) -> ServedResource:
        found = self._state.catalog.find("", "v1", plural)
        assert found is not None  # built in
        return found

    def _on_write(self, served: ServedResource, before: Object | None, after: Object | None) -> None:
        tree = before if after is None else after
        if tree is None:
            return
        location = location_of(served, tree)
        if after is None:
            self._deleting.discard(location)
        elif "deletionTimestamp" in after["metadata"] and _FINALIZERS[served.plural] in _finalizers(after):
            self._deleting.add(location)
            self.queue.add(location)

    def _on_pod(self, _served: ServedResource, before: Object | None, after: Object | None) -> None:
        if not self._deleting or before is None:
            return
        released = claims_of(before) - (set() if after is None else claims_of(after))
        namespace = before["metadata"].get("namespace")
        for location in self._deleting:
            if location.name in released and location.namespace == namespace:
                self.queue.add(location)

    async def _reconcile(self, location: ObjectLocation) -> None:
        plural = VOLUMES if location.namespace is None else CLAIMS
        if plural == CLAIMS and await self._is_used(location):
            return

        def change(tree: Object) -> Object | None:
            metadata = tree["metadata"]
            is_bound = plural == VOLUMES and map_member(tree, "status").get("phase") == "Bound"
            if "deletionTimestamp" not in metadata or is_bound:
                return None
            rest = [one for one in _finalizers(tree) if one != _FINALIZERS[plural]]
            others = {name: value for name, value in metadata.items() if name != "finalizers"}
            return {**tree, "metadata": {**others, "finalizers": rest} if rest else others}

        await create_and_update.mutate(self._state, self._kind(plural), location.namespace, location.name, change)

    async def _is_used(self, location: ObjectLocation) -> bool:
        served = self._kind("pods")
        page = await self._state.storage.list(served.prefix_in(location.namespace))
        return any(location.name in claims_of(served_tree(served, item)) for item in page.items)


def _finalizers(tree: Object) -> list[str]:
    return list_member(tree["metadata"], "finalizers")
