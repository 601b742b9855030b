"""A part of the loopback network for one control plane: addresses for its Services, and one for each of its Pods.

On Linux every address of 127.0.0.0/8 is there without being set up, so that many programs listen on the same port, each
on its own address. Elsewhere only 127.0.0.1 is, and `claim_block` says so.
"""

import errno
import heapq
import socket
from ipaddress import IPv4Address, IPv4Network
from typing import Final, Self

from levelset.errors import LevelsetError

__all__ = ["Addresses", "Block", "NoAddress", "claim_block"]

_FIRST: Final = 96
_LAST: Final = 127
_HOLD: Final = 17296
"""The port on which a block is held: below those that systems hand out by themselves."""


class NoAddress(LevelsetError):
    """There is no loopback address left, or none can be used on this machine."""


class Addresses:
    """Addresses of a network that are handed out one by one, the smallest that is free first.

    The first and the last address are never handed out.
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
        return f"<Addresses of {self.network}, {len(self._taken)} taken>"

    def __contains__(self, address: object) -> bool:
        number = _number(address)
        return number is not None and int(self.network.network_address) < number <= self._last

    @property
    def taken(self) -> frozenset[str]:
        """The addresses that are in use."""
        return frozenset(str(IPv4Address(one)) for one in self._taken)

    def allocate(self) -> str:
        """An address that nobody has, and that this machine can listen on; NoAddress if there is none."""
        number = self._smallest()
        address = str(IPv4Address(number))
        problem = _try_bind(address)
        if problem is not None:
            heapq.heappush(self._freed, number)
            raise NoAddress(f"{address} cannot be listened on: {problem}; is this a system without 127.0.0.0/8?")
        self._taken.add(number)
        return address

    def take(self, address: str) -> bool:
        """Takes this very address, for a program that has it from an earlier run; False if it is taken or not ours."""
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
        """Gives an address back; it is no error if nobody has it."""
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

    `services` is the CIDR of its lower half, from which an API server gives Services their addresses; `pods` hands out
    those of the upper half. A process that is killed gives its block back by that.
    """

    def __init__(self, second: int, hold: socket.socket | None) -> None:
        self.network = IPv4Network(f"127.{second}.0.0/16")
        self.services = f"127.{second}.0.0/17"
        self.pods = Addresses(IPv4Network(f"127.{second}.128.0/17"))
        self._hold = hold

    def __repr__(self) -> str:
        return f"<Block {self.network}>"

    def close(self) -> None:
        """Gives the block back; a second time is harmless."""
        hold, self._hold = self._hold, None
        if hold is not None:
            hold.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def claim_block(*, first: int = _FIRST, last: int = _LAST) -> Block:
    """The first block of 127.96.0.0/16 to 127.127.0.0/16 that nobody holds; NoAddress if there is none."""
    problems: list[OSError] = []
    for second in range(first, last + 1):
        try:
            return Block(second, _bound(f"127.{second}.255.254", _HOLD))
        except OSError as error:
            problems.append(error)
    if any(one.errno == errno.EADDRNOTAVAIL for one in problems):
        raise NoAddress("only 127.0.0.1 can be listened on here; more loopback addresses have to be set up first")
    raise NoAddress(
        f"all of 127.{first}.0.0/16 to 127.{last}.0.0/16 are held ({problems[-1] if problems else 'there are none'}); "
        f"stop another control plane of this machine, or whoever listens on 0.0.0.0:{_HOLD}"
    )


def _bound(address: str, port: int) -> socket.socket:
    """A socket that holds an address: it is bound, without being shared, and never listens."""
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.bind((address, port))
    except OSError:
        made.close()
        raise
    return made


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
