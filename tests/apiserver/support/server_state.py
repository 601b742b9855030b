"""A small server state for tests of the verbs: the kind Widget with all subresources, ConfigMaps, a namespace."""

import asyncio
from datetime import UTC, datetime
from random import Random
from typing import Any

from levelset.apiserver.registry.builtin.kind_table import builtin_kinds
from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.resources.served_resource import Rules, ScalePaths, ServedResource
from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.schema import compile_schema, preload
from levelset.patch import builtin_shape, resource_shape
from levelset.storage import Change, Item, MemoryStorage, Page, Storage, Watch
from levelset.storage.history import Limits
from levelset.storage.mvcc import MvccReads, planned_delete, planned_put

__all__ = ["NOW", "HeldStorage", "SlowStorage", "configmaps", "make_served", "make_state", "preload_kinds", "widget"]

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
    """Reads the schemas of the built-in kinds before an event loop runs, as a server does at its start."""
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


def make_state(
    served: ServedResource | None = None, *, storage: Storage | None = None
) -> tuple[ServerState, ServedResource]:
    """Returns a state with the namespace x and a constant clock, and the kind Widget served by it."""
    kind = make_served() if served is None else served
    used = MemoryStorage() if storage is None else storage
    if isinstance(used, MemoryStorage):
        used.put_nowait("/registry/core/namespaces/x", SPACE, expected=0)
    state = ServerState(used, Catalog([*builtin_kinds(), kind]), now=lambda: NOW, random=Random(7))
    return state, kind


def configmaps(state: ServerState) -> ServedResource:
    """The kind ConfigMap."""
    found = state.catalog.find("", "v1", "configmaps")
    assert found is not None
    return found


def widget(name: str = "a", *, spec: Any = None, **metadata: Any) -> dict[str, Any]:
    """A Widget as a client sends it."""
    tree: dict[str, Any] = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name, **metadata}}
    return tree if spec is None else {**tree, "spec": spec}


class SlowStorage:
    """A storage whose reads and writes yield to the event loop first, as those of a disk storage do."""

    def __init__(self) -> None:
        self._storage = MemoryStorage()
        self._storage.put_nowait("/registry/core/namespaces/x", SPACE, expected=0)
        self.started = asyncio.Event()
        """Set when a write has started."""

    @property
    def revision(self) -> int:
        return self._storage.revision

    @property
    def compacted(self) -> int:
        return self._storage.compacted

    async def get(self, key: str, *, revision: int | None = None) -> Item | None:
        await asyncio.sleep(0)
        return self._storage.get_nowait(key, revision=revision)

    async def list(
        self, prefix: str, *, limit: int | None = None, after: str | None = None, revision: int | None = None
    ) -> Page:
        await asyncio.sleep(0)
        return self._storage.list_nowait(prefix, limit=limit, after=after, revision=revision)

    async def count(self, prefix: str, *, revision: int | None = None) -> int:
        return self._storage.count_nowait(prefix, revision=revision)

    async def put(self, key: str, value: bytes, *, expected: int | None) -> Item:
        self.started.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return self._storage.put_nowait(key, value, expected=expected)

    async def delete(self, key: str, *, expected: int | None) -> Change:
        self.started.set()
        await asyncio.sleep(0)
        return self._storage.delete_nowait(key, expected=expected)

    def watch(self, prefix: str, *, after: int) -> Watch:
        return self._storage.watch(prefix, after=after)

    async def compact(self, revision: int) -> None:
        await self._storage.compact(revision)

    async def close(self) -> None:
        await self._storage.close()


class HeldStorage(MvccReads):
    """A storage with synchronous reads, like SQLite, that delays writes to chosen keys until they are released."""

    def __init__(self) -> None:
        super().__init__(limits=Limits())
        self.held: dict[str, asyncio.Event] = {}

    def hold(self, key: str) -> asyncio.Event:
        """Delays writes to the key until the event is set."""
        return self.held.setdefault(key, asyncio.Event())

    async def put(self, key: str, value: bytes, *, expected: int | None) -> Item:
        await self._wait(key)
        change = planned_put(self._mvcc.items.get(key), key, value, expected=expected, revision=self.revision + 1)
        self._mvcc.commit(change)
        assert change.after is not None
        return change.after

    async def delete(self, key: str, *, expected: int | None) -> Change:
        await self._wait(key)
        change = planned_delete(self._mvcc.items.get(key), key, expected=expected, revision=self.revision + 1)
        self._mvcc.commit(change)
        return change

    async def compact(self, revision: int) -> None:
        self._mvcc.history.compact(revision)

    async def _wait(self, key: str) -> None:
        await asyncio.sleep(0)
        if key in self.held:
            await self.held[key].wait()
