"""Objects and events without a server, for the tests of stores and informers."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from levelset.client.object_types import Item, view_of
from levelset.objects import Resource, Spec
from levelset.objects.cached_object import CachedObject, decode_cached
from levelset.runtime.cache.change import Change
from levelset.runtime.watch.events import Apply, Delete, Event, Init, InitApply, InitDone

__all__ = ["Node", "Site", "applied", "cached_site", "deleted", "listed", "node", "summarize"]


class SiteSpec(Spec):
    image: str = "nginx"
    certificates: tuple[str, ...] = ()


class Site(Resource[SiteSpec, None], api="example.dev/v1"):
    """A kind with a namespace."""


class Node(Resource[SiteSpec, None], api="example.dev/v1", scope="Cluster"):
    """A kind without one."""


VIEW = view_of(Site)


def cached_site(name: str, version: int | str = 1, *, namespace: str | None = "default", **more: Any) -> CachedObject:
    """An object as it comes from a server; `uid`, `labels` and `owners` are metadata, the rest is spec."""
    metadata: dict[str, Any] = {"name": name, "uid": more.pop("uid", f"uid-{name}"), "resourceVersion": str(version)}
    metadata |= {"namespace": namespace} if namespace else {}
    metadata |= {"labels": more.pop("labels")} if "labels" in more else {}
    metadata |= {"ownerReferences": more.pop("owners")} if "owners" in more else {}
    kind = more.pop("kind", "Site")
    tree = {"apiVersion": "example.dev/v1", "kind": kind, "metadata": metadata, "spec": {"image": "nginx", **more}}
    return decode_cached(json.dumps(tree).encode())


def node(name: str, version: int = 1) -> CachedObject:
    """A cluster-scoped object."""
    return cached_site(name, version, namespace=None, kind="Node")


def applied(*cached: CachedObject) -> list[Event[Any]]:
    return [Apply(Item(one, VIEW)) for one in cached]


def deleted(*cached: CachedObject) -> list[Event[Any]]:
    return [Delete(Item(one, VIEW)) for one in cached]


def listed(*cached: CachedObject, version: int = 1) -> list[Event[Any]]:
    """A complete list."""
    return [Init(), *(InitApply(Item(one, VIEW)) for one in cached), InitDone(str(version))]


def summarize(changes: Iterable[Change[Any]]) -> Sequence[str]:
    """Changes in words: `+a1` new, `-a1` gone, `a1>a2` changed; each with its version, `*` in front if initial."""
    return [_word(change) for change in changes]


def _word(change: Change[Any]) -> str:
    old, new = (None if one is None else f"{one.head.name}{one.head.resource_version}" for one in _both(change))
    mark = "*" if change.is_initial else "=" if change.is_resync else ""
    if old is None:
        return f"{mark}+{new}"
    return f"{mark}-{old}" if new is None else f"{mark}{old}>{new}"


def _both(change: Change[Any]) -> tuple[CachedObject | None, CachedObject | None]:
    return change.before, change.after
