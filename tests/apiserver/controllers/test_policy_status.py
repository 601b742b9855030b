"""The status of policies: which generation was looked at, and what was found."""

from typing import Any

from levelset.storage import MemoryStorage
from tests.apiserver.box import open_box
from tests.apiserver.ruling import VALIDATING, validating


async def status(box: Any) -> Any:
    await box.server.idle()
    return (await box.ask("GET", f"{VALIDATING}/p"))[1].get("status")


async def test_a_policy_is_told_what_its_objects_cannot_have() -> None:
    storage = MemoryStorage()
    async with open_box(storage) as box:
        await box.make(VALIDATING, validating("object.dat == {}"))
        found = await status(box)
        assert found["observedGeneration"] == 1
        (warning,) = found["typeChecking"]["expressionWarnings"]
        assert warning["fieldRef"] == "spec.validations[0].expression"
        assert "/v1, Kind=ConfigMap: ERROR: <input>:1:7: undefined field 'dat'" in warning["warning"]
        patch = {"spec": {"validations": [{"expression": "object.data == {}"}]}}
        await box.ask("PATCH", f"{VALIDATING}/p", patch, kind="application/merge-patch+json")
        assert await status(box) == {"observedGeneration": 2, "typeChecking": {}}
    revision = storage.revision
    async with open_box(storage) as box:
        await status(box)
        assert storage.revision == revision
