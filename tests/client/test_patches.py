import pytest

from levelset.client.patches import JsonPatch, MergePatch, StrategicPatch
from levelset.errors import BadObject, BadPatch
from levelset.objects import Unstructured, decode
from tests.client.fixtures import Website, website

OLD = decode(
    Website,
    b'{"apiVersion":"example.dev/v1","kind":"Website","metadata":{"name":"a","resourceVersion":"7"},'
    b'"spec":{"replicas":1,"extra":{"k":1}}}',
)
SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "a", "resourceVersion": "7"},
    "spec": {"ports": [{"port": 80}]},
}


def test_a_merge_patch_contains_only_the_difference() -> None:
    assert MergePatch.between(OLD, OLD.with_spec(replicas=2)).tree == {"spec": {"replicas": 2}}
    assert MergePatch.between(OLD, OLD).is_empty
    assert MergePatch({"a": None}).body() == b'{"a":null}'


def test_a_lock_contains_the_version_that_was_read() -> None:
    new = OLD.with_metadata(labels={"a": "b"})
    assert MergePatch.between(OLD, new, lock=True).tree == {"metadata": {"labels": {"a": "b"}, "resourceVersion": "7"}}
    first = JsonPatch.between(OLD, new, lock=True).operations[0]
    assert first == {"op": "test", "path": "/metadata/resourceVersion", "value": "7"}
    for kind in (MergePatch, JsonPatch):
        with pytest.raises(BadPatch, match="read it first"):
            kind.between(website("a"), website("b"), lock=True)


def test_a_json_patch_lists_the_operations() -> None:
    assert JsonPatch.between(OLD, OLD.with_spec(replicas=2)).operations == [
        {"op": "replace", "path": "/spec/replicas", "value": 2}
    ]
    assert JsonPatch.between(OLD, OLD).is_empty


def test_a_strategic_patch_is_for_built_in_kinds() -> None:
    new = {**SERVICE, "spec": {"ports": [{"port": 80}, {"port": 81}]}}
    patch = StrategicPatch.between(Unstructured(SERVICE), Unstructured(new), lock=True)
    assert {"port": 81} in patch.tree["spec"]["ports"]
    assert patch.tree["metadata"] == {"resourceVersion": "7"}
    assert StrategicPatch.between(SERVICE, SERVICE).is_empty
    with pytest.raises(BadPatch, match="MergePatch"):
        StrategicPatch.between(OLD, OLD)


def test_a_patch_is_between_objects() -> None:
    with pytest.raises(BadObject):
        MergePatch.between([1], {})
