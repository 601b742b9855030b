import random
from typing import Any

import pytest
from hypothesis import given

from levelset.client import discovery
from levelset.client.discovery import version_rank
from levelset.objects.ref import GroupVersionKind, GroupVersionResource
from tests.objects.trees_strategy import trees

VERSIONS = ["v10", "v2", "v1", "v3beta1", "v2beta12", "v2beta2", "v1beta1", "v10alpha1", "v1alpha2", "foo", "v01", "vx"]


def test_versions_are_preferred_as_kubernetes_does() -> None:
    shuffled = random.Random(7).sample(VERSIONS, len(VERSIONS))
    assert sorted(shuffled, key=version_rank) == VERSIONS


@pytest.mark.parametrize(
    ("group", "version", "path"),
    [("", None, "/api"), ("", "v1", "/api/v1"), ("apps", None, "/apis/apps"), ("apps", "v1", "/apis/apps/v1")],
)
def test_each_group_and_version_has_its_document(group: str, version: str | None, path: str) -> None:
    assert discovery.path_of(group, version) == path


def test_the_preferred_version_comes_first_in_the_plain_form() -> None:
    tree = {
        "name": "g",
        "versions": [{"version": "v1beta1"}, {"version": "v2"}, {"version": "v1"}],
        "preferredVersion": {"version": "v1"},
    }
    assert [one.name for one in discovery.read_group(tree).versions] == ["v1", "v2", "v1beta1"]


def test_a_resource_of_another_kinds_group_is_served_where_it_stands() -> None:
    row = {"name": "things", "kind": "Other", "group": "other", "version": "v2", "namespaced": True}
    (served,) = discovery.read_resources("here", "v1", {"resources": [row]})
    assert served.gvr == GroupVersionResource("here", "v1", "things")
    assert served.gvk == GroupVersionKind("other", "v2", "Other")


def test_a_stale_version_without_resources_is_unknown_and_not_empty() -> None:
    stale = {"version": "v1", "freshness": "Stale"}
    tree = {"kind": "APIGroupDiscoveryList", "items": [{"metadata": {"name": "g"}, "versions": [stale]}]}
    (group,) = discovery.read_aggregated(tree)
    assert group.versions[0].resources is None


@given(trees())
def test_no_document_whatever_breaks_the_readers(tree: Any) -> None:
    documents = [tree, {"items": tree}, {"items": [{"versions": tree}]}, {"resources": tree}, {"groups": tree}]
    for document in [*documents, {"versions": tree}]:
        discovery.is_aggregated(document)
        discovery.read_aggregated(document)
        discovery.read_groups(document)
        discovery.read_group(document)
        discovery.read_resources("g", "v1", document)
