"""Adds one to what is there, and then notes that it did: after a lost answer it adds one again.

Modelled on cert-manager/cert-manager#6837 (a create that timed out had happened; the next one was made with a higher
revision, and renewing was stuck from then on) and on rabbitmq/cluster-operator#2104 (a fourth node that nobody asked
for). What is wanted is said as a whole, not as a step from what is there.
"""

from levelset import Context, Controller, MergePatch, Ref, Resource, Spec, Status
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.habitat import ConfigMap, Expected, config_map

__all__ = ["Key", "broken", "expected", "fixed"]


class KeySpec(Spec):
    rotations: int = 0


class KeyStatus(Status):
    rotations: int = 0


class Key(Resource[KeySpec, KeyStatus], api="zoo.example.dev/v1"):
    """Is made anew each time somebody raises the number of rotations."""


async def add_one(key: Key, ctx: Context) -> None:
    ref = Ref(ConfigMap, key.name, key.namespace)
    done = key.status.rotations if key.status else 0
    stored = await ctx.live(ref)
    if stored is None:
        await ctx.apply(config_map(key, key.name, version=0), owner=key)
    elif done < key.spec.rotations:
        await ctx.patch(ref, MergePatch({"data": {"version": str(int(stored.data["version"]) + 1)}}))
    await ctx.set_status(key, KeyStatus(rotations=key.spec.rotations))


async def say_which(key: Key, ctx: Context) -> None:
    await ctx.apply(config_map(key, key.name, version=key.spec.rotations), owner=key)
    await ctx.set_status(key, KeyStatus(rotations=key.spec.rotations))


async def scenario(people: Cluster) -> None:
    key = await people.create(Key.new("master", KeySpec()))
    await people.settled()
    await people.patch(key.ref, MergePatch({"spec": {"rotations": 1}}))
    await people.settled()


broken = Exploration(scenario, lambda: [Controller(Key, add_one)])
fixed = Exploration(scenario, lambda: [Controller(Key, say_which)])
expected = Expected("end state", "patch", "ConfigMap")
