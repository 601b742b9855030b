"""The addresses of Pods: their pool, and the allocation of an address to each Pod until it is gone."""

from collections.abc import Iterable
from typing import Protocol

from levelset_local.node.pod_record import PodRecord

__all__ = ["PodAddressPool", "PodAddresses", "SharedAddress"]


class PodAddressPool(Protocol):
    """A pool of addresses for Pods."""

    def allocate(self) -> str:
        """Allocates a free address."""
        ...

    def take(self, address: str) -> bool:
        """Allocates this address; False if it is in use, or not part of the pool."""
        ...

    def free(self, address: str) -> None:
        """Returns an address to the pool."""
        ...


class SharedAddress:
    """A pool for systems with one loopback address: all Pods share it, so no two of them can use the same port."""

    def __init__(self, address: str = "127.0.0.1") -> None:
        self._address = address

    def allocate(self) -> str:
        """The address."""
        return self._address

    def take(self, address: str) -> bool:
        """Whether it is the shared address."""
        return address == self._address

    def free(self, address: str) -> None:
        """Does nothing: the address is never exhausted."""


class PodAddresses:
    """Allocates the addresses of a pool to Pods, by their uids."""

    def __init__(self, pool: PodAddressPool) -> None:
        self._pool = pool
        self._by_uid: dict[str, str] = {}

    def restore(self, records: Iterable[PodRecord]) -> None:
        """Reserves the addresses of Pods of an earlier manager, before any is allocated to another Pod."""
        for record in records:
            self.reserve(record.uid, record.address)

    def reserve(self, uid: str, address: str) -> str:
        """Reserves the address that the Pod's processes use already; one outside of the pool is returned as it is."""
        if address and uid not in self._by_uid and self._pool.take(address):
            self._by_uid[uid] = address
        return address

    def allocate(self, uid: str, *, before: str = "") -> str:
        """The address of a Pod: the one it has, else the one it had before, else a free one.

        Raises NoAddress if the pool is exhausted.
        """
        self.reserve(uid, before)
        if uid not in self._by_uid:
            self._by_uid[uid] = self._pool.allocate()
        return self._by_uid[uid]

    def free(self, uid: str) -> None:
        """Returns the address of a Pod to the pool; does nothing if it has none."""
        address = self._by_uid.pop(uid, None)
        if address is not None:
            self._pool.free(address)
