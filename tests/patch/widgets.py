"""Test support of server-side apply: a kind with every list and map type, and a store of one object."""

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as some

from levelset.patch.apply import apply
from levelset.patch.field_sets import EMPTY, FieldSet, parse_fields
from levelset.patch.managed_fields import Applied, track_update
from levelset.patch.merge_schema import Shape, resource_shape

TEXT = {"type": "string"}
TEXTS = {"type": "object", "additionalProperties": TEXT}
NUMBER = {"type": "integer"}
SPEC: dict[str, Any] = {
    "color": TEXT,
    "size": NUMBER,
    "labels": TEXTS,
    "whole": {**TEXTS, "x-kubernetes-map-type": "atomic"},
    "items": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "object", "properties": {"name": TEXT, "v": TEXT, "w": TEXT, "m": TEXTS}},
    },
    "ports": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["port", "proto"],
        "items": {
            "type": "object",
            "properties": {"port": NUMBER, "proto": {"type": "string", "default": "TCP"}, "name": TEXT},
        },
    },
    "set": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
    "atom": {"type": "array", "items": TEXT},
    "nested": {"type": "object", "properties": {"a": {"type": "object", "properties": {"x": NUMBER, "y": NUMBER}}}},
    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}
WIDGET: Shape = resource_shape(
    {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": SPEC},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
)
VERSION = "example.dev/v1"
MAIN: FieldSet = parse_fields({"f:status": {}})
STATUS: FieldSet = parse_fields({"f:metadata": {}, "f:spec": {}})
START = datetime(2026, 1, 1, tzinfo=UTC)


def widget(spec: Any = None, **more: Any) -> dict[str, Any]:
    """A widget called `a`; `metadata` adds to its name."""
    metadata = {"name": "a", **more.pop("metadata", {})}
    rest = {} if spec is None else {"spec": spec}
    return {"apiVersion": VERSION, "kind": "Widget", "metadata": metadata, **rest, **more}


class WidgetStore:
    """One stored widget and a clock that moves a minute with every request."""

    def __init__(self) -> None:
        self.live: dict[str, Any] | None = None
        self.now = START
        self.changed = False

    def apply(self, manager: str, spec: Any = None, *, force: bool = False, **more: Any) -> dict[str, Any]:
        return self.apply_object(manager, widget(spec, **more), force=force)

    def apply_object(self, manager: str, config: Any, *, force: bool = False) -> dict[str, Any]:
        return self._store(
            apply(self.live, config, manager=manager, shape=WIDGET, now=self._tick(), api_version=VERSION, force=force)
        )

    def write(self, manager: str, spec: Any = None, **more: Any) -> dict[str, Any]:
        return self.write_object(manager, widget(spec, **more))

    def write_object(self, manager: str, new: Any, *, subresource: str | None = None) -> dict[str, Any]:
        ignore = STATUS if subresource == "status" else EMPTY
        return self._store(
            track_update(
                self.live,
                new,
                manager=manager,
                shape=WIDGET,
                now=self._tick(),
                api_version=VERSION,
                subresource=subresource,
                ignore=ignore,
            )
        )

    @property
    def spec(self) -> Any:
        assert self.live is not None
        return self.live.get("spec")

    @property
    def entries(self) -> list[dict[str, Any]]:
        assert self.live is not None
        found: list[dict[str, Any]] = self.live["metadata"].get("managedFields", [])
        return found

    def owned(self) -> dict[str, Any]:
        """What each manager owns in the wire form, by `manager` for appliers and `manager!` for updaters."""
        return {
            f"{entry['manager']}{'' if entry['operation'] == 'Apply' else '!'}": entry["fieldsV1"]
            for entry in self.entries
        }

    def time_of(self, manager: str) -> str:
        found: str = next(entry["time"] for entry in self.entries if entry["manager"] == manager)
        return found

    def _tick(self) -> datetime:
        self.now += timedelta(minutes=1)
        return self.now

    def _store(self, result: Applied) -> dict[str, Any]:
        self.live, self.changed = result.object, result.changed
        return self.live


# Few names and values, so that managers often write the same field.
texts = some.sampled_from(["x", "y"])
texts_by_name = some.dictionaries(some.sampled_from(["a", "b"]), texts, max_size=2)
free = some.recursive(
    texts | some.none() | some.booleans() | some.integers(0, 1),
    lambda inner: some.lists(inner, max_size=2) | some.dictionaries(some.sampled_from(["a", "b"]), inner, max_size=2),
    max_leaves=6,
)
items: Any = some.fixed_dictionaries(
    {"name": some.sampled_from(["p", "q", "r"])}, optional={"v": texts, "w": texts, "m": texts_by_name}
)
ports: Any = some.fixed_dictionaries(
    {"port": some.integers(80, 82)}, optional={"proto": some.sampled_from(["TCP", "UDP"]), "name": texts}
)
specs = some.fixed_dictionaries(
    {},
    optional={
        "color": texts,
        "size": some.integers(0, 1),
        "labels": texts_by_name,
        "whole": texts_by_name,
        "items": some.lists(items, max_size=3, unique_by=lambda one: one["name"]),
        "ports": some.lists(ports, max_size=3, unique_by=lambda one: (one["port"], one.get("proto", "TCP"))),
        "set": some.lists(some.sampled_from(["p", "q", "r", "s"]), max_size=4, unique=True),
        "atom": some.lists(texts, max_size=2),
        "nested": some.fixed_dictionaries({}, optional={"a": some.fixed_dictionaries({}, optional={"x": texts})}),
        "free": free,
    },
)
