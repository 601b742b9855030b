"""Explorations of Omnia's three controllers, with a fake data plane that survives their crashes."""

from typing import Any

from levelset import Controller, Ref
from levelset.kinds.apps_v1 import Deployment
from levelset.kinds.core_v1 import ConfigMap
from levelset.testing import Cluster
from levelset.testing.explore import Exploration, State
from levelset_omnia import AgentRuntime, PromptPack
from systems.omnia.tests.support import (
    FakeDataPlane,
    agent,
    canary,
    controllers,
    endpoints,
    pack,
    prompts,
    registry,
    secret,
    service,
    tool,
)

__all__ = ["agents", "canaries", "packs", "registries"]

SUPPORT = Ref(PromptPack, "support", "test")


def all_controllers() -> list[Controller[Any]]:
    return [*controllers(), FakeDataPlane().controller()]


async def agent_lifecycle(cluster: Cluster) -> None:
    await cluster.create(agent(tool_registry_ref="tools"))
    for one in (pack(), prompts(), secret(), registry(tool(url="http://a.example.dev"))):
        await cluster.create(one)
    await cluster.settled()
    await cluster.update(prompts(system="You help more."))
    await cluster.settled()
    await cluster.create(agent("second", pack="another"))
    await cluster.settled()
    await cluster.delete(agent().ref)
    await cluster.settled()


async def version_lifecycle(cluster: Cluster) -> None:
    for one in (prompts(), pack("one", "1.0.0", of="support"), pack("two", "2.0.0", of="support"), agent()):
        await cluster.create(one)
    await cluster.settled()
    await cluster.create(pack("three", "3.0.0", of="support", source="none"))
    await cluster.settled()
    await cluster.delete(pack("two").ref)
    await cluster.settled()


async def canary_rollout(cluster: Cluster) -> None:
    for one in (prompts(), prompts("prompts-2"), secret(), pack(), agent(replicas=2)):
        await cluster.create(one)
    await cluster.settled()
    found = await cluster.get(SUPPORT)
    wanted = pack(version="2.0.0", source="prompts-2", rollout=canary(50, 50, "10s")).spec
    await cluster.update(found.with_spec(version="2.0.0", source=wanted.source, rollout=wanted.rollout))
    await cluster.settled()
    await cluster.advance(40)
    await cluster.settled()


async def tool_lifecycle(cluster: Cluster) -> None:
    for one in (registry(tool(), tool("far", url="http://far.example.dev")), service(), endpoints(ready=False)):
        await cluster.create(one)
    await cluster.settled()
    await cluster.update(endpoints(ready=True))
    await cluster.settled()
    await cluster.delete(service().ref)
    await cluster.settled()


def a_canary_differs_from_the_active_version(state: State) -> None:
    """The canary revision is never the active one, and its weight is a percentage."""
    for one in state.list(PromptPack):
        if one.status is not None and one.status.canary is not None:
            assert one.status.canary != one.status.active
            assert 0 <= (one.status.canary_weight or 0) <= 100
            assert one.status.step_started_at is not None


def active_prompts_have_a_hash(state: State) -> None:
    """An active revision was validated: it has the hash of an existing ConfigMap."""
    for one in state.list(PromptPack):
        if one.status is not None and one.status.active is not None:
            assert one.status.active.hash
            assert one.status.active.config_map


def ready_pods_never_drop_below_replicas(state: State) -> None:
    """An agent whose Pods were all ready always has as many ready Pods as replicas."""
    for one in state.list(AgentRuntime):
        counts = one.status.replicas if one.status is not None else None
        if counts is None or counts.ready < one.spec.runtime.replicas:
            continue
        mine = [each for each in state.list(Deployment) if each.name in (one.name, f"{one.name}-canary")]
        ready = [min(each.spec.replicas or 0, each.status.ready_replicas) for each in mine if each.status is not None]
        assert sum(ready) >= one.spec.runtime.replicas


INVARIANTS = [a_canary_differs_from_the_active_version, active_prompts_have_a_hash]
# These times depend on when a step was taken, which a crash delays.
IGNORED = ["PromptPack.status.lastUpdated", "ToolRegistry.status.lastDiscoveryTime"]

agents = Exploration(agent_lifecycle, all_controllers, invariants=INVARIANTS, ignored=IGNORED, name="agents")
packs = Exploration(version_lifecycle, all_controllers, invariants=INVARIANTS, ignored=IGNORED, name="packs")
canaries = Exploration(
    canary_rollout,
    all_controllers,
    invariants=[*INVARIANTS, ready_pods_never_drop_below_replicas],
    ignored=IGNORED,
    kinds=[ConfigMap],
    name="canaries",
)
registries = Exploration(tool_lifecycle, all_controllers, ignored=IGNORED, name="registries")
