"""Creates what every namespace has: the ServiceAccount `default`, and the ConfigMap `kube-root-ca.crt`.

They are those of the controller manager of a cluster: created again when they are deleted, and the certificates are
written again when another writer has changed them.
"""

from typing import Any, Final

from levelset.apiserver.controllers.key_queue import KeyQueue
from levelset.apiserver.registry.metadata import is_deleting
from levelset.apiserver.resources.json_members import map_member
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.verbs import create_and_update
from levelset.errors import AlreadyExists, Forbidden, NotFound
from levelset.objects import decode_tree

__all__ = ["NamespaceDefaultsController"]

_ACCOUNT: Final = "default"
_AUTHORITY: Final = "kube-root-ca.crt"
_KEY: Final = "ca.crt"
_DESCRIPTION: Final = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the"
    " internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes"
    " clusters."
)


class NamespaceDefaultsController:
    """Creates the default objects of each active namespace, as soon as the namespace exists."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._ca = ""
        self.queue: KeyQueue[str] = KeyQueue("namespace defaults", self._reconcile)

    async def start(self, ca: bytes | None, *, leads: bool = True) -> None:
        """Creates the missing objects of all namespaces, and follows writes from then on; `ca` is for clients.

        Unless it `leads`, another server creates them: its certificates may be others.
        """
        self._ca = (ca or b"").decode()
        self._state.add_resource_listener(self._kind("namespaces").prefix, self._on_namespace)
        self._state.add_resource_listener(self._kind("serviceaccounts").prefix, self._on_content)
        self._state.add_resource_listener(self._kind("configmaps").prefix, self._on_content)
        for name in await self._active() if leads else ():
            await self._reconcile(name)
        self.queue.start()

    async def stop(self) -> None:
        """Stops the queue."""
        await self.queue.stop()

    async def resume(self) -> None:
        """Reconciles from now on, beginning with all namespaces."""
        await self.queue.resume(await self._active())

    async def _active(self) -> list[str]:
        page = await self._state.storage.list(self._kind("namespaces").prefix)
        trees: list[Object] = [decode_tree(item.value) for item in page.items]
        return [tree["metadata"]["name"] for tree in trees if not is_deleting(tree)]

    def _kind(self, plural: str) -> ServedResource:
        found = self._state.catalog.find("", "v1", plural)
        assert found is not None  # built in
        return found

    def _on_namespace(self, _served: ServedResource, before: Object | None, after: Object | None) -> None:
        if before is None and after is not None:
            self.queue.add(after["metadata"]["name"])

    def _on_content(self, _served: ServedResource, before: Object | None, _after: Object | None) -> None:
        if before is not None and before["metadata"]["name"] in (_ACCOUNT, _AUTHORITY):
            self.queue.add(before["metadata"]["namespace"])

    async def _reconcile(self, namespace: str) -> None:
        description = {"kubernetes.io/description": _DESCRIPTION}
        data = {_KEY: self._ca}
        await self._create("serviceaccounts", namespace, {"metadata": {"name": _ACCOUNT}})
        await self._create(
            "configmaps", namespace, {"metadata": {"name": _AUTHORITY, "annotations": description}, "data": data}
        )

        def change(old: Object) -> Object | None:
            return None if map_member(old, "data") == data else {**old, "data": data}

        await create_and_update.mutate(self._state, self._kind("configmaps"), namespace, _AUTHORITY, change)

    async def _create(self, plural: str, namespace: str, tree: Any) -> None:
        served = self._kind(plural)
        if self._state.reader.get_nowait(served.key(namespace, tree["metadata"]["name"])) is not None:
            return
        whole = {"apiVersion": served.api_version, "kind": served.kind, **tree}
        try:
            await create_and_update.create(self._state, served, namespace, whole)
        except (AlreadyExists, Forbidden, NotFound):  # another server has been faster, or the namespace ends
            return
