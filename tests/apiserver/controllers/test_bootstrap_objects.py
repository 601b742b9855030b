from typing import Any

from levelset.apiserver import ApiServer
from levelset.storage import MemoryStorage
from tests.apiserver.support.in_process_server import InProcessServer, open_server

SERVICES = "/api/v1/namespaces/default/services"


async def _get(api: InProcessServer, path: str) -> Any:
    status, tree = await api.request("GET", path)
    assert status == 200, tree
    return tree


async def test_the_server_is_a_service_with_the_first_address_and_its_own_endpoints() -> None:
    storage = MemoryStorage()
    async with ApiServer(storage, tls=False, cluster_defaults=True) as server:
        api, port = InProcessServer(server, storage), int(server.url.rpartition(":")[2])
        service = await _get(api, f"{SERVICES}/kubernetes")
        assert service["spec"]["clusterIP"] == "10.96.0.1"
        assert service["spec"]["ports"] == [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": port}]
        assert service["metadata"]["labels"] == {"component": "apiserver", "provider": "kubernetes"}
        endpoints = await _get(api, "/api/v1/namespaces/default/endpoints/kubernetes")
        ports = [{"name": "http", "port": port, "protocol": "TCP"}]
        assert endpoints["subsets"] == [{"addresses": [{"ip": "127.0.0.1"}], "ports": ports}]
        assert endpoints["metadata"]["labels"] == {"endpointslice.kubernetes.io/skip-mirror": "true"}
        found = await _get(api, "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes")
        assert found["endpoints"] == [{"addresses": ["127.0.0.1"], "conditions": {"ready": True}}]
        assert (found["addressType"], found["ports"]) == ("IPv4", ports)
        assert found["metadata"]["labels"] == {"kubernetes.io/service-name": "kubernetes"}


async def test_a_restart_on_another_port_updates_the_endpoints() -> None:
    storage = MemoryStorage()
    async with ApiServer(storage, tls=False, cluster_defaults=True) as first:
        before = first.url
    async with ApiServer(storage, tls=False, cluster_defaults=True) as server:
        port = int(server.url.rpartition(":")[2])
        api = InProcessServer(server, storage)
        assert server.url != before
        endpoints = await _get(api, "/api/v1/namespaces/default/endpoints/kubernetes")
        assert endpoints["subsets"][0]["ports"][0]["port"] == port
        assert (await _get(api, f"{SERVICES}/kubernetes"))["spec"]["ports"][0]["targetPort"] == port


async def test_data_whose_first_address_is_taken_gives_the_server_another_one() -> None:
    storage = MemoryStorage()
    ports = [{"port": 1}]
    async with open_server(storage) as api:
        await api.create(SERVICES, {"metadata": {"name": "a"}, "spec": {"clusterIP": "10.96.0.1", "ports": ports}})
    async with open_server(storage, cluster_defaults=True) as api:
        assert (await _get(api, f"{SERVICES}/kubernetes"))["spec"]["clusterIP"] != "10.96.0.1"


async def test_the_fields_of_what_the_server_creates_are_managed_by_it_and_patches_of_others_are_recorded() -> None:
    async with open_server(cluster_defaults=True) as api:
        for path in ("/api/v1/namespaces/default", f"{SERVICES}/kubernetes"):
            patch = {"metadata": {"labels": {"a": "b"}}}
            merge = {"kind": "application/merge-patch+json", "fieldManager": "other"}
            status, tree = await api.request("PATCH", path, patch, **merge)
            assert status == 200, tree
            found = {one["manager"]: one["fieldsV1"] for one in tree["metadata"]["managedFields"]}
            assert found.keys() == {"kube-apiserver", "other"}
            assert found["other"] == {"f:metadata": {"f:labels": {"f:a": {}}}}


async def test_the_system_priority_classes_exist() -> None:
    async with open_server(cluster_defaults=True) as api:
        tree = await _get(api, "/apis/scheduling.k8s.io/v1/priorityclasses")
        assert {one["metadata"]["name"]: one["value"] for one in tree["items"]} == {
            "system-cluster-critical": 2_000_000_000,
            "system-node-critical": 2_000_001_000,
        }


async def test_flow_control_and_the_api_services_of_the_served_groups_exist() -> None:
    async with open_server(cluster_defaults=True) as api:
        flows = await _get(api, "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas")
        levels = await _get(api, "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations")
        assert len(flows["items"]) == 11
        assert {one["spec"]["priorityLevelConfiguration"]["name"] for one in flows["items"]} <= {
            one["metadata"]["name"] for one in levels["items"]
        }
        services = await _get(api, "/apis/apiregistration.k8s.io/v1/apiservices")
        assert {"v1.", "v1.apps", "v1.batch", "v2.autoscaling"} <= {
            one["metadata"]["name"] for one in services["items"]
        }
        assert all(one["status"]["conditions"][0]["reason"] == "Local" for one in services["items"])
