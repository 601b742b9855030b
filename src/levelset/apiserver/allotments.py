"""Values that no two objects may have at a time: who has which, and who will as soon as its write has landed."""

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

__all__ = ["Allotment"]

V = TypeVar("V", bound=Hashable)


class Allotment(Generic[V]):
    """Which owner has a value; owners are texts, such as `namespace/name`.

    A write to a file takes a while. Two objects that are written in the same moment would both find a value free that
    they ask for, so that the first one claims it for as long as its write is on the way.
    """

    __slots__ = ("_claimed", "_owners")

    def __init__(self) -> None:
        self._owners: dict[V, str] = {}
        self._claimed: dict[V, dict[str, int]] = {}

    def is_free(self, value: V, owner: str | None = None) -> bool:
        """Whether nobody has or claims the value, or nobody but this owner."""
        if self._owners.get(value, owner) != owner:
            return False
        return all(one == owner for one in self._claimed.get(value, ()))

    def move(self, before: Iterable[V], after: Iterable[V], owner: str) -> None:
        """An object was stored (or removed, and has nothing any more)."""
        for value in before:
            self._owners.pop(value, None)
        for value in after:
            self._owners[value] = owner

    def claim(self, values: Iterable[V], owner: str) -> Callable[[], None]:
        """Keeps values for an owner whose write is on the way; gives the function to call when it is over."""
        claimed = tuple(values)
        for value in claimed:
            owners = self._claimed.setdefault(value, {})
            owners[owner] = owners.get(owner, 0) + 1
        return lambda: self._let_go(claimed, owner)

    def _let_go(self, values: Iterable[V], owner: str) -> None:
        for value in values:
            owners = self._claimed[value]
            owners[owner] -= 1
            if not owners[owner]:
                del owners[owner]
            if not owners:
                del self._claimed[value]
