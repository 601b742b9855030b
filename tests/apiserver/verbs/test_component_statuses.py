from tests.apiserver.support.in_process_server import open_server

PATH = "/api/v1/componentstatuses"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"


async def test_the_storage_and_the_controllers_are_components() -> None:
    async with open_server() as api:
        _, body = await api.request("GET", PATH)
        healthy = [{"type": "Healthy", "status": "True", "message": "ok"}]
        names = {one["metadata"]["name"]: one["conditions"] for one in body["items"]}
        assert (body["kind"], names) == ("ComponentStatusList", {"controller-manager": healthy, "etcd-0": healthy})
        _, one = await api.request("GET", f"{PATH}/etcd-0")
        assert (one["kind"], one["apiVersion"], one["conditions"]) == ("ComponentStatus", "v1", healthy)


async def test_a_table_of_components_and_a_warning_that_they_are_deprecated() -> None:
    async with open_server() as api:
        _, table = await api.request("GET", PATH, accept=TABLE)
        assert [row["cells"] for row in table["rows"]][1] == ["etcd-0", "Healthy", "ok", ""]
        response = await api.send("GET", PATH)
        assert ("Warning", '299 - "v1 ComponentStatus is deprecated in v1.19+"') in response.headers


async def test_components_cannot_be_written() -> None:
    async with open_server() as api:
        assert (await api.request("DELETE", f"{PATH}/etcd-0"))[0] == 405
