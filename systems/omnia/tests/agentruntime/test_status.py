"""The status, the tools file and the hashes of an agent as pure functions."""

import json
from datetime import UTC, datetime, timedelta

from levelset import replace
from levelset.kinds.apps_v1 import Deployment, DeploymentSpec, DeploymentStatus
from levelset.kinds.core_v1 import ConfigMap, PodSpec, PodTemplateSpec, Secret
from levelset.kinds.meta_v1 import LabelSelector
from levelset_omnia import AgentRuntime, AgentRuntimeStatus, ToolRegistryStatus
from levelset_omnia.agentruntime import (
    Facts,
    PodProblem,
    PodReport,
    Problem,
    agent_status,
    secret_hash,
    status_events,
    tools_file,
)
from levelset_omnia.kinds import DiscoveredTool, Revision, SecretRef, Session, ToolSchema
from levelset_omnia.promptpack import Choice, PackVersion, config_hash, content_hash
from systems.omnia.tests.support import agent, condition, pack, registry, tool

__all__: list[str] = []

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CHOICE = Choice(PackVersion(pack(), Revision(version="1.0.0", config_map="prompts", hash="a")))


def deployment(ready: int) -> Deployment:
    spec = DeploymentSpec(selector=LabelSelector(), template=PodTemplateSpec(spec=PodSpec(containers=())))
    status = DeploymentStatus(ready_replicas=ready, available_replicas=ready, replicas=ready, updated_replicas=ready)
    return replace(Deployment.new("helper", spec), status=status)


def after(one: AgentRuntime, facts: Facts, *, hours: int = 0) -> AgentRuntime:
    return replace(one, status=agent_status(one, facts, now=NOW + timedelta(hours=hours)))


def test_the_same_facts_an_hour_later_are_the_same_status() -> None:
    facts = Facts(choice=CHOICE, stable=deployment(1))
    first = after(agent(), facts)
    assert after(first, facts, hours=1) == first
    assert list(status_events(first.status, first.status or AgentRuntimeStatus(), Facts())) == []


def test_pods_of_both_versions_count() -> None:
    canary = PackVersion(pack(version="2.0.0"), Revision(version="2.0.0", config_map="prompts-2", hash="b"))
    facts = Facts(choice=Choice(CHOICE.stable, canary, 50), stable=deployment(1), candidate=deployment(1))
    status = after(agent(replicas=2), facts).status
    assert status is not None
    assert status.replicas is not None
    assert (status.replicas.desired, status.replicas.ready) == (2, 2)
    assert status.canary is not None
    assert (status.canary.version, status.canary.weight, status.canary.replicas) == ("2.0.0", 50, 1)


def test_a_failure_retains_the_conditions_of_later_parts() -> None:
    good = after(agent(), Facts(choice=CHOICE, stable=deployment(1)))
    problem = Problem("PromptPack", "PromptPackNotFound", "it does not exist")
    bad = after(good, Facts(problem=problem, stable=deployment(1)), hours=1)
    assert condition(bad, "PromptPackReady") == ("False", "PromptPackNotFound")
    assert condition(bad, "ServiceReady") == ("True", "ServiceCreated")
    assert bad.status is not None
    assert (bad.status.phase, bad.status.active_version) == ("Failed", "1.0.0")
    assert [one.reason for one in status_events(good.status, bad.status, Facts(problem=problem))] == [
        "PromptPackNotFound"
    ]
    assert list(status_events(bad.status, bad.status, Facts(problem=problem))) == []


def test_a_registry_that_is_no_longer_referenced_has_no_condition() -> None:
    missing = after(agent(tool_registry_ref="tools"), Facts(choice=CHOICE, has_registry=False))
    assert condition(missing, "ToolRegistryReady") == ("False", "ToolRegistryNotFound")
    without = after(replace(agent(), status=missing.status), Facts(choice=CHOICE))
    assert condition(without, "ToolRegistryReady") is None


def test_what_the_pods_report_is_in_the_conditions_once() -> None:
    session = Session(type="redis", store_ref=SecretRef(name="store"))
    report = PodReport(problems=(PodProblem("session", "redis at db:6379 does not answer"),))
    facts = Facts(choice=CHOICE, reports=(report, report))
    waiting = after(agent(session=session), facts)
    assert condition(waiting, "SessionStoreReady") == ("False", "SessionStoreNotReady")
    assert waiting.status is not None
    ready = next(one for one in waiting.status.conditions if one.type == "Ready")
    assert ready.message == "redis at db:6379 does not answer"
    assert [one.reason for one in status_events(None, waiting.status, facts)] == ["Pending", "PodsNotReady"]
    assert list(status_events(waiting.status, waiting.status, facts)) == []
    assert condition(after(replace(agent(), status=waiting.status), Facts(choice=CHOICE)), "SessionStoreReady") is None


def test_the_tools_file_has_the_available_tools_with_their_parameters() -> None:
    one = tool("search", url="http://a.example.dev", schema=ToolSchema(input="{}"), retries=2, timeout="5s")
    found = (
        DiscoveredTool(name="search", status="Available", endpoint="http://a.example.dev", description="Finds."),
        DiscoveredTool(name="gone", status="Unavailable"),
        DiscoveredTool(name="unknown", status="Available"),
    )
    made = replace(registry(one, tool("gone")), status=ToolRegistryStatus(discovered_tools=found))
    assert json.loads(tools_file(made)) == {
        "tools": [
            {
                "name": "search",
                "type": "http",
                "endpoint": "http://a.example.dev",
                "description": "Finds.",
                "input": "{}",
                "timeout": "5s",
                "retries": 2,
            }
        ]
    }
    assert json.loads(tools_file(registry())) == {"tools": []}


def test_hashes_depend_on_the_content_and_not_on_its_order() -> None:
    assert config_hash({"a": "1", "b": "2"}) == config_hash({"b": "2", "a": "1"})
    assert config_hash({"a": "1b", "c": ""}) != config_hash({"a": "1", "bc": ""})
    text, data = ConfigMap.new("a", data={"x": "y"}), ConfigMap.new("a", binary_data={"x": b"y"})
    assert content_hash(text) != content_hash(data)
    assert content_hash(text) == content_hash(ConfigMap.new("other", data={"x": "y"}))
    assert secret_hash(Secret.new("a", data={"k": b"1"})) != secret_hash(Secret.new("a", data={"k": b"2"}))
