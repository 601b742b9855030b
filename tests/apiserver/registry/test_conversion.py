import pytest

from levelset.apiserver.registry import conversion
from tests.apiserver.support.kinds_harness import KindsHarness, definition, load_data

V1, V2 = ("example.com", "v1", "widgets"), ("example.com", "v2", "widgets")


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    load_data()


def version(name: str, **properties: object) -> dict[str, object]:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}
    return {"name": name, "served": True, "storage": name == "v1", "schema": {"openAPIV3Schema": schema}}


def two_versions(**more: object) -> dict[str, object]:
    text = {"type": "string"}
    first = version("v1", both=text, old=text, **more)
    second = version("v2", both=text, new={"type": "string", "default": "d"})
    return definition(version=first, versions=[second])


async def test_a_version_prunes_unknown_fields_and_adds_nothing() -> None:
    kinds = await KindsHarness.make()
    await kinds.define(two_versions())
    await kinds.create(V1, {"spec": {"both": "b", "old": "o"}})
    found = await kinds.get(V2)
    assert found is not None
    assert (found["apiVersion"], found["spec"]) == ("example.com/v2", {"both": "b"})


async def test_fields_unknown_to_the_storage_version_are_not_stored() -> None:
    kinds = await KindsHarness.make()
    await kinds.define(two_versions())
    await kinds.create(V2, {"spec": {"both": "b", "new": "n"}})
    found = await kinds.get(V1)
    assert found is not None
    assert (found["apiVersion"], found["spec"]) == ("example.com/v1", {"both": "b"})


async def test_an_object_older_than_its_schema_is_pruned_and_defaulted_when_read() -> None:
    kinds = await KindsHarness.make()
    made = await kinds.define(definition(schema={"type": "object", "properties": {"a": {"type": "string"}}}))
    await kinds.create(V1, {"spec": {"a": "x"}})
    made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = {
        "type": "object",
        "properties": {"b": {"type": "integer", "default": 3}},
    }
    await kinds.update(("apiextensions.k8s.io", "v1", "customresourcedefinitions"), made)
    found = await kinds.get(V1)
    assert found is not None
    assert found["spec"] == {"b": 3}


async def test_a_built_in_object_is_served_as_it_is_stored() -> None:
    kinds = await KindsHarness.make()
    tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "data": {"a": "b"}}
    before = dict(tree)
    conversion.to_served(kinds.served(("", "v1", "configmaps")), tree, 1)
    assert tree == before
