"""The PromptPack controller: sources, immediate and canary rollouts, and the agents that use them."""

import pytest

from levelset import GiveUp, Ref
from levelset.kinds.apps_v1 import Deployment
from levelset.kinds.core_v1 import ConfigMap
from levelset.kinds.events_v1 import Event
from levelset.testing import Cluster
from levelset_omnia import AgentRuntime, PromptPack
from levelset_omnia.kinds import PromptPackRef, Rollout
from systems.omnia.tests.support import (
    FakeDataPlane,
    agent,
    canary,
    condition,
    controllers,
    pack,
    prompts,
    secret,
    weights,
)

__all__: list[str] = []

SUPPORT = Ref(PromptPack, "support", "test")


def phase(one: PromptPack) -> str | None:
    return None if one.status is None else one.status.phase


def active(one: PromptPack) -> str | None:
    return None if one.status is None else one.status.active_version


async def bump(cluster: Cluster, version: str, *, source: str = "prompts") -> None:
    """Changes the version of the pack and its ConfigMap, with a canary rollout."""
    one = await cluster.get(SUPPORT)
    wanted = pack(version=version, source=source, rollout=canary()).spec
    await cluster.update(one.with_spec(version=version, source=wanted.source, rollout=wanted.rollout))


async def test_with_its_config_map_a_pack_is_active_with_a_time(cluster: Cluster) -> None:
    await cluster.create(prompts())
    await cluster.create(pack())
    async with cluster.running(*controllers()):
        await cluster.settled()
        found = await cluster.get(SUPPORT)
        assert found.status is not None
        assert (phase(found), active(found), found.status.last_updated) == ("Active", "1.0.0", cluster.now())
        assert found.status.observed_generation == 1
        assert condition(found, "SourceValid") == ("True", "SourceValid")
        assert condition(found, "AgentsNotified") == ("True", "NoAgentsToNotify")


async def test_without_its_config_map_a_pack_fails_and_is_requeued_after_30_seconds(cluster: Cluster) -> None:
    await cluster.create(pack())
    async with cluster.running(*controllers()):
        await cluster.settled()
        found = await cluster.get(SUPPORT)
        assert phase(found) == "Failed"
        assert condition(found, "SourceValid") == ("False", "SourceValidationFailed")
        reconciles = len(cluster.reconciles(SUPPORT))
        await cluster.advance(31)
        assert len(cluster.reconciles(SUPPORT)) == reconciles + 1


@pytest.mark.parametrize("source", [None, "empty"])
async def test_an_invalid_source_is_not_requeued_until_it_changes(cluster: Cluster, source: str | None) -> None:
    await cluster.create(ConfigMap.new("empty", namespace="test"))
    await cluster.create(pack(source=source))
    async with cluster.running(*controllers(), allow_errors=GiveUp):
        await cluster.settled()
        found = await cluster.get(SUPPORT)
        assert phase(found) == "Failed"
        assert found.status is not None
        message = "configMapRef is missing" if source is None else "is empty"
        assert message in found.status.conditions[0].message
        reconciles = len(cluster.reconciles(SUPPORT))
        await cluster.advance(3600)
        assert len(cluster.reconciles(SUPPORT)) == reconciles
        await cluster.create(prompts())
        await cluster.update((await cluster.get(SUPPORT)).with_spec(source=pack().spec.source))
        await cluster.until(SUPPORT, lambda it: phase(it) == "Active")


async def test_binary_data_counts_as_prompts(cluster: Cluster) -> None:
    await cluster.create(ConfigMap.new("prompts", namespace="test", binary_data={"system": b"\xff"}))
    await cluster.create(pack())
    async with cluster.running(*controllers()):
        await cluster.until(SUPPORT, lambda it: phase(it) == "Active")


async def test_a_canary_begins_with_its_weight(cluster: Cluster) -> None:
    await cluster.create(prompts())
    await cluster.create(pack(rollout=canary(20, interval="5m")))
    async with cluster.running(*controllers()):
        await cluster.settled()
        status = (await cluster.get(SUPPORT)).status
        assert status is not None
        assert (status.phase, status.canary_version, status.canary_weight) == ("Canary", "1.0.0", 20)
        assert status.active_version is None


async def test_a_canary_of_100_percent_is_active_at_once(cluster: Cluster) -> None:
    await cluster.create(prompts())
    await cluster.create(pack(rollout=canary(100)))
    async with cluster.running(*controllers()):
        await cluster.settled()
        status = (await cluster.get(SUPPORT)).status
        assert status is not None
        assert (status.phase, status.active_version) == ("Active", "1.0.0")
        assert (status.canary_version, status.canary_weight, status.canary) == (None, None, None)


async def test_a_canary_without_parameters_uses_the_default_steps(cluster: Cluster) -> None:
    await cluster.create(prompts())
    await cluster.create(pack(rollout=Rollout(type="canary")))
    async with cluster.running(*controllers()):
        await cluster.settled()
        await cluster.advance(5 * 60 * 9 + 1)
        assert weights(cluster, SUPPORT) == [None, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, None]
        assert active(await cluster.get(SUPPORT)) == "1.0.0"


async def test_agents_are_counted_if_they_use_the_version_or_are_pinned_to_it(cluster: Cluster) -> None:
    for one in (
        prompts(),
        pack(),
        agent("a"),
        agent("b", prompt_pack_ref=PromptPackRef(name="support", version="v1.0.0")),
        agent("c", prompt_pack_ref=PromptPackRef(name="support", version="2.0.0")),
        agent("d", pack="another"),
    ):
        await cluster.create(one)
    async with cluster.running(*controllers()):
        await cluster.settled()
        found = await cluster.get(SUPPORT)
        assert condition(found, "AgentsNotified") == ("True", "AgentsNotified")
        assert found.status is not None
        assert "Notified 2 AgentRuntime(s)" in [one.message for one in found.status.conditions]


async def test_a_changed_config_map_requeues_exactly_the_packs_that_reference_it(cluster: Cluster) -> None:
    for one in (prompts(), prompts("others"), pack(), pack("second"), pack("third", source="others")):
        await cluster.create(one)
    async with cluster.running(*controllers()):
        await cluster.settled()
        names = ("support", "second", "third")
        before = {name: len(cluster.reconciles(Ref(PromptPack, name, "test"))) for name in names}
        await cluster.update(prompts(system="Another text."))
        await cluster.settled()
        after = {name: len(cluster.reconciles(Ref(PromptPack, name, "test"))) for name in before}
        assert after["third"] == before["third"]
        assert after["support"] > before["support"]
        assert after["second"] > before["second"]


async def test_weights_grow_by_the_clock_over_a_restart_and_a_crash_of_the_operator(cluster: Cluster) -> None:
    await cluster.create(prompts())
    await cluster.create(pack(rollout=canary(10, 30, "1s")))
    async with cluster.running(*controllers()):
        await cluster.settled()
        await cluster.advance(1.5)
    await cluster.advance(0.2)
    second = cluster.process(*controllers())
    await second.start()
    await cluster.advance(0.2)
    assert weights(cluster, SUPPORT) == [None, 10, 40]
    await second.kill()
    async with cluster.running(*controllers()):
        await cluster.advance(0.2)  # 2.1 seconds since the start
        assert weights(cluster, SUPPORT) == [None, 10, 40, 70]
        await cluster.until(SUPPORT, lambda it: phase(it) == "Active")
        assert weights(cluster, SUPPORT) == [None, 10, 40, 70, 100, None]
        assert 3 <= (cluster.now() - (await cluster.get(SUPPORT)).metadata.creation_timestamp).total_seconds() < 3.2  # type: ignore[operator]


async def test_a_canary_leaves_the_active_version_until_it_is_promoted(cluster: Cluster) -> None:
    for one in (prompts(), prompts("prompts-2"), pack()):
        await cluster.create(one)
    async with cluster.running(*controllers()):
        await cluster.settled()
        await bump(cluster, "2.0.0", source="prompts-2")
        await cluster.settled()
        status = (await cluster.get(SUPPORT)).status
        assert status is not None
        assert (status.active_version, status.canary_version, status.canary_weight) == ("1.0.0", "2.0.0", 10)
        await cluster.until(SUPPORT, lambda it: active(it) == "2.0.0")


async def test_a_source_that_becomes_invalid_stops_the_canary_and_retains_the_active_version(cluster: Cluster) -> None:
    for one in (prompts(), prompts("prompts-2"), secret(), pack(), agent(replicas=2)):
        await cluster.create(one)
    async with cluster.running(*controllers(), FakeDataPlane().controller()):
        await cluster.settled()
        await bump(cluster, "2.0.0", source="prompts-2")
        await cluster.until(Ref(Deployment, "helper-canary", "test"))
        await cluster.delete(Ref(ConfigMap, "prompts-2", "test"))
        found = await cluster.until(SUPPORT, lambda it: phase(it) == "Failed")
        assert active(found) == "1.0.0"
        assert weights(cluster, SUPPORT)[-1] is None
        await cluster.until_gone(Ref(Deployment, "helper-canary", "test"))
        one = await cluster.until(Ref(AgentRuntime, "helper", "test"))
        assert condition(one, "PromptPackReady") == ("True", "PromptPackFound")
        assert one.status is not None
        assert (one.status.phase, one.status.active_version, one.status.canary) == ("Running", "1.0.0", None)


async def test_a_canary_waits_for_agents_that_have_not_reached_its_weight(cluster: Cluster) -> None:
    plane = FakeDataPlane()
    for one in (prompts(), prompts("prompts-2"), secret(), pack(), agent(replicas=10)):
        await cluster.create(one)
    async with cluster.running(*controllers(), plane.controller()):
        await cluster.settled()
        plane.stuck.add("helper-canary")
        await bump(cluster, "2.0.0", source="prompts-2")
        await cluster.advance(100)
        found = await cluster.get(SUPPORT)
        assert weights(cluster, SUPPORT) == [None, 10]
        assert condition(found, "CanaryProgressing") == ("False", "AgentsNotReady")
        plane.stuck.clear()
        candidate = await cluster.get(Ref(Deployment, "helper-canary", "test"))
        await cluster.update(candidate.with_metadata(annotations={**candidate.metadata.annotations, "nudge": "1"}))
        await cluster.until(SUPPORT, lambda it: active(it) == "2.0.0")
        assert weights(cluster, SUPPORT) == [None, 10, 40, 70, 100, None]


async def test_going_back_to_the_active_version_ends_a_canary(cluster: Cluster) -> None:
    for one in (prompts(), prompts("prompts-2"), pack()):
        await cluster.create(one)
    async with cluster.running(*controllers()):
        await cluster.settled()
        await bump(cluster, "2.0.0", source="prompts-2")
        await cluster.settled()
        await bump(cluster, "1.0.0")
        await cluster.settled()
        found = await cluster.get(SUPPORT)
        assert (phase(found), active(found)) == ("Active", "1.0.0")
        assert weights(cluster, SUPPORT) == [None, 10, None]


async def test_a_newer_version_of_the_same_pack_supersedes_the_older_until_it_is_deleted(cluster: Cluster) -> None:
    one, two = pack("support-1", "1.0.0", of="support"), pack("support-2", "2.0.0", of="support")
    rc, broken = pack("support-rc", "3.0.0-rc.1", of="support"), pack("broken", "9.0.0", of="support", source="none")
    for each in (prompts(), secret(), agent(), one):
        await cluster.create(each)
    async with cluster.running(*controllers(), FakeDataPlane().controller()):
        await cluster.until(one.ref, lambda it: phase(it) == "Active")
        for each in (two, rc, broken):
            await cluster.create(each)
        await cluster.settled()
        phases = [phase(await cluster.get(each.ref)) for each in (one, two, rc, broken)]
        assert phases == ["Superseded", "Active", "Active", "Failed"]
        assert condition(await cluster.get(one.ref), "Superseded") == ("True", "NewerVersionPublished")
        helper = await cluster.get(Ref(AgentRuntime, "helper", "test"))
        assert helper.status is not None
        assert helper.status.active_version == "2.0.0"
        await cluster.delete(two.ref)
        await cluster.until(one.ref, lambda it: phase(it) == "Active")
        await cluster.until(helper.ref, lambda it: it.status is not None and it.status.active_version == "1.0.0")


async def test_two_versions_in_one_config_map_cause_a_warning_event(cluster: Cluster) -> None:
    for one in (prompts(), secret(), pack(), agent(replicas=10)):
        await cluster.create(one)
    async with cluster.running(*controllers(), FakeDataPlane().controller()):
        await cluster.settled()
        await cluster.update(prompts(system="Another text."))
        await bump(cluster, "2.0.0")
        await cluster.advance(1.5)
        warnings = [one for one in await cluster.list(Event) if one.reason == "SharedConfigMap"]
        assert [one.type for one in warnings] == ["Warning"]


async def test_the_operator_works_confined_to_one_namespace(cluster: Cluster) -> None:
    for one in (prompts(), secret(), pack(), agent(), pack("elsewhere").with_metadata(namespace="default")):
        await cluster.create(one)
    confined = [one.with_options(namespace="test") for one in controllers()]
    async with cluster.running(*confined, FakeDataPlane().controller()):
        await cluster.until(
            Ref(AgentRuntime, "helper", "test"), lambda it: it.status is not None and it.status.phase == "Running"
        )
        assert (await cluster.get(Ref(PromptPack, "elsewhere", "default"))).status is None
