from collections.abc import Iterator
from typing import Any

import pytest

from levelset.apiserver.openapi.openapi_v3 import component_name, openapi_document
from levelset.apiserver.registry.builtin.kind_table import builtin_kinds
from levelset.apiserver.registry.crd.served_versions import served_versions
from levelset.apiserver.resources.catalog import Catalog
from levelset.objects.json_tree import is_list, is_map
from tests.apiserver.support.kinds_harness import definition

CONFIGMAP = "/api/v1/namespaces/{namespace}/configmaps/{name}"
CATALOG = Catalog(builtin_kinds())
VERSIONS = [(group, version) for group in CATALOG.groups() for version in CATALOG.versions(group)]


def references(tree: Any) -> Iterator[str]:
    if is_map(tree):
        if isinstance(tree.get("$ref"), str):
            yield tree["$ref"]
        tree = list(tree.values())
    if is_list(tree):
        for value in tree:
            yield from references(value)


@pytest.mark.parametrize(("group", "version"), VERSIONS)
def test_every_reference_resolves(group: str, version: str) -> None:
    document = openapi_document(CATALOG.resources(group, version))
    known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert set(references(document)) - known == set()


def test_a_built_in_kind_is_described_under_its_own_name() -> None:
    schemas = openapi_document(CATALOG.resources("", "v1"))["components"]["schemas"]
    found = schemas["io.k8s.api.core.v1.ConfigMap"]
    assert found["x-kubernetes-group-version-kind"] == [{"group": "", "kind": "ConfigMap", "version": "v1"}]
    assert schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]["x-kubernetes-patch-merge-key"] == "name"


def custom(**more: Any) -> dict[str, Any]:
    return openapi_document(list(served_versions(definition(**more), 0)))


def test_a_custom_kind_is_described_by_its_crd_schema() -> None:
    document = custom(schema={"type": "object", "description": "what is wanted"})
    found = document["components"]["schemas"]["com.example.v1.Widget"]
    assert found["properties"]["spec"]["description"] == "what is wanted"
    assert "ObjectMeta" in found["properties"]["metadata"]["allOf"][0]["$ref"]
    assert found["x-kubernetes-group-version-kind"] == [{"group": "example.com", "version": "v1", "kind": "Widget"}]
    listed = document["components"]["schemas"]["com.example.v1.WidgetList"]
    assert listed["properties"]["items"]["items"] == {"$ref": "#/components/schemas/com.example.v1.Widget"}


def test_a_kind_that_preserves_unknown_fields_has_the_fields_of_every_object() -> None:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    found = custom(version={"schema": schema})["components"]["schemas"]["com.example.v1.Widget"]
    assert found["x-kubernetes-preserve-unknown-fields"] is True
    assert set(found["properties"]) == {"apiVersion", "kind", "metadata"}


def test_selectable_fields_are_listed() -> None:
    schema = {"type": "object", "properties": {"color": {"type": "string"}}}
    document = custom(schema=schema, version={"selectableFields": [{"jsonPath": ".spec.color"}]})
    found = document["components"]["schemas"]["com.example.v1.Widget"]
    assert found["x-kubernetes-selectable-fields"] == [{"fieldPath": "spec.color"}]


def test_the_crd_schema_is_not_changed() -> None:
    served = served_versions(definition(), 0)[0]
    before = str(served.schema_source)
    openapi_document([served])
    assert str(served.schema_source) == before
    assert component_name(served) == "com.example.v1.Widget"
