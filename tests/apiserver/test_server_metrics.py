from tests.apiserver.support.in_process_server import CONFIGMAPS, configmap, open_server


async def metrics(api) -> dict[str, float]:
    response = await api.send("GET", "/metrics")
    assert response.status == 200
    assert isinstance(response.body, bytes)
    lines = response.body.decode().splitlines()
    return {line.split()[0]: float(line.split()[1]) for line in lines if not line.startswith("#")}


async def test_the_metrics_tell_what_the_server_has():
    async with open_server() as api:
        before = await metrics(api)
        await api.create(CONFIGMAPS, configmap("a"))
        after = await metrics(api)
        assert after["levelset_storage_objects"] == before["levelset_storage_objects"] + 1
        assert after["levelset_storage_revision"] == api.storage.revision
        assert (after["levelset_storage_ready"], after["levelset_controllers_held"]) == (1, 1)
        assert after["process_cpu_seconds_total"] > 0


async def test_other_methods_and_users_without_permission_are_refused():
    async with open_server() as api:
        assert (await api.send("POST", "/metrics")).status == 405
