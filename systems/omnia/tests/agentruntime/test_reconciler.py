"""The AgentRuntime controller: children, status, and the changes that it follows."""

from typing import Any

import pytest

from levelset import NotFound, Ref
from levelset.kinds.apps_v1 import Deployment
from levelset.kinds.core_v1 import Container, EnvVar, ResourceRequirements, Service
from levelset.objects import Quantity
from levelset.testing import Cluster
from levelset_omnia import AgentRuntime, Options, laptop_system
from levelset_omnia.kinds import Facade, PromptPackRef, Runtime, SecretRef, Session, ToolRegistryRef
from levelset_omnia.well_known import CONFIG_HASH, selector_of
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
DEPLOYMENT = Ref(Deployment, "helper", "test")


async def prepare(cluster: Cluster, *objects: Any) -> None:
    for one in (prompts(), pack(), secret(), *objects):
        await cluster.create(one)


def container(deployment: Deployment) -> Container:
    (found,) = deployment.spec.template.spec.containers
    return found


def values(env: tuple[EnvVar, ...]) -> dict[str, str | None]:
    return {one.name: one.value for one in env if one.value_from is None}


async def test_without_its_prompt_pack_an_agent_fails_and_is_requeued_after_30_seconds(
    cluster: Cluster,
) -> None:
    await cluster.create(agent())
    async with cluster.running(*controllers()):
        await cluster.settled()
        found = await cluster.get(HELPER)
        assert found.status is not None
        assert found.status.phase == "Failed"
        assert found.status.observed_generation == 1
        assert condition(found, "PromptPackReady") == ("False", "PromptPackNotFound")
        assert condition(found, "Ready") == ("False", "RuntimeNotReady")
        reconciles = len(cluster.reconciles(HELPER))
        await cluster.advance(29)
        assert len(cluster.reconciles(HELPER)) == reconciles
        await cluster.advance(2)
        assert len(cluster.reconciles(HELPER)) == reconciles + 1
        with pytest.raises(NotFound):
            await cluster.get(DEPLOYMENT)


async def test_an_agent_controls_a_deployment_and_a_service(cluster: Cluster) -> None:
    await prepare(cluster, agent())
    async with cluster.running(*controllers()):
        await cluster.settled()
        owner = await cluster.get(HELPER)
        children: list[Any] = [await cluster.get(DEPLOYMENT), await cluster.get(Ref(Service, "helper", "test"))]
        for child in children:
            (found,) = child.metadata.owner_references
            assert (found.kind, found.name, found.uid, found.controller) == (
                "AgentRuntime",
                "helper",
                owner.metadata.uid,
                True,
            )
            assert child.metadata.labels.items() >= selector_of("helper").items()
        assert children[1].spec.selector == selector_of("helper")


async def test_until_pods_are_ready_an_agent_is_pending_with_ready_parts(cluster: Cluster) -> None:
    plane = FakeDataPlane()
    plane.stuck.add("helper")
    await prepare(cluster, agent())
    async with cluster.running(*controllers(), plane.controller()):
        await cluster.settled()
        found = await cluster.get(HELPER)
        assert found.status is not None
        assert found.status.phase == "Pending"
        assert condition(found, "PromptPackReady") == ("True", "PromptPackFound")
        assert condition(found, "DeploymentReady") == ("True", "DeploymentCreated")
        assert condition(found, "ServiceReady") == ("True", "ServiceCreated")
        assert condition(found, "Ready") == ("False", "RuntimeNotReady")


async def test_with_ready_pods_an_agent_runs_the_version_of_its_pack(cluster: Cluster) -> None:
    await prepare(cluster, agent(replicas=3))
    async with cluster.running(*controllers(), FakeDataPlane().controller()):
        found = await cluster.until(HELPER, lambda it: it.status is not None and it.status.phase == "Running")
        assert found.status is not None
        assert found.status.replicas is not None
        assert (found.status.replicas.desired, found.status.replicas.ready, found.status.replicas.available) == (
            3,
            3,
            3,
        )
        assert found.status.active_version == "1.0.0"
        assert condition(found, "Ready") == ("True", "RuntimeReady")


async def test_deletion_removes_the_children_and_the_finalizer(cluster: Cluster) -> None:
    await prepare(cluster, agent())
    async with cluster.running(*controllers(), FakeDataPlane().controller()):
        await cluster.settled()
        found = await cluster.get(HELPER)
        assert found.metadata.finalizers == ("agentruntime.omnia.altairalabs.ai/finalizer",)
        await cluster.delete(HELPER)
        await cluster.until_gone(HELPER)
        await cluster.until_gone(DEPLOYMENT)
        await cluster.until_gone(Ref(Service, "helper", "test"))


async def test_the_facade_port_is_set_in_container_environment_and_service(cluster: Cluster) -> None:
    await prepare(cluster, agent(facade=Facade(type="grpc", port=9090)))
    async with cluster.running(*controllers()):
        await cluster.settled()
        made = container(await cluster.get(DEPLOYMENT))
        assert [(one.name, one.container_port) for one in made.ports] == [("facade", 9090)]
        assert values(made.env)["OMNIA_FACADE_PORT"] == "9090"
        assert values(made.env)["OMNIA_FACADE_TYPE"] == "grpc"
        (port,) = (await cluster.get(Ref(Service, "helper", "test"))).spec.ports
        assert (port.name, port.port, port.target_port) == ("facade", 9090, "facade")


async def test_the_deployment_follows_the_replicas_of_the_agent(cluster: Cluster) -> None:
    await prepare(cluster, agent(replicas=3))
    async with cluster.running(*controllers(), FakeDataPlane().controller()):
        await cluster.settled()
        assert (await cluster.get(DEPLOYMENT)).spec.replicas == 3
        one = await cluster.get(HELPER)
        await cluster.update(one.with_spec(runtime=Runtime(replicas=0)))
        await cluster.until(DEPLOYMENT, lambda it: it.spec.replicas == 0)
        await cluster.until(HELPER, lambda it: it.status is not None and it.status.phase == "Pending")


async def test_the_environment_has_agent_pack_facade_and_the_key_from_the_secret(cluster: Cluster) -> None:
    await prepare(cluster, agent())
    async with cluster.running(*controllers()):
        await cluster.settled()
        env = container(await cluster.get(DEPLOYMENT)).env
        assert values(env) == {
            "OMNIA_AGENT_NAME": "helper",
            "OMNIA_NAMESPACE": "test",
            "OMNIA_PROMPTPACK_NAME": "support",
            "OMNIA_PROMPTPACK_VERSION": "1.0.0",
            "OMNIA_PROMPTS_PATH": "/etc/omnia/prompts",
            "OMNIA_FACADE_TYPE": "websocket",
            "OMNIA_FACADE_PORT": "8080",
        }
        (key,) = [one.value_from for one in env if one.value_from is not None]
        assert key is not None
        assert key.secret_key_ref is not None
        assert (key.secret_key_ref.name, key.secret_key_ref.key) == ("provider", "api-key")


async def test_the_agent_image_is_the_default_or_that_of_the_options(cluster: Cluster) -> None:
    await prepare(cluster, agent())
    async with cluster.running(*controllers()):
        await cluster.settled()
        assert container(await cluster.get(DEPLOYMENT)).image == "ghcr.io/altairalabs/omnia-agent:latest"
    async with cluster.running(*controllers(Options(agent_image="agents:7"))):
        await cluster.until(DEPLOYMENT, lambda it: container(it).image == "agents:7")


async def test_a_tool_registry_is_passed_by_environment_and_a_mounted_tools_file(cluster: Cluster) -> None:
    tools = registry(tool("search", url="http://search.example.dev/ask"))
    await prepare(cluster, agent(tool_registry_ref="tools"), tools)
    async with cluster.running(*controllers()):
        await cluster.settled()
        made = container(await cluster.get(DEPLOYMENT))
        assert values(made.env)["OMNIA_TOOLREGISTRY_NAME"] == "tools"
        assert values(made.env)["OMNIA_TOOLREGISTRY_NAMESPACE"] == "test"
        assert values(made.env)["OMNIA_TOOLS_PATH"] == "/etc/omnia/tools"
        assert condition(await cluster.get(HELPER), "ToolRegistryReady") == ("True", "ToolRegistryFound")
        assert [one.mount_path for one in made.volume_mounts] == ["/etc/omnia/prompts", "/etc/omnia/tools"]


async def test_without_its_tool_registry_an_agent_runs_without_tools_and_reports_it(cluster: Cluster) -> None:
    await prepare(cluster, agent(tool_registry_ref="tools"))
    async with cluster.running(*controllers(), FakeDataPlane().controller()):
        found = await cluster.until(HELPER, lambda it: it.status is not None and it.status.phase == "Running")
        assert condition(found, "ToolRegistryReady") == ("False", "ToolRegistryNotFound")
        assert "OMNIA_TOOLREGISTRY_NAME" not in values(container(await cluster.get(DEPLOYMENT)).env)
        await cluster.create(registry(tool(url="http://a.example.dev")))
        began = cluster.now()
        await cluster.until(HELPER, lambda it: condition(it, "ToolRegistryReady") == ("True", "ToolRegistryFound"))
        assert cluster.now() == began


async def test_a_tool_registry_of_another_namespace_is_found(cluster: Cluster) -> None:
    elsewhere = ToolRegistryRef(name="tools", namespace="default")
    tools = registry(tool(url="http://a.example.dev"), namespace="default")
    await prepare(cluster, agent(tool_registry_ref=elsewhere), tools)
    async with cluster.running(*controllers()):
        await cluster.settled()
        assert values(container(await cluster.get(DEPLOYMENT)).env)["OMNIA_TOOLREGISTRY_NAMESPACE"] == "default"
        assert condition(await cluster.get(HELPER), "ToolRegistryReady") == ("True", "ToolRegistryFound")


async def test_a_session_is_passed_by_environment_with_the_url_of_its_store(cluster: Cluster) -> None:
    session = Session(type="redis", store_ref=SecretRef(name="store"), ttl="1h")
    await prepare(cluster, agent(session=session), secret("store", url=b"redis://x"))
    async with cluster.running(*controllers()):
        await cluster.settled()
        env = container(await cluster.get(DEPLOYMENT)).env
        assert values(env)["OMNIA_SESSION_TYPE"] == "redis"
        assert values(env)["OMNIA_SESSION_TTL"] == "1h"
        store = next(one.value_from for one in env if one.name == "OMNIA_SESSION_STORE_URL")
        assert store is not None
        assert store.secret_key_ref is not None
        assert (store.secret_key_ref.name, store.secret_key_ref.key) == ("store", "url")


async def test_the_prompts_are_mounted_read_only_at_their_path(cluster: Cluster) -> None:
    await prepare(cluster, agent())
    async with cluster.running(*controllers()):
        await cluster.settled()
        spec = (await cluster.get(DEPLOYMENT)).spec.template.spec
        assert spec is not None
        (mount,) = spec.containers[0].volume_mounts
        assert (mount.name, mount.mount_path, mount.read_only) == ("promptpack-config", "/etc/omnia/prompts", True)
        assert [(one.name, one.config_map and one.config_map.name) for one in spec.volumes] == [
            ("promptpack-config", "prompts")
        ]


async def test_probes_use_the_facade_port_and_scheduling_follows_the_agent(cluster: Cluster) -> None:
    cpu = ResourceRequirements(limits={"cpu": Quantity("500m")})
    await prepare(cluster, agent(runtime=Runtime(replicas=1, resources=cpu, node_selector={"disk": "fast"})))
    async with cluster.running(*controllers(Options(drain_seconds=5))):
        await cluster.settled()
        spec = (await cluster.get(DEPLOYMENT)).spec.template.spec
        assert spec is not None
        made = spec.containers[0]
        assert spec.node_selector == {"disk": "fast"}
        assert str(made.resources.limits["cpu"]) == "500m"
        probes = ((made.readiness_probe, "/readyz", 5, 10), (made.liveness_probe, "/healthz", 15, 20))
        for probe, path, delay, period in probes:
            assert probe is not None
            assert probe.http_get is not None
            assert (probe.http_get.path, probe.http_get.port) == (path, "facade")
            assert (probe.initial_delay_seconds, probe.period_seconds) == (delay, period)
        assert made.lifecycle is not None


async def test_on_a_laptop_agents_are_probed_at_once_and_every_second(cluster: Cluster) -> None:
    await prepare(cluster, agent())
    async with cluster.running(*laptop_system().controllers):
        await cluster.settled()
        probe = container(await cluster.get(DEPLOYMENT)).readiness_probe
        assert probe is not None
        assert (probe.initial_delay_seconds or 0, probe.period_seconds) == (0, 1)


async def test_the_readiness_probe_timing_is_configurable(cluster: Cluster) -> None:
    await prepare(cluster, agent())
    async with cluster.running(*controllers(Options(readiness_delay=0, readiness_period=1))):
        await cluster.settled()
        spec = (await cluster.get(DEPLOYMENT)).spec.template.spec
        assert spec is not None
        probe = spec.containers[0].readiness_probe
        assert probe is not None
        assert (probe.initial_delay_seconds or 0, probe.period_seconds) == (0, 1)


async def test_only_changed_prompts_and_keys_roll_the_pods(cluster: Cluster) -> None:
    await prepare(cluster, agent())
    async with cluster.running(*controllers(), FakeDataPlane().controller()):
        await cluster.settled()
        hashes = [await config_hash(cluster)]
        await cluster.update(prompts(system="You help more."))
        await cluster.settled()
        hashes.append(await config_hash(cluster))
        await cluster.update(secret(key=b"another"))
        await cluster.settled()
        hashes.append(await config_hash(cluster))
        assert len(set(hashes)) == 3
        await cluster.update(secret(key=b"another").with_metadata(labels={"a": "b"}))
        await cluster.update(prompts(system="You help more.").with_metadata(labels={"a": "b"}))
        await cluster.settled()
        assert await config_hash(cluster) == hashes[-1]
        strategy = (await cluster.get(DEPLOYMENT)).spec.strategy
        assert strategy.rolling_update is not None
        assert strategy.rolling_update.max_unavailable == 0


async def config_hash(cluster: Cluster) -> str:
    meta = (await cluster.get(DEPLOYMENT)).spec.template.metadata
    assert meta is not None
    return meta.annotations[CONFIG_HASH]


async def test_a_failed_pack_gates_its_agents_and_leaves_running_pods(cluster: Cluster) -> None:
    await prepare(cluster, agent())
    async with cluster.running(*controllers(), FakeDataPlane().controller()):
        await cluster.settled()
        before = await cluster.get(DEPLOYMENT)
        await cluster.delete(prompts().ref)
        found = await cluster.until(HELPER, lambda it: it.status is not None and it.status.phase == "Failed")
        assert condition(found, "PromptPackReady") == ("False", "PromptPackInvalid")
        assert found.status is not None
        assert found.status.replicas is not None
        assert found.status.replicas.ready == 1
        assert (await cluster.get(DEPLOYMENT)).metadata.resource_version == before.metadata.resource_version
        await cluster.create(prompts())
        await cluster.until(HELPER, lambda it: it.status is not None and it.status.phase == "Running")


async def test_a_pack_that_was_not_reconciled_yet_does_not_gate_its_agents(cluster: Cluster) -> None:
    await prepare(cluster, agent())
    async with cluster.running(controllers()[0], FakeDataPlane().controller()):
        found = await cluster.until(HELPER, lambda it: it.status is not None and it.status.phase == "Running")
        assert found.status is not None
        assert found.status.active_version == "1.0.0"


async def test_an_agent_that_is_pinned_to_another_version_fails(cluster: Cluster) -> None:
    await prepare(cluster, agent(prompt_pack_ref=PromptPackRef(name="support", version="2.0.0")))
    async with cluster.running(*controllers()):
        await cluster.settled()
        found = await cluster.get(HELPER)
        assert condition(found, "PromptPackReady") == ("False", "PromptPackNotFound")
        one = await cluster.get(pack().ref)
        await cluster.update(one.with_spec(version="v2.0.0"))
        await cluster.until(HELPER, lambda it: condition(it, "PromptPackReady") == ("True", "PromptPackFound"))
