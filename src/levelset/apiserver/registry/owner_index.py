"""Who owns whom: an index of owner references, kept up to date by every write."""

from collections.abc import Sequence
from typing import Any

from levelset.apiserver.resources.object_location import Spot
from levelset.apiserver.resources.served_resource import Object

__all__ = ["OwnerIndex", "owner_uids", "references"]


class OwnerIndex:
    """The dependents of each owner, by the owner's uid; objects without owners cost nothing."""

    __slots__ = ("_dependents", "_owners")

    def __init__(self) -> None:
        # Spots are found by their keys: a text knows its hash, while a spot has to be asked for it.
        self._dependents: dict[str, dict[str, Spot]] = {}
        self._owners: dict[str, tuple[str, ...]] = {}

    def __len__(self) -> int:
        return len(self._owners)

    def set(self, spot: Spot, uids: tuple[str, ...]) -> None:
        """Remembers that an object has these owners and no others."""
        key, dependents = spot.key, self._dependents
        if key in self._owners:
            self._forget(key)
        if uids:
            self._owners[key] = uids
            for uid in uids:
                if uid in dependents:
                    dependents[uid][key] = spot
                else:
                    dependents[uid] = {key: spot}

    def dependents(self, uid: str) -> list[Spot]:
        """The objects that name this owner."""
        found = self._dependents.get(uid)
        return [] if found is None else list(found.values())

    def has_dependents(self, uid: str) -> bool:
        """Whether any object names this owner."""
        return uid in self._dependents

    def owned(self) -> list[Spot]:
        """All objects that have owners."""
        return [self._dependents[uids[0]][key] for key, uids in self._owners.items()]

    def _forget(self, key: str) -> None:
        for uid in self._owners.pop(key):
            found = self._dependents.get(uid)
            if found is not None:
                found.pop(key, None)
                if not found:
                    del self._dependents[uid]


def references(tree: Object | None) -> list[Object]:
    """The owner references of an object."""
    found: Any = None if tree is None else tree["metadata"].get("ownerReferences")
    return found or []


def owner_uids(refs: Sequence[Object]) -> tuple[str, ...]:
    """The uids of the owners, each once."""
    if len(refs) == 1:  # most objects that have owners have one
        return (str(refs[0].get("uid") or ""),)
    return tuple(dict.fromkeys(str(ref.get("uid") or "") for ref in refs))
