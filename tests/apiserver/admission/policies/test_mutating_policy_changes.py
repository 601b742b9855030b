"""How values of expressions change objects."""

from typing import Any

import pytest

from levelset.apiserver.admission.policies.mutating import NotChanged, apply_configuration, apply_patch
from levelset.cel import Made
from tests.apiserver.box import open_box

OBJECT = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}}


def made(name: str, **members: Any) -> Made:
    found = Made(name)
    found.update(members)
    return found


async def test_what_is_laid_over_leaves_the_rest_alone() -> None:
    async with open_box() as box:
        served = box.server.world.catalog.find("", "v1", "configmaps")
        assert served is not None
        changed = apply_configuration(served, OBJECT, made("Object", data={"l": "m"}))
        assert changed == {**OBJECT, "data": {"k": "v", "l": "m"}}
        assert OBJECT["data"] == {"k": "v"}
        for wrong in (made("Object", data=made("Object.spec")), made("Object.data"), made("Object", what=1)):
            with pytest.raises(NotChanged):
                apply_configuration(served, OBJECT, wrong)


def test_a_patch_whose_test_fails_changes_nothing() -> None:
    test = {"op": "test", "path": "/data/k", "value": "w"}
    remove = {"op": "remove", "path": "/data"}
    assert apply_patch(OBJECT, [test, remove]) is OBJECT
    assert "data" not in apply_patch(OBJECT, [{**test, "value": "v"}, remove])


def test_objects_in_a_patch_are_where_their_names_say() -> None:
    good = made("Object.data", l="m")
    assert apply_patch(OBJECT, [{"op": "add", "path": "/data", "value": good}])["data"] == {"l": "m"}
    wrong = made("Object.data", l=made("Object.spec"))
    with pytest.raises(NotChanged, match="unexpected type name"):
        apply_patch(OBJECT, [{"op": "add", "path": "/data", "value": wrong}])


@pytest.mark.parametrize(
    "operations",
    [
        [{"op": "remove", "path": "/x/y"}],
        [{"op": "add", "path": "no pointer", "value": 1}],
        [{"op": "replace", "path": "", "value": 1}],
        [{"op": "add", "path": "/x", "value": float("nan")}],
    ],
)
def test_a_patch_that_does_not_fit_is_told(operations: Any) -> None:
    with pytest.raises(NotChanged):
        apply_patch(OBJECT, operations)
