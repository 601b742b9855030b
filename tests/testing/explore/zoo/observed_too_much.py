"""Works on one version of an object, and notes that it has seen the newest.

Modelled on kubernetes/kubernetes#66501 and kubernetes-retired/service-catalog#1747: a generation that is noted as done
is not looked at again, so it must be the one that was worked on. If the object changes while a slow write is under way,
the change is lost.
"""

from levelset import Context, Controller, MergePatch, Resource, Spec, Status
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.habitat import Expected, config_map

__all__ = ["Policy", "broken", "expected", "fixed"]


class PolicySpec(Spec):
    level: str


class PolicyStatus(Status):
    observed_generation: int = 0


class Policy(Resource[PolicySpec, PolicyStatus], api="zoo.example.dev/v1"):
    """Wants its level in force."""


async def note_the_newest(policy: Policy, ctx: Context) -> None:
    if policy.status is not None and policy.status.observed_generation == policy.metadata.generation:
        return
    await ctx.apply(config_map(policy, policy.name, level=policy.spec.level), owner=policy)
    newest = await ctx.live(policy.ref)
    if newest is not None:
        await ctx.set_status(newest, PolicyStatus(observed_generation=newest.metadata.generation))


async def note_what_was_done(policy: Policy, ctx: Context) -> None:
    await ctx.apply(config_map(policy, policy.name, level=policy.spec.level), owner=policy)
    await ctx.set_status(policy, PolicyStatus(observed_generation=policy.metadata.generation))


async def scenario(people: Cluster) -> None:
    policy = await people.create(Policy.new("rules", PolicySpec(level="low")))
    await people.advance(1)
    await people.patch(policy.ref, MergePatch({"spec": {"level": "high"}}))
    await people.settled()


broken = Exploration(scenario, lambda: [Controller(Policy, note_the_newest)])
fixed = Exploration(scenario, lambda: [Controller(Policy, note_what_was_done)])
expected = Expected("end state", "apply", "ConfigMap")
