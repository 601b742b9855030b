"""Increments a stored number and then records that it did: after a lost response it increments again.

Modelled on cert-manager/cert-manager#6837 (a create that timed out had taken effect; the next one used a higher
revision, and renewal was stuck) and rabbitmq/cluster-operator#2104 (an unrequested fourth node). The fix applies the
desired value instead of an increment.
"""

from levelset import Context, Controller, MergePatch, Ref, Resource, Spec, Status, owns
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Key", "broken", "expected", "fixed"]


class KeySpec(Spec):
    rotations: int = 0


class KeyStatus(Status):
    rotations: int = 0


class Key(Resource[KeySpec, KeyStatus], api="zoo.example.dev/v1"):
    """A key that is rotated when the number of rotations is raised."""


async def add_one(key: Key, ctx: Context) -> None:
    ref = Ref(ConfigMap, key.name, key.namespace)
    done = key.status.rotations if key.status else 0
    stored = await ctx.live(ref)
    if stored is None:
        await ctx.apply(config_map(key, key.name, version=0), owner=key)
    elif done < key.spec.rotations:
        await ctx.patch(ref, MergePatch({"data": {"version": str(int(stored.data["version"]) + 1)}}))
    await ctx.set_status(key, KeyStatus(rotations=key.spec.rotations))


async def apply_version(key: Key, ctx: Context) -> None:
    await ctx.apply(config_map(key, key.name, version=key.spec.rotations), owner=key)
    await ctx.set_status(key, KeyStatus(rotations=key.spec.rotations))


async def scenario(user: Cluster) -> None:
    key = await user.create(Key.new("master", KeySpec()))
    await user.settled()
    await user.patch(key.ref, MergePatch({"spec": {"rotations": 1}}))
    await user.settled()


broken = Exploration(scenario, lambda: [Controller(Key, add_one)])
fixed = Exploration(scenario, lambda: [Controller(Key, apply_version, owns(ConfigMap))])
expected = Expected("end state", "patch", "ConfigMap")
