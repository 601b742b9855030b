"""A canary in the AgentRuntime controller: a second Deployment, a share of Pods, and never too few ready Pods."""

from typing import Any

from levelset import MergePatch, Ref, replace
from levelset.kinds.apps_v1 import Deployment
from levelset.kinds.core_v1 import Container, Pod, PodSpec, Service
from levelset.testing import Cluster
from levelset_omnia import AgentRuntime, Options, PromptPack, omnia_system
from levelset_omnia.agentruntime import PodProblem, PodReport
from levelset_omnia.kinds import PromptPackRef, Rollback, Rollout, SecretRef, Session
from systems.omnia.tests.support import FakeDataPlane, agent, canary, condition, controllers, pack, prompts, secret

__all__: list[str] = []

HELPER = Ref(AgentRuntime, "helper", "test")
STABLE, CANDIDATE = Ref(Deployment, "helper", "test"), Ref(Deployment, "helper-canary", "test")
SUPPORT = Ref(PromptPack, "support", "test")


async def begin(cluster: Cluster, *agents: AgentRuntime, interval: str = "1m", strategy: Rollout | None = None) -> None:
    for one in (prompts(), prompts("prompts-2"), secret(), pack(), *agents):
        await cluster.create(one)
    await cluster.settled()
    found = await cluster.get(SUPPORT)
    wanted = pack(version="2.0.0", source="prompts-2", rollout=strategy or canary(10, 30, interval)).spec
    await cluster.update(found.with_spec(version="2.0.0", source=wanted.source, rollout=wanted.rollout))
    await cluster.settled()


def version_of(deployment: Deployment) -> str | None:
    spec = deployment.spec.template.spec
    assert spec is not None
    return next(one.value for one in spec.containers[0].env if one.name == "OMNIA_PROMPTPACK_VERSION")


async def counts(cluster: Cluster) -> tuple[int | None, int | None]:
    found = await cluster.find(CANDIDATE)
    return (await cluster.get(STABLE)).spec.replicas, None if found is None else found.spec.replicas


async def test_the_share_of_traffic_is_a_share_of_pods_behind_one_service(cluster: Cluster) -> None:
    async with cluster.running(*controllers(), FakeDataPlane().controller()):
        await begin(cluster, agent(replicas=10))
        seen = [await counts(cluster)]
        for _ in range(2):
            await cluster.advance(60)
            seen.append(await counts(cluster))
        assert seen == [(9, 1), (6, 4), (3, 7)]
        stable, candidate = await cluster.get(STABLE), await cluster.get(CANDIDATE)
        assert (version_of(stable), version_of(candidate)) == ("1.0.0", "2.0.0")
        selector = (await cluster.get(Ref(Service, "helper", "test"))).spec.selector
        for one in (stable, candidate):
            meta = one.spec.template.metadata
            assert meta is not None
            assert meta.labels.items() >= selector.items()
        assert stable.spec.selector.match_labels != candidate.spec.selector.match_labels
        found = await cluster.get(HELPER)
        assert found.status is not None
        assert found.status.canary is not None
        assert (found.status.active_version, found.status.canary.weight, found.status.canary.ready) == ("1.0.0", 70, 7)


async def test_after_promotion_the_stable_deployment_runs_the_new_version_and_the_canary_is_deleted(
    cluster: Cluster,
) -> None:
    async with cluster.running(*controllers(), FakeDataPlane().controller()):
        await begin(cluster, agent(replicas=4))
        await cluster.advance(181)
        assert await counts(cluster) == (4, None)
        assert version_of(await cluster.get(STABLE)) == "2.0.0"
        found = await cluster.get(HELPER)
        assert found.status is not None
        assert (found.status.phase, found.status.active_version, found.status.canary) == ("Running", "2.0.0", None)


async def test_a_single_pod_switches_at_half_of_the_traffic(cluster: Cluster) -> None:
    async with cluster.running(*controllers(), FakeDataPlane().controller()):
        await begin(cluster, agent(replicas=1))
        assert await counts(cluster) == (1, None)
        await cluster.advance(60)
        assert await counts(cluster) == (1, None)
        await cluster.advance(60)
        assert await counts(cluster) == (0, 1)


async def test_there_are_never_fewer_ready_pods_than_replicas(cluster: Cluster) -> None:
    async with cluster.running(*controllers(), FakeDataPlane().controller()):
        await begin(cluster, agent(replicas=3), interval="1s")
        began = cluster.storage.revision
        await cluster.until(SUPPORT, lambda it: it.status is not None and it.status.active_version == "2.0.0")
        await cluster.until_gone(CANDIDATE)
        await cluster.settled()
        changes: list[tuple[int, str, int]] = []
        for ref in (STABLE, CANDIDATE):
            changes += [(one.revision, ref.name, _ready(one.after)) for one in cluster.history(ref)]
        ready = {STABLE.name: 3, CANDIDATE.name: 0}
        for revision, name, count in sorted(changes):
            ready[name] = count
            assert revision < began or sum(ready.values()) >= 3


def _ready(tree: dict[str, Any] | None) -> int:
    """The Pods of a Deployment that serve at this moment: ready ones, up to the replicas."""
    if tree is None:
        return 0
    ready: int = tree.get("status", {}).get("readyReplicas", 0)
    wanted: int = tree["spec"]["replicas"]
    return min(ready, wanted)


async def test_a_candidate_that_never_gets_ready_takes_no_pods_from_the_active_version(cluster: Cluster) -> None:
    plane = FakeDataPlane()
    plane.stuck.add("helper-canary")
    async with cluster.running(*controllers(), plane.controller()):
        await begin(cluster, agent(replicas=2, name="helper"), agent("other", replicas=1))
        found = await cluster.get(SUPPORT)
        await cluster.update(found.with_spec(rollout=canary(50)))
        await cluster.settled()
        assert await counts(cluster) == (2, 1)
        await cluster.advance(3600)
        assert await counts(cluster) == (2, 1)


async def test_pinned_agents_have_no_canary(cluster: Cluster) -> None:
    old = agent("old", prompt_pack_ref=PromptPackRef(name="support", version="1.0.0"), replicas=10)
    new = agent("new", prompt_pack_ref=PromptPackRef(name="support", version="2.0.0"), replicas=10)
    async with cluster.running(*controllers(), FakeDataPlane().controller()):
        await begin(cluster, old, new)
        versions = [version_of(await cluster.get(Ref(Deployment, name, "test"))) for name in ("old", "new")]
        assert versions == ["1.0.0", "2.0.0"]
        assert await cluster.find(Ref(Deployment, "old-canary", "test")) is None
        assert await cluster.find(Ref(Deployment, "new-canary", "test")) is None


async def test_versions_as_separate_objects_are_rolled_out_the_same_way(cluster: Cluster) -> None:
    one = pack("support-1", "1.0.0", of="support")
    two = pack("support-2", "2.0.0", of="support", source="prompts-2", rollout=canary(50, 50, "1m"))
    for each in (prompts(), prompts("prompts-2"), secret(), one, agent(replicas=2)):
        await cluster.create(each)
    async with cluster.running(*controllers(), FakeDataPlane().controller()):
        await cluster.settled()
        await cluster.create(two)
        await cluster.settled()
        assert await counts(cluster) == (1, 1)
        await cluster.advance(61)
        assert await counts(cluster) == (2, None)
        assert version_of(await cluster.get(STABLE)) == "2.0.0"
        await cluster.until(one.ref, lambda it: it.status is not None and it.status.phase == "Superseded")


async def test_a_canary_with_too_many_errors_is_rolled_back_by_itself_and_not_tried_again(cluster: Cluster) -> None:
    reports = {"10.0.0.1": PodReport(requests=100), "10.0.0.2": PodReport(requests=30, errors=12)}

    async def read(address: str, port: int) -> PodReport | None:
        assert port == 8080
        return reports.get(address)

    operator = omnia_system(Options(report_seconds=5), read=read).controllers
    async with cluster.running(*operator, FakeDataPlane().controller()):
        await begin(cluster, agent(replicas=4), strategy=canary(25, 25, "1h", rollback=Rollback(max_error_rate=20)))
        assert await counts(cluster) == (3, 1)
        for name, address, deployment in (("a", "10.0.0.1", STABLE), ("b", "10.0.0.2", CANDIDATE)):
            await create_pod(cluster, name, address, deployment)
        await cluster.advance(6)
        await cluster.settled()
        found = await cluster.get(SUPPORT)
        assert found.status is not None
        assert found.status.rolled_back is not None
        assert (found.status.phase, found.status.active_version, found.status.canary) == ("Failed", "1.0.0", None)
        assert (found.status.rolled_back.requests, found.status.rolled_back.errors) == (30, 12)
        assert condition(found, "CanaryProgressing") == ("False", "RolledBack")
        assert await counts(cluster) == (4, None)
        assert (await cluster.get(HELPER)).status.phase == "Running"  # type: ignore[union-attr]
        await cluster.advance(7200)
        assert (await cluster.get(SUPPORT)).status == found.status
        await cluster.update(prompts("prompts-2", system="Corrected."))
        await cluster.settled()
        assert condition(await cluster.get(SUPPORT), "CanaryProgressing") == ("True", "Progressing")


async def test_the_status_says_why_pods_are_not_ready(cluster: Cluster) -> None:
    async def read(_address: str, _port: int) -> PodReport | None:
        return PodReport(problems=(PodProblem("session", "session store redis at db:6379: refused"),))

    plane, session = FakeDataPlane(), Session(type="redis", store_ref=SecretRef(name="store"))
    plane.stuck.add("helper")
    async with cluster.running(*omnia_system(read=read).controllers, plane.controller()):
        for one in (prompts(), secret(), pack(), agent(session=session)):
            await cluster.create(one)
        await cluster.settled()
        assert message_of(await cluster.get(HELPER), "SessionStoreReady") == (
            "Secret store does not exist; create it with the key url"
        )
        await cluster.create(secret("store", url=b"redis://db"))
        await create_pod(cluster, "a", "10.0.0.1", STABLE)
        await cluster.advance(6)
        found = await cluster.get(HELPER)
        assert condition(found, "Ready") == ("False", "RuntimeNotReady")
        assert message_of(found, "SessionStoreReady") == "session store redis at db:6379: refused"
        assert message_of(found, "Ready") == "session store redis at db:6379: refused"


def message_of(found: AgentRuntime, kind: str) -> str:
    assert found.status is not None
    return next(one.message for one in found.status.conditions if one.type == kind)


async def create_pod(cluster: Cluster, name: str, address: str, of: Ref[Deployment]) -> None:
    """Creates a Pod of a Deployment, with an address."""
    meta = replace((await cluster.get(of)).spec.template.metadata, name=name, namespace="test")
    made = await cluster.create(Pod(metadata=meta, spec=PodSpec(containers=(Container(name="agent", image="a"),))))
    await cluster.patch(made.ref, MergePatch({"status": {"podIP": address}}), subresource="status")
