"""Providers: their status, and the agents that reference them."""

from levelset import Ref
from levelset.kinds.apps_v1 import Deployment
from levelset.testing import Cluster
from levelset_omnia import AgentRuntime, Provider
from levelset_omnia.kinds import ProviderDefaults, ProviderRef
from systems.omnia.tests.support import FakeDataPlane, agent, condition, controllers, pack, prompts, provider, secret

__all__: list[str] = []

HELPER, MODELS = Ref(AgentRuntime, "helper", "test"), Ref(Provider, "models", "test")


async def env_of(cluster: Cluster) -> dict[str, object]:
    spec = (await cluster.get(Ref(Deployment, "helper", "test"))).spec.template.spec
    assert spec is not None
    return {one.name: one.value or one.value_from for one in spec.containers[0].env}


async def test_a_provider_is_ready_with_its_secret_and_tells_its_version(cluster: Cluster) -> None:
    async with cluster.running(*controllers()):
        await cluster.create(provider())
        await cluster.settled()
        found = await cluster.get(MODELS)
        assert condition(found, "SecretFound") == ("False", "SecretNotFound")
        assert found.status is not None
        assert found.status.phase == "Error"
        made = await cluster.create(secret("key", OPENAI_API_KEY=b"k"))
        await cluster.settled()
        ready = (await cluster.get(MODELS)).status
        assert ready is not None
        assert (ready.phase, ready.secret_version) == ("Ready", made.metadata.resource_version)


async def test_an_agent_waits_for_its_provider_and_gets_its_settings(cluster: Cluster) -> None:
    async with cluster.running(*controllers(), FakeDataPlane().controller()):
        for one in (prompts(), pack(), agent(provider_ref=ProviderRef(name="models"))):
            await cluster.create(one)
        await cluster.settled()
        assert condition(await cluster.get(HELPER), "ProviderReady") == ("False", "ProviderNotFound")
        tuning = ProviderDefaults(temperature="0.5", max_tokens=100)
        await cluster.create(provider(model="small", base_url="http://model.test/v1", defaults=tuning))
        await cluster.settled()
        assert condition(await cluster.get(HELPER), "ProviderReady") == ("False", "ProviderNotReady")
        await cluster.create(secret("key", OPENAI_API_KEY=b"k"))
        await cluster.settled()
        found = await cluster.get(HELPER)
        assert condition(found, "ProviderReady") == ("True", "ProviderFound")
        assert found.status is not None
        assert found.status.phase == "Running"
        env = await env_of(cluster)
        assert (env["OMNIA_PROVIDER_TYPE"], env["OMNIA_PROVIDER_MODEL"]) == ("openai", "small")
        assert env["OMNIA_PROVIDER_BASE_URL"] == "http://model.test/v1"
        assert (env["OMNIA_PROVIDER_TEMPERATURE"], env["OMNIA_PROVIDER_MAX_TOKENS"]) == ("0.5", "100")
        assert {"OPENAI_API_KEY", "OMNIA_PROVIDER_API_KEY"} <= set(env)


async def test_a_rotated_key_of_a_provider_rolls_its_agents(cluster: Cluster) -> None:
    async with cluster.running(*controllers(), FakeDataPlane().controller()):
        ref = ProviderRef(name="models")
        for one in (prompts(), pack(), provider(), secret("key", OPENAI_API_KEY=b"1"), agent(provider_ref=ref)):
            await cluster.create(one)
        await cluster.settled()
        before = (await cluster.get(Ref(Deployment, "helper", "test"))).spec.template.metadata.annotations
        await cluster.update(secret("key", OPENAI_API_KEY=b"2"))
        await cluster.settled()
        after = (await cluster.get(Ref(Deployment, "helper", "test"))).spec.template.metadata.annotations
        assert before != after
