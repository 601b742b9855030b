from typing import Any

from msgspec.structs import replace

from levelset.apiserver.openapi.openapi_v3 import resource_paths
from levelset.apiserver.registry.builtin.kind_table import builtin_kinds
from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.resources.served_resource import ServedResource

CATALOG = Catalog(builtin_kinds())
WIDGETS = ServedResource("example.com", "v1", "Widget", "widgets", "widget", "WidgetList", True, "v1", custom=True)


def paths_of(served: ServedResource) -> dict[str, Any]:
    return dict(resource_paths(served, "X", "XList"))


def found(group: str, plural: str) -> ServedResource:
    served = CATALOG.find(group, "v1", plural)
    assert served is not None
    return served


def test_a_namespaced_resource_has_three_paths() -> None:
    root = "/apis/example.com/v1"
    assert set(paths_of(WIDGETS)) == {
        f"{root}/widgets",
        f"{root}/namespaces/{{namespace}}/widgets",
        f"{root}/namespaces/{{namespace}}/widgets/{{name}}",
    }


def test_a_cluster_wide_resource_has_two() -> None:
    assert set(paths_of(replace(WIDGETS, namespaced=False))) == {
        "/apis/example.com/v1/widgets",
        "/apis/example.com/v1/widgets/{name}",
    }


def test_the_patch_operation_has_the_parameters_that_kubectl_reads() -> None:
    patch = paths_of(found("", "configmaps"))["/api/v1/namespaces/{namespace}/configmaps/{name}"]["patch"]
    assert patch["x-kubernetes-group-version-kind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
    assert patch["x-kubernetes-action"] == "patch"
    names = {one["name"] for one in patch["parameters"]}
    assert {"dryRun", "fieldManager", "fieldValidation", "force"} == names
    assert "application/strategic-merge-patch+json" in patch["requestBody"]["content"]


def test_strategic_merge_is_not_offered_for_custom_resources() -> None:
    patch = paths_of(WIDGETS)["/apis/example.com/v1/namespaces/{namespace}/widgets/{name}"]["patch"]
    assert set(patch["requestBody"]["content"]) == {
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/apply-patch+yaml",
    }


def test_subresources_are_described_but_logs_are_not() -> None:
    root = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
    paths = paths_of(replace(found("apps", "deployments"), logs=print))
    scale = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert paths[f"{root}/scale"]["patch"]["x-kubernetes-group-version-kind"] == scale
    assert set(paths[f"{root}/status"]) == {"get", "put", "patch", "parameters"}
    assert f"{root}/log" not in paths


def test_create_only_resources_have_only_a_create_operation() -> None:
    paths = paths_of(found("authorization.k8s.io", "selfsubjectaccessreviews"))
    assert {path: set(item) - {"parameters"} for path, item in paths.items()} == {
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews": {"post"}
    }


def test_operation_ids_are_unique() -> None:
    served = found("apps", "deployments")
    operations = [
        item[method]["operationId"] for item in paths_of(served).values() for method in item if method != "parameters"
    ]
    assert len(operations) == len(set(operations)) == 14
