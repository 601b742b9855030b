"""What a new kind begins with: its classes and its controller, and their test."""

from typing import Final

__all__ = ["MODULE", "TEST"]

MODULE: Final = '''\
"""${kind}: what people ask for, and the controller that sees to it."""

from levelset import Column, Context, Controller, Resource, Spec, Status, owns
from levelset.kinds.core_v1 import ConfigMap


class ${kind}Spec(Spec):
    """What somebody wants of a ${words}."""

    message: str


class ${kind}Status(Status):
    """How a ${words} is."""

    ready: bool = False


class ${kind}(
    Resource[${kind}Spec, ${kind}Status],
    api="${api}",
    columns=[Column("Ready", ".status.ready", "boolean")],
):
    """A ${words}."""


def config_map(wanted: ${kind}) -> ConfigMap:
    """The ConfigMap that a ${words} should have; put here what yours is made of."""
    return ConfigMap.new(wanted.name, namespace=wanted.namespace, data={"message": wanted.spec.message})


async def reconcile(wanted: ${kind}, ctx: Context) -> None:
    """Looks at one ${words}, and takes the next step. Is called again and again, so it only says what should be."""
    await ctx.apply(config_map(wanted), owner=wanted)
    await ctx.set_status(wanted, ${kind}Status(ready=True))


${plural} = Controller(${kind}, reconcile, owns(ConfigMap))
'''

TEST: Final = '''\
"""What the controller does about a ${kind}: a server inside the test, and time that jumps."""

from levelset import Ref
from levelset.kinds.core_v1 import ConfigMap
from levelset.testing import Cluster

from ${package}.${module} import ${kind}, ${kind}Spec, ${plural}


async def test_a_${module}_gets_its_config_map(cluster: Cluster) -> None:
    async with cluster.running(${plural}):
        made = await cluster.create(${kind}.new("one", ${kind}Spec(message="hello")))
        found = await cluster.until(Ref(ConfigMap, "one"))
        assert found.data == {"message": "hello"}
        await cluster.until(made.ref, lambda one: one.status is not None and one.status.ready)


async def test_a_config_map_that_somebody_deletes_comes_back(cluster: Cluster) -> None:
    async with cluster.running(${plural}):
        await cluster.create(${kind}.new("one", ${kind}Spec(message="hello")))
        await cluster.settled()
        await cluster.delete(Ref(ConfigMap, "one"))
        await cluster.settled()
        assert (await cluster.get(Ref(ConfigMap, "one"))).data == {"message": "hello"}
'''
