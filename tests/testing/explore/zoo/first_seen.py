"""Takes the first member that it sees for the primary; after a restart that is another one.

In which order a controller first hears of several objects nobody promises, least of all after a restart. Modelled on
strimzi/strimzi-kafka-operator#363, where what was under way is known to the process alone. What was decided once is
written down where it outlives the process, and read from there before anything is decided again.
"""

from typing import Any

from levelset import AlreadyExists, Context, Controller, Ref, Resource, Spec, Status
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.habitat import ConfigMap, Expected, config_map

__all__ = ["Replica", "broken", "expected", "fixed"]


class ReplicaStatus(Status):
    role: str = ""


class ReplicaSpec(Spec):
    image: str = "1"


class Replica(Resource[ReplicaSpec, ReplicaStatus], api="zoo.example.dev/v1"):
    """One of several, of which the first is the primary and stays it."""


def first_come() -> list[Controller[Any]]:
    seen: list[str] = []

    async def reconcile(replica: Replica, ctx: Context) -> None:
        if replica.name not in seen:
            seen.append(replica.name)
        await give_role(replica, ctx, primary=seen[0])

    return [Controller(Replica, reconcile, concurrency=1)]


async def written_down(replica: Replica, ctx: Context) -> None:
    try:
        decided = await ctx.create(config_map(replica, "primary", member=replica.name))
    except AlreadyExists:
        decided = await ctx.get(Ref(ConfigMap, "primary", replica.namespace), read="live")
    await give_role(replica, ctx, primary=decided.data["member"])


async def give_role(replica: Replica, ctx: Context, *, primary: str) -> None:
    role = "primary" if replica.name == primary else "secondary"
    await ctx.set_status(replica, ReplicaStatus(role=role))


async def scenario(people: Cluster) -> None:
    for name in ("zebra", "ape"):
        made = await people.create(Replica.new(name, ReplicaSpec()))
        await people.until(made.ref, lambda one: one.status is not None and one.status.role)


broken = Exploration(scenario, first_come)
fixed = Exploration(scenario, lambda: [Controller(Replica, written_down)])
expected = Expected("end state", "patch", "Replica")
