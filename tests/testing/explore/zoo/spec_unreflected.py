"""Creates its child from the spec if there is none, and never compares an existing one with the spec.

Modelled on wildfly/wildfly-operator#66 (a change of the spec is not reflected in the StatefulSet that exists). The fix
applies the child in each reconcile.
"""

from levelset import Context, Controller, Resource, Spec, Status, owns
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Server", "broken", "expected", "fixed"]


class ServerSpec(Spec):
    heap: int = 512
    log_level: str = "info"


class Server(Resource[ServerSpec, Status], api="zoo.example.dev/v1"):
    """An application server with its configuration."""


def wanted(server: Server) -> ConfigMap:
    return config_map(server, f"{server.name}-config", heap=server.spec.heap, level=server.spec.log_level)


async def create_once(server: Server, ctx: Context) -> None:
    if not await ctx.children(ConfigMap):
        await ctx.create(wanted(server), owner=server)


async def apply_always(server: Server, ctx: Context) -> None:
    await ctx.apply(wanted(server), owner=server)


async def scenario(user: Cluster) -> None:
    await user.create(Server.new("shop", ServerSpec(heap=1024)))
    await user.settled()


broken = Exploration(scenario, lambda: [Controller(Server, create_once, owns(ConfigMap))])
fixed = Exploration(scenario, lambda: [Controller(Server, apply_always, owns(ConfigMap))])
expected = Expected("end state", "create", "ConfigMap")
