"""Relies on seeing a deletion between two objects of the same name; a stale cache shows only the second one.

Modelled on the class of bugs that Sieve calls unobserved states, as in instaclustr/cassandra-operator#398, and on
CrunchyData/postgres-operator#769, where a cluster that is recreated under its name finds leftovers of the first one.
The fix compares the record with the object at every reconcile.
"""

from levelset import Context, Controller, Ref, Resource, Spec, Status
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Endpoint", "broken", "expected", "fixed"]


class EndpointSpec(Spec):
    address: str


class Endpoint(Resource[EndpointSpec, Status], api="zoo.example.dev/v1"):
    """An endpoint with a published address."""


async def publish_once(endpoint: Endpoint, ctx: Context) -> None:
    ref = record_of(endpoint.ref)
    if await ctx.live(ref) is None:
        await ctx.create(config_map(endpoint, ref.name, address=endpoint.spec.address))


async def withdraw(endpoint: Ref[Endpoint], ctx: Context) -> None:
    await ctx.delete(record_of(endpoint))


async def publish(endpoint: Endpoint, ctx: Context) -> None:
    await ctx.apply(config_map(endpoint, record_of(endpoint.ref).name, address=endpoint.spec.address))


async def clean_up(endpoint: Endpoint, ctx: Context) -> None:
    await withdraw(endpoint.ref, ctx)


def record_of(endpoint: Ref[Endpoint]) -> Ref[ConfigMap]:
    return Ref(ConfigMap, f"{endpoint.name}-record", endpoint.namespace)


async def scenario(user: Cluster) -> None:
    first = await user.create(Endpoint.new("api", EndpointSpec(address="10.0.0.1")))
    await user.settled()
    await user.delete(first.ref)
    await user.until_gone(first.ref)
    await user.advance(0.5)
    await user.create(Endpoint.new("api", EndpointSpec(address="10.0.0.2")))
    await user.settled()


broken = Exploration(scenario, lambda: [Controller(Endpoint, publish_once, gone=withdraw)])
fixed = Exploration(scenario, lambda: [Controller(Endpoint, publish, cleanup=clean_up)])
expected = Expected("end state", "create", "ConfigMap")
