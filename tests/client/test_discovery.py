"""Discovery documents as ApiResources."""

import random
from typing import Any

import pytest
from hypothesis import given

from levelset.client import discovery
from levelset.client.discovery import ApiResource, served_by, version_rank
from levelset.objects.kind_definition import Scale, define
from levelset.objects.ref import GroupVersionKind, GroupVersionResource
from tests.objects.tree_strategies import trees

VERSIONS = ["v10", "v2", "v1", "v3beta1", "v2beta12", "v2beta2", "v1beta1", "v10alpha1", "v1alpha2", "foo", "v01", "vx"]


def test_versions_are_ordered_as_kubernetes_orders_them() -> None:
    shuffled = random.Random(7).sample(VERSIONS, len(VERSIONS))
    assert sorted(shuffled, key=version_rank) == VERSIONS


@pytest.mark.parametrize(
    ("group", "version", "path"),
    [("", None, "/api"), ("", "v1", "/api/v1"), ("apps", None, "/apis/apps"), ("apps", "v1", "/apis/apps/v1")],
)
def test_each_group_and_version_has_its_path(group: str, version: str | None, path: str) -> None:
    assert discovery.path_of(group, version) == path


def test_the_preferred_version_comes_first_in_unaggregated_discovery() -> None:
    tree = {
        "name": "g",
        "versions": [{"version": "v1beta1"}, {"version": "v2"}, {"version": "v1"}],
        "preferredVersion": {"version": "v1"},
    }
    assert [one.name for one in discovery.read_group(tree).versions] == ["v1", "v2", "v1beta1"]


def test_a_resource_may_serve_a_kind_of_another_group() -> None:
    row = {"name": "things", "kind": "Other", "group": "other", "version": "v2", "namespaced": True}
    (served,) = discovery.read_resources("here", "v1", {"resources": [row]})
    assert served.gvr == GroupVersionResource("here", "v1", "things")
    assert served.gvk == GroupVersionKind("other", "v2", "Other")


def test_written_resources_are_read_as_the_same() -> None:
    rows: list[dict[str, Any]] = [
        {"name": "pods", "kind": "Pod", "namespaced": True, "verbs": ["get"], "shortNames": ["po"]},
        {"name": "pods/status", "kind": "Pod", "namespaced": True, "verbs": ["get"]},
        {"name": "things", "kind": "Other", "group": "other", "version": "v2", "categories": ["all"]},
        {"name": "nodes", "kind": "Node", "singularName": "node"},
    ]
    read = discovery.read_resources("here", "v1", {"resources": rows})
    assert discovery.read_resources("here", "v1", discovery.write_resources("here", "v1", read)) == read


def test_a_stale_version_without_resources_is_unknown_and_not_empty() -> None:
    stale = {"version": "v1", "freshness": "Stale"}
    tree = {"kind": "APIGroupDiscoveryList", "items": [{"metadata": {"name": "g"}, "versions": [stale]}]}
    (group,) = discovery.read_aggregated(tree)
    assert group.versions[0].resources is None


@given(trees())
def test_arbitrary_documents_do_not_break_the_parsers(tree: Any) -> None:
    documents = [tree, {"items": tree}, {"items": [{"versions": tree}]}, {"resources": tree}, {"groups": tree}]
    for document in [*documents, {"versions": tree}]:
        discovery.is_aggregated(document)
        discovery.read_aggregated(document)
        discovery.read_groups(document)
        discovery.read_group(document)
        discovery.read_resources("g", "v1", document)


def test_the_resource_of_a_class_needs_no_discovery() -> None:
    definition = define("Website", api="example.dev/v1", status=True, scale=Scale(), short_names=["web"])
    served = ApiResource.of(definition)
    assert served.gvr == GroupVersionResource("example.dev", "v1", "websites")
    assert served.gvk == GroupVersionKind("example.dev", "v1", "Website")
    assert served.namespaced
    assert (served.subresources, served.short_names) == (("scale", "status"), ("web",))


def test_a_resource_prints_as_kubectl_accepts_it() -> None:
    assert str(ApiResource.of(define("Website", api="example.dev/v1"))) == "websites.v1.example.dev"
    assert str(ApiResource.of(define("Pod", api="v1"))) == "pods.v1"


def test_the_resource_of_a_class_is_cached() -> None:
    one, other = define("Website", api="example.dev/v1"), define("Website", api="example.dev/v1", status=True)
    assert served_by(one) is served_by(one)
    assert (served_by(one), served_by(other)) == (ApiResource.of(one), ApiResource.of(other))
