import asyncio
import threading
from typing import Any

import pytest

from levelset.apiserver.controllers import resource_quotas
from tests.apiserver.support.in_process_server import InProcessServer, configmap, open_server, widgets

CORE = "/api/v1/namespaces/default"
QUOTAS = f"{CORE}/resourcequotas"
MERGE = "application/merge-patch+json"


async def make_quota(api: InProcessServer, hard: Any, **spec: Any) -> None:
    await api.create(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": hard, **spec}})
    await api.server.idle()


async def used(api: InProcessServer) -> Any:
    await api.server.idle()
    return (await api.request("GET", f"{QUOTAS}/q"))[1]["status"]["used"]


def pod(name: str, **spec: Any) -> Any:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def sized(name: str, **resources: Any) -> Any:
    container = {"name": "c", "image": "i", "resources": resources}
    return pod(name, containers=[container])


async def test_the_status_of_a_new_quota_counts_what_exists() -> None:
    async with open_server() as api:
        await api.create(f"{CORE}/configmaps", configmap("a"))
        await make_quota(api, {"configmaps": "3", "count/secrets": "2", "requests.cpu": "1"})
        _, quota = await api.request("GET", f"{QUOTAS}/q")
        assert quota["status"]["hard"] == {"configmaps": "3", "count/secrets": "2", "requests.cpu": "1"}
        assert quota["status"]["used"] == {"configmaps": "1", "count/secrets": "0", "requests.cpu": "0"}


async def test_a_create_beyond_the_quota_is_forbidden_until_something_is_deleted() -> None:
    async with open_server() as api:
        await make_quota(api, {"configmaps": "1"})
        await api.create(f"{CORE}/configmaps", configmap("a"))
        status, answer = await api.request("POST", f"{CORE}/configmaps", configmap("b"))
        problem = "exceeded quota: q, requested: configmaps=1, used: configmaps=1, limited: configmaps=1"
        assert (status, answer["message"]) == (403, f'configmaps "b" is forbidden: {problem}')
        await api.request("DELETE", f"{CORE}/configmaps/a")
        assert await used(api) == {"configmaps": "0"}
        await api.create(f"{CORE}/configmaps", configmap("b"))


async def test_concurrent_creates_share_what_is_left() -> None:
    async with open_server() as api:
        await make_quota(api, {"configmaps": "3"})
        made = [api.request("POST", f"{CORE}/configmaps", configmap(f"c{number}")) for number in range(8)]
        codes = [code for code, _ in await asyncio.gather(*made)]
        assert (codes.count(201), codes.count(403)) == (3, 5)
        assert await used(api) == {"configmaps": "3"}


async def test_what_is_charged_while_many_objects_are_counted_stays_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource_quotas, "_COUNTED_ON_LOOP", 0)
    async with open_server() as api:
        await make_quota(api, {"configmaps": "9"})
        for name in "abc":
            await api.create(f"{CORE}/configmaps", configmap(name))
        await api.request("DELETE", f"{CORE}/configmaps/a")  # it is counted again, in a thread
        await asyncio.sleep(0)
        await api.create(f"{CORE}/configmaps", configmap("d"))
        assert await used(api) == {"configmaps": "3"}
        assert threading.active_count() > 1


async def test_a_create_that_fails_after_it_was_charged_is_counted_again() -> None:
    async with open_server() as api:
        await make_quota(api, {"configmaps": "3"})
        await api.create(f"{CORE}/configmaps", configmap("a"))
        assert (await api.request("POST", f"{CORE}/configmaps", configmap("a")))[0] == 409
        assert await used(api) == {"configmaps": "1"}


async def test_a_dry_run_is_checked_and_not_charged() -> None:
    async with open_server() as api:
        await make_quota(api, {"configmaps": "1"})
        assert (await api.request("POST", f"{CORE}/configmaps", configmap("a"), dryRun="All"))[0] == 201
        assert await used(api) == {"configmaps": "0"}
        await api.create(f"{CORE}/configmaps", configmap("a"))
        assert (await api.request("POST", f"{CORE}/configmaps", configmap("b"), dryRun="All"))[0] == 403


async def test_the_resources_of_pods_are_counted_until_they_end() -> None:
    async with open_server() as api:
        hard = {
            "pods": "5",
            "requests.cpu": "1",
            "limits.memory": "1Gi",
            "memory": "1Gi",
            "requests.example.com/gpu": "3",
        }
        await make_quota(api, hard)
        resources = {"requests": {"cpu": "500m"}, "limits": {"memory": "252Mi", "example.com/gpu": "2"}}
        await api.create(f"{CORE}/pods", sized("a", **resources))
        wanted = {"pods": "1", "requests.cpu": "500m", "limits.memory": "252Mi", "memory": "252Mi"}
        assert await used(api) == {**wanted, "requests.example.com/gpu": "2"}
        status, answer = await api.request("POST", f"{CORE}/pods", sized("b", **resources))
        assert (
            status,
            "requested: requests.example.com/gpu=2, used: requests.example.com/gpu=2" in answer["message"],
        ) == (
            403,
            True,
        )
        await api.request("PATCH", f"{CORE}/pods/a/status", {"status": {"phase": "Succeeded"}}, kind=MERGE)
        assert set((await used(api)).values()) == {"0"}


async def test_a_pod_must_say_what_a_quota_limits() -> None:
    async with open_server() as api:
        await make_quota(api, {"requests.cpu": "1", "limits.memory": "1Gi", "pods": "5"})
        status, answer = await api.request("POST", f"{CORE}/pods", pod("a"))
        assert (status, answer["message"]) == (
            403,
            'pods "a" is forbidden: failed quota: q: must specify limits.memory for: c; requests.cpu for: c',
        )


async def test_scopes_select_pods() -> None:
    async with open_server() as api:
        await make_quota(api, {"pods": "5"}, scopes=["Terminating", "NotBestEffort"])
        await api.create(f"{CORE}/pods", pod("a", activeDeadlineSeconds=60))
        await api.create(f"{CORE}/pods", sized("b", requests={"cpu": "1"}))
        assert await used(api) == {"pods": "0"}
        both = sized("c", requests={"cpu": "1"})
        both["spec"]["activeDeadlineSeconds"] = 60
        await api.create(f"{CORE}/pods", both)
        assert await used(api) == {"pods": "1"}


async def test_a_scope_selector_selects_by_priority_class() -> None:
    async with open_server() as api:
        await api.create("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "high"}, "value": 5})
        expression = {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
        await make_quota(api, {"pods": "1"}, scopeSelector={"matchExpressions": [expression]})
        await api.create(f"{CORE}/pods", pod("low"))
        await api.create(f"{CORE}/pods", pod("a", priorityClassName="high"))
        assert (await api.request("POST", f"{CORE}/pods", pod("b", priorityClassName="high")))[0] == 403
        assert await used(api) == {"pods": "1"}


async def test_services_are_counted_by_type_and_charged_when_it_changes() -> None:
    async with open_server() as api:
        await make_quota(api, {"services": "5", "services.nodeports": "1", "services.loadbalancers": "1"})
        ports = [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]
        await api.create(
            f"{CORE}/services", {"metadata": {"name": "s"}, "spec": {"ports": ports[:1], "type": "NodePort"}}
        )
        assert await used(api) == {"services": "1", "services.nodeports": "1", "services.loadbalancers": "0"}
        await api.create(f"{CORE}/services", {"metadata": {"name": "t"}, "spec": {"ports": ports}})
        status, answer = await api.request("PATCH", f"{CORE}/services/t", {"spec": {"type": "NodePort"}}, kind=MERGE)
        assert (status, "exceeded quota: q, requested: services.nodeports=2" in answer["message"]) == (403, True)


async def test_claims_are_counted_by_size_and_class() -> None:
    async with open_server() as api:
        name = "gold.storageclass.storage.k8s.io/requests.storage"
        await make_quota(api, {"persistentvolumeclaims": "2", "requests.storage": "3Gi", name: "2Gi"})
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "gold",
        }
        await api.create(f"{CORE}/persistentvolumeclaims", {"metadata": {"name": "a"}, "spec": spec})
        assert await used(api) == {"persistentvolumeclaims": "1", "requests.storage": "1Gi", name: "1Gi"}


async def test_custom_resources_are_counted() -> None:
    async with open_server() as api:
        await api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", widgets())
        await make_quota(api, {"count/widgets.example.com": "1"})
        path = "/apis/example.com/v1/namespaces/default/widgets"
        widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}}
        await api.create(path, widget)
        assert (await api.request("POST", path, {**widget, "metadata": {"name": "b"}}))[0] == 403


async def test_a_quota_that_is_deleted_limits_nothing_and_others_are_counted_again() -> None:
    async with open_server() as api:
        await make_quota(api, {"configmaps": "0", "resourcequotas": "2"})
        assert await used(api) == {"configmaps": "0", "resourcequotas": "1"}
        await api.request("PATCH", f"{QUOTAS}/q", {"spec": {"hard": {"configmaps": "2"}}}, kind=MERGE)
        await api.server.idle()
        await api.create(f"{CORE}/configmaps", configmap("a"))
        await api.request("DELETE", f"{QUOTAS}/q")
        assert api.server.state.quotas == {}
        for name in ("b", "c"):
            await api.create(f"{CORE}/configmaps", configmap(name))
