"""Who belongs to whom: the owners of an object up to the first, and all that it owns, as a tree of a bounded size."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from levelset.dashboard.views import kind_text
from levelset.objects.cached_object import Head, OwnerHead
from levelset.objects.ref import GroupVersionKind

__all__ = ["Member", "children_of", "owners_of"]

MOST: Final = 200
DEEPEST: Final = 6

Member = tuple[GroupVersionKind, Head]
"""An object of which only the head matters."""


def owners_of(head: Head, members: Iterable[Member]) -> list[dict[str, Any]]:
    """The chain from the first owner down to the one of this object; an owner that is not there says so."""
    known = {one.uid: (gvk, one) for gvk, one in members}
    chain: list[dict[str, Any]] = []
    seen = {head.uid}
    while (owner := _owner(head)) is not None and owner.uid not in seen and len(chain) < DEEPEST:
        seen.add(owner.uid)
        found = known.get(owner.uid)
        chain.append(
            {
                "kind": f"{owner.api_version}/{owner.kind}",
                "name": owner.name,
                "namespace": head.namespace if found is None else found[1].namespace,
                "isThere": found is not None,
            }
        )
        if found is None:
            break
        head = found[1]
    return chain[::-1]


def children_of(head: Head, members: Sequence[Member]) -> list[dict[str, Any]]:
    """What belongs to an object, and what belongs to that, each once."""
    owned: dict[str, list[Member]] = {}
    for member in members:
        for owner in member[1].owners:
            owned.setdefault(owner.uid, []).append(member)
    left = [MOST]
    return _below(head.uid, owned, left, {head.uid}, 0)


def _below(
    uid: str, owned: dict[str, list[Member]], left: list[int], seen: set[str], depth: int
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for gvk, head in sorted(owned.get(uid, ()), key=lambda one: (one[0].kind, one[1].name)):
        if head.uid in seen or left[0] <= 0 or depth >= DEEPEST:
            continue
        seen.add(head.uid)
        left[0] -= 1
        below = _below(head.uid, owned, left, seen, depth + 1)
        found.append({"kind": kind_text(gvk), "name": head.name, "namespace": head.namespace, "children": below})
    return found


def _owner(head: Head) -> OwnerHead | None:
    owners = head.owners
    return next((one for one in owners if one.controller), owners[0] if owners else None)
