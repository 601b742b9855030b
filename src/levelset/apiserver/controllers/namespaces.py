"""The life of namespaces: some are there from the start, and one that is deleted takes its contents with it.

A namespace that is being deleted takes no new objects. Its contents are deleted, each by its own rules; when the last
one is gone, the finalizer in its spec goes, and with it the namespace. Until then its conditions say what it waits for.
"""

from collections import Counter
from datetime import datetime
from typing import Final

from levelset.apiserver.controllers.key_queue import Worker
from levelset.apiserver.registry.metadata import is_deleting, time_text
from levelset.apiserver.resources.object_location import stored_kinds
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import World
from levelset.apiserver.verbs import create_and_update, delete
from levelset.apiserver.wire.request_options import DeleteOptions
from levelset.errors import AlreadyExists, Conflict, NotFound
from levelset.objects import decode_tree

__all__ = ["ALWAYS_THERE", "Namespaces"]

ALWAYS_THERE: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
_FINALIZER: Final = "kubernetes"
_OPTIONS: Final = DeleteOptions(grace_seconds=0, propagation="Background")


class Namespaces:
    """Clears namespaces that are being deleted, as soon as that begins and whenever something in them changes."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._terminating: set[str] = set()
        self.worker: Worker[str] = Worker("namespaces", self._clear)

    async def start(self) -> None:
        """Makes the namespaces that are always there, takes up deletions that are under way, and begins to listen."""
        served = self._kind()
        self._world.follow(served.prefix, self._stored)
        for name in ALWAYS_THERE:
            if await create_and_update.get_item(self._world, served.key(None, name)) is None:
                await self._make(served, name)
        page = await self._world.storage.list(served.prefix)
        for item in page.items:
            self._look(decode_tree(item.value))
        self.worker.start()

    async def stop(self) -> None:
        """Ends the task."""
        await self.worker.stop()

    def _kind(self) -> ServedResource:
        found = self._world.catalog.find("", "v1", "namespaces")
        assert found is not None  # built in
        return found

    async def _make(self, served: ServedResource, name: str) -> None:
        tree: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        try:
            await create_and_update.create(self._world, served, None, tree)
        except AlreadyExists:
            return

    def _stored(self, _served: ServedResource, before: Object | None, after: Object | None) -> None:
        if after is not None:
            self._look(after)
        elif before is not None:
            self._let_go(before["metadata"]["name"])

    def _content_stored(self, served: ServedResource, before: Object | None, after: Object | None) -> None:
        if served.namespaced:
            tree = before if after is None else after
            namespace = tree["metadata"].get("namespace") if tree is not None else None
            if namespace in self._terminating:
                self.worker.add(namespace)

    def _look(self, tree: Object) -> None:
        spec: Object = tree.get("spec") or {}
        if is_deleting(tree) and _FINALIZER in (spec.get("finalizers") or ()):
            name = tree["metadata"]["name"]
            if name not in self._terminating:
                # Only while a namespace goes does it matter what is written in it; other writes need not wait for us.
                if not self._terminating:
                    self._world.listeners.append(self._content_stored)
                self._terminating.add(name)
                self.worker.add(name)
        else:
            self._let_go(tree["metadata"]["name"])

    def _let_go(self, name: str) -> None:
        if name in self._terminating:
            self._terminating.discard(name)
            if not self._terminating:
                self._world.listeners.remove(self._content_stored)

    async def _clear(self, name: str) -> None:
        """Deletes what can be deleted; then lets the namespace go, or says what keeps it."""
        if name not in self._terminating:
            return
        # New objects are refused by now; those that were let in before must be seen, or they would outlive it.
        await self._world.arrivals.wait_landed(create_and_update.NAMESPACES + name)
        kinds: Counter[str] = Counter()
        finalizers: Counter[str] = Counter()
        for served in stored_kinds(self._world.catalog):
            if served.namespaced:
                await self._clear_kind(served, name, kinds, finalizers)
        now = self._world.now()
        if kinds:
            await create_and_update.mutate(
                self._world, self._kind(), None, name, lambda tree: _explain(tree, kinds, finalizers, now)
            )
        else:
            await create_and_update.mutate(self._world, self._kind(), None, name, _release)

    async def _clear_kind(
        self, served: ServedResource, namespace: str, kinds: Counter[str], finalizers: Counter[str]
    ) -> None:
        storage = self._world.storage
        prefix = served.prefix_in(namespace)
        page = await storage.list(prefix)
        for item in page.items:
            try:
                await delete.delete(self._world, served, namespace, item.key[len(prefix) :], _OPTIONS)
            except (NotFound, Conflict):
                continue  # gone already, or changed meanwhile, which brings us here again
        if page.items:
            left = await storage.list(prefix)
            for item in left.items:
                kinds[served.qualified] += 1
                finalizers.update(decode_tree(item.value)["metadata"].get("finalizers") or ())


def _release(tree: Object) -> Object | None:
    spec: Object = tree.get("spec") or {}
    kept = [one for one in spec.get("finalizers") or () if one != _FINALIZER]
    if is_deleting(tree):
        tree["spec"] = {**spec, "finalizers": kept}
        if not kept:
            del tree["spec"]["finalizers"]
        return tree
    return None


def _explain(tree: Object, kinds: Counter[str], finalizers: Counter[str], now: datetime) -> Object | None:
    """The namespace with conditions that say what is left in it."""
    if not is_deleting(tree):
        return None
    status: Object = dict(tree.get("status") or {})
    old: dict[str, Object] = {one["type"]: one for one in status.get("conditions") or ()}
    for one in _conditions(kinds, finalizers):
        before = old.get(one["type"], {})
        since = before.get("lastTransitionTime") if before.get("status") == one["status"] else None
        old[one["type"]] = {**one, "lastTransitionTime": since or time_text(now)}
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
