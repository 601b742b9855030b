"""What the explorer plays: Omnia's three controllers, with a pretend data plane that survives its crashes."""

from typing import Any

from levelset import Controller, Ref
from levelset.kinds.apps_v1 import Deployment
from levelset.kinds.core_v1 import ConfigMap
from levelset.testing import Cluster
from levelset.testing.explore import Exploration, State
from levelset_omnia import AgentRuntime, PromptPack
from systems.omnia.tests.world import (
    Plane,
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


def everybody() -> list[Controller[Any]]:
    return [*controllers(), Plane().controller()]


async def an_agent_comes_changes_and_goes(people: Cluster) -> None:
    await people.create(agent(tool_registry_ref="tools"))
    for one in (pack(), prompts(), secret(), registry(tool(url="http://a.example.dev"))):
        await people.create(one)
    await people.settled()
    await people.update(prompts(system="You help more."))
    await people.settled()
    await people.create(agent("second", pack="another"))
    await people.settled()
    await people.delete(agent().ref)
    await people.settled()


async def versions_come_and_break(people: Cluster) -> None:
    for one in (prompts(), pack("one", "1.0.0", of="support"), pack("two", "2.0.0", of="support"), agent()):
        await people.create(one)
    await people.settled()
    await people.create(pack("three", "3.0.0", of="support", source="none"))
    await people.settled()
    await people.delete(pack("two").ref)
    await people.settled()


async def a_version_is_tried_in_steps(people: Cluster) -> None:
    for one in (prompts(), prompts("prompts-2"), secret(), pack(), agent(replicas=2)):
        await people.create(one)
    await people.settled()
    found = await people.get(SUPPORT)
    wanted = pack(version="2.0.0", source="prompts-2", rollout=canary(50, 50, "10s")).spec
    await people.update(found.with_spec(version="2.0.0", source=wanted.source, rollout=wanted.rollout))
    await people.settled()
    await people.advance(40)
    await people.settled()


async def tools_come_and_go(people: Cluster) -> None:
    for one in (registry(tool(), tool("far", url="http://far.example.dev")), service(), endpoints(ready=False)):
        await people.create(one)
    await people.settled()
    await people.update(endpoints(ready=True))
    await people.settled()
    await people.delete(service().ref)
    await people.settled()


def a_canary_has_a_version_of_its_own(state: State) -> None:
    """The version that is tried is never the active one, and nobody has more than all of the traffic."""
    for one in state.list(PromptPack):
        if one.status is not None and one.status.canary is not None:
            assert one.status.canary != one.status.active
            assert 0 <= (one.status.canary_weight or 0) <= 100
            assert one.status.step_started_at is not None


def prompts_that_are_active_are_there(state: State) -> None:
    """What is called active has been seen: its hash is that of a ConfigMap that was there."""
    for one in state.list(PromptPack):
        if one.status is not None and one.status.active is not None:
            assert one.status.active.hash
            assert one.status.active.config_map


def there_are_never_too_few_pods(state: State) -> None:
    """An agent that once had all its Pods always has as many that are ready and wanted."""
    for one in state.list(AgentRuntime):
        counts = one.status.replicas if one.status is not None else None
        if counts is None or counts.ready < one.spec.runtime.replicas:
            continue
        mine = [each for each in state.list(Deployment) if each.name in (one.name, f"{one.name}-canary")]
        ready = [min(each.spec.replicas or 0, each.status.ready_replicas) for each in mine if each.status is not None]
        assert sum(ready) >= one.spec.runtime.replicas


INVARIANTS = [a_canary_has_a_version_of_its_own, prompts_that_are_active_are_there]
# When a step began depends on when it was taken, which a crash delays.
IGNORED = ["PromptPack.status.lastUpdated", "ToolRegistry.status.lastDiscoveryTime"]

agents = Exploration(an_agent_comes_changes_and_goes, everybody, invariants=INVARIANTS, ignored=IGNORED, name="agents")
packs = Exploration(versions_come_and_break, everybody, invariants=INVARIANTS, ignored=IGNORED, name="packs")
canaries = Exploration(
    a_version_is_tried_in_steps,
    everybody,
    invariants=[*INVARIANTS, there_are_never_too_few_pods],
    ignored=IGNORED,
    kinds=[ConfigMap],
    name="canaries",
)
registries = Exploration(tools_come_and_go, everybody, ignored=IGNORED, name="registries")
