"""The Endpoints of a workload: made while it runs, one for each Service that it produces, and removed when it does not.

Their names follow from the workload and the Service, so that nothing is ever made twice, however late a cache is.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from levelset import Context, ObjectMeta, Resource
from levelset_dcp.kinds import Endpoint, EndpointSpec

__all__ = ["endpoint_of", "sync_endpoints"]


def endpoint_of(owner: Resource[Any, Any], service: str, address: str, port: int) -> Endpoint:
    """The Endpoint of a workload for a Service."""
    mark = hashlib.sha256(f"{owner.metadata.uid}\0{service}".encode()).hexdigest()[:8]
    name = f"{owner.name[:200]}-{service[:40]}-{mark}".lower()
    spec = EndpointSpec(service_name=service, address=address, port=port)
    return Endpoint(metadata=ObjectMeta(name=name), spec=spec)


async def sync_endpoints(ctx: Context, owner: Resource[Any, Any], wanted: Iterable[Endpoint]) -> Sequence[Endpoint]:
    """Has the workload own these Endpoints and no others; gives those that were made or changed."""
    desired = {one.name: one for one in wanted}
    there = {one.name: one for one in await ctx.children(Endpoint) if one.metadata.deletion_timestamp is None}
    changed = [one for name, one in desired.items() if name not in there or there[name].spec != one.spec]
    for one in changed:
        await ctx.apply(one, owner=owner)
    for name, one in there.items():
        if name not in desired:
            await ctx.delete(one)
    return changed
