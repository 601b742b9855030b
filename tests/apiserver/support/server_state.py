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
from levelset.storage import Change, Item, MemoryStorage, Storage

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


class SlowStorage(MemoryStorage):
    """A storage whose writes yield to the event loop first, as those of a disk storage do."""

    def __init__(self) -> None:
        super().__init__()
        self.started = asyncio.Event()
        """Set when a write has started."""

    async def put(self, key: str, value: bytes, *, expected: int | None) -> Item:
        self.started.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return await super().put(key, value, expected=expected)

    async def delete(self, key: str, *, expected: int | None) -> Change:
        self.started.set()
        await asyncio.sleep(0)
        return await super().delete(key, expected=expected)


class HeldStorage(MemoryStorage):
    """A storage that delays writes to chosen keys until they are released."""

    def __init__(self) -> None:
        super().__init__()
        self.held: dict[str, asyncio.Event] = {}

    def hold(self, key: str) -> asyncio.Event:
        """Delays writes to the key until the event is set."""
        return self.held.setdefault(key, asyncio.Event())

    async def put(self, key: str, value: bytes, *, expected: int | None) -> Item:
        await self._wait(key)
        return await super().put(key, value, expected=expected)

    async def delete(self, key: str, *, expected: int | None) -> Change:
        await self._wait(key)
        return await super().delete(key, expected=expected)

    async def _wait(self, key: str) -> None:
        await asyncio.sleep(0)
        if key in self.held:
            await self.held[key].wait()
