"""Treats the first member that it sees as the primary; after a restart that is another one.

The order in which a controller first sees several objects is not guaranteed. Modelled on
strimzi/strimzi-kafka-operator#363, where the state of an operation is only in memory. The fix stores the decision in
the cluster and reads it before deciding again.
"""

from typing import Any

from levelset import Context, Controller, Ref, Resource, Spec, Status
from levelset.errors import AlreadyExists
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Replica", "broken", "expected", "fixed"]


class ReplicaStatus(Status):
    role: str = ""


class ReplicaSpec(Spec):
    image: str = "1"


class Replica(Resource[ReplicaSpec, ReplicaStatus], api="zoo.example.dev/v1"):
    """One of several replicas, of which the first is the primary."""


def first_come() -> list[Controller[Any]]:
    seen: list[str] = []

    async def reconcile(replica: Replica, ctx: Context) -> None:
        if replica.name not in seen:
            seen.append(replica.name)
        await set_role(replica, ctx, primary=seen[0])

    return [Controller(Replica, reconcile, concurrency=1)]


async def stored_decision(replica: Replica, ctx: Context) -> None:
    try:
        decided = await ctx.create(config_map(replica, "primary", member=replica.name))
    except AlreadyExists:
        decided = await ctx.get(Ref(ConfigMap, "primary", replica.namespace), read="live")
    await set_role(replica, ctx, primary=decided.data["member"])


async def set_role(replica: Replica, ctx: Context, *, primary: str) -> None:
    role = "primary" if replica.name == primary else "secondary"
    await ctx.set_status(replica, ReplicaStatus(role=role))


async def scenario(user: Cluster) -> None:
    for name in ("zebra", "ape"):
        made = await user.create(Replica.new(name, ReplicaSpec()))
        await user.until(made.ref, lambda one: one.status is not None and one.status.role)


broken = Exploration(scenario, first_come)
fixed = Exploration(scenario, lambda: [Controller(Replica, stored_decision)])
expected = Expected("end state", "patch", "Replica")
