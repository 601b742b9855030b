"""Finds what in a new definition would break objects that are stored under a released one.

```python
for finding in compare_definitions(released, crd_of(Website)):
    print(finding)
```
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from levelset.codegen.schemachanges import Level, SchemaChange, compare_schemas
from levelset.errors import BadObject

__all__ = ["Finding", "compare_definitions", "compare_releases"]

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
