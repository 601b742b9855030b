"""Assigns numbers from a counter in memory, which starts again with every restart.

Modelled on F5Networks/k8s-bigip-ctlr#2747 (every restart clears the address table and assigns addresses again) and the
duplicate addresses of projectcalico/calico#13858. The fix claims a number by creating an object with that name, which
the server allows only once.
"""

from itertools import count
from typing import Any

from levelset import Context, Controller, Ref, Resource, Spec, Status, owns
from levelset.errors import AlreadyExists
from levelset.testing import Cluster
from levelset.testing.explore import Exploration, State
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Listener", "broken", "expected", "fixed"]


class ListenerStatus(Status):
    port: int = 0


class Listener(Resource[Spec, ListenerStatus], api="zoo.example.dev/v1"):
    """A listener, which needs a unique port."""


def counting() -> list[Controller[Any]]:
    ports = count(30000)

    async def reconcile(listener: Listener, ctx: Context) -> None:
        if not port_of(listener):
            await ctx.set_status(listener, ListenerStatus(port=next(ports)))

    return [Controller(Listener, reconcile)]


async def claim(listener: Listener, ctx: Context) -> None:
    for port in count(30000):
        name = f"port-{port}"
        try:
            taken = await ctx.create(config_map(listener, name), owner=listener)
        except AlreadyExists:
            found = await ctx.live(Ref(ConfigMap, name, listener.namespace))
            if found is None or found.metadata.owner_references[0].uid != listener.metadata.uid:
                continue
            taken = found
        await ctx.set_status(listener, ListenerStatus(port=int(taken.name.removeprefix("port-"))))
        return


def port_of(listener: Listener) -> int:
    return listener.status.port if listener.status else 0


def no_port_is_assigned_twice(state: State) -> None:
    ports = [port_of(one) for one in state.list(Listener) if port_of(one)]
    assert len(ports) == len(set(ports)), f"a port is assigned twice: {ports}"


async def scenario(user: Cluster) -> None:
    for name in ("red", "green"):
        made = await user.create(Listener.new(name, Spec()))
        await user.until(made.ref, port_of)


broken = Exploration(scenario, counting, invariants=[no_port_is_assigned_twice])
fixed = Exploration(
    scenario, lambda: [Controller(Listener, claim, owns(ConfigMap))], invariants=[no_port_is_assigned_twice]
)
expected = Expected("no_port_is_assigned_twice", "patch", "Listener")
