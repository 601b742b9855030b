"""Finds changes of a CRD that break objects stored under a released version of it.

```python
for finding in compare_definitions(released, crd_of(Website)):
    print(finding)
```

A change breaks if the new schema rejects or drops what the old one accepted; a more permissive schema is not reported.
Newer servers tolerate invalid values that an update does not touch (ratcheting); older ones do not, and an update that
touches the value is rejected in any case.
"""

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from levelset.errors import BadObject

__all__ = ["Finding", "Level", "SchemaChange", "compare_definitions", "compare_releases", "compare_schemas"]

Level = Literal["breaking", "notice"]
"""`breaking`: stored objects are rejected or lose data. `notice`: users should know."""

_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"
_REFUSED: Final = "stored objects that violate it are rejected at their next write"
_DROPPED: Final = "the server drops it from stored objects as soon as they are read"
_WIDER: Final = {("integer", "number"), ("integer", "int-or-string"), ("string", "int-or-string")}
_WIDER_FORMATS: Final = {
    *((None, "int64"), (None, "double"), ("float", "double")),
    *(("int32", "int64"), ("int32", "double"), ("int64", "double")),
}
_MINIMA: Final = ("minimum", "minLength", "minItems", "minProperties")
_MAXIMA: Final = ("maximum", "maxLength", "maxItems", "maxProperties")
_KEEP_OR_CONVERT: Final = "revert the change, or add a new version with a conversion"

Schema = Mapping[str, Any]


class SchemaChange(msgspec.Struct, frozen=True):
    """One difference of two schemas: the field, the problem, its consequence, and what to do."""

    level: Level
    path: str
    problem: str
    why: str
    advice: str = _KEEP_OR_CONVERT


def compare_schemas(old: Schema, new: Schema, path: str = "") -> Iterator[SchemaChange]:
    """All differences that affect stored objects, a field before its members."""
    before, after = _type_of(old), _type_of(new)
    if before != after and (before, after) not in _WIDER and after:
        why = f"stored values are of type {before or 'any'}, and are rejected at their next write"
        yield SchemaChange("breaking", path, f"its type was {before or 'any'} and is {after}", why)
        return
    for compare in _COMPARISONS:
        yield from compare(old, new, path)
    yield from _compare_members(old, new, path)


def _type_of(schema: Schema) -> str:
    return "int-or-string" if schema.get(_INT_OR_STRING) else schema.get("type", "")


def _compare_members(old: Schema, new: Schema, path: str) -> Iterator[SchemaChange]:
    members: Mapping[str, Schema] = old.get("properties", {})
    now: Mapping[str, Schema] = new.get("properties", {})
    for name, child in members.items():
        successor = now.get(name) or _additional(new)
        if successor is not None:
            yield from compare_schemas(child, successor, f"{path}.{name}")
        elif not new.get(_PRESERVE) and not _is_root_identity(path, name):
            advice = "keep the field as deprecated until no stored object has it"
            yield SchemaChange("breaking", f"{path}.{name}", "it was removed", _DROPPED, advice)
    if "items" in old and "items" in new:
        yield from compare_schemas(old["items"], new["items"], f"{path}[]")
    yield from _compare_additional(old, new, path)


def _is_root_identity(path: str, name: str) -> bool:
    return not path and name in ("apiVersion", "kind", "metadata")


def _additional(schema: Schema) -> Schema | None:
    """The schema of additional properties; None if they are dropped."""
    found = schema.get("additionalProperties")
    return {} if found is True else found or None


def _compare_additional(old: Schema, new: Schema, path: str) -> Iterator[SchemaChange]:
    before, after = _additional(old), _additional(new)
    if before is None:
        return
    if after is not None:
        yield from compare_schemas(before, after, f"{path}.*")
    elif not new.get(_PRESERVE):
        why = "the server drops members of stored objects that the new schema does not define"
        yield SchemaChange("breaking", path, "it was a map with arbitrary keys and is not any more", why)


def _compare_open(old: Schema, new: Schema, path: str) -> Iterator[SchemaChange]:
    if old.get(_PRESERVE) and not new.get(_PRESERVE) and _additional(new) is None:
        why = "the server drops unknown fields of stored objects there"
        yield SchemaChange("breaking", path, "it no longer preserves unknown fields", why)
    if new.get("x-kubernetes-embedded-resource") and not old.get("x-kubernetes-embedded-resource"):
        yield SchemaChange("breaking", path, "it must now be an object with apiVersion, kind and metadata", _REFUSED)


def _compare_required(old: Schema, new: Schema, path: str) -> Iterator[SchemaChange]:
    now: Mapping[str, Schema] = new.get("properties", {})
    for name in new.get("required", ()):
        if name not in old.get("required", ()) and "default" not in now.get(name, {}):
            why = "stored objects without it are rejected at their next write"
            yield SchemaChange("breaking", f"{path}.{name}", "it is now required", why, "give it a default")


def _compare_enum(old: Schema, new: Schema, path: str) -> Iterator[SchemaChange]:
    if "enum" not in new:
        return
    if "enum" not in old:
        yield SchemaChange("breaking", path, f"it must now be one of {_listed(new['enum'])}", _REFUSED)
        return
    gone = [one for one in old["enum"] if one not in new["enum"]]
    if gone:
        why = "stored objects that have one of them are rejected at their next write"
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
                was = f"was {old[name]}" if name in old else "was not set"
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
            problem = f"its {name} was {was!r} and is {now!r}" if was else f"it has a {name} now: {now!r}"
            yield SchemaChange("breaking", path, problem, _REFUSED)


def _compare_null(old: Schema, new: Schema, path: str) -> Iterator[SchemaChange]:
    if old.get("nullable") and not new.get("nullable"):
        why = "a stored null is dropped, or becomes the default"
        yield SchemaChange("breaking", path, "it may no longer be null", why, "keep it nullable")


def _compare_lists(old: Schema, new: Schema, path: str) -> Iterator[SchemaChange]:
    was, now = (one.get("x-kubernetes-list-type", "atomic") for one in (old, new))
    keys = [one.get("x-kubernetes-list-map-keys", []) for one in (old, new)]
    if was != now:
        level: Level = "notice" if now == "atomic" else "breaking"
        why = (
            "field ownership of single items is lost"
            if now == "atomic"
            else "stored lists with duplicate items are rejected"
        )
        yield SchemaChange(level, path, f"its list type was {was} and is {now}", why)
    elif keys[0] != keys[1]:
        why = (
            "items are identified differently: applies of other managers match other items, and duplicates are rejected"
        )
        yield SchemaChange("breaking", path, f"its keys were {_listed(keys[0])} and are {_listed(keys[1])}", why)
    was, now = (one.get("x-kubernetes-map-type", "granular") for one in (old, new))
    if was != now:
        yield SchemaChange(
            "notice", path, f"its map type was {was} and is {now}", "field ownership of its members changes"
        )


def _compare_defaults(old: Schema, new: Schema, path: str) -> Iterator[SchemaChange]:
    if old.get("default") == new.get("default"):
        return
    shown = [repr(one["default"]) if "default" in one else "none" for one in (old, new)]
    why = "objects stored without it get the new default when they are read"
    advice = "make sure that no client relies on the old default"
    yield SchemaChange("notice", path, f"its default was {shown[0]} and is {shown[1]}", why, advice)


def _compare_rules(old: Schema, new: Schema, path: str) -> Iterator[SchemaChange]:
    known = {one["rule"] for one in old.get("x-kubernetes-validations", ())}
    for one in new.get("x-kubernetes-validations", ()):
        rule = one["rule"]
        if rule not in known:
            is_about_updates = "oldSelf" in rule
            why = "updates that violate it are rejected" if is_about_updates else _REFUSED
            level: Level = "notice" if is_about_updates else "breaking"
            yield SchemaChange(level, path, f"it has a new rule: {rule}", why)


def _compare_alternatives(old: Schema, new: Schema, path: str) -> Iterator[SchemaChange]:
    for name in ("allOf", "anyOf", "oneOf", "not"):
        if name in new and old.get(name) != new[name] and not new.get(_INT_OR_STRING):
            why = "stored objects that do not match are rejected at their next write"
            yield SchemaChange("notice", path, f"its {name} has changed", why, "compare them manually")


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


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a CRD that affects stored objects or clients."""

    level: Level
    definition: str
    version: str = ""
    path: str = ""
    problem: str
    why: str
    advice: str

    @property
    def is_breaking(self) -> bool:
        """Whether stored objects are rejected or lose data."""
        return self.level == "breaking"

    def __str__(self) -> str:
        where = " ".join(part for part in (self.definition, self.version, self.path) if part)
        return f"{self.level}: {where}: {self.problem}; {self.why}. What to do: {self.advice}."


def compare_releases(released: Iterable[Definition], new: Iterable[Definition]) -> Sequence[Finding]:
    """The changes between two sets of CRDs, matched by name; other objects are ignored."""
    successors = {one["metadata"]["name"]: one for one in new if one.get("kind") == _KIND}
    found: list[Finding] = []
    for one in released:
        if one.get("kind") != _KIND:
            continue
        name = one["metadata"]["name"]
        if name in successors:
            found += compare_definitions(one, successors[name])
        else:
            why = "deleting the CRD deletes all its objects"
            advice = "keep it until no such objects exist, or document in the release how to migrate them"
            found.append(Finding(level="breaking", definition=name, problem="it was removed", why=why, advice=advice))
    return found


def compare_definitions(released: Definition, new: Definition) -> Sequence[Finding]:
    """The changes between two versions of one CRD; BadObject if one of them is not a CRD."""
    try:
        name = released["metadata"]["name"]
        changes = [*_compare_names(released, new), *_compare_versions(released, new)]
    except (KeyError, TypeError, AttributeError) as error:
        raise BadObject(f"this is not a {_KIND} of apiextensions.k8s.io/v1: {error} is missing") from error
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
"""The version of the CRD and its change."""


def _compare_names(released: Definition, new: Definition) -> Iterator[Change]:
    was, now = released["spec"], new["spec"]
    fixed = {"group": (was["group"], now["group"]), "scope": (was["scope"], now["scope"])}
    fixed |= {f"names.{one}": (was["names"][one], now["names"][one]) for one in ("kind", "plural")}
    for name, (before, after) in fixed.items():
        if before != after:
            why = "the server rejects the change, since stored objects are located by it"
            advice = "revert it, or create a new kind and migrate the objects"
            yield "", SchemaChange("breaking", f"spec.{name}", f"it was {before} and is {after}", why, advice)
    for name in ("shortNames", "categories"):
        gone = [one for one in was["names"].get(name, ()) if one not in now["names"].get(name, ())]
        if gone:
            why = "users and scripts that use them get errors"
            yield "", SchemaChange("notice", f"spec.names.{name}", f"{', '.join(gone)} was removed", why, "keep it")


def _compare_versions(released: Definition, new: Definition) -> Iterator[Change]:
    successors = {one["name"]: one for one in new["spec"]["versions"]}
    stored = {one["name"] for one in released["spec"]["versions"] if one.get("storage")}
    stored |= set(_part(released, "status").get("storedVersions") or ())
    for one in released["spec"]["versions"]:
        name = one["name"]
        if name not in successors:
            yield name, _version_removed(is_stored=name in stored)
            continue
        yield from _compare_version(one, successors[name])
    yield from _compare_storage(released, new)


def _version_removed(*, is_stored: bool) -> SchemaChange:
    if is_stored:
        why = "objects are stored in it, and the server rejects a CRD without it"
        advice = "keep it with served: false until all objects are stored in another version"
        return SchemaChange("breaking", "", "the version was removed", why, advice)
    why = "clients that use it get 404"
    return SchemaChange("notice", "", "the version was removed", why, "announce it, or keep it as deprecated")


def _compare_version(was: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[Change]:
    name = was["name"]
    if was["served"] and not now["served"]:
        advice = "mark it as deprecated for a release first"
        yield name, SchemaChange("notice", "", "it is no longer served", "clients that use it get 404", advice)
    before, after = (_part(one, "subresources") for one in (was, now))
    for part in ("status", "scale"):
        if part in before and part not in after:
            why = f"clients that write /{part} get 404"
            yield name, SchemaChange("notice", "", f"the subresource {part} was removed", why, "keep it")
    if "status" in after and "status" not in before:
        why = "a status that is written with the main resource is ignored from now on"
        yield name, SchemaChange("notice", ".status", "the subresource status is new", why, "write it to /status")
    for change in compare_schemas(_schema(was), _schema(now)):
        yield name, change


def _compare_storage(released: Definition, new: Definition) -> Iterator[Change]:
    """Without a conversion webhook, objects stored in one version must be valid in the other."""
    was, now = (_stored(one) for one in (released, new))
    if was["name"] == now["name"] or _part(new["spec"], "conversion").get("strategy") == "Webhook":
        return
    versions = f"{was['name']} -> {now['name']}"
    why = "without a conversion webhook only the apiVersion of stored objects is rewritten"
    yield (
        versions,
        SchemaChange(
            "notice", "", "the storage version changed", why, "make sure that both versions have the same schema"
        ),
    )
    for change in compare_schemas(_schema(was), _schema(now)):
        if change.level == "breaking":
            yield versions, change


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
