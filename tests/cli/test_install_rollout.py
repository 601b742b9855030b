"""`levelset install` waits for rollouts, and reports what it waits for."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from levelset import Client, GroupVersionKind, MergePatch, Ref
from levelset.apiserver import ApiServer
from levelset.apiserver.kubeconfig_file import ConnectionInfo, write_kubeconfig
from levelset.cli.install import is_rolled_out, rollout_of
from tests.cli.test_install import type_

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "web:1"}]}
"""
WEB: Ref[Any] = Ref(GroupVersionKind("apps", "v1", "Deployment"), "web", "default")
RUNS = {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 2}


@asynccontextmanager
async def serving(folder: Path) -> AsyncGenerator[tuple[Client, list[str]], None]:
    """A client of a server without controllers, and the arguments that apply a Deployment."""
    await asyncio.to_thread((folder / "web.yaml").write_text, DEPLOYMENT)
    async with ApiServer(tls=False) as server, await Client.connect(server) as client:
        contact = ConnectionInfo(server.url, server.token, server.ca)
        await asyncio.to_thread(write_kubeconfig, folder / "k", contact)
        yield client, ["install", "-f", str(folder / "web.yaml"), "--kubeconfig", str(folder / "k")]


async def fake_controller(client: Client, *statuses: Mapping[str, Any]) -> None:
    """Writes these statuses, one after the other, once the Deployment exists."""
    await client.wait(WEB, lambda _: True)
    for status in statuses:
        await client.patch(WEB, MergePatch({"status": dict(status)}), subresource="status")


async def test_it_returns_when_all_replicas_are_updated_and_available(tmp_path: Path) -> None:
    async with serving(tmp_path) as (client, words):
        result, _ = await asyncio.gather(
            type_(*words), fake_controller(client, {**RUNS, "availableReplicas": 1}, {**RUNS, "replicas": 3}, RUNS)
        )
    assert result.exit_code == 0
    assert result.output.splitlines() == [
        "Deployment/default/web: created",
        "Deployment/default/web: ready (2 of 2 replicas are available)",
    ]


async def test_a_rollout_without_progress_fails_at_once_with_a_hint(tmp_path: Path) -> None:
    bad = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "no such image"}
    async with serving(tmp_path) as (client, words):
        result, _ = await asyncio.gather(
            type_(*words, "-o", "json"), fake_controller(client, {"observedGeneration": 1, "conditions": [bad]})
        )
    assert result.exit_code == 1
    assert result.stderr == (
        "Deployment/default/web: it does not progress (no such image); the applied objects remain, "
        "see: kubectl describe deployment web -n default\n"
    )
    assert json.loads(result.stdout) == [{"object": "Deployment/default/web", "change": "created"}]


async def test_a_server_without_workload_controllers_is_reported_after_the_timeout(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, words):
        result = await type_(*words, "--timeout", "0.3")
    assert (result.exit_code, result.stdout) == (1, "Deployment/default/web: created\n")
    assert result.stderr == (
        "Deployment/default/web is applied, but no controller has observed it after 0.3 seconds: this server runs no "
        "Deployments (`levelset serve` does not), or its controllers are down; use --no-wait to skip waiting\n"
    )


async def test_a_late_rollout_is_reported_with_its_progress(tmp_path: Path) -> None:
    failing = {"type": "Available", "status": "False", "message": "pods crash"}
    half = {**RUNS, "availableReplicas": 1, "conditions": [failing]}
    async with serving(tmp_path) as (client, words):
        await type_(*words, "--no-wait")
        await fake_controller(client, half)
        result = await type_(*words, "--timeout", "0.3")
    assert result.exit_code == 1
    assert "is not ready after 0.3 seconds: 1 of 2 replicas are available (pods crash); the applied" in result.stderr


async def test_a_timeout_before_the_first_read_still_reports_the_progress(tmp_path: Path) -> None:
    async with serving(tmp_path) as (client, words):
        await type_(*words, "--no-wait")
        await fake_controller(client, {**RUNS, "availableReplicas": 1})
        late = await type_(*words, "--timeout", "0.000001")
        await fake_controller(client, RUNS)
        done = await type_(*words, "--timeout", "0.000001")
    assert late.exit_code == 1
    assert "is not ready after 1e-06 seconds: 1 of 2 replicas are available; the applied" in late.stderr
    assert (done.exit_code, done.stderr) == (0, "")


@pytest.mark.parametrize("more", ["--no-wait", "--dry-run"])
async def test_no_wait_and_dry_run_do_not_wait(tmp_path: Path, more: str) -> None:
    async with serving(tmp_path) as (_, words):
        result = await type_(*words, more)
    assert result.exit_code == 0
    assert len(result.output.splitlines()) == 1


def tree(kind: str, spec: Mapping[str, Any], status: Mapping[str, Any], generation: int = 1) -> dict[str, Any]:
    api = "batch/v1" if kind == "Job" else "apps/v1"
    return {"apiVersion": api, "kind": kind, "metadata": {"generation": generation}, "spec": spec, "status": status}


SEEN = {"observedGeneration": 1}
OF_SETS = {**SEEN, "readyReplicas": 3, "currentRevision": "a", "updateRevision": "b"}
ON_DELETE = {"updateStrategy": {"type": "OnDelete"}}
NODES = {**SEEN, "desiredNumberScheduled": 2, "updatedNumberScheduled": 1, "numberAvailable": 2}


def condition(type_: str, **more: str) -> dict[str, Any]:
    return {"conditions": [{"type": type_, "status": "True", **more}]}


@pytest.mark.parametrize(
    ("kind", "spec", "status", "state", "message"),
    [
        ("Deployment", {}, {}, "waiting", "no controller has observed it"),
        ("Deployment", {"paused": True}, {}, "ready", "paused"),
        ("Deployment", {"replicas": 0}, SEEN, "ready", "0 of 0 replicas are available"),
        ("Deployment", {}, SEEN, "waiting", "0 of 1 replicas are updated"),
        ("Deployment", {}, {**SEEN, **condition("ReplicaFailure", reason="Quota")}, "waiting", "0 of 1 .*Quota"),
        ("Deployment", {}, {**RUNS, "updatedReplicas": 1}, "waiting", "1 old replica is still running"),
        ("StatefulSet", {"replicas": 3}, {**SEEN, "readyReplicas": 2}, "waiting", "2 of 3 replicas are ready"),
        ("StatefulSet", {"replicas": 3}, {**OF_SETS, "updatedReplicas": 2}, "waiting", "2 of 3 replicas are updated"),
        ("StatefulSet", {"replicas": 3, **ON_DELETE}, OF_SETS, "ready", "3 of 3 replicas are ready"),
        (
            "StatefulSet",
            {"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": 1}}},
            {**OF_SETS, "updatedReplicas": 2},
            "ready",
            "3 of 3 replicas are ready",
        ),
        ("DaemonSet", {}, NODES, "waiting", "1 of 2 nodes are updated"),
        ("DaemonSet", ON_DELETE, NODES, "ready", "available on 2 of 2 nodes"),
        ("DaemonSet", {}, {**NODES, "updatedNumberScheduled": 2, "numberAvailable": 1}, "waiting", "on 1 of 2 nodes"),
        ("Job", {}, {}, "waiting", "no controller has observed it"),
        ("Job", {"completions": 3}, {"succeeded": 1}, "waiting", "1 of 3 pods have succeeded"),
        ("Job", {}, condition("Complete"), "ready", "complete"),
        ("Job", {}, condition("Failed", message="too often"), "failed", "it has failed .too often."),
        ("Job", {"suspend": True}, {}, "ready", "suspended"),
    ],
)
def test_a_rollout_is_judged_by_its_status(
    kind: str, spec: dict[str, Any], status: dict[str, Any], state: str, message: str
) -> None:
    found = rollout_of(tree(kind, spec, status))
    assert found.state == state
    assert re.search(message, found.message)


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet"])
def test_a_status_of_an_older_generation_is_not_used(kind: str) -> None:
    found = rollout_of(tree(kind, {}, {**RUNS, **NODES, "readyReplicas": 2}, generation=2))
    assert (found.state, found.message) == ("waiting", "its controller has not observed the new generation")


@pytest.mark.parametrize("odd", ["a text", 5, [], None, {"conditions": 5}, {"conditions": ["a", {"type": "b"}]}])
def test_an_invalid_status_is_waiting(odd: Any) -> None:
    for kind in ("Deployment", "StatefulSet", "DaemonSet", "Job"):
        assert rollout_of(tree(kind, odd, odd)).state == "waiting"


def test_only_workloads_have_a_rollout() -> None:
    assert is_rolled_out("batch/v1", "Job")
    assert not is_rolled_out("example.dev/v1", "Deployment")
    assert rollout_of({"apiVersion": "v1", "kind": "Service"}).state == "ready"
