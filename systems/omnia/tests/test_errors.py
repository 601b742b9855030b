"""Errors: transient ones are retried with backoff, permanent ones only after a change."""

from itertools import pairwise

from levelset import GiveUp, ObjectMeta, Ref
from levelset.errors import ServerFailed
from levelset.kinds.apps_v1 import Deployment, DeploymentSpec
from levelset.kinds.core_v1 import Container, PodSpec, PodTemplateSpec
from levelset.kinds.meta_v1 import LabelSelector
from levelset.testing import Cluster, faults
from levelset_omnia import AgentRuntime, Options
from levelset_omnia.kinds import Runtime
from systems.omnia.tests.support import (
    FakeDataPlane,
    agent,
    condition,
    controllers,
    pack,
    prompts,
    registry,
    secret,
    tool,
)

__all__: list[str] = []

HELPER = Ref(AgentRuntime, "helper", "test")


async def prepare(cluster: Cluster, *objects: AgentRuntime) -> None:
    for one in (prompts(), pack(), secret(), *objects):
        await cluster.create(one)


async def test_a_server_error_is_retried_after_5_seconds_with_growing_backoff(cluster: Cluster) -> None:
    await prepare(cluster)
    fault = faults.server_error(verbs=("apply",), kinds=("Deployment",), during=100)
    async with cluster.running(*controllers(), FakeDataPlane().controller(), faults=[fault]):
        await cluster.settled()
        await cluster.create(agent())
        found = await cluster.until(HELPER, lambda it: it.status is not None and it.status.phase == "Failed")
        assert condition(found, "DeploymentReady") == ("False", "DeploymentFailed")
        await cluster.advance(90, allow_errors=ServerFailed)
        failed = [one.at for one in cluster.reconciles(HELPER) if one.outcome.result == "failed"]
        gaps = [later - earlier for earlier, later in pairwise(failed)]
        assert 4 <= gaps[0] <= 6
        assert gaps == sorted(gaps)
        await cluster.until(HELPER, lambda it: it.status is not None and it.status.phase == "Running", within=200)


async def test_a_failed_service_has_its_own_condition(cluster: Cluster) -> None:
    await prepare(cluster, agent())
    fault = faults.server_error(verbs=("apply",), kinds=("Service",), during=3)
    async with cluster.running(*controllers(), FakeDataPlane().controller(), faults=[fault]):
        found = await cluster.until(HELPER, lambda it: it.status is not None and it.status.phase == "Failed")
        assert condition(found, "DeploymentReady") == ("True", "DeploymentCreated")
        assert condition(found, "ServiceReady") == ("False", "ServiceFailed")
        await cluster.until(HELPER, lambda it: it.status is not None and it.status.phase == "Running")


async def test_a_rejected_deployment_is_not_retried_until_the_agent_changes(
    cluster: Cluster,
) -> None:
    await prepare(cluster, agent())
    taken = Deployment.new("helper", other_selector(), namespace="test")
    await cluster.create(taken)
    async with cluster.running(*controllers(), FakeDataPlane().controller(), allow_errors=GiveUp):
        found = await cluster.until(HELPER, lambda it: it.status is not None and it.status.phase == "Failed")
        assert condition(found, "DeploymentReady") == ("False", "DeploymentFailed")
        await cluster.settled()
        reconciles = len(cluster.reconciles(HELPER))
        await cluster.advance(3600)
        assert len(cluster.reconciles(HELPER)) == reconciles
        await cluster.delete(taken.ref)
        await cluster.update((await cluster.get(HELPER)).with_spec(runtime=Runtime(replicas=2)))
        await cluster.until(HELPER, lambda it: it.status is not None and it.status.phase == "Running")


def other_selector() -> DeploymentSpec:
    """The spec of another owner's Deployment; its selector is immutable."""
    labels = {"app": "other"}
    template = PodTemplateSpec(
        metadata=ObjectMeta(labels=labels), spec=PodSpec(containers=(Container(name="a", image="a"),))
    )
    return DeploymentSpec(selector=LabelSelector(match_labels=labels), template=template)


async def test_conflicts_lost_responses_and_late_watches_end_in_the_same_state(cluster: Cluster) -> None:
    await prepare(cluster)
    fault = [
        faults.conflict(share=0.3, verbs=("update", "patch"), seed=3),
        faults.lost_response(share=0.2, verbs=("apply",), seed=4),
        faults.delayed_watch(2, kinds=("PromptPack",)),
    ]
    async with cluster.running(*controllers(), FakeDataPlane().controller(), faults=fault):
        await cluster.create(registry(tool(url="http://a.example.dev")))
        await cluster.create(agent(tool_registry_ref="tools"))
        await cluster.until(HELPER, lambda it: it.status is not None and it.status.phase == "Running", within=120)
        assert len(await cluster.list(Deployment)) == 1


async def test_delays_and_workers_are_those_of_the_options(cluster: Cluster) -> None:
    options = Options(workers=3, dependency_seconds=7, retry_first=1, retry_longest=2)
    assert {one.concurrency for one in controllers(options)} == {3}
    assert {one.concurrency for one in controllers()} == {1}
    await cluster.create(agent())
    async with cluster.running(*controllers(options)):
        await cluster.settled()
        reconciles = len(cluster.reconciles(HELPER))
        await cluster.advance(7.5)
        assert len(cluster.reconciles(HELPER)) == reconciles + 1


async def test_a_deployment_of_another_owner_is_not_changed(cluster: Cluster) -> None:
    await prepare(cluster, agent())
    async with cluster.running(*controllers(), FakeDataPlane().controller()):
        await cluster.settled()
        foreign = (await cluster.get(Ref(Deployment, "helper", "test"))).with_metadata(
            name="helper-canary", uid="", resource_version="", owner_references=(), managed_fields=()
        )
        await cluster.create(foreign)
        await cluster.update(prompts(system="Another text."))
        await cluster.settled()
        await cluster.expect(Ref(Deployment, "helper-canary", "test"))
