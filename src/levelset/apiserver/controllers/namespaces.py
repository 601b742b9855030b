"""The namespace controller: creates the system namespaces, and deletes the contents of a terminating namespace.

A terminating namespace accepts no new objects. Its contents are deleted, each by the rules of its kind; when the last
object is gone, the finalizer in its spec is removed, and with it the namespace. Until then its conditions say what is
left.
"""

from collections import Counter
from datetime import datetime
from typing import Final

from levelset.apiserver.controllers.key_queue import KeyQueue
from levelset.apiserver.registry.metadata import format_timestamp, is_deleting
from levelset.apiserver.resources.object_location import stored_resources
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.verbs import create_and_update, delete
from levelset.apiserver.wire.request_options import DeleteOptions
from levelset.errors import AlreadyExists, Conflict, NotFound
from levelset.objects import decode_tree

__all__ = ["SYSTEM_NAMESPACES", "NamespaceController"]

SYSTEM_NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
_FINALIZER: Final = "kubernetes"
_PODS: Final = "/registry/core/pods/"
_OPTIONS: Final = DeleteOptions(grace_seconds=0, propagation="Background")


class NamespaceController:
    """Deletes the contents of terminating namespaces, again whenever something in them changes."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._terminating: set[str] = set()
        self.queue: KeyQueue[str] = KeyQueue("namespaces", self._reconcile)

    async def start(self) -> None:
        """Creates the system namespaces, listens to writes, and resumes pending deletions."""
        served = self._kind()
        self._state.add_resource_listener(served.prefix, self._on_write)
        for name in SYSTEM_NAMESPACES:
            if self._state.reader.get_nowait(served.key(None, name)) is None:
                await self._create(served, name)
        page = await self._state.storage.list(served.prefix)
        for item in page.items:
            if b'"deletionTimestamp"' in item.value:
                self._check(decode_tree(item.value))
        self.queue.start()

    async def stop(self) -> None:
        """Stops the queue."""
        await self.queue.stop()

    async def resume(self) -> None:
        """Reconciles from now on, beginning with the namespaces that are terminating."""
        await self.queue.resume([*self._terminating])

    def _kind(self) -> ServedResource:
        found = self._state.catalog.find("", "v1", "namespaces")
        assert found is not None  # built in
        return found

    async def _create(self, served: ServedResource, name: str) -> None:
        tree: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        try:
            await create_and_update.create(self._state, served, None, tree)
        except AlreadyExists:
            return

    def _on_write(self, _served: ServedResource, before: Object | None, after: Object | None) -> None:
        if after is not None:
            self._check(after)
        elif before is not None:
            self._forget(before["metadata"]["name"])

    def _on_content_write(self, served: ServedResource, before: Object | None, after: Object | None) -> None:
        if served.namespaced:
            tree = before if after is None else after
            namespace = tree["metadata"].get("namespace") if tree is not None else None
            if namespace in self._terminating:
                self.queue.add(namespace)

    def _check(self, tree: Object) -> None:
        spec: Object = tree.get("spec") or {}
        if is_deleting(tree) and _FINALIZER in (spec.get("finalizers") or ()):
            name = tree["metadata"]["name"]
            if name not in self._terminating:
                # Registered only while a namespace is terminating, so that other writes do not pay for the listener.
                if not self._terminating:
                    self._state.listeners.append(self._on_content_write)
                self._terminating.add(name)
                self.queue.add(name)
        else:
            self._forget(tree["metadata"]["name"])

    def _forget(self, name: str) -> None:
        if name in self._terminating:
            self._terminating.discard(name)
            if not self._terminating:
                self._state.listeners.remove(self._on_content_write)

    async def _reconcile(self, name: str) -> None:
        """Deletes the contents; then removes the finalizer, or sets the conditions that say what is left."""
        if name not in self._terminating:
            return
        # Creates are rejected by now; those that passed the check before must be committed first, or they are missed.
        await self._state.in_flight_creates.wait_until_none(namespace=name)
        kinds: Counter[str] = Counter()
        finalizers: Counter[str] = Counter()
        # Pods first: what they use, such as NetworkPolicies and Secrets, must be there until they have ended.
        resources = sorted(stored_resources(self._state.catalog), key=lambda served: served.prefix != _PODS)
        for served in resources:
            if served.namespaced:
                await self._delete_all_of(served, name, kinds, finalizers)
            if kinds and served.prefix == _PODS:
                break
        now = self._state.now()
        if kinds:
            await create_and_update.mutate(
                self._state, self._kind(), None, name, lambda tree: _with_conditions(tree, kinds, finalizers, now)
            )
        else:
            await create_and_update.mutate(self._state, self._kind(), None, name, _without_finalizer)

    async def _delete_all_of(
        self, served: ServedResource, namespace: str, kinds: Counter[str], finalizers: Counter[str]
    ) -> None:
        storage = self._state.storage
        prefix = served.prefix_in(namespace)
        page = await storage.list(prefix)
        for item in page.items:
            try:
                await delete.delete(self._state, served, namespace, item.key[len(prefix) :], _OPTIONS)
            except (NotFound, Conflict):
                continue  # already gone, or changed since, which enqueues the namespace again
        if page.items:
            left = await storage.list(prefix)
            for item in left.items:
                kinds[served.qualified] += 1
                finalizers.update(decode_tree(item.value)["metadata"].get("finalizers") or ())


def _without_finalizer(tree: Object) -> Object | None:
    spec: Object = tree.get("spec") or {}
    remaining = [one for one in spec.get("finalizers") or () if one != _FINALIZER]
    if is_deleting(tree):
        tree["spec"] = {**spec, "finalizers": remaining}
        if not remaining:
            del tree["spec"]["finalizers"]
        return tree
    return None


def _with_conditions(tree: Object, kinds: Counter[str], finalizers: Counter[str], now: datetime) -> Object | None:
    """Returns the namespace with conditions that say what is left in it."""
    if not is_deleting(tree):
        return None
    status: Object = dict(tree.get("status") or {})
    old: dict[str, Object] = {one["type"]: one for one in status.get("conditions") or ()}
    for one in _conditions(kinds, finalizers):
        before = old.get(one["type"], {})
        since = before.get("lastTransitionTime") if before.get("status") == one["status"] else None
        old[one["type"]] = {**one, "lastTransitionTime": since or format_timestamp(now)}
    status["conditions"] = list(old.values())
    tree["status"] = status
    return tree


def _conditions(kinds: Counter[str], finalizers: Counter[str]) -> list[dict[str, str]]:
    remaining = ", ".join(f"{kind} has {number} resource instances" for kind, number in sorted(kinds.items()))
    waiting = ", ".join(f"{one} in {number} resource instances" for one, number in sorted(finalizers.items()))
    return [
        _condition("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "all resources are known"),
        _condition("NamespaceDeletionGroupVersionParsingFailure", "ParsedGroupVersions", "all versions are known"),
        _condition(
            "NamespaceDeletionContentFailure", "ContentDeleted", "everything is deleted, or waits for finalizers"
        ),
        _condition(
            "NamespaceContentRemaining", "SomeResourcesRemain", f"some resources are left: {remaining}", holds=True
        ),
        _condition(
            "NamespaceFinalizersRemaining", "SomeFinalizersRemain", f"some have finalizers left: {waiting}", holds=True
        )
        if waiting
        else _condition("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", "nothing waits for a finalizer"),
    ]


def _condition(kind: str, reason: str, message: str, *, holds: bool = False) -> dict[str, str]:
    return {"type": kind, "status": "True" if holds else "False", "reason": reason, "message": message}
