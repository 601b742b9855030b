"""Objects of built-in kinds survive decoding and encoding unchanged."""

from typing import Any

import pytest

from levelset.objects import Object, decode, decode_tree, encode, encode_tree, replace
from tests.codegen.random_objects import ObjectGenerator, lost
from tests.kinds.builtin import KINDS, definitions, kind_class, schema_of_kind


def made(version: str, kind: str, *, seed: int = 0, full: bool = False) -> dict[str, Any]:
    return ObjectGenerator(definitions(), seed=seed, full=full).object(schema_of_kind(version, kind), version, kind)


def fresh(obj: Object) -> dict[str, Any]:
    values = {name: getattr(obj, name) for name in obj.__struct_fields__}
    found: dict[str, Any] = decode_tree(encode_tree(type(obj)(**values)))
    return found


@pytest.mark.parametrize(("version", "kind"), KINDS)
def test_every_object_survives_a_round_trip(version, kind):
    for seed in range(3):
        data = encode_tree(made(version, kind, seed=seed))
        assert encode(decode(kind_class(version, kind), data)) == data


@pytest.mark.parametrize(("version", "kind"), KINDS)
def test_a_class_writes_everything_that_it_read_without_the_original(version, kind):
    tree = made(version, kind, full=True)
    assert lost(tree, fresh(decode(kind_class(version, kind), encode_tree(tree)))) == []


@pytest.mark.parametrize(("version", "kind"), KINDS)
def test_changing_the_labels_changes_nothing_else(version, kind):
    tree = made(version, kind, seed=3)
    obj = decode(kind_class(version, kind), encode_tree(tree))
    tree["metadata"]["labels"] = {"a": "c"}
    assert decode_tree(encode(replace(obj, metadata=replace(obj.metadata, labels={"a": "c"})))) == tree


def test_values_of_a_newer_cluster_are_read_and_written():
    data = (
        b'{"apiVersion":"v1","kind":"Pod","metadata":{},"spec":{"containers":[],"restartPolicy":"Sometimes","new":[1]}}'
    )
    pod = decode(kind_class("v1", "Pod"), data)
    assert pod.spec.restart_policy == "Sometimes"
    assert encode(pod.with_metadata(name="a")) == data.replace(b'"metadata":{}', b'"metadata":{"name":"a"}')


def test_a_list_that_a_server_writes_as_null_is_empty():
    data = b'{"apiVersion":"storage.k8s.io/v1","kind":"CSINode","metadata":{},"spec":{"drivers":null}}'
    node = decode(kind_class("storage.k8s.io/v1", "CSINode"), data)
    assert node.spec.drivers == ()
    assert encode(node) == data
    assert fresh(node)["spec"] == {"drivers": []}
