"""Works on one version of an object, and records that it has observed the newest.

Modelled on kubernetes/kubernetes#66501 and kubernetes-retired/service-catalog#1747: an observed generation is not
reconciled again, so it must be the one that was reconciled. If the object changes during a slow write, the change is
lost.
"""

from levelset import Context, Controller, MergePatch, Resource, Spec, Status, owns
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Policy", "broken", "expected", "fixed"]


class PolicySpec(Spec):
    level: str


class PolicyStatus(Status):
    observed_generation: int = 0


class Policy(Resource[PolicySpec, PolicyStatus], api="zoo.example.dev/v1"):
    """A policy with a level."""


async def record_the_newest(policy: Policy, ctx: Context) -> None:
    if policy.status is not None and policy.status.observed_generation == policy.metadata.generation:
        return
    await ctx.apply(config_map(policy, policy.name, level=policy.spec.level), owner=policy)
    newest = await ctx.live(policy.ref)
    if newest is not None:
        await ctx.set_status(newest, PolicyStatus(observed_generation=newest.metadata.generation))


async def record_what_was_done(policy: Policy, ctx: Context) -> None:
    await ctx.apply(config_map(policy, policy.name, level=policy.spec.level), owner=policy)
    await ctx.set_status(policy, PolicyStatus(observed_generation=policy.metadata.generation))


async def scenario(user: Cluster) -> None:
    policy = await user.create(Policy.new("rules", PolicySpec(level="low")))
    await user.advance(1)
    await user.patch(policy.ref, MergePatch({"spec": {"level": "high"}}))
    await user.settled()


broken = Exploration(scenario, lambda: [Controller(Policy, record_the_newest)])
fixed = Exploration(scenario, lambda: [Controller(Policy, record_what_was_done, owns(ConfigMap))])
expected = Expected("end state", "apply", "ConfigMap")
