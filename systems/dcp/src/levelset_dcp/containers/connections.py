"""The connections of a container: objects that say in which networks it is to be, made while the engine has it."""

import hashlib
from collections.abc import Iterable, Sequence

from levelset import Context, ObjectMeta
from levelset_dcp.kinds import (
    Container,
    ContainerNetworkConnection,
    ContainerNetworkConnectionSpec,
)

__all__ = ["connections_of", "sync_connections"]


def connections_of(container: Container, container_id: str) -> Sequence[ContainerNetworkConnection]:
    """One connection for each network that the container wants to be in; pure."""
    found: list[ContainerNetworkConnection] = []
    for one in container.spec.networks or ():
        mark = hashlib.sha256(f"{container.metadata.uid}\0{one.name}".encode()).hexdigest()[:8]
        spec = ContainerNetworkConnectionSpec(
            container_network_name=one.name, container_id=container_id, aliases=one.aliases
        )
        name = f"{container.name[:150]}-{one.name[:80]}-{mark}".lower()
        found.append(ContainerNetworkConnection(metadata=ObjectMeta(name=name), spec=spec))
    return found


async def sync_connections(ctx: Context, owner: Container, wanted: Iterable[ContainerNetworkConnection]) -> None:
    """Has the container own these connections and no others."""
    desired = {one.name: one for one in wanted}
    children = await ctx.children(ContainerNetworkConnection)
    there = {one.name: one for one in children if one.metadata.deletion_timestamp is None}
    for name, one in desired.items():
        if name not in there or there[name].spec != one.spec:
            await ctx.apply(one, owner=owner)
    for name, one in there.items():
        if name not in desired:
            await ctx.delete(one)
