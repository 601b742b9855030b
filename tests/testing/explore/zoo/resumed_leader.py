"""Sends its whole configuration to a router; a leader that was paused sends an old one after its successor's.

A lease ends while the process that holds it does not run. Modelled on cilium/cilium#42920 (two operators act as leader,
since one has not noticed yet that it lost the lead). The fix sends the generation along, and the router refuses an
older one.
"""

from typing import Any

from levelset import Context, Controller, MergePatch, Resource, Spec, Status
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import Expected

__all__ = ["Gateway", "broken", "expected", "fixed"]


class Router:
    """A router outside of the cluster, which has one configuration for each gateway."""

    def __init__(self) -> None:
        self.hosts: dict[str, str] = {}
        self._generations: dict[str, int] = {}

    async def push(self, gateway: str, host: str) -> None:
        self.hosts[gateway] = host

    async def push_newer(self, gateway: str, host: str, generation: int) -> None:
        if generation >= self._generations.get(gateway, 0):
            self._generations[gateway] = generation
            self.hosts[gateway] = host


class GatewaySpec(Spec):
    host: str


class GatewayStatus(Status):
    observed_generation: int = 0


class Gateway(Resource[GatewaySpec, GatewayStatus], api="zoo.example.dev/v1"):
    """A gateway, configured in a router."""


def observed(gateway: Gateway) -> int:
    return gateway.status.observed_generation if gateway.status else 0


def pushing(router: Router) -> list[Controller[Any]]:
    async def reconcile(gateway: Gateway, ctx: Context) -> None:
        if observed(gateway) != gateway.metadata.generation:
            await router.push(gateway.name, gateway.spec.host)
            await ctx.set_status(gateway, GatewayStatus(observed_generation=gateway.metadata.generation))

    return [Controller(Gateway, reconcile)]


def pushing_generations(router: Router) -> list[Controller[Any]]:
    async def reconcile(gateway: Gateway, ctx: Context) -> None:
        generation = gateway.metadata.generation
        if observed(gateway) != generation:
            await router.push_newer(gateway.name, gateway.spec.host, generation)
            await ctx.set_status(gateway, GatewayStatus(observed_generation=generation))

    return [Controller(Gateway, reconcile)]


async def scenario(user: Cluster) -> None:
    gateway = await user.create(Gateway.new("edge", GatewaySpec(host="old.example.dev")))
    await user.advance(20)
    await user.patch(gateway.ref, MergePatch({"spec": {"host": "new.example.dev"}}))
    await user.advance(60)


broken = Exploration(scenario, pushing, outside=Router, leader=True, within=90)
fixed = Exploration(scenario, pushing_generations, outside=Router, leader=True, within=90)
expected = Expected("end state", "outside", "Router.push")
