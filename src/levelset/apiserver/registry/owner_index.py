"""The index of owner references: the dependents of each owner, updated by every write."""

from collections.abc import Sequence
from typing import Any

from levelset.apiserver.resources.object_location import ObjectLocation
from levelset.apiserver.resources.served_resource import Object

__all__ = ["OwnerIndex", "owner_references", "owner_uids"]


class OwnerIndex:
    """The dependents of each owner by the owner's uid; objects without owners take no space."""

    __slots__ = ("_dependents", "_owners")

    def __init__(self) -> None:
        # Keyed by storage key: a string caches its hash, which a location would compute each time.
        self._dependents: dict[str, dict[str, ObjectLocation]] = {}
        self._owners: dict[str, tuple[str, ...]] = {}

    def __len__(self) -> int:
        return len(self._owners)

    def set(self, location: ObjectLocation, uids: tuple[str, ...]) -> None:
        """Replaces the owners of an object."""
        key, dependents = location.key, self._dependents
        if key in self._owners:
            self._remove(key)
        if uids:
            self._owners[key] = uids
            for uid in uids:
                if uid in dependents:
                    dependents[uid][key] = location
                else:
                    dependents[uid] = {key: location}

    def dependents(self, uid: str) -> list[ObjectLocation]:
        """The objects with an owner reference to this uid."""
        found = self._dependents.get(uid)
        return [] if found is None else list(found.values())

    def has_dependents(self, uid: str) -> bool:
        """Whether any object has an owner reference to this uid."""
        return uid in self._dependents

    def owned(self) -> list[ObjectLocation]:
        """All objects with owners."""
        return [self._dependents[uids[0]][key] for key, uids in self._owners.items()]

    def _remove(self, key: str) -> None:
        for uid in self._owners.pop(key):
            found = self._dependents.get(uid)
            if found is not None:
                found.pop(key, None)
                if not found:
                    del self._dependents[uid]


def owner_references(tree: Object | None) -> list[Object]:
    """The owner references of an object."""
    found: Any = None if tree is None else tree["metadata"].get("ownerReferences")
    return found or []


def owner_uids(refs: Sequence[Object]) -> tuple[str, ...]:
    """The uids of owner references, each once."""
    if len(refs) == 1:  # the common case
        return (str(refs[0].get("uid") or ""),)
    return tuple(dict.fromkeys(str(ref.get("uid") or "") for ref in refs))
