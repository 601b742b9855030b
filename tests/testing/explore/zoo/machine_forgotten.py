"""Creates a machine in the cloud, and loses it when the write of its id fails.

Modelled on outscale/cluster-api-provider-outscale#350 (a restart just after the VM was created),
kubermatic/machine-controller#381 (three instances for one machine) and gardener/machine-controller-manager#318 (an
orphan every four minutes). The fix tags external resources with the uid of their owner, and searches for them before it
creates one.
"""

from collections import Counter
from typing import Any

from levelset import Context, Controller, Resource, Spec, Status
from levelset.testing import Cluster
from levelset.testing.explore import Exploration, State
from tests.testing.explore.zoo.common import Cloud, Expected

__all__ = ["Machine", "broken", "expected", "fixed"]


class MachineStatus(Status):
    instance: int = 0


class Machine(Resource[Spec, MachineStatus], api="zoo.example.dev/v1"):
    """A machine, which needs one instance."""


def forgetting(cloud: Cloud) -> list[Controller[Any]]:
    async def reconcile(machine: Machine, ctx: Context) -> None:
        if machine.status is None:
            made = await cloud.create(machine.metadata.uid)
            await ctx.set_status(machine, MachineStatus(instance=made.id))

    async def cleanup(machine: Machine, ctx: Context) -> None:
        if machine.status is not None:
            await cloud.delete(machine.status.instance)

    return [Controller(Machine, reconcile, cleanup=cleanup)]


def tagging(cloud: Cloud) -> list[Controller[Any]]:
    async def reconcile(machine: Machine, ctx: Context) -> None:
        uid = machine.metadata.uid
        found = await cloud.find(uid) or await cloud.create(uid)
        await ctx.set_status(machine, MachineStatus(instance=found.id))

    async def cleanup(machine: Machine, ctx: Context) -> None:
        while found := await cloud.find(machine.metadata.uid):
            await cloud.delete(found.id)

    return [Controller(Machine, reconcile, cleanup=cleanup)]


def each_machine_has_one_instance(state: State) -> None:
    wanted = {one.metadata.uid for one in state.list(Machine)}
    there = Counter(one.tag for one in state.outside.instances.values())
    assert set(there) <= wanted, "an instance belongs to no machine"
    assert max(there.values(), default=0) <= 1, "a machine has two instances"


async def scenario(user: Cluster) -> None:
    machine = await user.create(Machine.new("one", Spec()))
    await user.settled()
    await user.delete(machine.ref)
    await user.until_gone(machine.ref)


broken = Exploration(scenario, forgetting, invariants=[each_machine_has_one_instance], outside=Cloud)
fixed = Exploration(scenario, tagging, invariants=[each_machine_has_one_instance], outside=Cloud)
expected = Expected("each_machine_has_one_instance", "patch", "Machine")
