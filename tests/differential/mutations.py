"""Changes of an object, guided by its schema: a place is chosen, and what is there is removed, replaced or added to."""

import copy
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.differential.corpus import Corpus, Kind, resolve

__all__ = ["Mutator", "Place"]

_TEXTS = (
    *("", "a", "web", "Not_Valid!", "a.b", "-a", "a" * 64, "a" * 260, "10.0.0.1", "::1", "/a", "example.com/a", "True"),
    *("100m", "1Gi", "1.5", "-1", "50%", "5m", "0", "ü", "a b", "1e3", "0.1Ki", "UPPER", "a/b/c", "*", "*.example.com"),
)
_NUMBERS = (0, 1, -1, 2, 5, 30, 80, 100, 101, 65535, 65536, 2**31 - 1, 2**31, 2**53, -(2**31) - 1)
_WRONG: tuple[Any, ...] = (None, "", 0, -1, True, [], {}, "text", 1.5, [None], {"a": None}, "${x}", [{}])
_QUANTITIES = ("1", "0", "-1", "100m", "1Gi", "1.5", "0.0001", "1e3", "1E", "1Ki", "500M", "abc", "", "1.5Gi", "1000k")
_META: dict[str, tuple[Any, ...]] = {
    "labels": ({"a": "b"}, {"a": ""}, {"Not Valid": "b"}, {"a": "not valid"}, {"example.com/a": "b"}, {}, None),
    "annotations": ({"a": "b"}, {"example.com/a": "anything at all"}, {"Not Valid": ""}, {}, None),
    "finalizers": (["example.com/a"], ["a"], ["example.com/a", "example.com/a"], ["Not Valid"], []),
    "generateName": ("gen-", "Not_Valid", ""),
    "name": ("", "Not_Valid", "a.b", "a" * 254, None),
    "namespace": ("other", "", None),
    "uid": ("odd", "", None),
    "resourceVersion": ("1", "0", "odd", "", None),
    "generation": (5, 0, -1),
    "creationTimestamp": (None, "2020-01-01T00:00:00Z", "odd"),
    "deletionTimestamp": ("2020-01-01T00:00:00Z",),
    "deletionGracePeriodSeconds": (5, -1),
    "selfLink": ("/a",),
    "ownerReferences": (
        [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "u"}],
        [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "u", "controller": True}] * 2,
        [{"apiVersion": "", "kind": "", "name": "", "uid": ""}],
        [{"apiVersion": "v1", "kind": "Event", "name": "a", "uid": "u"}],
        [{"apiVersion": "a/b/c", "kind": "X", "name": "a", "uid": "u", "blockOwnerDeletion": True}],
    ),
    "managedFields": ([], [{}], [{"manager": "me", "operation": "Odd"}]),
    "odd": (1,),
}


@dataclass(frozen=True)
class Place:
    """A member of a map or list of an object, with the schema of its owner."""

    steps: tuple[Any, ...]
    owner: Any
    schema: Any


class Mutator:
    """Makes values and changes objects; all choices are those of `random`."""

    def __init__(self, corpus: Corpus, random: Random) -> None:
        self.corpus = corpus
        self.random = random

    def changed(self, kind: Kind, tree: Any, count: int) -> Any:
        """The object with some changes; the name mostly stays."""
        tree = copy.deepcopy(tree)
        for _ in range(count):
            if self.random.random() < 0.12:
                self._change_metadata(tree)
            else:
                self._change(kind, tree)
        return tree

    def _change_metadata(self, tree: Any) -> None:
        metadata = tree.get("metadata")
        if not isinstance(metadata, dict):
            return
        names = [name for name in _META if name not in ("name", "namespace") or self.random.random() < 0.2]
        name = self.random.choice(names)
        value = copy.deepcopy(self.random.choice(_META[name]))
        if value is None and self.random.random() < 0.7:
            metadata.pop(name, None)
        else:
            metadata[name] = value

    def places(self, kind: Kind, tree: Any) -> list[Place]:
        """All places of an object but its identity."""
        found: list[Place] = []
        _collect(kind.schema, tree, (), found)
        identity = {("apiVersion",), ("kind",), ("metadata",), ("metadata", "name"), ("metadata", "namespace")}
        return [one for one in found if one.steps not in identity]

    def _change(self, kind: Kind, tree: Any) -> None:
        places = self.places(kind, tree)
        if not places:
            return
        place = self.random.choice(places)
        owner = place.owner
        last = place.steps[-1]
        action = self.random.random()
        if action < 0.12:
            del owner[last]
        elif action < 0.5 or isinstance(owner, list):
            self._replace(place)
        elif action < 0.95:
            self._add(place)
        else:
            owner[self.random.choice(("unknown", "Spec", "0"))] = self.random.choice((1, "x", {"a": 1}))

    def _replace(self, place: Place) -> None:
        name, content = resolve(place.schema)
        last = place.steps[-1]
        if isinstance(place.owner, list):
            if self.random.random() < 0.4:
                place.owner.append(copy.deepcopy(place.owner[last]) if self.random.random() < 0.5 else None)
                if place.owner[-1] is None:
                    place.owner[-1] = self.value(content.get("items", {}), "", "", 3)
            else:
                place.owner[last] = self._maybe_wrong(content.get("items", {}), name, "")
        else:
            below = _member(content, last)
            place.owner[last] = self._maybe_wrong(below, name, str(last))

    def _add(self, place: Place) -> None:
        """Adds a member to the owner of the place, or to what is there."""
        name, content = resolve(place.schema)
        owner, last = place.owner, place.steps[-1]
        if isinstance(owner[last], dict) and self.random.random() < 0.6:
            below = _member(content, last)
            owner, (name, content) = owner[last], resolve(below)
        missing = [
            one for one in content.get("properties", {}) if one not in owner and one not in ("kind", "apiVersion")
        ]
        if missing:
            member = self.random.choice(missing)
            owner[member] = self._maybe_wrong(content["properties"][member], name, member)
        elif isinstance(content.get("additionalProperties"), dict):
            owner[self.random.choice(_TEXTS)] = self.value(content["additionalProperties"], "", "", 3)

    def _maybe_wrong(self, schema: Any, owner: str, member: str) -> Any:
        if self.random.random() < 0.06:
            return copy.deepcopy(self.random.choice(_WRONG))
        return self.value(schema, owner, member, 3)

    def value(self, schema: Any, owner: str, member: str, depth: int) -> Any:
        """A value of a schema: one that was seen in this field, or one that its type makes plausible."""
        seen = self.corpus.values.get((owner, member))
        if seen and self.random.random() < 0.6:
            return copy.deepcopy(self.random.choice(seen))
        name, content = resolve(schema)
        if "enum" in schema and self.random.random() < 0.8:
            return self.random.choice(schema["enum"])
        special = self._special(name, schema, content)
        if special is not None:
            return special
        match content.get("type"):
            case "string":
                return self.random.choice(_TEXTS)
            case "integer":
                return self.random.choice(_NUMBERS)
            case "number":
                return self.random.choice((0, 0.5, 1, 1.5, -1, 1e10))
            case "boolean":
                return self.random.random() < 0.5
            case "array":
                count = self.random.choice((0, 1, 1, 1, 2)) if depth else 0
                return [self.value(content.get("items", {}), "", "", depth - 1) for _ in range(count)]
        return self._object(name, content, depth)

    def _special(self, name: str, schema: Any, content: Any) -> Any:
        if name.endswith(".Quantity"):
            return self.random.choice(_QUANTITIES)
        if name.endswith(".IntOrString") or content.get("x-kubernetes-int-or-string"):
            return self.random.choice((0, 1, -1, 80, "50%", "http", "", "150%", 70000))
        if name.endswith(("v1.Time", "v1.MicroTime")) or schema.get("format") == "date-time":
            return self.random.choice(("2020-01-02T03:04:05Z", "2020-01-02T03:04:05.123456Z", "odd", None))
        if schema.get("format") == "byte":
            return self.random.choice(("YWJj", "", "odd!"))
        return None

    def _object(self, name: str, content: Any, depth: int) -> Any:
        properties = content.get("properties")
        if properties is None:
            below = content.get("additionalProperties")
            if not isinstance(below, dict):
                return self.random.choice(({}, {"a": 1}, {"a": {"b": []}}))
            keys = self.random.sample(_TEXTS, self.random.choice((0, 1, 1, 2)))
            return {key: self.value(below, "", "", depth - 1) for key in keys}
        chosen = [
            one
            for one in properties
            if one in content.get("required", ()) or self.random.random() < 2 / len(properties)
        ]
        if not depth:
            return {}
        return {one: self.value(properties[one], name, one, depth - 1) for one in chosen}


def _member(content: Any, name: Any) -> Any:
    more = content.get("additionalProperties")
    return content.get("properties", {}).get(name, more if isinstance(more, dict) else {})


def _collect(schema: Any, tree: Any, steps: tuple[str | int, ...], found: list[Place]) -> None:
    _, content = resolve(schema)
    if isinstance(tree, dict):
        for name, value in tree.items():
            found.append(Place((*steps, name), tree, schema))
            if (*steps, name) != ("metadata",):
                _collect(_member(content, name), value, (*steps, name), found)
    elif isinstance(tree, list):
        for index, value in enumerate(tree):
            found.append(Place((*steps, index), tree, schema))
            _collect(content.get("items", {}), value, (*steps, index), found)
