"""Deletes a healthy sandbox because its cache, whose watch is silent, does not show that it is ready.

Modelled on opensandbox-group/OpenSandbox#1533 (a watch that blocks serves a frozen cache, and every sandbox is deleted
after a timeout) and fabric8io/kubernetes-client#4340. The fix reads the sandbox from the server before it deletes it.
"""

from typing import Any

from levelset import Context, Controller, MergePatch, Ref, Resource, Spec, Status, owns, requeue
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Sandbox", "broken", "expected", "fixed"]

ATTEMPTS = 6


class SandboxStatus(Status):
    phase: str = "Pending"
    attempts: int = 0


class Sandbox(Resource[Spec, SandboxStatus], api="zoo.example.dev/v1", plural="sandboxes"):
    """A sandbox with a pod, which has about a minute to become ready."""


async def progress(sandbox: Sandbox, ctx: Context, *, confirmed: bool) -> Any:
    status = sandbox.status or SandboxStatus()
    if status.phase != "Pending":
        return None
    ref = Ref(ConfigMap, sandbox.name, sandbox.namespace)
    pod = await ctx.find(ref) or await ctx.create(config_map(sandbox, sandbox.name), owner=sandbox)
    if confirmed and "ready" not in pod.data and status.attempts >= ATTEMPTS:
        pod = await ctx.get(ref, read="live")
    if "ready" in pod.data:
        await ctx.set_status(sandbox, SandboxStatus(phase="Ready"))
        return None
    if status.attempts < ATTEMPTS:
        await ctx.set_status(sandbox, SandboxStatus(attempts=status.attempts + 1))
        return requeue(10)
    await ctx.delete(pod)
    await ctx.set_status(sandbox, SandboxStatus(phase="Failed"))
    return None


async def believe_the_cache(sandbox: Sandbox, ctx: Context) -> Any:
    return await progress(sandbox, ctx, confirmed=False)


async def read_the_server(sandbox: Sandbox, ctx: Context) -> Any:
    return await progress(sandbox, ctx, confirmed=True)


async def scenario(user: Cluster) -> None:
    sandbox = await user.create(Sandbox.new("run", Spec()))
    pod = Ref(ConfigMap, "run", sandbox.namespace)
    await user.until(pod)
    await user.advance(5)
    await user.patch(pod, MergePatch({"data": {"ready": "yes"}}))
    await user.until(sandbox.ref, lambda one: one.status is not None and one.status.phase != "Pending")


def exploration(reconcile: Any) -> Exploration:
    # A pod that another writer deletes ends its sandbox.
    return Exploration(
        scenario, lambda: [Controller(Sandbox, reconcile, owns(ConfigMap))], allowed=["not healed: ConfigMap"]
    )


broken = exploration(believe_the_cache)
fixed = exploration(read_the_server)
expected = Expected("lost", "delete", "ConfigMap")
