"""Reports of Pods over HTTP: from an agent, from another image, and from nothing."""

import json
from pathlib import Path

import pytest

from levelset.http import Response, Server
from levelset.kinds.apps_v1 import Deployment, DeploymentSpec
from levelset.kinds.core_v1 import PodSpec, PodTemplateSpec
from levelset.kinds.meta_v1 import LabelSelector
from levelset.objects import ObjectMeta
from levelset_omnia.agent import Agent, Facade, Settings
from levelset_omnia.agent.settings import SessionSettings
from levelset_omnia.agentruntime import PodProblem, PodReport, read_report
from levelset_omnia.agentruntime.pod_reports import counts_of
from levelset_omnia.well_known import CONFIG_HASH

__all__: list[str] = []


async def test_an_agent_reports_its_problems_and_counts(tmp_path: Path) -> None:
    session = SessionSettings(type="postgres", url="postgres://db")
    agent = Agent(Settings(name="helper", namespace="shop", session=session, prompts=tmp_path / "prompts"))
    async with Server(Facade(agent).handle) as server:
        report = await read_report("127.0.0.1", server.port)
    message = "session store postgres: this agent stores sessions in memory or in redis"
    assert report == PodReport(problems=(PodProblem("session", message),))


@pytest.mark.parametrize("body", [b"<html>", b"[]", json.dumps({"requests": "many"}).encode()])
async def test_another_image_without_a_report_has_none(body: bytes) -> None:
    async with Server(lambda _: Response(body=body)) as server:
        assert await read_report("127.0.0.1", server.port) is None
    assert await read_report("127.0.0.1", 1) is None


def test_only_pods_of_the_present_template_are_counted() -> None:
    template = PodTemplateSpec(metadata=ObjectMeta(annotations={CONFIG_HASH: "new"}), spec=PodSpec(containers=()))
    deployment = Deployment.new("d", DeploymentSpec(selector=LabelSelector(), template=template))
    old = PodReport(requests=9, errors=9, config_hash="old")
    new = PodReport(requests=3, errors=1, config_hash="new")
    assert counts_of(deployment, [old, new, new]) == (6, 2)
    assert counts_of(None, [old, new]) == (0, 0)
