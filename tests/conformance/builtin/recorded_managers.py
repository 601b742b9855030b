"""Writes of many field managers to one object, and the managedFields that kube-apiserver leaves after each of them.

`answers/managers.json` has what kube-apiserver 1.36.4 answered (`make record-builtin AREAS=managers`). A history says
in which second after the creation of the object each write is made, since the order of the entries and which of them
are merged depends on it. An answer lists the entries as `OPERATION MANAGER VERSION[/SUBRESOURCE] SECOND`; after the
last are the whole entries.
"""

import json
from collections.abc import Callable, Generator
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["ANSWERS", "DEFINITION", "NAMESPACE", "TOPIC", "History", "Request", "answers", "load", "run"]

ANSWERS = Path(__file__).parent / "answers" / "managers.json"
NAMESPACE = "managers"
TOPIC = "managers"
_CONFIGMAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
_WIDGETS = f"/apis/managers.example.com/v1/namespaces/{NAMESPACE}/widgets"
_SCALERS = f"/apis/autoscaling/v2/namespaces/{NAMESPACE}/horizontalpodautoscalers"
_KINDS = {
    _CONFIGMAPS: {"apiVersion": "v1", "kind": "ConfigMap"},
    _WIDGETS: {"apiVersion": "managers.example.com/v1", "kind": "Widget"},
    _SCALERS: {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler"},
}
_FIELDS: dict[str, Any] = {
    _CONFIGMAPS: {"data": {"first": "1"}},
    _WIDGETS: {"spec": {"data": {"first": "1"}}},
    _SCALERS: {
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}}
    },
}
_MEDIA = {"merge": "application/merge-patch+json", "apply": "application/apply-patch+yaml"}


class Request(NamedTuple):
    """A request of a field manager, and the second after the creation of the object in which it is sent."""

    second: int
    manager: str
    method: str
    path: str
    body: Any
    media: str = "application/json"


class Write(NamedTuple):
    """A patch by one manager; `path` is that of the object, or of its subresource or another version of it."""

    second: int
    manager: str
    path: str
    body: Any
    form: str = "merge"


@dataclass(frozen=True)
class History:
    """An object, and the patches that follow its creation by the manager `creator`."""

    name: str
    path: str
    tree: Any
    writes: tuple[Write, ...]


def _definition() -> Any:
    map_of_text = {"type": "object", "additionalProperties": {"type": "string"}}
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"data": map_of_text}},
            "status": {"type": "object", "properties": {"data": map_of_text}},
        },
    }
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.managers.example.com"},
        "spec": {
            "group": "managers.example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{**version, "subresources": {"status": {}}}],
        },
    }


DEFINITION = _definition()
"""The definition of the custom kind."""


@cache
def load() -> tuple[History, ...]:
    """All histories."""
    labels = _hundred(lambda number: {"metadata": {"labels": {f"k{number:02}": "1"}}})
    data = _hundred(lambda number: {"data": {f"k{number:02}": "1"}})
    fields = _hundred(lambda number: {"spec": {"data": {f"k{number:02}": "1"}}})
    return (
        _history("a map entry each", _CONFIGMAPS, data),
        _history("the same map entry", _CONFIGMAPS, _hundred(lambda number: {"data": {"k": str(number)}})),
        _history("a label each", _CONFIGMAPS, labels),
        _history("a custom field each", _WIDGETS, fields),
        _history("the same custom field", _WIDGETS, _hundred(lambda number: {"spec": {"data": {"k": str(number)}}})),
        _history("an object without fields", _CONFIGMAPS, data, has_fields=False),
        _history("a custom object without fields", _WIDGETS, fields, has_fields=False),
        _history("status and object", _WIDGETS, _with_status()),
        _history("two versions", _SCALERS, _of_two_versions()),
        _history("names that sort otherwise", _CONFIGMAPS, _odd_names()),
        _history("appliers too", _CONFIGMAPS, _with_appliers()),
        _history("names before the bucket", _CONFIGMAPS, _early_names()),
        _history("an entry before the bucket", _CONFIGMAPS, _late_bucket()),
    )


def _history(name: str, path: str, writes: Callable[[str], list[Write]], *, has_fields: bool = True) -> History:
    title = name.replace(" ", "-")
    fields = _FIELDS[path] if has_fields else {}
    tree = {**_KINDS[path], "metadata": {"name": title}, **fields}
    return History(name, path, tree, tuple(writes(f"{path}/{title}")))


def _hundred(body: Callable[[int], Any]) -> Callable[[str], list[Write]]:
    """A hundred managers, five in each second."""
    return lambda path: [Write(1 + number // 5, f"m{number:02}", path, body(number)) for number in range(100)]


def _with_status() -> Callable[[str], list[Write]]:
    """Fifteen managers that write the status and the object in the same second, in turns which comes first."""

    def writes(path: str) -> list[Write]:
        made: list[Write] = []
        for number in range(15):
            second, manager, data = 1 + number // 2, f"m{number:02}", {f"k{number:02}": "1"}
            both = [
                Write(second, manager, path, {"spec": {"data": data}}),
                Write(second, manager, f"{path}/status", {"status": {"data": data}}),
            ]
            made += both if number % 2 else both[::-1]
        return made

    return writes


def _of_two_versions() -> Callable[[str], list[Write]]:
    """Thirty managers through two versions: entries of different versions are not merged."""

    def writes(path: str) -> list[Write]:
        paths = (path, path.replace("/v2/", "/v1/"))
        return [
            Write(1 + number // 3, f"m{number:02}", paths[number % 2], {"metadata": {"labels": {f"k{number:02}": "1"}}})
            for number in range(30)
        ]

    return writes


def _odd_names() -> Callable[[str], list[Write]]:
    """Managers of one second whose names are in another order in the identifiers that decide which are merged."""
    names = ["m", "m x", 'm"x', "m!", "m#", "m<", "m=", "mz", "mé", "m\\", "m0", "m&", "m/", "n", "M"]
    return lambda path: [
        Write(1 + number // 8, name, path, {"data": {f"k{number:02}": "1"}}) for number, name in enumerate(names)
    ]


def _with_appliers() -> Callable[[str], list[Write]]:
    """Appliers are never merged, and do not count; an apply merges none."""

    def writes(path: str) -> list[Write]:
        made: list[Write] = []
        for number in range(24):
            data = {"data": {f"k{number:02}": "1"}}
            applied = {**_KINDS[_CONFIGMAPS], "metadata": {"name": path.rpartition("/")[2]}, **data}
            made.append(
                Write(1 + number // 4, f"m{number:02}", path, data)
                if number % 2
                else Write(1 + number // 4, f"a{number:02}", path, applied, "apply")
            )
        return made

    return writes


def _early_names() -> Callable[[str], list[Write]]:
    """Names that are before `ancient-changes`: the oldest entry of a second is not the bucket, and stays."""
    return lambda path: [Write(1, f"a{number:02}", path, {"data": {f"k{number:02}": "1"}}) for number in range(20)]


def _late_bucket() -> Callable[[str], list[Write]]:
    """At last there is one entry from before the bucket, and all others are from after it."""
    return lambda path: [
        Write(1 + number // 14, f"a{number:02}", path, {"data": {f"k{number:02}": "1"}}) for number in range(23)
    ]


@cache
def answers() -> dict[str, dict[str, Any]]:
    """The recorded answers by history and write."""
    found: dict[str, dict[str, Any]] = json.loads(ANSWERS.read_text())
    return found


def run(history: History) -> Generator[Request, tuple[int, Any], dict[str, Any]]:
    """Yields the requests of a history, is sent code and body of the replies, and returns the answers."""
    code, body = yield Request(0, "creator", "POST", history.path, history.tree)
    assert code == 201, body
    begin = body["metadata"]["creationTimestamp"]
    found: dict[str, Any] = {"created": _entries(body, begin)}
    for number, write in enumerate(history.writes):
        media = _MEDIA[write.form]
        code, body = yield Request(write.second, write.manager, "PATCH", write.path, write.body, media)
        found[f"{number} {write.manager}"] = _entries(body, begin) if code == 200 else code
    found["at last"] = [
        {**one, "time": _second(one["time"], begin)} for one in body.get("metadata", {}).get("managedFields", [])
    ]
    return found


def _entries(body: Any, begin: str) -> list[str]:
    """The entries of an object in short."""
    return [
        f"{one['operation']} {one['manager']} {one['apiVersion']}"
        f"{'/' + one['subresource'] if 'subresource' in one else ''} {_second(one['time'], begin)}"
        for one in body["metadata"].get("managedFields", [])
    ]


def _second(time: str, begin: str) -> int:
    return int((datetime.fromisoformat(time) - datetime.fromisoformat(begin)).total_seconds())
