"""Parses discovery documents into `ApiResource`s, aggregated and unaggregated. No I/O.

Aggregated discovery (`apidiscovery.k8s.io`) has everything in two documents; unaggregated discovery has a list of
groups, and a list of resources for each of their versions. The requests are in `rest_mapper.py`.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, Self

import msgspec

from levelset.objects.json_tree import is_list, is_map
from levelset.objects.kind_definition import Definition
from levelset.objects.lazy_pattern import Pattern
from levelset.objects.ref import GroupVersionKind, GroupVersionResource

__all__ = [
    "ACCEPT",
    "ApiResource",
    "Group",
    "GroupVersion",
    "is_aggregated",
    "path_of",
    "read_aggregated",
    "read_group",
    "read_groups",
    "read_resources",
    "served_by",
    "version_rank",
    "write_resources",
]

_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class ApiResource(msgspec.Struct, frozen=True, kw_only=True):
    """One resource of a server: its name in URLs, the kind of its objects, its scope and its verbs.

    `subresources` are names only, such as `status`; `short_names` and `categories` are what users type.
    """

    gvr: GroupVersionResource
    gvk: GroupVersionKind
    namespaced: bool
    verbs: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    singular: str = ""

    @classmethod
    def of(cls, definition: Definition) -> Self:
        """The resource that a server will serve for a class, without discovery."""
        has = {"scale": definition.scale is not None, "status": definition.status}
        return cls(
            gvr=definition.gvr,
            gvk=definition.gvk,
            namespaced=definition.namespaced,
            verbs=_VERBS,
            subresources=tuple(name for name, is_there in has.items() if is_there),
            short_names=definition.short_names,
            categories=definition.categories,
            singular=definition.singular,
        )

    def __str__(self) -> str:
        group = f".{self.gvr.group}" if self.gvr.group else ""
        return f"{self.gvr.resource}.{self.gvr.version}{group}"


@lru_cache(maxsize=1024)
def served_by(definition: Definition) -> ApiResource:
    """`ApiResource.of` a definition, cached: every status write needs it."""
    return ApiResource.of(definition)


ACCEPT: Final = ",".join(
    [f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList" for version in ("v2", "v2beta1")]
    + ["application/json"]
)
"""The Accept header for `/api` and `/apis`: aggregated discovery where the server supports it."""

_STABLE: Final = Pattern(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?", re.ASCII)


class GroupVersion(msgspec.Struct, frozen=True):
    """One version of a group; `resources` is None if they are not known."""

    name: str
    resources: tuple[ApiResource, ...] | None = None


class Group(msgspec.Struct, frozen=True):
    """One group, with its versions in order of preference."""

    name: str
    versions: tuple[GroupVersion, ...]


def path_of(group: str, version: str | None = None) -> str:
    """The path of the document about a group, or about one of its versions."""
    return "/".join(["/apis" if group else "/api", *([group] if group else []), *([version] if version else [])])


def is_aggregated(tree: Any) -> bool:
    """Whether a document is aggregated discovery."""
    return is_map(tree) and tree.get("kind") == "APIGroupDiscoveryList"


def read_aggregated(tree: Any) -> list[Group]:
    """The groups of an aggregated document; invalid entries are ignored."""
    groups: list[Group] = []
    for item in _maps(tree, "items"):
        name = _text(item.get("metadata"), "name")
        versions = [_version(name, one) for one in _maps(item, "versions") if _text(one, "version")]
        groups.append(Group(name, tuple(versions)))
    return groups


def read_groups(tree: Any) -> list[Group]:
    """The groups of the unaggregated document at `/apis`, or the core group at `/api`; without resources."""
    if is_map(tree) and is_list(tree.get("versions")):
        return [Group("", _ordered([one for one in tree["versions"] if isinstance(one, str)], ""))]
    return [read_group(group) for group in _maps(tree, "groups") if _text(group, "name")]


def read_group(tree: Any) -> Group:
    """The group of the unaggregated document at `/apis/GROUP`; without resources."""
    names = [_text(one, "version") for one in _maps(tree, "versions")]
    preferred = _text(tree.get("preferredVersion"), "version") if is_map(tree) else ""
    return Group(_text(tree, "name"), _ordered([name for name in names if name], preferred))


def read_resources(group: str, version: str, tree: Any) -> tuple[ApiResource, ...]:
    """The resources of the unaggregated document of one version of a group."""
    rows = [row for row in _maps(tree, "resources") if _text(row, "name") and _text(row, "kind")]
    parts: dict[str, list[str]] = {}
    for row in rows:
        name, slash, part = row["name"].partition("/")
        if slash:
            parts.setdefault(name, []).append(part)
    return tuple(
        ApiResource(
            gvr=GroupVersionResource(group, version, row["name"]),
            gvk=GroupVersionKind(_text(row, "group") or group, _text(row, "version") or version, row["kind"]),
            namespaced=row.get("namespaced") is True,
            verbs=_texts(row, "verbs"),
            subresources=tuple(parts.get(row["name"], ())),
            short_names=_texts(row, "shortNames"),
            categories=_texts(row, "categories"),
            singular=_text(row, "singularName"),
        )
        for row in rows
        if "/" not in row["name"]
    )


def write_resources(group: str, version: str, resources: Iterable[ApiResource]) -> dict[str, Any]:
    """The unaggregated document of one version of a group, from which `read_resources` reads the same resources."""
    rows: list[dict[str, Any]] = []
    for one in resources:
        gvk = one.gvk
        shared = {"kind": gvk.kind, "namespaced": one.namespaced}
        if (gvk.group, gvk.version) != (group, version):
            shared |= {"group": gvk.group, "version": gvk.version}
        names = {"shortNames": list(one.short_names), "categories": list(one.categories), "singularName": one.singular}
        rows.append({"name": one.gvr.resource, **shared, "verbs": list(one.verbs), **names})
        rows += [{"name": f"{one.gvr.resource}/{part}", **shared, "verbs": []} for part in one.subresources]
    api_version = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": rows}


def version_rank(version: str) -> tuple[int, int, int, str]:
    """Sort key of versions, preferred first: v2, v1, v1beta2, v1beta1, v1alpha1, then others by name."""
    found = _STABLE.fullmatch(version)
    if found is None:
        return 3, 0, 0, version
    level = {None: 0, "beta": 1, "alpha": 2}[found[2]]
    return level, -int(found[1]), -int(found[3] or 0), ""


def _version(group: str, tree: dict[str, Any]) -> GroupVersion:
    version = _text(tree, "version")
    rows = _maps(tree, "resources")
    resources = tuple(_resource(group, version, row) for row in rows if _text(row, "resource") and _kind(row))
    # Stale: the aggregated API server did not respond. What was known of the version before is better than nothing.
    is_stale = tree.get("freshness") == "Stale" and not resources
    return GroupVersion(version, None if is_stale else resources)


def _resource(group: str, version: str, row: dict[str, Any]) -> ApiResource:
    kind = row["responseKind"]
    return ApiResource(
        gvr=GroupVersionResource(group, version, row["resource"]),
        gvk=GroupVersionKind(_text(kind, "group") or group, _text(kind, "version") or version, kind["kind"]),
        namespaced=row.get("scope") == "Namespaced",
        verbs=_texts(row, "verbs"),
        subresources=tuple(name for part in _maps(row, "subresources") if (name := _text(part, "subresource"))),
        short_names=_texts(row, "shortNames"),
        categories=_texts(row, "categories"),
        singular=_text(row, "singularResource"),
    )


def _kind(row: dict[str, Any]) -> str:
    return _text(row.get("responseKind"), "kind")


def _ordered(names: Sequence[str], preferred: str) -> tuple[GroupVersion, ...]:
    return tuple(GroupVersion(name) for name in sorted(names, key=lambda one: (one != preferred, version_rank(one))))


def _maps(tree: Any, name: str) -> Iterator[dict[str, Any]]:
    members: Iterable[Any] = tree.get(name) or () if is_map(tree) else ()
    return iter([one for one in members if is_map(one)] if is_list(members) else ())


def _text(tree: Any, name: str) -> str:
    value = tree.get(name) if is_map(tree) else None
    return value if isinstance(value, str) else ""


def _texts(tree: dict[str, Any], name: str) -> tuple[str, ...]:
    values = tree.get(name)
    return tuple(one for one in values if isinstance(one, str)) if is_list(values) else ()
