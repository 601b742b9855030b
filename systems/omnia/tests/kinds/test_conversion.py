"""Two versions of AgentRuntime: nothing is lost between them, and clients of either version see the same agent."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelset import MergePatch, ObjectMeta, Ref, replace
from levelset.errors import BadObject, Invalid
from levelset.runtime.webhook import check_round_trip
from levelset.testing import Cluster
from levelset_omnia import AgentRuntime, AgentRuntimeStatus, omnia_system
from levelset_omnia.kinds import (
    AgentRuntimeSpecV1Alpha1,
    AgentRuntimeV1Alpha1,
    PromptPackRef,
    ProviderConfig,
    ProviderRef,
    SecretRef,
    Session,
    agent_runtime_conversion,
)
from levelset_omnia.kinds.conversion import PROVIDER_ANNOTATION, to_v1alpha1, to_v1alpha2
from systems.omnia.tests.support import FakeDataPlane, agent, pack, prompts, secret

__all__: list[str] = []

MODEL = ProviderConfig(type="openai", model="m", base_url="http://model.test/v1", secret_ref=SecretRef(name="key"))
STATUS = AgentRuntimeStatus(phase="Running", active_version="1.0.0")
OLD, NEW = Ref(AgentRuntimeV1Alpha1, "helper", "test"), Ref(AgentRuntime, "helper", "test")


def old(name: str = "helper", secret_name: str = "key") -> AgentRuntimeV1Alpha1:
    spec = AgentRuntimeSpecV1Alpha1(
        prompt_pack_ref=PromptPackRef(name="support"), provider_secret_ref=SecretRef(name=secret_name)
    )
    return AgentRuntimeV1Alpha1(metadata=ObjectMeta(name=name, namespace="test"), spec=spec)


providers = st.one_of(
    st.none(),
    st.builds(
        ProviderConfig,
        type=st.sampled_from([None, "auto", "openai", "claude"]),
        model=st.one_of(st.none(), st.text(max_size=5)),
        secret_ref=st.one_of(st.none(), st.builds(SecretRef, name=st.sampled_from(["none", "key", "other"]))),
    ),
)
refs = st.one_of(st.none(), st.builds(ProviderRef, name=st.sampled_from(["a", "none"])))


sessions = st.one_of(st.none(), st.just(Session(type="redis", store_ref=SecretRef(name="store"), ttl="1h")))
labels = st.dictionaries(st.sampled_from(["a", "b"]), st.just("1"))


@given(provider=providers, ref=refs, session=sessions, annotations=labels, replicas=st.integers(0, 3))
def test_nothing_is_lost_from_v1alpha2_to_v1alpha1_and_back(
    provider: ProviderConfig | None,
    ref: ProviderRef | None,
    session: Session | None,
    annotations: dict[str, str],
    replicas: int,
) -> None:
    one = agent(provider=provider, provider_ref=ref, session=session, replicas=replicas)
    one = replace(one, metadata=replace(one.metadata, annotations=annotations), status=STATUS)
    assert check_round_trip([agent_runtime_conversion()], samples=[one]) == 1


@given(name=st.sampled_from(["none", "key"]), session=sessions, annotations=labels)
def test_nothing_is_lost_from_v1alpha1_to_v1alpha2_and_back(
    name: str, session: Session | None, annotations: dict[str, str]
) -> None:
    one = old(secret_name=name).with_spec(session=session)
    one = replace(one, metadata=replace(one.metadata, annotations=annotations), status=STATUS)
    assert check_round_trip([agent_runtime_conversion()], samples=[one]) == 1


@given(provider=providers, ref=refs, name=st.sampled_from(["none", "key", "new"]))
def test_a_secret_that_a_client_of_v1alpha1_changes_is_the_key_of_the_provider(
    provider: ProviderConfig | None, ref: ProviderRef | None, name: str
) -> None:
    read = to_v1alpha1(agent(provider=provider, provider_ref=ref))
    if read.spec.provider_secret_ref.name == name:
        return
    written = to_v1alpha2(read.with_spec(provider_secret_ref=SecretRef(name=name)))
    assert written.spec.provider is not None
    assert (written.spec.provider.secret_ref, written.spec.provider_ref) == (SecretRef(name=name), None)
    assert written.spec.provider.model == (None if provider is None else provider.model)


def test_an_agent_that_v1alpha1_can_express_has_no_annotation() -> None:
    assert to_v1alpha1(to_v1alpha2(old())) == old()
    assert PROVIDER_ANNOTATION in to_v1alpha1(agent(provider=MODEL)).metadata.annotations


def test_a_broken_annotation_is_named() -> None:
    broken = replace(old(), metadata=replace(old().metadata, annotations={PROVIDER_ANNOTATION: "{"}))
    with pytest.raises(BadObject, match="v1alpha2-provider"):
        to_v1alpha2(broken)


async def test_clients_of_both_versions_use_one_agent_that_runs(cluster: Cluster) -> None:
    system = omnia_system()
    async with cluster.running(*system.controllers, FakeDataPlane().controller(), webhooks=system.webhooks):
        for one in (prompts(), secret("key"), pack(), old()):
            await cluster.create(one)
        await cluster.settled()
        found = await cluster.get(NEW)
        assert found.spec.provider == ProviderConfig(secret_ref=SecretRef(name="key"))
        assert (await cluster.get(OLD)).status.phase == "Running"  # type: ignore[union-attr]
        await cluster.patch(NEW, MergePatch({"spec": {"provider": {"type": "openai", "model": "m"}}}))
        await cluster.patch(OLD, MergePatch({"spec": {"runtime": {"replicas": 3}}}))
        await cluster.settled()
        changed = await cluster.get(NEW)
        assert changed.spec.runtime.replicas == 3
        assert changed.spec.provider == ProviderConfig(type="openai", model="m", secret_ref=SecretRef(name="key"))
        assert PROVIDER_ANNOTATION not in changed.metadata.annotations
        stored = (await cluster.get(OLD)).metadata.annotations[PROVIDER_ANNOTATION]
        assert json.loads(stored)["provider"]["model"] == "m"


async def test_the_schema_of_v1alpha2_rejects_what_upstream_does(cluster: Cluster) -> None:
    system = omnia_system()
    async with cluster.running(*system.controllers, webhooks=system.webhooks):
        for provider in ({"type": "mine"}, {"baseURL": "ftp://a"}, {"config": {"temperature": "hot"}}):
            tree = {
                "apiVersion": "omnia.altairalabs.ai/v1alpha2",
                "kind": "AgentRuntime",
                "metadata": {"name": "one", "namespace": "test"},
                "spec": {"promptPackRef": {"name": "support"}, "provider": provider},
            }
            with pytest.raises(Invalid, match="spec.provider"):
                await cluster.create(tree)
