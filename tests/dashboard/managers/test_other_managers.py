"""Managers of other processes: those of this machine by their records, those in Pods by their metrics, and Leases."""

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from levelset import Context, Controller, LeaderElection
from levelset.apiserver import ApiServer
from levelset.client import Client, MergePatch
from levelset.dashboard import Dashboard, DashboardSource
from levelset.dashboard.managers.manager_readings import ControllerReading, is_same_server, metrics_port, sample_between
from levelset.dashboard.managers.other_managers import OtherManagers
from levelset.dashboard.metrics_history import MetricsHistory
from levelset.http import Peer, Request, Response, Server, read_all
from levelset.kinds.core_v1 import ConfigMap
from levelset.objects.ref import GroupVersionKind, Ref
from levelset.runtime.manager import Manager
from levelset.runtime.manager.process_records import FOLDER_VARIABLE, ProcessRecord, find_records, write_record
from tests.dashboard.fixtures import TOKEN, get, tree
from tests.dashboard.test_actions import act as send_action

LEASES = GroupVersionKind("coordination.k8s.io", "v1", "Lease")
PODS = GroupVersionKind("", "v1", "Pod")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = tmp_path / "runtime"
    monkeypatch.setenv(FOLDER_VARIABLE, str(found))
    return found


async def reconcile(one: ConfigMap, _: Context) -> None:
    if one.name == "broken":
        raise RuntimeError("the database refused the connection")


def maps(name: str = "maps") -> Controller[ConfigMap]:
    return Controller(ConfigMap, reconcile, name=name, namespace="default")


@asynccontextmanager
async def cluster(**options: Any) -> AsyncGenerator[tuple[ApiServer, Client], None]:
    """An API server with an address, and a client of it."""
    server = ApiServer(tls=False, **options)
    await server.start()
    try:
        async with await Client.connect(server) as client:
            yield server, client
    finally:
        await server.stop()


@asynccontextmanager
async def shown(client: Client, server: str, *, actions: bool = False) -> AsyncGenerator[Dashboard, None]:
    page = Dashboard(DashboardSource.of_client(client, server=server), token=TOKEN, actions=actions)
    assert page.others is not None
    try:
        await page.others.wait_read()
        yield page
    finally:
        await page.close()


async def act(page: Dashboard, name: str, request: dict[str, Any]) -> tuple[int, Any]:
    response = await send_action(page, name, request)
    return response.status, json.loads(await read_all(response))


async def test_a_manager_of_this_machine_is_shown_with_its_failures_and_reconciles() -> None:
    async with cluster() as (server, client), Manager(server, admin=True) as manager:
        manager.add(maps())
        for name in ("good", "broken"):
            await client.create(tree("v1", "ConfigMap", name))
        await manager.wait_idle()
        async with shown(client, server.url) as page:
            status = await get(page, "/api/status")
            (found,) = status["managers"]
            assert found["name"].startswith(f"process {os.getpid()} ")
            assert (found["role"], found["problem"], found["controllers"]) == ("leader", None, 1)
            (controller,) = status["controllers"]
            assert (controller["kind"], controller["failing"], controller["manager"]) == (
                "v1/ConfigMap",
                1,
                f"process {os.getpid()}",
            )
            assert any(one["objects"] >= 2 for one in status["watches"])

            (problem,) = (await get(page, "/api/problems"))["problems"]
            assert problem["object"] == {"kind": "v1/ConfigMap", "name": "broken", "namespace": "default"}
            assert problem["message"] == "RuntimeError: the database refused the connection"
            assert problem["since"] < problem["retryAt"]

            last = (await get(page, "/api/reconciles"))["reconciles"]
            assert {"good", "broken"} <= {one["object"]["name"] for one in last}
            assert [one["name"] for one in last[0]["spans"]] == ["in the queue", "reconcile"]

            timeline = await get(page, "/api/object?kind=v1/ConfigMap&name=broken&namespace=default")
            assert timeline["reconciles"][0]["manager"] == f"process {os.getpid()}"
            assert timeline["reconciles"][-1]["reasons"] == ["it was there at the start"]
            kinds = {one["kind"]: one for one in (await get(page, "/api/kinds"))["kinds"]}
            assert kinds["v1/ConfigMap"]["hasController"]
            table = await get(page, "/api/table?kind=v1/ConfigMap&namespace=default")
            assert {one["name"]: one["lastResult"] for one in table["rows"]}["broken"] == "failed"


async def test_no_token_and_no_address_of_an_admin_api_reaches_the_page() -> None:
    async with cluster() as (server, client), Manager(server, admin=True) as manager:
        manager.add(maps())
        await manager.wait_idle()
        async with shown(client, server.url) as page:
            (record,) = await asyncio.to_thread(find_records)
            for path in ("status", "problems", "reconciles", "metrics"):
                text = json.dumps(await get(page, f"/api/{path}"))
                assert record.token not in text
                assert record.url not in text


async def test_managers_of_other_servers_are_left_out_and_one_that_hangs_is_a_problem(folder: Path) -> None:
    async with cluster() as (server, client):
        called = asyncio.Event()

        async def hang(_: Request) -> Response:
            called.set()
            await asyncio.Event().wait()
            raise AssertionError

        async with Server(hang) as stuck:
            mine = ProcessRecord(pid=os.getpid(), url=stuck.url, token="t", program="/opt/shop.py", server=server.url)
            elsewhere = replace(mine, url="http://127.0.0.1:1", server="https://elsewhere:6443")
            for record in (mine, elsewhere, replace(mine, url="http://127.0.0.1:2", server="")):
                await asyncio.to_thread(write_record, record)
            async with shown(client, server.url) as page:
                assert called.is_set()
                (found,) = (await get(page, "/api/status"))["managers"]
                assert found["name"] == f"process {os.getpid()} (shop.py)"
                (problem,) = (await get(page, "/api/problems"))["problems"]
                assert problem["category"] == "manager"
                assert "does not respond" in problem["message"]
            await stuck.stop(within=0)


async def test_reconcile_now_reaches_the_manager_of_another_process() -> None:
    async with cluster() as (server, client), Manager(server, admin=True) as manager:
        manager.add(maps())
        await client.create(tree("v1", "ConfigMap", "good"))
        await manager.wait_idle()
        before = manager.controllers["maps"].stats().reconciles
        async with shown(client, server.url, actions=True) as page:
            about = {"kind": "v1/ConfigMap", "name": "good", "namespace": "default"}
            status, found = await act(page, "reconcile", about)
            assert status == 200
            assert found["message"].startswith("enqueued at maps of process")
            await manager.wait_idle()
            assert manager.controllers["maps"].stats().reconciles == before + 1
            status, found = await act(page, "reconcile", {**about, "kind": "v1/Secret"})
            assert (status, found["error"]) == (404, "no controller of a manager on this machine reconciles Secret")


async def create_pod(client: Client, name: str, port: int, **labels: str) -> None:
    ports = [{"name": "health", "containerPort": port}]
    spec = {"containers": [{"name": "operator", "image": "i", "ports": ports}]}
    await client.create(tree("v1", "Pod", name, metadata={"labels": labels}, spec=spec))
    ref: Ref[Any] = Ref(PODS, name, "default")
    address = {"phase": "Running", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}
    await client.patch(ref, MergePatch({"status": address}), subresource="status")


async def test_a_manager_in_a_pod_is_known_by_its_metrics_and_its_lease() -> None:
    election = LeaderElection(name="shop", namespace="default", identity="shop-0_4711")
    async with cluster() as (server, client), Manager(server, leader=election, health=0) as manager:
        manager.add(maps("shop"))
        await manager.wait_elected()
        await manager.wait_idle()
        port = int(manager.urls["health"].rpartition(":")[2])
        await create_pod(client, "shop-0", port)  # it has no label: its name is the beginning of the identity
        await create_pod(client, "other", port + 1, **{"app.kubernetes.io/managed-by": "levelset"})
        async with shown(client, server.url) as page:
            others = page.others
            assert others is not None
            status = await get(page, "/api/status")
            found = {one["name"]: one for one in status["managers"]}
            pod = found["Pod default/shop-0"]
            assert (pod["role"], pod["problem"], pod["controllers"]) == ("leader", None, 1)
            assert pod["pod"] == {"kind": "v1/Pod", "name": "shop-0", "namespace": "default"}
            assert "its metrics cannot be read" in found["Pod default/other"]["note"]
            assert [one["name"] for one in status["controllers"]] == ["shop"]
            assert status["watches"]
            (lease,) = status["leases"]
            assert (lease["name"], lease["holder"], lease["state"]) == ("shop", "shop-0_4711", "held")

            assert [one for one in (await get(page, "/api/problems"))["problems"] if one["category"] != "object"] == []
            await client.create(tree("v1", "ConfigMap", "broken"))
            await manager.wait_idle()
            assert manager.controllers["shop"].stats().failing == 1
            before = await get(page, "/api/metrics")
            others._cluster_read_at = None
            await others.read()
            problems = (await get(page, "/api/problems"))["problems"]
            (failed,) = [one for one in problems if one["category"] == "reconcile"]
            assert failed["title"] == "shop in Pod default/shop-0: reconciles fail"
            assert failed["object"]["name"] == "shop-0"
            metrics = await get(page, "/api/metrics")
            assert len(metrics["times"]) == len(before["times"]) + 1
            series = metrics["controllers"]["shop in Pod default/shop-0"]
            assert series["reconciles"][-1] > 0
            assert series["errors"][-1] > 0
            assert series["median"][-1] is not None


async def test_a_manager_that_is_not_ready_is_a_problem_with_its_failed_checks() -> None:
    def refuse() -> None:
        raise RuntimeError("the license has expired")

    labels = {"app.kubernetes.io/managed-by": "levelset"}
    async with cluster() as (server, client), Manager(server, health=0) as manager:
        manager.add(maps("shop"))
        manager.add_check("license", refuse)
        await manager.wait_idle()
        await create_pod(client, "shop-0", int(manager.urls["health"].rpartition(":")[2]), **labels)
        async with shown(client, server.url) as page:
            problems = (await get(page, "/api/problems"))["problems"]
            (found,) = [one for one in problems if one["category"] == "manager"]
            assert found["title"] == "Pod default/shop-0 is not ready"
            assert "license failed: the license has expired" in found["message"]


async def test_without_rights_there_are_only_notes() -> None:
    async with cluster(rbac=True) as (server, client):
        await create_pod(client, "shop-0", 1, **{"app.kubernetes.io/managed-by": "levelset"})
        role = {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]}
        rbac = "rbac.authorization.k8s.io"
        await client.create(tree(f"{rbac}/v1", "Role", "reader", **role))
        subject = {"kind": "User", "name": "eve", "apiGroup": rbac}
        binding = {"roleRef": {"apiGroup": rbac, "kind": "Role", "name": "reader"}, "subjects": [subject]}
        await client.create(tree(f"{rbac}/v1", "RoleBinding", "reader", **binding))
        async with await Client.connect(server, peer=Peer("eve")) as eve, shown(eve, server.url) as page:
            assert page.others is not None
            (found,) = page.others.status()["managers"]
            assert found["note"] == "its metrics cannot be read: the kubeconfig may not get pods/proxy"
            assert page.others.leases == []


async def renew(client: Client, name: str, holder: str | None, second: int, **more: Any) -> None:
    stamp = f"2026-01-01T00:00:{second:02}.000000Z"
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "acquireTime": stamp, "renewTime": stamp}
    await client.apply({**tree("coordination.k8s.io/v1", "Lease", name, spec=spec, **more).tree}, force=True)


async def test_a_lease_is_lost_when_its_holder_stops_to_renew_it_and_not_when_it_was_old_before() -> None:
    async with cluster() as (server, client):
        member = {"labels": {"sharding.levelset.dev/name": "sites"}, "annotations": {"sharding.levelset.dev/keys": "7"}}
        await renew(client, "live", "a_1", 0, metadata=member)
        await renew(client, "old", "b_1", 0)
        await renew(client, "released", "", 0)
        await client.create(tree("coordination.k8s.io/v1", "Lease", "node", metadata={"namespace": "kube-node-lease"}))
        others = OtherManagers(client, server.url, MetricsHistory())
        first = {one.name: one for one in await others._read_leases(0.0)}
        assert first.keys() == {"live", "old", "released"}
        assert (first["live"].shards, first["live"].keys) == ("sites", 7)
        await renew(client, "live", "a_1", 1, metadata=member)
        await others._read_leases(15.0)
        last = {one.name: one for one in await others._read_leases(60.0)}
        assert {name: (one.is_lost, one.view()["state"]) for name, one in last.items()} == {
            "live": (True, "not renewed"),
            "old": (False, "not renewed"),
            "released": (False, "released"),
        }
        others.leases = [last["live"]]
        (problem,) = others.problems(datetime.now(UTC))
        assert problem["message"] == "a_1 has not renewed it for 45 s, and no other replica has taken it"


def test_addresses_of_one_server_are_compared_by_host_and_port() -> None:
    assert is_same_server("https://127.0.0.1:6443", "https://localhost:6443/")
    assert is_same_server("https://api.example.dev", "https://API.example.dev:443")
    assert not is_same_server("https://127.0.0.1:6443", "https://127.0.0.1:6444")
    assert not is_same_server("", "")


@pytest.mark.parametrize(
    ("ports", "annotations", "expected"),
    [
        ([{"name": "web", "containerPort": 80}, {"name": "health", "containerPort": 8081}], {}, "8081"),
        ([{"name": "https", "containerPort": 8443}], {}, "https:8443"),
        ([{"name": "web", "containerPort": 80}], {"prometheus.io/port": "9090"}, "9090"),
        ([{"name": "web", "containerPort": 80}], {"prometheus.io/port": "9090/../x"}, None),
        ([{"name": "health", "containerPort": "8081"}], {}, None),
    ],
)
def test_the_port_of_metrics_is_one_with_a_usual_name_or_that_of_the_annotation(
    ports: list[Any], annotations: dict[str, str], expected: str | None
) -> None:
    pod = {"metadata": {"annotations": annotations}, "spec": {"containers": [{"ports": ports}]}}
    assert metrics_port(pod) == expected


def test_after_a_restart_a_manager_counts_from_zero_in_the_charts() -> None:
    def reading(reconciles: int, errors: int) -> ControllerReading:
        return ControllerReading("a", {}, reconciles, 0, 0, errors, buckets={0.1: reconciles, float("inf"): reconciles})

    assert sample_between(reading(10, 2), None).errors == 2
    assert sample_between(reading(15, 3), reading(10, 2)).errors == 1
    after = sample_between(reading(4, 1), reading(10, 2))
    assert (after.errors, after.reconciles) == (1, 4)
    assert after.median == pytest.approx(0.05)
