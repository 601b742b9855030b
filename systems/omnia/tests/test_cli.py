"""The command levelset-omnia: its options, and the manifests that install the operator."""

import asyncio
from functools import cache
from pathlib import Path

import pytest

from levelset import Ref
from levelset.codegen import CallRecords, check_rules, manifests_of
from levelset.errors import ConfigError
from levelset.kinds.apiextensions_v1 import CustomResourceDefinition
from levelset.objects import read_manifests
from levelset.testing import Cluster
from levelset_omnia import Options
from levelset_omnia.cli import main
from levelset_omnia.kinds import PromptPackRef
from levelset_omnia.manifests import installation
from systems.omnia.tests.support import (
    FakeDataPlane,
    agent,
    canary,
    controllers,
    endpoints,
    pack,
    prompts,
    provider,
    registry,
    secret,
    service,
)

__all__: list[str] = []

# By default; to infer its permissions takes most of a second.
default_installation = cache(installation)


def test_the_manifests_hold_the_four_definitions_and_the_operator(capsys: pytest.CaptureFixture[str]) -> None:
    main(["manifests", "--image", "omnia:7", "--agent-image", "agents:7", "--replicas", "2"])
    made = [one.tree for one in read_manifests(capsys.readouterr().out)]
    kinds = [one["kind"] for one in made]
    assert kinds.count("CustomResourceDefinition") == 4
    assert {"ClusterRole", "ClusterRoleBinding", "ServiceAccount", "Deployment"} <= set(kinds)
    (deployment,) = [one for one in made if one["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert deployment["spec"]["replicas"] == 2
    assert container["image"] == "omnia:7"
    assert {"--agent-image=agents:7", "--leader-elect"} <= set(container["args"])


def test_the_manifests_are_written_as_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["manifests", "-d", str(tmp_path)])
    assert set(capsys.readouterr().out.splitlines()) == {
        str(tmp_path / path) for path in manifests_of(default_installation())
    }
    assert (tmp_path / "crds" / "agentruntimes.omnia.altairalabs.ai.yaml").exists()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["run", "--workers", "0"], "at least 1"),
        (["run", "--retry-first", "6m"], "at most 300"),
        (["run", "--dependency-interval", "x"], "not a duration"),
        (["run", "--drain", "11m"], "0 to 600"),
        (["run", "--readiness-delay", "11m"], "0 to 600"),
        (["run", "--readiness-period", "0s"], "1 to 600"),
        (["run", "--agent-image", ""], "agent_image is empty"),
        (["manifests", "--replicas", "0"], "at least one"),
        (["manifests", "--local"], "unknown argument --local."),
        (["manifests", "--namspace", "x"], "unknown argument --namspace. Did you mean --namespace?"),
        (["rnu"], "Did you mean run?"),
        ([], "the following arguments are required: COMMAND"),
    ],
)
def test_a_usage_error_is_reported_with_exit_code_2(
    arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["run"], ["manifests"]])
def test_the_help_of_every_command_has_an_example(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([*words, "--help"])
    assert f"Example: {' '.join(('levelset-omnia', *words))} " in " ".join(capsys.readouterr().out.split())


def test_other_flags_are_passed_to_run(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", "--workers", "2", "--nonsense"])
    assert ended.value.code == 2
    assert "unknown option --nonsense" in capsys.readouterr().err


def test_invalid_options_are_rejected() -> None:
    with pytest.raises(ConfigError, match="dependency_seconds"):
        Options(dependency_seconds=0)


async def test_the_roles_allow_exactly_what_the_operator_does(cluster: Cluster) -> None:
    calls = CallRecords()
    for one in (prompts(), prompts("prompts-2"), secret(), pack(), service(), endpoints(), registry()):
        await cluster.create(one)
    await cluster.create(agent(tool_registry_ref="tools", replicas=2))
    await cluster.create(provider())
    await cluster.create(agent("pinned", prompt_pack_ref=PromptPackRef(name="support", version="9.0.0")))
    process = cluster.process(*controllers(), faults=[calls.hook])
    async with cluster.running(FakeDataPlane().controller()):
        await process.start()
        await cluster.settled()
        found = await cluster.get(pack().ref)
        wanted = pack(version="2.0.0", source="prompts-2", rollout=canary(50, 50, "1s")).spec
        await cluster.update(found.with_spec(version="2.0.0", source=wanted.source, rollout=wanted.rollout))
        await cluster.advance(5)
        helper = await cluster.get(agent().ref)
        await cluster.update(helper.with_spec(tool_registry_ref=None))
        await cluster.settled()
        await cluster.delete(Ref(type(helper), "helper", "test"))
        await cluster.advance(5)
        await process.stop()
    # The conversion runs in process here; its permissions in a cluster are those of levelset.runtime.webhook.
    permissions = (await asyncio.to_thread(default_installation)).permissions
    check_rules(calls, [one for one in permissions if one.why != "serves webhooks"])


async def test_a_server_accepts_the_manifests(cluster: Cluster) -> None:
    text = manifests_of(await asyncio.to_thread(default_installation))["install.yaml"]
    for one in read_manifests(text):
        await cluster.apply(one.tree)
    for name in ("agentruntimes", "promptpacks", "providers", "toolregistries"):
        found = await cluster.get(Ref(CustomResourceDefinition, f"{name}.omnia.altairalabs.ai"))
        assert found.status is not None
        assert {one.type for one in found.status.conditions if one.status == "True"} >= {"Established"}
