"""The owner graph of an object: its owners up to the root, and its descendants, limited in size and depth."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from levelset.dashboard.views import kind_text
from levelset.objects.cached_object import Head, OwnerHead
from levelset.objects.ref import GroupVersionKind

__all__ = ["Member", "children_of", "owner_of", "owners_of"]

MAX_MEMBERS: Final = 200
MAX_DEPTH: Final = 6

Member = tuple[GroupVersionKind, Head]
"""The kind and metadata of an object."""


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
