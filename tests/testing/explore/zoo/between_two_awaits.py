"""Two controllers take the lowest free port from a list, and one of them runs between the other's read and write.

Modelled on kubernetes/kubernetes#37488 (allocating a port and recording it are not atomic). The fix claims a port by
creating an object with its name.
"""

from itertools import count
from typing import Any

from levelset import Context, Controller, Resource, Spec, Status
from levelset.errors import AlreadyExists
from levelset.testing import Cluster
from levelset.testing.explore import Exploration, State
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Inner", "Outer", "broken", "expected", "fixed"]


class PortStatus(Status):
    port: int = 0


class Inner(Resource[Spec, PortStatus], api="zoo.example.dev/v1"):
    """A listener inside of the cluster."""


class Outer(Resource[Spec, PortStatus], api="zoo.example.dev/v1"):
    """A listener for other clusters, which needs a certificate first."""


async def used(ctx: Context) -> set[int]:
    many = [*await ctx.list(Inner, read="live"), *await ctx.list(Outer, read="live")]
    return {one.status.port for one in many if one.status is not None}


async def take_lowest(listener: Any, ctx: Context) -> None:
    if listener.status is None:
        taken = await used(ctx)
        await ctx.set_status(listener, PortStatus(port=next(one for one in count(1) if one not in taken)))


async def take_lowest_later(listener: Outer, ctx: Context) -> None:
    if listener.status is None:
        for name in ("ca", "root", "crl", "ocsp"):
            await ctx.client.find(ConfigMap, name, namespace=listener.namespace)
        await take_lowest(listener, ctx)


async def claim(listener: Any, ctx: Context) -> None:
    if listener.status is not None:
        return
    for port in count(1):
        try:
            await ctx.create(config_map(listener, f"port-{port}", holder=listener.metadata.uid), owner=listener)
        except AlreadyExists:
            held = await ctx.get(ConfigMap, f"port-{port}", namespace=listener.namespace, read="live")
            if held.data["holder"] != listener.metadata.uid:
                continue
        await ctx.set_status(listener, PortStatus(port=port))
        return


def no_port_is_used_twice(state: State) -> None:
    many = [*state.list(Inner), *state.list(Outer)]
    ports = [one.status.port for one in many if one.status is not None]
    assert len(ports) == len(set(ports)), f"used twice: {ports}"


async def scenario(user: Cluster) -> None:
    await user.create(Outer.new("out", Spec()))
    await user.create(Inner.new("in", Spec()))
    await user.settled()


def listing() -> list[Controller[Any]]:
    return [Controller(Inner, take_lowest), Controller(Outer, take_lowest_later)]


def claiming() -> list[Controller[Any]]:
    return [Controller(Inner, claim), Controller(Outer, claim)]


broken = Exploration(scenario, listing, invariants=[no_port_is_used_twice])
# Which of the two gets which port is open, and a claim of a listener is not restored.
fixed = Exploration(
    scenario,
    claiming,
    invariants=[no_port_is_used_twice],
    ignored=["Inner.status.port", "Outer.status.port", "ConfigMap"],
    allowed=["not watched: ConfigMap"],
)
expected = Expected("no_port_is_used_twice", "patch", "Outer")
