from typing import Any

from levelset.storage import MemoryStorage
from tests.apiserver.support.in_process_server import InProcessServer, open_server

NAMESPACES = "/api/v1/namespaces"
MERGE = "application/merge-patch+json"


async def _names(api: InProcessServer, path: str) -> list[str]:
    return [item["metadata"]["name"] for item in (await api.request("GET", path))[1]["items"]]


async def test_a_server_without_cluster_defaults_has_neither_accounts_nor_certificates() -> None:
    async with open_server() as api:
        assert await _names(api, "/api/v1/serviceaccounts") == []
        assert await _names(api, "/api/v1/configmaps") == []
        assert await _names(api, "/api/v1/services") == []


async def test_every_namespace_has_a_default_account_and_the_certificates_of_the_server() -> None:
    async with open_server(cluster_defaults=True) as api:
        await api.create(NAMESPACES, {"metadata": {"name": "n"}})
        await api.server.idle()
        for namespace in ("default", "kube-system", "kube-public", "kube-node-lease", "n"):
            assert await _names(api, f"{NAMESPACES}/{namespace}/serviceaccounts") == ["default"]
            assert await _names(api, f"{NAMESPACES}/{namespace}/configmaps") == ["kube-root-ca.crt"]


async def test_a_default_object_that_is_deleted_or_changed_comes_back() -> None:
    async with open_server(cluster_defaults=True) as api:
        account, authority = f"{NAMESPACES}/default/serviceaccounts/default", f"{NAMESPACES}/default/configmaps"
        before = (await api.request("GET", account))[1]["metadata"]["uid"]
        await api.request("DELETE", account)
        await api.request("PATCH", f"{authority}/kube-root-ca.crt", {"data": {"ca.crt": "other"}}, kind=MERGE)
        await api.server.idle()
        assert (await api.request("GET", account))[1]["metadata"]["uid"] != before
        _, found = await api.request("GET", f"{authority}/kube-root-ca.crt")
        assert found["data"] == {"ca.crt": ""}  # it does not listen, so there is nothing to trust


async def test_a_namespace_with_default_objects_is_deleted_for_good() -> None:
    async with open_server(cluster_defaults=True) as api:
        await api.create(NAMESPACES, {"metadata": {"name": "n"}})
        await api.server.idle()
        await api.request("DELETE", f"{NAMESPACES}/n")
        await api.server.idle()
        assert (await api.request("GET", f"{NAMESPACES}/n"))[0] == 404
        page = await api.storage.list("/registry/")
        assert [item.key for item in page.items if "/n/" in item.key] == []


async def test_a_second_start_with_cluster_defaults_changes_nothing() -> None:
    storage = MemoryStorage()
    async with open_server(storage, cluster_defaults=True):
        revision = storage.revision
    async with open_server(storage, cluster_defaults=True):
        assert storage.revision == revision


async def test_a_pod_of_a_namespace_that_was_just_created_has_its_account() -> None:
    async with open_server(cluster_defaults=True) as api:
        await api.create(NAMESPACES, {"metadata": {"name": "n"}})
        pod: Any = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        made = await api.create(f"{NAMESPACES}/n/pods", pod)
        assert made["spec"]["serviceAccountName"] == "default"
