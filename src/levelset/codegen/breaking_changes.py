"""Finds what in a new definition would break objects that are stored under a released one.

```python
for finding in compare_definitions(released, crd_of(Website)):
    print(finding)
```

Compares two schemas: what of the objects that the old one let pass, the new one would refuse or drop.

A field that is only more permissive is no news. Newer servers overlook what is wrong with a value that an update does
not touch; older ones do not, and whoever touches the value is refused in any case.
"""

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from levelset.errors import BadObject

__all__ = ["Finding", "Level", "SchemaChange", "compare_definitions", "compare_releases", "compare_schemas"]

Level = Literal["breaking", "notice"]
"""Whether stored objects suffer, or somebody should merely know."""

_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"
_REFUSED: Final = "stored objects that do not keep it are refused at their next write"
_DROPPED: Final = "the server drops it from stored objects as soon as they are read"
_WIDER: Final = {("integer", "number"), ("integer", "int-or-string"), ("string", "int-or-string")}
_WIDER_FORMATS: Final = {
    *((None, "int64"), (None, "double"), ("float", "double")),
    *(("int32", "int64"), ("int32", "double"), ("int64", "double")),
}
_MINIMA: Final = ("minimum", "minLength", "minItems", "minProperties")
_MAXIMA: Final = ("maximum", "maxLength", "maxItems", "maxProperties")
_LOOSEN: Final = "leave it as it was, or make a new version of the kind and convert"

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """One difference: at which field, what it is, why it matters, and what to do."""

    level: Level
    path: str
    problem: str
    why: str
    advice: str = _LOOSEN


def compare_schemas(old: Schema, new: Schema, path: str = "") -> Iterator[SchemaChange]:
    """All differences that concern stored objects, those of a field before those of what is inside of it."""
    before, after = _type_of(old), _type_of(new)
    if before != after and (before, after) not in _WIDER and after:
        why = f"stored values are of type {before or 'any'}, and are refused at their next write"
        yield SchemaChange("breaking", path, f"its type was {before or 'any'} and is {after}", why)
        return
    for compare in _COMPARISONS:
        yield from compare(old, new, path)
    yield from _inside(old, new, path)


def _type_of(schema: Schema) -> str:
    return "int-or-string" if schema.get(_INT_OR_STRING) else schema.get("type", "")


def _inside(old: Schema, new: Schema, path: str) -> Iterator[SchemaChange]:
    members: Mapping[str, Schema] = old.get("properties", {})
    now: Mapping[str, Schema] = new.get("properties", {})
    for name, child in members.items():
        successor = now.get(name) or _additional(new)
        if successor is not None:
            yield from compare_schemas(child, successor, f"{path}.{name}")
        elif not new.get(_PRESERVE) and not _is_root_identity(path, name):
            advice = "keep the field, deprecated in its description, until nothing stored has it"
            yield SchemaChange("breaking", f"{path}.{name}", "it is gone", _DROPPED, advice)
    if "items" in old and "items" in new:
        yield from compare_schemas(old["items"], new["items"], f"{path}[]")
    yield from _compare_additional(old, new, path)


def _is_root_identity(path: str, name: str) -> bool:
    return not path and name in ("apiVersion", "kind", "metadata")


def _additional(schema: Schema) -> Schema | None:
    """The schema of members that have no name in it; None if such members are dropped."""
    found = schema.get("additionalProperties")
    return {} if found is True else found or None


def _compare_additional(old: Schema, new: Schema, path: str) -> Iterator[SchemaChange]:
    before, after = _additional(old), _additional(new)
    if before is None:
        return
    if after is not None:
        yield from compare_schemas(before, after, f"{path}.*")
    elif not new.get(_PRESERVE):
        why = "the server drops the members of stored objects that the new schema does not name"
        yield SchemaChange("breaking", path, "it was a map with any names and is none any more", why)


def _compare_open(old: Schema, new: Schema, path: str) -> Iterator[SchemaChange]:
    if old.get(_PRESERVE) and not new.get(_PRESERVE) and _additional(new) is None:
        why = "the server drops whatever stored objects have there and the new schema does not name"
        yield SchemaChange("breaking", path, "it kept unknown fields and does no more", why)
    if new.get("x-kubernetes-embedded-resource") and not old.get("x-kubernetes-embedded-resource"):
        yield SchemaChange("breaking", path, "it must now be an object with apiVersion, kind and metadata", _REFUSED)


def _compare_required(old: Schema, new: Schema, path: str) -> Iterator[SchemaChange]:
    now: Mapping[str, Schema] = new.get("properties", {})
    for name in new.get("required", ()):
        if name not in old.get("required", ()) and "default" not in now.get(name, {}):
            why = "stored objects without it are refused at their next write"
            yield SchemaChange("breaking", f"{path}.{name}", "it is now required", why, "give it a default")


def _compare_enum(old: Schema, new: Schema, path: str) -> Iterator[SchemaChange]:
    if "enum" not in new:
        return
    if "enum" not in old:
        yield SchemaChange("breaking", path, f"it must now be one of {_listed(new['enum'])}", _REFUSED)
        return
    gone = [one for one in old["enum"] if one not in new["enum"]]
    if gone:
        why = "stored objects that have one of them are refused at their next write"
        yield SchemaChange("breaking", path, f"it may no longer be {_listed(gone)}", why, "keep the values, deprecated")


def _listed(values: list[Any]) -> str:
    return ", ".join(repr(one) for one in values)


def _compare_bounds(old: Schema, new: Schema, path: str) -> Iterator[SchemaChange]:
    for names, exclusive, is_tighter in (
        (_MINIMA, "exclusiveMinimum", operator.lt),
        (_MAXIMA, "exclusiveMaximum", operator.gt),
    ):
        for name in names:
            if name in new and (name not in old or is_tighter(old[name], new[name])):
                was = f"was {old[name]}" if name in old else "was not there"
                yield SchemaChange("breaking", path, f"{name} {was} and is {new[name]}", _REFUSED)
        if new.get(exclusive) and not old.get(exclusive) and new.get(names[0]) == old.get(names[0]):
            yield SchemaChange("breaking", path, f"the bound {new.get(names[0])} itself is no longer allowed", _REFUSED)
    step = new.get("multipleOf")
    if step and ("multipleOf" not in old or (old["multipleOf"] / step) % 1):
        yield SchemaChange("breaking", path, f"it must now be a multiple of {step}", _REFUSED)


def _compare_texts(old: Schema, new: Schema, path: str) -> Iterator[SchemaChange]:
    for name in ("pattern", "format"):
        was, now = old.get(name), new.get(name)
        if now and was != now and (was, now) not in _WIDER_FORMATS:
            said = f"its {name} was {was!r} and is {now!r}" if was else f"it has a {name} now: {now!r}"
            yield SchemaChange("breaking", path, said, _REFUSED)


def _compare_null(old: Schema, new: Schema, path: str) -> Iterator[SchemaChange]:
    if old.get("nullable") and not new.get("nullable"):
        why = "a stored null is dropped, or becomes the default"
        yield SchemaChange("breaking", path, "it may no longer be null", why, "keep it nullable")


def _compare_lists(old: Schema, new: Schema, path: str) -> Iterator[SchemaChange]:
    was, now = (one.get("x-kubernetes-list-type", "atomic") for one in (old, new))
    keys = [one.get("x-kubernetes-list-map-keys", []) for one in (old, new)]
    if was != now:
        level: Level = "notice" if now == "atomic" else "breaking"
        why = "who owns which item is lost" if now == "atomic" else "stored lists with the same item twice are refused"
        yield SchemaChange(level, path, f"its list type was {was} and is {now}", why)
    elif keys[0] != keys[1]:
        why = "items are told apart in another way: applies of others meet other items, and duplicates are refused"
        yield SchemaChange("breaking", path, f"its keys were {_listed(keys[0])} and are {_listed(keys[1])}", why)
    was, now = (one.get("x-kubernetes-map-type", "granular") for one in (old, new))
    if was != now:
        yield SchemaChange("notice", path, f"its map type was {was} and is {now}", "who owns which member changes")


def _compare_defaults(old: Schema, new: Schema, path: str) -> Iterator[SchemaChange]:
    if old.get("default") == new.get("default"):
        return
    shown = [repr(one["default"]) if "default" in one else "none" for one in (old, new)]
    why = "objects that were stored without it get the new one as soon as they are read"
    advice = "make sure that nobody relies on the old one"
    yield SchemaChange("notice", path, f"its default was {shown[0]} and is {shown[1]}", why, advice)


def _compare_rules(old: Schema, new: Schema, path: str) -> Iterator[SchemaChange]:
    known = {one["rule"] for one in old.get("x-kubernetes-validations", ())}
    for one in new.get("x-kubernetes-validations", ()):
        rule = one["rule"]
        if rule not in known:
            is_about_updates = "oldSelf" in rule
            why = "updates that break it are refused" if is_about_updates else _REFUSED
            level: Level = "notice" if is_about_updates else "breaking"
            yield SchemaChange(level, path, f"it has a new rule: {rule}", why)


def _compare_alternatives(old: Schema, new: Schema, path: str) -> Iterator[SchemaChange]:
    for name in ("allOf", "anyOf", "oneOf", "not"):
        if name in new and old.get(name) != new[name] and not new.get(_INT_OR_STRING):
            why = "stored objects that meet none of them are refused at their next write"
            yield SchemaChange("notice", path, f"its {name} is not what it was", why, "compare them by eye")


_COMPARISONS: Final[tuple[Callable[[Schema, Schema, str], Iterator[SchemaChange]], ...]] = (
    _compare_open,
    _compare_required,
    _compare_enum,
    _compare_bounds,
    _compare_texts,
    _compare_null,
    _compare_lists,
    _compare_defaults,
    _compare_rules,
    _compare_alternatives,
)


_KIND: Final = "CustomResourceDefinition"

Definition = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One change of a definition that somebody must know of; as text, a sentence for each of its parts."""

    level: Level
    definition: str
    version: str = ""
    path: str = ""
    problem: str
    why: str
    advice: str

    @property
    def is_breaking(self) -> bool:
        """Whether stored objects suffer."""
        return self.level == "breaking"

    def __str__(self) -> str:
        place = " ".join(part for part in (self.definition, self.version, self.path) if part)
        return f"{self.level}: {place}: {self.problem}; {self.why}. What to do: {self.advice}."


def compare_releases(released: Iterable[Definition], new: Iterable[Definition]) -> Sequence[Finding]:
    """What changed between two sets of definitions, paired by their names; other objects among them are passed over."""
    successors = {one["metadata"]["name"]: one for one in new if one.get("kind") == _KIND}
    found: list[Finding] = []
    for one in released:
        if one.get("kind") != _KIND:
            continue
        name = one["metadata"]["name"]
        if name in successors:
            found += compare_definitions(one, successors[name])
        else:
            why = "whoever deletes the definition deletes all its objects"
            advice = "keep it until nobody has such objects, or say in the release how to move them"
            found.append(Finding(level="breaking", definition=name, problem="it is gone", why=why, advice=advice))
    return found


def compare_definitions(released: Definition, new: Definition) -> Sequence[Finding]:
    """What changed between two forms of one definition; BadObject if one of them is none."""
    try:
        name = released["metadata"]["name"]
        changes = [*_compare_names(released, new), *_compare_versions(released, new)]
    except (KeyError, TypeError, AttributeError) as error:
        raise BadObject(f"this is no {_KIND} of apiextensions.k8s.io/v1: {error} is not there") from error
    return [
        Finding(
            level=change.level,
            definition=name,
            version=version,
            path=change.path,
            problem=change.problem,
            why=change.why,
            advice=change.advice,
        )
        for version, change in changes
    ]


Change = tuple[str, SchemaChange]
"""A change, and the version that it is about."""


def _compare_names(released: Definition, new: Definition) -> Iterator[Change]:
    was, now = released["spec"], new["spec"]
    fixed = {"group": (was["group"], now["group"]), "scope": (was["scope"], now["scope"])}
    fixed |= {f"names.{one}": (was["names"][one], now["names"][one]) for one in ("kind", "plural")}
    for name, (before, after) in fixed.items():
        if before != after:
            why = "a server refuses the change, since stored objects are found by it"
            advice = "leave it, or make a new kind and move the objects"
            yield "", SchemaChange("breaking", f"spec.{name}", f"it was {before} and is {after}", why, advice)
    for name in ("shortNames", "categories"):
        gone = [one for one in was["names"].get(name, ()) if one not in now["names"].get(name, ())]
        if gone:
            why = "people and scripts that use them find nothing"
            yield "", SchemaChange("notice", f"spec.names.{name}", f"{', '.join(gone)} is gone", why, "keep it")


def _compare_versions(released: Definition, new: Definition) -> Iterator[Change]:
    successors = {one["name"]: one for one in new["spec"]["versions"]}
    stored = {one["name"] for one in released["spec"]["versions"] if one.get("storage")}
    stored |= set(_part(released, "status").get("storedVersions") or ())
    for one in released["spec"]["versions"]:
        name = one["name"]
        if name not in successors:
            yield name, _gone(is_stored=name in stored)
            continue
        yield from _compare_version(one, successors[name])
    yield from _compare_storage(released, new)


def _gone(*, is_stored: bool) -> SchemaChange:
    if is_stored:
        why = "objects are stored in it, and a server refuses a definition without it"
        advice = "keep it with served: false until all objects are stored in another version"
        return SchemaChange("breaking", "", "the version is gone", why, advice)
    why = "clients that use it get 404"
    return SchemaChange("notice", "", "the version is gone", why, "tell them, or keep it as deprecated")


def _compare_version(was: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[Change]:
    name = was["name"]
    if was["served"] and not now["served"]:
        advice = "mark it as deprecated for a release first"
        yield name, SchemaChange("notice", "", "it is no longer served", "clients that use it get 404", advice)
    before, after = (_part(one, "subresources") for one in (was, now))
    for part in ("status", "scale"):
        if part in before and part not in after:
            why = f"clients that write /{part} get 404"
            yield name, SchemaChange("notice", "", f"the subresource {part} is gone", why, "keep it")
    if "status" in after and "status" not in before:
        why = "a status that is written with the rest of an object is ignored from now on"
        yield name, SchemaChange("notice", ".status", "the subresource status is new", why, "write it to /status")
    for change in compare_schemas(_schema(was), _schema(now)):
        yield name, change


def _compare_storage(released: Definition, new: Definition) -> Iterator[Change]:
    """Objects that were stored in one version and are read as another must mean the same, unless somebody converts."""
    was, now = (_stored(one) for one in (released, new))
    if was["name"] == now["name"] or _part(new["spec"], "conversion").get("strategy") == "Webhook":
        return
    way = f"{was['name']} -> {now['name']}"
    why = "without a conversion webhook only the apiVersion of stored objects is rewritten"
    yield way, SchemaChange("notice", "", "another version is stored", why, "make sure that both mean the same")
    for change in compare_schemas(_schema(was), _schema(now)):
        if change.level == "breaking":
            yield way, change


def _part(tree: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] | None = tree.get(name)
    return found or {}


def _stored(definition: Definition) -> Mapping[str, Any]:
    for one in definition["spec"]["versions"]:
        if one.get("storage"):
            found: Mapping[str, Any] = one
            return found
    raise KeyError("a version with storage: true")


def _schema(version: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = version["schema"]["openAPIV3Schema"]
    return found
