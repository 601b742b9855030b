"""Allocation of values that no two objects may hold at a time, such as ClusterIPs and node ports.

The allocated values are those of the stored objects; nothing else is recorded, so that the allocator always agrees with
a store that is opened again. `cluster_ip_allocator.py` and `node_port_allocator.py` choose the values.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

__all__ = ["Allocator"]

V = TypeVar("V", bound=Hashable)


class Allocator(Generic[V]):
    """The owner of each allocated value; owners are strings, such as `namespace/name`.

    A value is reserved while the write of its owner is in flight. Without that, two objects that are written at the
    same time would both find the value free.
    """

    __slots__ = ("_owners", "_reserved")

    def __init__(self) -> None:
        self._owners: dict[V, str] = {}
        # The owners with a write in flight, and the number of these writes.
        self._reserved: dict[V, dict[str, int]] = {}

    def is_free(self, value: V, owner: str | None = None) -> bool:
        """Whether the value is neither allocated nor reserved, except by this owner."""
        if self._owners.get(value, owner) != owner:
            return False
        return all(one == owner for one in self._reserved.get(value, ()))

    def update(self, before: Iterable[V], after: Iterable[V], owner: str) -> None:
        """Records a committed write: the values of the object before and after it (none if it was deleted)."""
        for value in before:
            self._owners.pop(value, None)
        for value in after:
            self._owners[value] = owner

    def reserve(self, values: Iterable[V], owner: str) -> Callable[[], None]:
        """Reserves values for an owner until the returned function is called, after its write."""
        reserved = tuple(values)
        for value in reserved:
            owners = self._reserved.setdefault(value, {})
            owners[owner] = owners.get(owner, 0) + 1
        return lambda: self._release(reserved, owner)

    def _release(self, values: Iterable[V], owner: str) -> None:
        for value in values:
            owners = self._reserved[value]
            owners[owner] -= 1
            if not owners[owner]:
                del owners[owner]
            if not owners:
                del self._reserved[value]
