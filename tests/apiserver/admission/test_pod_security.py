import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from levelset.apiserver.admission.pod_security import namespace_policies
from levelset.apiserver.audit_log import AuditLog
from tests.apiserver.support.in_process_server import InProcessServer, open_server

NAMESPACE = "/api/v1/namespaces/default"
PODS = f"{NAMESPACE}/pods"
LABEL = "pod-security.kubernetes.io/"
MERGE = "application/merge-patch+json"


def pod(name: str = "p", **container: Any) -> Any:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i", **container}]}}


async def label(api: InProcessServer, **modes: str | None) -> list[str]:
    """Sets labels of the namespace; returns the warnings."""
    labels = {f"{LABEL}{mode}": level for mode, level in modes.items()}
    response = await api.send("PATCH", NAMESPACE, {"metadata": {"labels": labels}}, kind=MERGE)
    assert response.status == 200, response.body
    return [value for name, value in response.headers if name == "Warning"]


async def test_a_pod_that_exists_may_be_changed_but_for_its_images() -> None:
    async with open_server() as api:
        await api.create(PODS, pod(securityContext={"privileged": True}))
        await label(api, enforce="baseline")
        assert (await api.request("PATCH", f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}}, kind=MERGE))[0] == 200
        change = [{"op": "replace", "path": "/spec/containers/0/image", "value": "j"}]
        status, answer = await api.request("PATCH", f"{PODS}/p", change, kind="application/json-patch+json")
        assert (status, 'violates PodSecurity "baseline:latest": privileged' in answer["message"]) == (403, True)


@pytest.mark.parametrize("limit", ["_MAX_CHECKED_PODS", "_MAX_CHECKED_BYTES"])
async def test_a_namespace_that_begins_to_enforce_a_level_says_how_many_of_its_pods_were_checked(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(namespace_policies, limit, 1)
    async with open_server() as api:
        for name in ("a", "b", "c"):
            await api.create(PODS, pod(name, securityContext={"privileged": True}))
        head, _, third = await label(api, enforce="baseline")
        assert "new PodSecurity enforce level only checked against the first 1 of 3 existing pods" in head
        assert "a: privileged" in third


async def test_a_namespace_that_begins_to_enforce_a_level_warns_of_its_pods() -> None:
    async with open_server() as api:
        for name in ("a", "b", "c"):
            await api.create(PODS, pod(name, securityContext={"privileged": True}))
        first, second = await label(api, enforce="baseline")
        assert 'existing pods in namespace \\"default\\" violate the new PodSecurity enforce level' in first
        assert second == '299 - "a (and 2 other pods): privileged"'
        assert await label(api, enforce="privileged") == []


async def test_the_audit_event_has_what_a_level_would_refuse(tmp_path: Path) -> None:
    async with open_server(audit_log=AuditLog(str(tmp_path / "audit.log"))) as api:
        await label(api, audit="baseline")
        await api.create(PODS, pod(securityContext={"privileged": True}))
    lines = (await asyncio.to_thread((tmp_path / "audit.log").read_text)).splitlines()
    annotations: dict[str, str] = json.loads(lines[-1])["annotations"]
    detail = 'privileged (container "c" must not set securityContext.privileged=true)'
    assert annotations[f"{LABEL}audit-violations"] == f'would violate PodSecurity "baseline:latest": {detail}'
    assert annotations[f"{LABEL}enforce-policy"] == "privileged:latest"


async def test_labels_that_are_removed_enforce_nothing() -> None:
    async with open_server() as api:
        await label(api, enforce="restricted")
        assert (await api.request("POST", PODS, pod()))[0] == 403
        await label(api, enforce=None)
        await api.create(PODS, pod())
