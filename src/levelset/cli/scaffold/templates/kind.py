"""The files of a new kind: its classes and controller, and their tests."""

from typing import Final

__all__ = ["MODULE", "TEST"]

MODULE: Final = '''\
"""The ${kind} kind and its controller."""

from levelset import Column, Context, Controller, Resource, Spec, Status, owns
from levelset.kinds.core_v1 import ConfigMap


class ${kind}Spec(Spec):
    """The desired state of one ${words}."""

    message: str


class ${kind}Status(Status):
    """The observed state of one ${words}."""

    ready: bool = False


class ${kind}(
    Resource[${kind}Spec, ${kind}Status],
    api="${api}",
    columns=[Column("Ready", ".status.ready", "boolean")],
):
    """One ${words}; describe here what it is, for `kubectl explain`."""


def config_map(wanted: ${kind}) -> ConfigMap:
    """The desired ConfigMap of one ${words}; replace it with the children of your kind."""
    return ConfigMap.new(wanted.name, namespace=wanted.namespace, data={"message": wanted.spec.message})


async def reconcile(wanted: ${kind}, ctx: Context) -> None:
    """Reconciles one ${words}: applies the desired state. It is called often, so it must be idempotent."""
    await ctx.apply(config_map(wanted), owner=wanted)
    await ctx.set_status(wanted, ${kind}Status(ready=True))


${plural} = Controller(${kind}, reconcile, owns(ConfigMap))
'''

TEST: Final = '''\
"""Tests of the ${kind} controller on an in-process API server, in virtual time."""

from levelset import Ref
from levelset.kinds.core_v1 import ConfigMap
from levelset.testing import Cluster

from ${package}.${module} import ${kind}, ${kind}Spec, ${plural}


async def test_each_${module}_gets_its_config_map(cluster: Cluster) -> None:
    async with cluster.running(${plural}):
        made = await cluster.create(${kind}.new("one", ${kind}Spec(message="hello")))
        found = await cluster.until(Ref(ConfigMap, "one"))
        assert found.data == {"message": "hello"}
        await cluster.until(made.ref, lambda one: one.status is not None and one.status.ready)


async def test_a_deleted_config_map_is_recreated(cluster: Cluster) -> None:
    async with cluster.running(${plural}):
        await cluster.create(${kind}.new("one", ${kind}Spec(message="hello")))
        await cluster.settled()
        await cluster.delete(Ref(ConfigMap, "one"))
        await cluster.settled()
        assert (await cluster.get(Ref(ConfigMap, "one"))).data == {"message": "hello"}
'''
