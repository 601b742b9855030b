"""Adopts the child of its deleted namesake, which the garbage collector has not deleted yet, with its old token.

Modelled on cosmo-workspace/cosmo#782 (children are found by name, but collected by the uid of their owner) and
ai-dynamo/grove#802 (a set is created again before the children of the old one are collected). The fix compares the uid
of the owner, and waits until the old child is gone.
"""

from typing import Any

from levelset import Context, Controller, MergePatch, Ref, Resource, Retry, Spec, Status, owns
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Stack", "broken", "expected", "fixed"]


class Stack(Resource[Spec, Status], api="zoo.example.dev/v1"):
    """A stack with a token, which is issued once."""


async def find(stack: Stack, ctx: Context) -> tuple[ConfigMap | None, bool]:
    """The child, and whether it belongs to this stack."""
    found = await ctx.live(Ref(ConfigMap, stack.name, stack.namespace))
    return found, found is not None and stack.metadata.uid in {one.uid for one in found.metadata.owner_references}


async def adopt(stack: Stack, ctx: Context) -> None:
    found, is_mine = await find(stack, ctx)
    if found is None:
        await ctx.create(config_map(stack, stack.name, token=stack.metadata.uid), owner=stack)
    elif not is_mine:
        owner = {"apiVersion": "zoo.example.dev/v1", "kind": "Stack", "name": stack.name, "uid": stack.metadata.uid}
        await ctx.patch(found.ref, MergePatch({"metadata": {"ownerReferences": [owner]}}))


async def wait(stack: Stack, ctx: Context) -> None:
    found, is_mine = await find(stack, ctx)
    if found is None:
        await ctx.create(config_map(stack, stack.name, token=stack.metadata.uid), owner=stack)
    elif not is_mine:
        raise Retry("the child of the deleted stack is still there", seconds=5)


async def scenario(user: Cluster) -> None:
    stack = await user.create(Stack.new("web", Spec()))
    await user.until(Ref(ConfigMap, "web", stack.namespace))
    await user.delete(stack.ref)
    await user.until_gone(stack.ref)
    await user.advance(5)
    await user.create(Stack.new("web", Spec()))
    await user.settled()


def exploration(reconcile: Any) -> Exploration:
    return Exploration(scenario, lambda: [Controller(Stack, reconcile, owns(ConfigMap))])


broken = exploration(adopt)
fixed = exploration(wait)
expected = Expected("end state", "patch", "ConfigMap")
