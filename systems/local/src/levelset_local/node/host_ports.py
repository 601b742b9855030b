"""Host ports: the ports of the node that Pods ask for, which of them overlap, and which are reserved.

The rules are those of the plugin NodePorts, which the scheduler of Kubernetes and the kubelet share.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Final

from msgspec import Struct

from levelset import Ref
from levelset.kinds.core_v1 import Container, Pod
from levelset_local.node.pod_record import Failure
from levelset_local.node.restart_policy import is_sidecar

__all__ = ["NO_FREE_PORTS", "PORTS_REJECTED", "HostPort", "HostPortReservations", "host_ports", "overlap"]

_REASON: Final = "node(s) didn't have free ports for the requested pod ports"
_ALL_ADDRESSES: Final = "0.0.0.0"  # noqa: S104 -- nothing listens there: it is a value of `hostIP`

NO_FREE_PORTS: Final = f"0/1 nodes are available: 1 {_REASON}."
"""Why a Pod is not bound to the node."""
PORTS_REJECTED: Final = Failure(reason="NodePorts", message=f"Predicate NodePorts failed: {_REASON}")
"""Why the node rejects a Pod that is bound to it."""


class HostPort(Struct, frozen=True):
    """A port of the node, at one of its addresses or at all of them."""

    number: int
    protocol: str = "TCP"
    address: str = _ALL_ADDRESSES

    def overlaps(self, other: "HostPort") -> bool:
        """Whether both are the same port at a common address."""
        if (self.number, self.protocol) != (other.number, other.protocol):
            return False
        return self.address == other.address or _ALL_ADDRESSES in (self.address, other.address)


def host_ports(pod: Pod) -> tuple[HostPort, ...]:
    """The ports of the node that a Pod has while it runs: those of its sidecars and of its main containers.

    With `hostNetwork` the server has set them from the container ports.
    """
    return tuple(port for container in _lasting_containers(pod) for port in _ports_of(container))


def overlap(first: Iterable[HostPort], second: Iterable[HostPort]) -> bool:
    """Whether a port of the first overlaps with one of the second."""
    others = tuple(second)
    return any(one.overlaps(other) for one in first for other in others)


class HostPortReservations:
    """Reserves host ports for Pods, by their uids, from before they are started until their processes have ended."""

    def __init__(self) -> None:
        self._by_uid: dict[str, tuple[HostPort, ...]] = {}
        self._waiting: dict[Ref[Pod], None] = {}
        self._freed = asyncio.Event()

    def __contains__(self, uid: str) -> bool:
        return uid in self._by_uid

    def reserve(self, pod: Pod) -> None:
        """Reserves the ports of a Pod; does nothing if it has none."""
        wanted = host_ports(pod)
        if wanted:
            self._by_uid[pod.metadata.uid] = wanted

    def try_reserve(self, pod: Pod, others: Iterable[Pod]) -> bool:
        """Reserves the ports of a Pod, unless a reservation or one of these other Pods has one of them."""
        wanted, uid = host_ports(pod), pod.metadata.uid
        used = [ports for owner, ports in self._by_uid.items() if owner != uid]
        used += [host_ports(one) for one in others if one.metadata.uid != uid]
        if any(overlap(wanted, ports) for ports in used):
            return False
        self.reserve(pod)
        return True

    def free(self, uid: str) -> None:
        """Ends the reservation of a Pod, if it has one."""
        if self._by_uid.pop(uid, None) is not None:
            self.retry()

    def wait(self, ref: Ref[Pod]) -> None:
        """Adds a Pod to those that are retried when a reservation has ended."""
        self._waiting[ref] = None

    def retry(self) -> None:
        """Retries the Pods that wait."""
        self._freed.set()

    async def retried(self) -> AsyncIterator[Ref[Pod]]:
        """The Pods that are retried; for one reader."""
        while True:
            await self._freed.wait()
            self._freed.clear()
            waiting, self._waiting = self._waiting, {}
            for ref in waiting:
                yield ref


def _lasting_containers(pod: Pod) -> Iterator[Container]:
    yield from (one for one in pod.spec.init_containers if is_sidecar(one))
    yield from pod.spec.containers


def _ports_of(container: Container) -> Iterator[HostPort]:
    for port in container.ports:
        if port.host_port:
            yield HostPort(port.host_port, port.protocol or "TCP", port.host_ip or _ALL_ADDRESSES)
