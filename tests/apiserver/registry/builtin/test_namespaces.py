import pytest

from tests.apiserver.support.kinds_harness import KindsHarness, load_data

NAMESPACES = ("", "v1", "namespaces")


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    load_data()


async def test_a_new_namespace_is_active_and_has_its_name_label() -> None:
    kinds = await KindsHarness.make()
    made = await kinds.create(NAMESPACES, {"status": {"phase": "Odd"}}, name="x")
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": "x"}
    assert (made["spec"], made["status"]) == ({"finalizers": ["kubernetes"]}, {"phase": "Active"})


async def test_an_update_of_a_namespace_keeps_spec_status_and_name_label() -> None:
    kinds = await KindsHarness.make()
    made = await kinds.create(NAMESPACES, {}, name="x")
    changed = {**made, "spec": {}, "status": {}, "metadata": {**made["metadata"], "labels": {"a": "b"}}}
    found = await kinds.update(NAMESPACES, changed)
    assert found["metadata"]["labels"] == {"a": "b", "kubernetes.io/metadata.name": "x"}
    assert (found["spec"], found["status"]) == (made["spec"], made["status"])
