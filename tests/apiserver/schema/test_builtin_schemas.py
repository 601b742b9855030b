"""The schemas of the built-in kinds."""

import copy
import json
from typing import Any

import pytest

from levelset.apiserver.schema import (
    Compiled,
    builtin_columns,
    builtin_kind,
    builtin_resources,
    builtin_schemas,
    builtin_versions,
    components,
    preload,
)
from levelset.apiserver.schema.builtin_schemas import DATA

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "creationTimestamp": None},
    "spec": {
        "containers": [
            {
                "name": "c",
                "image": "i",
                "ports": [{"containerPort": 80}],
                "resources": {"limits": {"cpu": 1, "memory": "1Gi"}},
                "livenessProbe": {"httpGet": {"port": "http"}},
            }
        ]
    },
}


def kind(group: str, version: str, name: str) -> Compiled:
    found = builtin_kind(group, version, name)
    assert found is not None
    return found


def test_every_kind_compiles_and_takes_an_empty_object() -> None:
    for group, version in builtin_versions():
        for name in builtin_schemas(group, version).kinds:
            causes = kind(group, version, name).admit({}).causes
            assert {one.reason for one in causes} <= {"FieldValueRequired"}


def test_a_pod_is_pruned_and_gets_the_defaults_of_its_schema() -> None:
    pod = copy.deepcopy(POD)
    pod["spec"]["odd"] = 1
    outcome = kind("", "v1", "Pod").admit(pod)
    assert (outcome.dropped, outcome.causes) == (("spec.odd",), ())
    assert pod["spec"]["containers"][0]["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert pod["metadata"] == {"name": "a", "creationTimestamp": None}


@pytest.mark.parametrize(
    ("group", "name", "members", "field"),
    [
        ("", "ConfigMap", {"data": {"k": 5}}, "data.k"),
        ("", "ConfigMap", {"data": "text"}, "data"),
        ("", "ConfigMap", {"binaryData": {"k": "no base64"}}, "binaryData.k"),
        ("", "Pod", {"spec": {"containers": [{"name": "a", "ports": [{"containerPort": "x"}]}]}}, None),
        ("", "Service", {"spec": {"ports": [{"port": 80, "targetPort": 1.5}]}}, "spec.ports[0].targetPort"),
        ("", "ResourceQuota", {"spec": {"hard": {"cpu": "lots"}}}, "spec.hard.cpu"),
        ("coordination.k8s.io", "Lease", {"spec": {"renewTime": "now"}}, "spec.renewTime"),
    ],
)
def test_a_value_of_the_wrong_type_is_found_first(group: str, name: str, members: Any, field: str | None) -> None:
    error = kind(group, "v1", name).first_type_error(members)
    assert error is not None
    assert error.field == (field or "spec.containers[0].ports[0].containerPort")


def test_free_fields_stay_free() -> None:
    revision = {"data": {"any": {"thing": [1]}}, "revision": 1}
    assert not kind("apps", "v1", "ControllerRevision").admit(revision).dropped
    fields: dict[str, Any] = {"metadata": {"managedFields": [{"fieldsV1": {"f:spec": {}}}]}}
    assert not kind("", "v1", "Secret").admit(fields).dropped


def test_a_definition_may_nest_schemas_in_schemas() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(20):
        schema = {"type": "object", "properties": {"a": schema}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "ws", "kind": "W"}
    tree = {"spec": {"group": "x.y", "names": names, "scope": "Cluster", "versions": [version]}}
    assert kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition").admit(tree).causes == ()


def test_resources_have_kind_scope_verbs_and_subresources() -> None:
    pods = builtin_resources("", "v1")["pods"]
    assert (pods.kind, pods.namespaced, "watch" in pods.verbs) == ("Pod", True, True)
    assert builtin_resources("apps", "v1")["deployments"].subresources["scale"].group == "autoscaling"
    assert not builtin_resources("", "v1")["namespaces"].namespaced


def test_tables_have_their_columns() -> None:
    assert [one.name for one in builtin_columns("", "v1", "configmaps")] == ["Name", "Data", "Age"]
    assert builtin_columns("", "v1", "nothing") == ()


def test_components_include_all_referenced_components() -> None:
    found = components(["io.k8s.api.core.v1.ConfigMapList"])
    assert set(found) >= {"io.k8s.api.core.v1.ConfigMap", "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
    assert "x-kubernetes-patch-merge-key" in json.dumps(components(["io.k8s.api.core.v1.Pod"]))


def test_a_foreign_group_has_no_builtin_schema() -> None:
    assert builtin_kind("example.com", "v1", "Widget") is None
    assert builtin_kind("", "v1", "Widget") is None
    assert not builtin_schemas("example.com", "v1").kinds
    assert not builtin_resources("example.com", "v1")


def test_the_data_is_small() -> None:
    preload()
    assert sum(path.stat().st_size for path in DATA.iterdir()) < 650_000
