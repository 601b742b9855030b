"""A small world to write into: a custom kind with all subresources, ConfigMaps, and a namespace."""

import asyncio
from datetime import UTC, datetime
from random import Random
from typing import Any

from levelset.apiserver.registry.builtin.kind_table import builtin_kinds
from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.resources.served_resource import Rules, ScalePaths, ServedResource
from levelset.apiserver.resources.server_state import World
from levelset.apiserver.schema import compile_schema, preload
from levelset.patch import builtin_shape, resource_shape
from levelset.storage import Change, Item, MemoryStorage, Page, Storage, Watch
from levelset.storage.history import Limits
from levelset.storage.mvcc import LedgerReads, planned_delete, planned_put

__all__ = ["NOW", "HeldStorage", "SlowStorage", "configmaps", "make_served", "make_world", "preload_kinds", "widget"]

NOW = datetime(2026, 1, 31, 12, 0, 0, 5, UTC)
SPACE = b'{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"x"},"status":{"phase":"Active"}}'
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "color": {"type": "string"},
                "replicas": {"type": "integer", "maximum": 10, "default": 1},
                "items": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}, "v": {"type": "string"}},
                    },
                },
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        },
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}


def preload_kinds() -> None:
    """Reads the schemas of the built-in kinds before a loop runs, as a server does at its start."""
    preload()
    builtin_shape("", "v1", "ConfigMap")


def make_served(**changes: Any) -> ServedResource:
    """The kind Widget of example.com/v1, with a status and a scale."""
    schema, shape = compile_schema(SCHEMA), resource_shape(SCHEMA)
    words: dict[str, Any] = {
        "custom": True,
        "status": True,
        "scale": ScalePaths(".spec.replicas", ".status.replicas", ".status.selector"),
        "schema": lambda: schema,
        "shape": lambda: shape,
        "rules": Rules(),
        **changes,
    }
    return ServedResource("example.com", "v1", "Widget", "widgets", "widget", "WidgetList", True, "v1", **words)


def make_world(served: ServedResource | None = None, *, storage: Storage | None = None) -> tuple[World, ServedResource]:
    """A world with the namespace x in which it is always the same moment, and the kind Widget in it."""
    kind = make_served() if served is None else served
    kept = MemoryStorage() if storage is None else storage
    if isinstance(kept, MemoryStorage):
        kept.put_nowait("/registry/core/namespaces/x", SPACE, expected=0)
    world = World(kept, Catalog([*builtin_kinds(), kind]), now=lambda: NOW, random=Random(7))
    return world, kind


def configmaps(world: World) -> ServedResource:
    """The kind ConfigMap."""
    found = world.catalog.find("", "v1", "configmaps")
    assert found is not None
    return found


def widget(name: str = "a", *, spec: Any = None, **metadata: Any) -> dict[str, Any]:
    """A Widget as a client sends it."""
    tree: dict[str, Any] = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name, **metadata}}
    return tree if spec is None else {**tree, "spec": spec}


class SlowStorage:
    """A storage whose reads and writes give way to others first, as those of a storage behind a disk do."""

    def __init__(self) -> None:
        self._kept = MemoryStorage()
        self._kept.put_nowait("/registry/core/namespaces/x", SPACE, expected=0)
        self.started = asyncio.Event()
        """Set when a write is on its way."""

    @property
    def revision(self) -> int:
        return self._kept.revision

    @property
    def compacted(self) -> int:
        return self._kept.compacted

    async def get(self, key: str, *, revision: int | None = None) -> Item | None:
        await asyncio.sleep(0)
        return self._kept.get_nowait(key, revision=revision)

    async def list(
        self, prefix: str, *, limit: int | None = None, after: str | None = None, revision: int | None = None
    ) -> Page:
        await asyncio.sleep(0)
        return self._kept.list_nowait(prefix, limit=limit, after=after, revision=revision)

    async def count(self, prefix: str, *, revision: int | None = None) -> int:
        return self._kept.count_nowait(prefix, revision=revision)

    async def put(self, key: str, value: bytes, *, expected: int | None) -> Item:
        self.started.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return self._kept.put_nowait(key, value, expected=expected)

    async def delete(self, key: str, *, expected: int | None) -> Change:
        self.started.set()
        await asyncio.sleep(0)
        return self._kept.delete_nowait(key, expected=expected)

    def watch(self, prefix: str, *, after: int) -> Watch:
        return self._kept.watch(prefix, after=after)

    async def compact(self, revision: int) -> None:
        await self._kept.compact(revision)

    async def close(self) -> None:
        await self._kept.close()


class HeldStorage(LedgerReads):
    """A storage that answers reads at once, as SQLite does, and keeps writes to some keys until they are let go."""

    def __init__(self) -> None:
        super().__init__(limits=Limits())
        self.held: dict[str, asyncio.Event] = {}

    def hold(self, key: str) -> asyncio.Event:
        """Keeps writes to the key until the event is set."""
        return self.held.setdefault(key, asyncio.Event())

    async def put(self, key: str, value: bytes, *, expected: int | None) -> Item:
        await self._wait(key)
        change = planned_put(self._ledger.items.get(key), key, value, expected=expected, revision=self.revision + 1)
        self._ledger.commit(change)
        assert change.after is not None
        return change.after

    async def delete(self, key: str, *, expected: int | None) -> Change:
        await self._wait(key)
        change = planned_delete(self._ledger.items.get(key), key, expected=expected, revision=self.revision + 1)
        self._ledger.commit(change)
        return change

    async def compact(self, revision: int) -> None:
        self._ledger.history.compact(revision)

    async def _wait(self, key: str) -> None:
        await asyncio.sleep(0)
        if key in self.held:
            await self.held[key].wait()
