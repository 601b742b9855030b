"""Counts what the objects of a namespace use, and writes it into the status of its ResourceQuotas.

Admission charges quotas for what is written (`verbs/quota_admission.py`); this controller counts again when a quota
changes, when something is removed or ends, and when a write failed that was charged.
"""

from levelset.apiserver.controllers.key_queue import KeyQueue
from levelset.apiserver.registry.limits import quota_usage
from levelset.apiserver.registry.metadata import is_deleting
from levelset.apiserver.registry.storage_codec import served_tree
from levelset.apiserver.resources.json_members import map_member
from levelset.apiserver.resources.object_location import stored_resources
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.verbs import create_and_update
from levelset.objects import decode_tree

__all__ = ["ResourceQuotaController"]


class ResourceQuotaController:
    """Keeps the status of ResourceQuotas up to date; servers without any pay nothing for it."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self.queue: KeyQueue[tuple[str, str]] = KeyQueue("resource quotas", self._reconcile)

    async def start(self) -> None:
        """Counts for the stored quotas, and follows writes from then on."""
        served = self._kind()
        self._state.add_resource_listener(served.prefix, self._on_quota)
        self._state.recount_quotas = self._enqueue
        for item in (await self._state.storage.list(served.prefix)).items:
            self._on_quota(served, None, decode_tree(item.value))
        self.queue.start()

    async def stop(self) -> None:
        """Stops the queue."""
        await self.queue.stop()

    async def resume(self) -> None:
        """Reconciles from now on, beginning with all quotas."""
        await self.queue.resume(
            (namespace, name) for namespace, names in self._state.quotas.items() for name in sorted(names)
        )

    def _kind(self) -> ServedResource:
        found = self._state.catalog.find("", "v1", "resourcequotas")
        assert found is not None  # built in
        return found

    def _on_quota(self, _served: ServedResource, before: Object | None, after: Object | None) -> None:
        tree = before if after is None else after
        assert tree is not None  # one of them exists
        namespace, name = tree["metadata"]["namespace"], tree["metadata"]["name"]
        quotas = self._state.quotas
        if after is None:
            quotas.get(namespace, set()).discard(name)
            if not quotas.get(namespace):
                quotas.pop(namespace, None)
        else:
            quotas.setdefault(namespace, set()).add(name)
            if before is None or _needs_count(after) or before.get("spec") != after.get("spec"):
                self.queue.add((namespace, name))
        # Registered only while there are quotas, so that other writes do not pay for the listener.
        listeners = self._state.listeners
        if quotas and self._on_write not in listeners:
            listeners.append(self._on_write)
        elif not quotas and self._on_write in listeners:
            listeners.remove(self._on_write)

    def _on_write(self, served: ServedResource, before: Object | None, after: Object | None) -> None:
        if before is None or not served.namespaced:
            return
        namespace = before["metadata"].get("namespace")
        if namespace in self._state.quotas and (after is None or self._usage_differs(served, before, after)):
            self._enqueue(namespace)

    def _usage_differs(self, served: ServedResource, before: Object, after: Object) -> bool:
        if served.group or served.plural not in ("persistentvolumeclaims", "pods", "services"):
            return False
        now = self._state.now()
        return quota_usage.usage_of(served, before, now) != quota_usage.usage_of(served, after, now)

    def _enqueue(self, namespace: str) -> None:
        for name in sorted(self._state.quotas.get(namespace, ())):
            self.queue.add((namespace, name))

    async def _reconcile(self, key: tuple[str, str]) -> None:
        namespace, name = key
        item = self._state.reader.get_nowait(self._kind().key(namespace, name))
        if item is None or is_deleting(decode_tree(item.value)):
            return
        # A create that is charged and not committed yet would be missed, and its share given to another one.
        await self._state.in_flight_creates.wait_until_none(namespace=namespace)

        def change(quota: Object) -> Object | None:
            status = self._count(quota, namespace)
            return None if map_member(quota, "status") == status else {**quota, "status": status}

        await create_and_update.mutate(self._state, self._kind(), namespace, name, change)

    def _count(self, quota: Object, namespace: str) -> Object:
        names = quota_usage.counted_resources(quota)
        objects = (
            (served, served_tree(served, item))
            for served in stored_resources(self._state.catalog)
            if served.namespaced and _may_be_counted(served, names)
            for item in self._state.reader.list_nowait(served.prefix_in(namespace)).items
        )
        used = quota_usage.sum_usage(quota, objects, self._state.now())
        hard = dict(map_member(map_member(quota, "spec"), "hard"))
        return {"hard": hard, "used": {one: str(used[one]) for one in sorted(used)}}


def _needs_count(quota: Object) -> bool:
    """Whether the status does not have the limits of the spec."""
    return map_member(map_member(quota, "status"), "hard") != map_member(map_member(quota, "spec"), "hard")


def _may_be_counted(served: ServedResource, names: set[str]) -> bool:
    """Whether a quota with these limits counts objects of this kind."""
    if f"count/{served.qualified}" in names:
        return True
    if served.group:
        return False
    match served.plural:
        case "pods":
            return any("." not in name.partition("/")[0] or name.startswith(("requests.", "limits.")) for name in names)
        case "services":
            return any(name.startswith("services") for name in names)
        case "persistentvolumeclaims":
            return any("persistentvolumeclaims" in name or "storage" in name for name in names)
        case plural:
            return plural in names
