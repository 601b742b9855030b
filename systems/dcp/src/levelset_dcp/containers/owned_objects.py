"""The objects that a Container owns, and those that it references: networks and volumes."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from levelset import Context, Index, ObjectMeta, Ref
from levelset_dcp.engines.models import PortBinding
from levelset_dcp.kinds import (
    Container,
    ContainerNetwork,
    ContainerNetworkConnection,
    ContainerNetworkConnectionSpec,
    ContainerVolume,
    Endpoint,
)
from levelset_dcp.workloads.service_producers import endpoint_of, producers

__all__ = [
    "VOLUMES",
    "connections_of",
    "endpoints_of",
    "mounted_volumes",
    "referenced_networks",
    "sync_connections",
    "volume_names",
    "volume_state",
]

_ANYWHERE: Final = ("0.0.0.0", "::", "")  # noqa: S104 - only compared


def connections_of(container: Container, container_id: str) -> Sequence[ContainerNetworkConnection]:
    """The desired connections of a container: one for each network in its spec; pure."""
    found: list[ContainerNetworkConnection] = []
    for one in container.spec.networks or ():
        digest = hashlib.sha256(f"{container.metadata.uid}\0{one.name}".encode()).hexdigest()[:8]
        spec = ContainerNetworkConnectionSpec(
            container_network_name=one.name, container_id=container_id, aliases=one.aliases
        )
        name = f"{container.name[:150]}-{one.name[:80]}-{digest}".lower()
        found.append(ContainerNetworkConnection(metadata=ObjectMeta(name=name), spec=spec))
    return found


async def sync_connections(ctx: Context, owner: Container, wanted: Iterable[ContainerNetworkConnection]) -> None:
    """Creates, updates and deletes connections so that the container owns exactly these."""
    desired = {one.name: one for one in wanted}
    children = await ctx.children(ContainerNetworkConnection)
    there = {one.name: one for one in children if one.metadata.deletion_timestamp is None}
    for name, one in desired.items():
        if name not in there or there[name].spec != one.spec:
            await ctx.apply(one, owner=owner)
    for name, one in there.items():
        if name not in desired:
            await ctx.delete(one)


def referenced_networks(container: Container) -> Iterator[Ref[ContainerNetwork]]:
    """The networks that the spec of a container names."""
    for one in container.spec.networks or ():
        yield Ref(ContainerNetwork, one.name)


def mounted_volumes(container: Container) -> Iterator[str]:
    """The names in the engine of the volumes that a container mounts."""
    for one in container.spec.volume_mounts:
        if one.type == "volume":
            yield one.source


def volume_names(volume: ContainerVolume) -> Iterator[str]:
    """The name in the engine of a volume."""
    yield volume.spec.name


VOLUMES: Final[Index[Any]] = Index(ContainerVolume, volume_names)
"""ContainerVolumes by their names in the engine."""


def volume_state(volume: ContainerVolume) -> object:
    """The part of a volume whose change requeues the containers that mount it."""
    return volume.metadata.deletion_timestamp is None, None if volume.status is None else volume.status.state


def endpoints_of(container: Container, ports: Sequence[PortBinding]) -> list[Endpoint]:
    """The Endpoints of the Services that a container produces, at the ports that the engine has published."""
    found: list[Endpoint] = []
    for one in producers(container):
        binding = _published(one.port, ports)
        if binding is not None:
            own = "127.0.0.1" if binding.host_ip in _ANYWHERE else binding.host_ip
            found.append(endpoint_of(container, one.service, one.address or own, binding.host_port))
    return found


def _published(wanted: int | None, ports: Sequence[PortBinding]) -> PortBinding | None:
    if wanted is None:
        return ports[0] if len(ports) == 1 else None
    inside = next((one for one in ports if one.container_port == wanted), None)
    return inside or next((one for one in ports if one.host_port == wanted), None)
