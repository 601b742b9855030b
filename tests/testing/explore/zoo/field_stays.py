"""Merges the options of the spec into its child, where an option that the user removes from the spec stays.

Modelled on xlab-uiuc/acto#89 (annotations that are removed from the spec stay on the pods) and
VictoriaMetrics/operator#1171. The fix applies the child, so that fields which are no longer applied are removed.
"""

from levelset import Context, Controller, MergePatch, Ref, Resource, Spec, Status, owns, replace
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Mongo", "broken", "expected", "fixed"]


class MongoSpec(Spec):
    options: dict[str, str] = {}


class Mongo(Resource[MongoSpec, Status], api="zoo.example.dev/v1"):
    """A database with options."""


def deployment(mongo: Mongo) -> ConfigMap:
    return replace(config_map(mongo, mongo.name), data=dict(mongo.spec.options))


async def merge(mongo: Mongo, ctx: Context) -> None:
    child = Ref(ConfigMap, mongo.name, mongo.namespace)
    found = await ctx.find(child)
    if found is None:
        await ctx.create(deployment(mongo), owner=mongo)
    elif any(found.data.get(key) != value for key, value in mongo.spec.options.items()):
        await ctx.patch(child, MergePatch({"data": dict(mongo.spec.options)}))


async def apply(mongo: Mongo, ctx: Context) -> None:
    await ctx.apply(deployment(mongo), owner=mongo)


async def scenario(user: Cluster) -> None:
    await user.create(Mongo.new("main", MongoSpec(options={"journal": "on", "cache": "1"})))
    await user.settled()


broken = Exploration(scenario, lambda: [Controller(Mongo, merge, owns(ConfigMap))])
fixed = Exploration(scenario, lambda: [Controller(Mongo, apply, owns(ConfigMap))])
expected = Expected("end state", "create", "ConfigMap")
