"""Each Pod has an address of its own, from its first look until it is gone."""

from collections.abc import Iterable

from levelset_local.node.agent import Pool
from levelset_local.node.known import PodKnown

__all__ = ["Housing", "OneAddress"]


class OneAddress:
    """A pool for systems with one loopback address: all Pods share it, and no two of them can have the same port."""

    def __init__(self, address: str = "127.0.0.1") -> None:
        self._address = address

    def allocate(self) -> str:
        """The address."""
        return self._address

    def take(self, address: str) -> bool:
        """Whether it is that address."""
        return address == self._address

    def free(self, address: str) -> None:
        """Does nothing: everybody has it."""


class Housing:
    """Which Pod has which address of a pool."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._of: dict[str, str] = {}

    def settle(self, found: Iterable[PodKnown]) -> None:
        """Takes the addresses that Pods have from an earlier manager, before they are handed out to others."""
        for known in found:
            self.keep(known.uid, known.address)

    def keep(self, uid: str, address: str) -> str:
        """The address of a Pod whose processes have it; no other Pod gets it, if it is one of the pool."""
        if address and uid not in self._of and self._pool.take(address):
            self._of[uid] = address
        return address

    def address(self, uid: str, *, before: str = "") -> str:
        """The address of a Pod: the one it has, the one it had before, or else one that nobody has."""
        self.keep(uid, before)
        if uid not in self._of:
            self._of[uid] = self._pool.allocate()
        return self._of[uid]

    def free(self, uid: str) -> None:
        """Gives the address of a Pod back; it is no error if it has none."""
        address = self._of.pop(uid, None)
        if address is not None:
            self._pool.free(address)
