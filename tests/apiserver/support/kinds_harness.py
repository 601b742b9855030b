"""A server state with all built-in kinds, whose objects are written through the real write path."""

from datetime import UTC, datetime
from typing import Any

import pytest

from levelset.apiserver.controllers.crd_cleanup import CrdCleanup
from levelset.apiserver.registry.builtin.services import DEFAULT_SERVICE_CIDR
from levelset.apiserver.registry.storage_codec import served_tree
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.schema import preload
from levelset.apiserver.server import Kinds
from levelset.apiserver.verbs import create_and_update
from levelset.errors import Invalid
from levelset.patch import builtin_shape
from levelset.storage import MemoryStorage, Storage

__all__ = ["CRDS", "NOW", "KindsHarness", "definition", "load_data"]

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
CRDS = ("apiextensions.k8s.io", "v1", "customresourcedefinitions")


def load_data() -> None:
    """Reads the package data that a server reads at its start, before an event loop runs."""
    preload()
    builtin_shape("", "v1", "ConfigMap")


class KindsHarness:
    """A server state and its kinds; created by `await KindsHarness.make()`."""

    def __init__(self, storage: Storage, service_addresses: str) -> None:
        self.kinds = Kinds(now=lambda: NOW, service_addresses=service_addresses)
        self.state = ServerState(storage, self.kinds.catalog, now=lambda: NOW)
        self.cleanup: CrdCleanup

    @classmethod
    async def make(
        cls, storage: Storage | None = None, *, service_addresses: str = DEFAULT_SERVICE_CIDR
    ) -> "KindsHarness":
        made = cls(MemoryStorage() if storage is None else storage, service_addresses)
        await made.kinds.load(made.state)
        made.cleanup = CrdCleanup(made.state, made.kinds.definitions)
        if storage is None:
            await made.create(("", "v1", "namespaces"), {}, name="default")
        return made

    def served(self, path: tuple[str, str, str]) -> ServedResource:
        found = self.kinds.catalog.find(*path)
        assert found is not None
        return found

    async def create(self, path: tuple[str, str, str], tree: dict[str, Any], *, name: str = "a") -> dict[str, Any]:
        served = self.served(path)
        whole = {"apiVersion": served.api_version, "kind": served.kind, "metadata": {"name": name}, **tree}
        return (await create_and_update.create(self.state, served, self._namespace(served), whole)).tree

    async def update(self, path: tuple[str, str, str], tree: dict[str, Any]) -> dict[str, Any]:
        served = self.served(path)
        name = tree["metadata"]["name"]
        return (await create_and_update.update(self.state, served, self._namespace(served), name, tree)).tree

    async def get(self, path: tuple[str, str, str], name: str = "a") -> dict[str, Any] | None:
        served = self.served(path)
        item = await self.state.storage.get(served.key(self._namespace(served), name))
        return None if item is None else served_tree(served, item)

    async def refused(self, path: tuple[str, str, str], tree: dict[str, Any], *, name: str = "a") -> dict[str, str]:
        """Returns the causes of a rejected create, by field."""
        with pytest.raises(Invalid) as caught:
            await self.create(path, tree, name=name)
        return {cause.field: cause.reason for cause in caught.value.causes}

    async def refused_update(self, path: tuple[str, str, str], tree: dict[str, Any]) -> dict[str, str]:
        """Returns the causes of a rejected update, by field."""
        with pytest.raises(Invalid) as caught:
            await self.update(path, tree)
        return {cause.field: cause.reason for cause in caught.value.causes}

    async def define(self, tree: dict[str, Any]) -> dict[str, Any]:
        return await self.create(CRDS, tree, name=tree["metadata"]["name"])

    def _namespace(self, served: ServedResource) -> str | None:
        return "default" if served.namespaced else None


def definition(
    plural: str = "widgets", kind: str = "Widget", *, group: str = "example.com", **more: Any
) -> dict[str, Any]:
    """A CRD with one version; `names`, `version` and `spec` extend these parts, `schema` is the schema of its spec."""
    schema = {"type": "object", "properties": {"spec": more.pop("schema", {"type": "object"})}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": plural, "kind": kind, **more.pop("names", {})}
    versions = [{**version, **more.pop("version", {})}, *more.pop("versions", ())]
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": versions, **more.pop("spec", {})}
    return {"metadata": {"name": f"{plural}.{group}", **more.pop("metadata", {})}, "spec": spec}
