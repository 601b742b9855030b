"""A block of the loopback network for one control plane: addresses for its Services, and one for each of its Pods.

On Linux every address of 127.0.0.0/8 can be used without configuration, so that many programs can listen on the same
port, each on its own address. Elsewhere only 127.0.0.1 can, and `claim_block` raises NoAddress.
"""

import errno
import heapq
import socket
from ipaddress import IPv4Address, IPv4Network
from typing import Final, Self

from levelset.errors import LevelsetError

__all__ = ["AddressPool", "Block", "NoAddress", "claim_block"]

_FIRST: Final = 96
_LAST: Final = 127
_LOCK_PORT: Final = 17296
"""The port that is bound to lock a block: below the ephemeral port ranges of the systems."""


class NoAddress(LevelsetError):
    """No loopback address is left, or none can be used on this machine."""


class AddressPool:
    """Allocates addresses of a network, the smallest free one first.

    The first and the last address are never allocated.
    """

    def __init__(self, network: IPv4Network) -> None:
        self.network = network
        self._next = int(network.network_address) + 1
        self._last = int(network.broadcast_address) - 1
        self._freed: list[int] = []
        self._taken: set[int] = set()

    def __str__(self) -> str:
        return str(self.network)

    def __repr__(self) -> str:
        return f"<AddressPool of {self.network}, {len(self._taken)} taken>"

    def __contains__(self, address: object) -> bool:
        number = _number(address)
        return number is not None and int(self.network.network_address) < number <= self._last

    @property
    def taken(self) -> frozenset[str]:
        """The allocated addresses."""
        return frozenset(str(IPv4Address(one)) for one in self._taken)

    def allocate(self) -> str:
        """Allocates an address that this machine can listen on; raises NoAddress if there is none."""
        number = self._smallest()
        address = str(IPv4Address(number))
        problem = _try_bind(address)
        if problem is not None:
            heapq.heappush(self._freed, number)
            raise NoAddress(f"cannot bind {address}: {problem}; this system may not provide all of 127.0.0.0/8")
        self._taken.add(number)
        return address

    def take(self, address: str) -> bool:
        """Allocates this address, which a running program already uses; False if it is taken or outside the network."""
        number = _number(address)
        if number is None or address not in self or number in self._taken:
            return False
        while self._next <= number:
            heapq.heappush(self._freed, self._next)
            self._next += 1
        self._freed.remove(number)
        heapq.heapify(self._freed)
        self._taken.add(number)
        return True

    def free(self, address: str) -> None:
        """Releases an address, if it is allocated."""
        number = _number(address)
        if number is not None and number in self._taken:
            self._taken.remove(number)
            heapq.heappush(self._freed, number)

    def _smallest(self) -> int:
        if self._freed:
            return heapq.heappop(self._freed)
        if self._next > self._last:
            raise NoAddress(f"all {len(self._taken)} addresses of {self.network} are taken; delete some Pods")
        self._next += 1
        return self._next - 1


class Block:
    """A /16 of the loopback network that no other control plane of this machine uses until it is closed.

    `services` is the CIDR of its lower half, from which an API server allocates ClusterIPs; `pods` allocates addresses
    of the upper half. The kernel releases the block of a process that is killed.
    """

    def __init__(self, second: int, lock: socket.socket | None) -> None:
        self.network = IPv4Network(f"127.{second}.0.0/16")
        self.services = f"127.{second}.0.0/17"
        self.pods = AddressPool(IPv4Network(f"127.{second}.128.0/17"))
        self._lock = lock

    def __repr__(self) -> str:
        return f"<Block {self.network}>"

    def close(self) -> None:
        """Releases the block; idempotent."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def claim_block(*, first: int = _FIRST, last: int = _LAST) -> Block:
    """Claims the first free block of 127.96.0.0/16 to 127.127.0.0/16; raises NoAddress if there is none."""
    problems: list[OSError] = []
    for second in range(first, last + 1):
        try:
            return Block(second, _bound(f"127.{second}.255.254", _LOCK_PORT))
        except OSError as error:
            problems.append(error)
    if any(one.errno == errno.EADDRNOTAVAIL for one in problems):
        raise NoAddress("only 127.0.0.1 can be bound on this system; configure more loopback addresses first")
    raise NoAddress(
        f"127.{first}.0.0/16 to 127.{last}.0.0/16 are all in use ({problems[-1] if problems else 'there are none'}); "
        f"stop another control plane of this machine, or the program that listens on 0.0.0.0:{_LOCK_PORT}"
    )


def _bound(address: str, port: int) -> socket.socket:
    """A socket that is bound exclusively to an address, and never listens."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.bind((address, port))
    except OSError:
        sock.close()
        raise
    return sock


def _try_bind(address: str) -> OSError | None:
    try:
        _bound(address, 0).close()
    except OSError as error:
        return error
    return None


def _number(address: object) -> int | None:
    try:
        return int(IPv4Address(str(address)))
    except ValueError:
        return None
