"""Counts what the objects of a namespace use, and writes it into the status of its ResourceQuotas.

Admission charges quotas for what is written (`verbs/quota_admission.py`); this controller counts again when a quota
changes, when something is removed or ends, and when a write failed that was charged.
"""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Final

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
from levelset.storage import Item

__all__ = ["ResourceQuotaController"]

Stored = list[tuple[ServedResource, Sequence[Item]]]
"""Stored objects by their kind."""

_COUNTED_ON_LOOP: Final = 200
"""So many objects are counted on the event loop: some 5 ms."""
_ATTEMPTS: Final = 5


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
        for attempt in range(_ATTEMPTS):
            if await self._is_counted(*key, is_last=attempt == _ATTEMPTS - 1):
                return
        self.queue.add(key)

    async def _is_counted(self, namespace: str, name: str, *, is_last: bool) -> bool:
        """Counts; False if the quota was charged meanwhile, for what may not be in the count.

        Many objects are counted in a thread, unless this is the last attempt, beside which nothing is charged.
        """
        # A create that is charged and not committed yet would be missed, and its share given to another one.
        await self._state.in_flight_creates.wait_until_none(namespace=namespace)
        item = self._state.reader.get_nowait(self._kind().key(namespace, name))
        if item is None or is_deleting(decode_tree(item.value)):
            return True
        quota = served_tree(self._kind(), item)
        stored = self._counted(quota, namespace)
        count = partial(_status, quota, stored, self._state.now())
        is_small = sum(len(items) for _, items in stored) <= _COUNTED_ON_LOOP
        status = count() if is_small or is_last else await self._state.expensive_work.run(count)
        is_current = True

        def change(current: Object) -> Object | None:
            nonlocal is_current
            is_current = current["metadata"]["resourceVersion"] == str(item.revision)
            return {**current, "status": status} if is_current and map_member(current, "status") != status else None

        await create_and_update.mutate(self._state, self._kind(), namespace, name, change)
        return is_current

    def _counted(self, quota: Object, namespace: str) -> Stored:
        """The objects of the kinds that a quota counts, as they are stored now."""
        names = quota_usage.counted_resources(quota)
        return [
            (served, self._state.reader.list_nowait(served.prefix_in(namespace)).items)
            for served in stored_resources(self._state.catalog)
            if served.namespaced and _may_be_counted(served, names)
        ]


def _status(quota: Object, stored: Stored, now: datetime) -> Object:
    objects = ((served, served_tree(served, item)) for served, items in stored for item in items)
    used = quota_usage.sum_usage(quota, objects, now)
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
