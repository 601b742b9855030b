"""The owner graph of an object: its owners up to the root, and its descendants, limited in size and depth.

It is read from lists of the metadata of the kinds that may be in it. A server in this process is listed completely,
which takes a few milliseconds. Of a remote one there are the kinds that controllers watch, those of the object's own
API group, and the built-in ones that usually have owners; each list is reused for a few seconds. Owners of other kinds
are read one by one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final

from levelset.aio import timing
from levelset.client import Client, OnlyMetadata
from levelset.client.discovery import ApiResource
from levelset.client.internals import list_page
from levelset.dashboard.views import MOST_OBJECTS, kind_text
from levelset.errors import LevelsetError
from levelset.objects.cached_object import Head, OwnerHead
from levelset.objects.ref import GroupVersionKind

__all__ = ["FamilyReader", "Member", "children_of", "owner_of", "owners_of"]

MAX_MEMBERS: Final = 200
MAX_DEPTH: Final = 6
_USUAL: Final = frozenset(
    {
        ("", "ConfigMap"),
        ("", "PersistentVolumeClaim"),
        ("", "Pod"),
        ("", "Service"),
        ("apps", "ControllerRevision"),
        ("apps", "DaemonSet"),
        ("apps", "Deployment"),
        ("apps", "ReplicaSet"),
        ("apps", "StatefulSet"),
        ("batch", "CronJob"),
        ("batch", "Job"),
        ("discovery.k8s.io", "EndpointSlice"),
    }
)
"""The group and kind of what is listed on any remote server."""
REUSED_FOR: Final = 2.0
"""Less than the time after which a page reads its object again without a change."""
_CONCURRENT_LISTS: Final = 8
_MOST_LISTS: Final = 200
"""The lists of a remote server that are remembered."""

Member = tuple[GroupVersionKind, Head]
"""The kind and metadata of an object."""

_Lists = dict[tuple[GroupVersionKind, str | None], tuple[float, list[Member]]]


class FamilyReader:
    """Reads families through a client; `served` are the kinds of the server, `watched` those that controllers watch."""

    def __init__(
        self,
        client: Callable[[], Client],
        served: Callable[[], Awaitable[Sequence[ApiResource]]],
        watched: Callable[[], Iterable[GroupVersionKind]],
    ) -> None:
        self._client = client
        self._served = served
        self._watched = watched
        self._lists: _Lists = {}

    async def read(self, gvk: GroupVersionKind, head: Head) -> dict[str, Any]:
        """The chain of owners of an object, and the tree of what it owns."""
        members = [(gvk, head), *await self._members(gvk, head)]
        if self._is_remote:
            members += await self._missing_owners(head, members)
        return {"owners": owners_of(head, members), "children": children_of(head, members)}

    @property
    def _is_remote(self) -> bool:
        return self._client().in_process_server is None

    async def _members(self, gvk: GroupVersionKind, head: Head) -> list[Member]:
        """The objects that may be owners or children of an object."""
        is_remote, namespace = self._is_remote, head.namespace
        served = [one for one in await self._served() if one.gvk.kind != "Event"]
        watched = {(one.group, one.kind) for one in self._watched()}
        if is_remote:
            own = {one.gvk[::2] for one in served if one.gvk.group == gvk.group and gvk.group}
            wanted = _USUAL | watched | own
            served = [one for one in served if one.gvk[::2] in wanted]
        # An object without a namespace may own objects in all of them, which a remote server is not listed for.
        kinds = [one.gvk for one in served if one.namespaced or namespace is None]
        if is_remote and namespace is None:
            kinds = [one.gvk for one in served if not one.namespaced or one.gvk[::2] in watched]
        limit = asyncio.Semaphore(_CONCURRENT_LISTS)
        lists = await asyncio.gather(*(self._list(one, namespace, limit, is_reused=is_remote) for one in kinds))
        return [one for each in lists for one in each]

    async def _list(
        self, gvk: GroupVersionKind, namespace: str | None, limit: asyncio.Semaphore, *, is_reused: bool
    ) -> list[Member]:
        known = self._lists.get((gvk, namespace)) if is_reused else None
        if known is not None and timing.now() - known[0] <= REUSED_FOR:
            return known[1]
        found: list[Member]
        async with limit:
            try:
                page = await list_page(self._client(), OnlyMetadata(gvk), namespace=namespace, limit=MOST_OBJECTS)
            except LevelsetError:
                found = []  # leave out kinds that cannot be listed
            else:
                found = [(gvk, one) for one in page.items]
        if is_reused:
            while len(self._lists) >= _MOST_LISTS:
                del self._lists[next(iter(self._lists))]
            self._lists[gvk, namespace] = (timing.now(), found)
        return found

    async def _missing_owners(self, head: Head, members: Sequence[Member]) -> list[Member]:
        """The owners up to the root that no list has, read one by one."""
        known = {one.uid: one for _, one in members}
        found: list[Member] = []
        for _ in range(MAX_DEPTH):
            owner = owner_of(head)
            if owner is None:
                break
            if owner.uid not in known:
                member = await self._get(owner, head.namespace)
                if member is None or member[1].uid != owner.uid:
                    break
                found.append(member)
                known[owner.uid] = member[1]
            head = known[owner.uid]
        return found

    async def _get(self, owner: OwnerHead, namespace: str | None) -> Member | None:
        try:
            gvk = GroupVersionKind.of(owner.api_version, owner.kind)
            served = await self._client().resource(gvk)
            place = namespace if served.namespaced else None
            kind, fields = OnlyMetadata(gvk), {"metadata.name": owner.name}
            page = await list_page(self._client(), kind, namespace=place, fields=fields, limit=1)
        except LevelsetError:
            return None  # forbidden, not served, or no kind at all
        return (gvk, page.items[0]) if page.items else None


def owners_of(head: Head, members: Iterable[Member]) -> list[dict[str, Any]]:
    """The chain of owners, the root first; a missing owner has `exists` false."""
    known = {one.uid: (gvk, one) for gvk, one in members}
    chain: list[dict[str, Any]] = []
    seen = {head.uid}
    while (owner := owner_of(head)) is not None and owner.uid not in seen and len(chain) < MAX_DEPTH:
        seen.add(owner.uid)
        found = known.get(owner.uid)
        chain.append(
            {
                "kind": f"{owner.api_version}/{owner.kind}",
                "name": owner.name,
                "namespace": head.namespace if found is None else found[1].namespace,
                "exists": found is not None,
            }
        )
        if found is None:
            break
        head = found[1]
    return chain[::-1]


def children_of(head: Head, members: Sequence[Member]) -> list[dict[str, Any]]:
    """The tree of objects owned by an object, each once."""
    owned: dict[str, list[Member]] = {}
    for member in members:
        for owner in member[1].owners:
            owned.setdefault(owner.uid, []).append(member)
    left = [MAX_MEMBERS]
    return _descendants(head.uid, owned, left, {head.uid}, 0)


def _descendants(
    uid: str, owned: dict[str, list[Member]], left: list[int], seen: set[str], depth: int
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for gvk, head in sorted(owned.get(uid, ()), key=lambda one: (one[0].kind, one[1].name)):
        if head.uid in seen or left[0] <= 0 or depth >= MAX_DEPTH:
            continue
        seen.add(head.uid)
        left[0] -= 1
        children = _descendants(head.uid, owned, left, seen, depth + 1)
        found.append({"kind": kind_text(gvk), "name": head.name, "namespace": head.namespace, "children": children})
    return found


def owner_of(head: Head) -> OwnerHead | None:
    """The owner that controls an object, or else its first one."""
    owners = head.owners
    return next((one for one in owners if one.controller), owners[0] if owners else None)
