"""Makes a machine in the cloud, and loses it when the write of its id fails.

Modelled on outscale/cluster-api-provider-outscale#350 (a restart just after the VM was made), on
kubermatic/machine-controller#381 (three new instances for one machine) and on gardener/machine-controller-manager#318
(an orphan every four minutes). What is made outside carries the uid of who wants it, and is looked for before it is
made.
"""

from collections import Counter
from typing import Any

from levelset import Context, Controller, Resource, Spec, Status
from levelset.testing import Cluster
from levelset.testing.explore import Exploration, State
from tests.testing.explore.zoo.habitat import Cloud, Expected

__all__ = ["Machine", "broken", "expected", "fixed"]


class MachineStatus(Status):
    instance: int = 0


class Machine(Resource[Spec, MachineStatus], api="zoo.example.dev/v1"):
    """Wants one instance."""


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


def nobody_pays_twice(state: State) -> None:
    wanted = {one.metadata.uid for one in state.list(Machine)}
    there = Counter(one.tag for one in state.outside.instances.values())
    assert set(there) <= wanted, "an instance belongs to no machine"
    assert max(there.values(), default=0) <= 1, "a machine has two instances"


async def scenario(people: Cluster) -> None:
    machine = await people.create(Machine.new("one", Spec()))
    await people.settled()
    await people.delete(machine.ref)
    await people.until_gone(machine.ref)


broken = Exploration(scenario, forgetting, invariants=[nobody_pays_twice], outside=Cloud)
fixed = Exploration(scenario, tagging, invariants=[nobody_pays_twice], outside=Cloud)
expected = Expected("nobody_pays_twice", "patch", "Machine")
