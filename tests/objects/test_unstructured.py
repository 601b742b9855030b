import pytest

from levelset.errors import BadName, BadObject
from levelset.objects.ref import Ref
from levelset.objects.unstructured import Unstructured
from tests.objects.samples import Website

TREE = {
    "apiVersion": "example.dev/v1",
    "kind": "Website",
    "metadata": {"name": "blog", "namespace": "default", "labels": {"a": "b"}, "creationTimestamp": None},
}


def test_an_unstructured_object_has_the_properties_of_a_typed_one():
    obj = Unstructured(TREE)
    assert (obj.name, obj.namespace, obj.metadata.labels) == ("blog", "default", {"a": "b"})
    assert obj.ref == Ref(Website, "blog", "default")


def test_two_with_the_same_tree_are_equal():
    assert Unstructured(TREE) == Unstructured(dict(TREE))
    assert Unstructured(TREE) != TREE


def test_a_tree_without_a_kind_has_no_gvk():
    obj = Unstructured({})
    assert (obj.api_version, obj.kind, obj.name) == ("", "", "")
    with pytest.raises(BadName):
        _ = obj.gvk


@pytest.mark.parametrize("metadata", [[], "x", {"labels": 1}, {"name": 5}])
def test_wrong_metadata_are_refused_when_they_are_read(metadata):
    with pytest.raises(BadObject, match="metadata"):
        _ = Unstructured({"metadata": metadata}).metadata


def test_a_tree_that_is_not_a_map_is_rejected():
    with pytest.raises(BadObject, match="map of members"):
        Unstructured([1])
