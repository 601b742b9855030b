"""The status of policies: the observed generation and the type checking result."""

from typing import Any

from levelset.storage import MemoryStorage
from tests.apiserver.support.admission_policies import VALIDATING, validating
from tests.apiserver.support.in_process_server import open_server


async def status(api: Any) -> Any:
    await api.server.idle()
    return (await api.request("GET", f"{VALIDATING}/p"))[1].get("status")


async def test_the_status_of_a_policy_has_its_type_checking_warnings() -> None:
    storage = MemoryStorage()
    async with open_server(storage) as api:
        await api.create(VALIDATING, validating("object.dat == {}"))
        found = await status(api)
        assert found["observedGeneration"] == 1
        (warning,) = found["typeChecking"]["expressionWarnings"]
        assert warning["fieldRef"] == "spec.validations[0].expression"
        assert "/v1, Kind=ConfigMap: ERROR: <input>:1:7: undefined field 'dat'" in warning["warning"]
        patch = {"spec": {"validations": [{"expression": "object.data == {}"}]}}
        await api.request("PATCH", f"{VALIDATING}/p", patch, kind="application/merge-patch+json")
        assert await status(api) == {"observedGeneration": 2, "typeChecking": {}}
    revision = storage.revision
    async with open_server(storage) as api:
        await status(api)
        assert storage.revision == revision
