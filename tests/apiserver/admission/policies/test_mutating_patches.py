"""How the values of expressions are applied to objects."""

from typing import Any

import pytest

from levelset.apiserver.admission.policies.mutating import MutationError, apply_configuration, apply_json_patch
from levelset.cel import Made
from tests.apiserver.support.in_process_server import open_server

OBJECT = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}}


def made(name: str, **members: Any) -> Made:
    found = Made(name)
    found.update(members)
    return found


async def test_an_apply_configuration_keeps_other_fields() -> None:
    async with open_server() as api:
        served = api.server.state.catalog.find("", "v1", "configmaps")
        assert served is not None
        changed = apply_configuration(served, OBJECT, made("Object", data={"l": "m"}))
        assert changed == {**OBJECT, "data": {"k": "v", "l": "m"}}
        assert OBJECT["data"] == {"k": "v"}
        for wrong in (made("Object", data=made("Object.spec")), made("Object.data"), made("Object", what=1)):
            with pytest.raises(MutationError):
                apply_configuration(served, OBJECT, wrong)


def test_a_patch_whose_test_fails_changes_nothing() -> None:
    test = {"op": "test", "path": "/data/k", "value": "w"}
    remove = {"op": "remove", "path": "/data"}
    assert apply_json_patch(OBJECT, [test, remove]) is OBJECT
    assert "data" not in apply_json_patch(OBJECT, [{**test, "value": "v"}, remove])


def test_object_types_in_a_patch_must_match_their_path() -> None:
    good = made("Object.data", l="m")
    assert apply_json_patch(OBJECT, [{"op": "add", "path": "/data", "value": good}])["data"] == {"l": "m"}
    wrong = made("Object.data", l=made("Object.spec"))
    with pytest.raises(MutationError, match="unexpected type name"):
        apply_json_patch(OBJECT, [{"op": "add", "path": "/data", "value": wrong}])


@pytest.mark.parametrize(
    "operations",
    [
        [{"op": "remove", "path": "/x/y"}],
        [{"op": "add", "path": "no pointer", "value": 1}],
        [{"op": "replace", "path": "", "value": 1}],
        [{"op": "add", "path": "/x", "value": float("nan")}],
    ],
)
def test_a_patch_that_does_not_apply_is_an_error(operations: Any) -> None:
    with pytest.raises(MutationError):
        apply_json_patch(OBJECT, operations)
