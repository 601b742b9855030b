import gc
import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as some

from levelset.errors import BadObject
from levelset.objects.codec import encode
from levelset.objects.kept import Kept, keep, read_head, without_managed_fields
from tests.objects.samples import Website, blog

FULL = {
    "apiVersion": "example.dev/v1",
    "kind": "Website",
    "metadata": {
        "name": "blog",
        "namespace": "default",
        "uid": "u1",
        "resourceVersion": "7",
        "generation": 2,
        "labels": {"app": "blog"},
        "annotations": {"a": "b"},
        "finalizers": ["f/x"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "Owner", "name": "o", "uid": "u0", "controller": True}],
        "deletionTimestamp": "2026-01-31T12:00:00Z",
        "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {"f:image": {}}}}],
    },
    "spec": {"image": "blog:1"},
}


def test_a_head_shows_what_a_runtime_asks_for():
    head = read_head(json.dumps(FULL).encode())
    assert (head.name, head.namespace, head.uid, head.resource_version) == ("blog", "default", "u1", "7")
    assert (head.generation, head.finalizers, head.deletion_timestamp) == (2, ("f/x",), "2026-01-31T12:00:00Z")
    assert (head.labels, head.annotations) == ({"app": "blog"}, {"a": "b"})
    assert [(owner.uid, owner.controller) for owner in head.owners] == [("u0", True)]


def test_nulls_in_the_metadata_do_no_harm():
    head = read_head(b'{"metadata":{"name":"x","labels":null,"finalizers":null,"generation":null,"namespace":null}}')
    assert (head.labels, head.finalizers, head.annotations, head.owners) == ({}, (), {}, ())


def test_a_kept_object_reads_back_typed_and_as_a_tree():
    kept = keep(encode(blog(replicas=4)))
    assert kept.read(Website) == blog(replicas=4)
    assert kept.tree()["spec"]["replicas"] == 4


def test_the_garbage_collector_does_not_track_a_kept_object():
    kept = keep(json.dumps(FULL).encode())
    gc.collect()
    parts = (kept, kept.head, kept.head.owners_json, kept.head.finalizers_json, kept.head.labels_json)
    assert not any(gc.is_tracked(part) for part in parts)


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("place", ["first", "middle", "last", "only"])
def test_managed_fields_are_cut_out_wherever_they_stand(indent, place):
    rest = {name: value for name, value in FULL["metadata"].items() if name != "managedFields"}
    mine = {"managedFields": FULL["metadata"]["managedFields"]}
    names = sorted(rest)
    metadata = {
        "first": {**mine, **rest},
        "middle": {**{n: rest[n] for n in names[:4]}, **mine, **{n: rest[n] for n in names[4:]}},
        "last": {**rest, **mine},
        "only": mine,
    }[place]
    raw = json.dumps({**FULL, "metadata": metadata}, indent=indent).encode()
    expected = {**FULL, "metadata": {} if place == "only" else rest}
    assert json.loads(without_managed_fields(raw)) == expected


def test_an_object_without_managed_fields_stays_the_same_bytes():
    raw = encode(blog())
    assert without_managed_fields(raw) is raw


def test_a_twin_of_the_managed_fields_elsewhere_is_left_alone():
    twin = {**FULL, "spec": {"managedFields": FULL["metadata"]["managedFields"]}}
    tree = json.loads(without_managed_fields(json.dumps(twin).encode()))
    assert tree["spec"] == twin["spec"]
    assert "managedFields" not in tree["metadata"]


@given(some.binary(max_size=40))
def test_no_bytes_raise_anything_but_a_bad_object(raw):
    for read in (keep, without_managed_fields):
        with pytest.raises(BadObject):
            read(raw)


@pytest.mark.parametrize("part", ["labels", "annotations", "owners", "finalizers"])
def test_metadata_of_the_wrong_kind_are_refused_when_they_are_read(part):
    head = read_head(b'{"metadata":{"labels":{"a":1},"annotations":[],"ownerReferences":{},"finalizers":[1]}}')
    with pytest.raises(BadObject, match="cannot be read"):
        getattr(head, part)


@pytest.mark.parametrize("indent", [None, 2])
def test_an_object_kept_without_managed_fields_is_as_if_it_had_come_without_them(indent):
    raw = json.dumps(FULL, indent=indent).encode()
    cut = without_managed_fields(raw)
    assert keep(raw, managed_fields=False) == Kept(read_head(cut), cut)


def test_an_object_kept_without_managed_fields_does_not_hold_on_to_them():
    raw = json.dumps(FULL).encode()
    before = sys.getrefcount(raw)
    kept = keep(raw, managed_fields=False)
    assert (sys.getrefcount(raw), kept.head.labels) == (before, {"app": "blog"})


@pytest.mark.parametrize("word", ["managedFields", "f:managedFields", 'say \\"managedFields\\":[]'])
def test_the_words_managed_fields_elsewhere_in_an_object_stay(word):
    tree = {**FULL, "spec": {word: FULL["metadata"]["managedFields"]}}
    for order in (list(tree), list(reversed(tree))):
        kept = keep(json.dumps({name: tree[name] for name in order}).encode(), managed_fields=False)
        assert "managedFields" not in kept.tree()["metadata"]
        assert kept.tree()["spec"] == tree["spec"]
