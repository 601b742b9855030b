import copy
import gc
import json
import pickle
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as some

from levelset.errors import BadObject
from levelset.objects.cached_object import (
    Head,
    cached_from_head,
    decode_cached,
    decode_head,
    set_decoded,
    without_managed_fields,
)
from levelset.objects.codec import encode
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


def test_a_head_has_the_metadata_that_the_runtime_needs():
    head = decode_head(json.dumps(FULL).encode())
    assert (head.name, head.namespace, head.uid, head.resource_version) == ("blog", "default", "u1", "7")
    assert (head.generation, head.finalizers, head.deletion_timestamp) == (2, ("f/x",), "2026-01-31T12:00:00Z")
    assert (head.labels, head.annotations) == ({"app": "blog"}, {"a": "b"})
    assert [(owner.uid, owner.controller) for owner in head.owners] == [("u0", True)]


def test_nulls_in_the_metadata_count_as_absent():
    head = decode_head(b'{"metadata":{"name":"x","labels":null,"finalizers":null,"generation":null,"namespace":null}}')
    assert (head.labels, head.finalizers, head.annotations, head.owners) == ({}, (), {}, ())


def test_a_cached_object_decodes_typed_and_as_a_tree():
    cached = decode_cached(encode(blog(replicas=4)))
    assert cached.read(Website) == blog(replicas=4)
    assert cached.tree()["spec"]["replicas"] == 4


def test_the_garbage_collector_does_not_track_a_cached_object():
    cached = decode_cached(json.dumps(FULL).encode())
    gc.collect()
    parts = (cached, cached.head, cached.head.owners_json, cached.head.finalizers_json, cached.head.labels_json)
    assert not any(gc.is_tracked(part) for part in parts)


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("place", ["first", "middle", "last", "only"])
def test_managed_fields_are_cut_out_at_any_position(indent, place):
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


def test_an_equal_value_elsewhere_in_the_object_is_not_cut():
    twin = {**FULL, "spec": {"managedFields": FULL["metadata"]["managedFields"]}}
    tree = json.loads(without_managed_fields(json.dumps(twin).encode()))
    assert tree["spec"] == twin["spec"]
    assert "managedFields" not in tree["metadata"]


@given(some.binary(max_size=40))
def test_no_bytes_raise_anything_but_a_bad_object(raw):
    for read in (decode_cached, without_managed_fields):
        with pytest.raises(BadObject):
            read(raw)


@pytest.mark.parametrize("part", ["labels", "annotations", "owners", "finalizers"])
def test_metadata_of_the_wrong_kind_are_refused_when_they_are_read(part):
    head = decode_head(b'{"metadata":{"labels":{"a":1},"annotations":[],"ownerReferences":{},"finalizers":[1]}}')
    with pytest.raises(BadObject, match="cannot be read"):
        getattr(head, part)


@pytest.mark.parametrize("indent", [None, 2])
def test_an_object_cached_without_managed_fields_equals_one_that_never_had_them(indent):
    raw = json.dumps(FULL, indent=indent).encode()
    cut = without_managed_fields(raw)
    assert decode_cached(raw, managed_fields=False) == cached_from_head(decode_head(cut), cut)


def test_an_object_cached_without_managed_fields_does_not_reference_the_original_bytes():
    raw = json.dumps(FULL).encode()
    before = sys.getrefcount(raw)
    cached = decode_cached(raw, managed_fields=False)
    assert (sys.getrefcount(raw), cached.head.labels) == (before, {"app": "blog"})


@pytest.mark.parametrize("word", ["managedFields", "f:managedFields", 'say \\"managedFields\\":[]'])
def test_the_text_managed_fields_elsewhere_in_an_object_stays(word):
    tree = {**FULL, "spec": {word: FULL["metadata"]["managedFields"]}}
    for order in (list(tree), list(reversed(tree))):
        cached = decode_cached(json.dumps({name: tree[name] for name in order}).encode(), managed_fields=False)
        assert "managedFields" not in cached.tree()["metadata"]
        assert cached.tree()["spec"] == tree["spec"]


JSON = some.recursive(
    some.none() | some.booleans() | some.integers(-9, 9) | some.text(max_size=3),
    lambda inner: some.lists(inner, max_size=2) | some.dictionaries(some.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


@given(some.dictionaries(some.sampled_from(["raw", "decoded", "head", "metadata", "_raw", "__class__", ""]), JSON))
def test_no_member_of_the_metadata_can_set_the_additional_slots(hostile):
    plain = {"name": "a", "resourceVersion": "7", "labels": {"x": "y"}}
    raws = [json.dumps({"metadata": metadata}).encode() for metadata in ({**hostile, **plain}, {**plain, **hostile})]
    for raw in raws:
        cached = decode_cached(raw)
        assert (cached.raw, cached.decoded) == (raw, None)
        assert (cached.name, cached.resource_version, cached.labels) == ("a", "7", {"x": "y"})
        assert cached == cached_from_head(decode_head(raw), raw)


def test_a_cached_object_is_its_own_head():
    cached = decode_cached(json.dumps(FULL).encode())
    assert (cached.head is cached, isinstance(cached, Head), cached.head.name) == (True, True, "blog")
    assert type(decode_head(cached.raw)) is Head


def test_cached_objects_are_equal_if_their_heads_and_bytes_are():
    raw = json.dumps(FULL).encode()
    cached = decode_cached(raw)
    assert cached == decode_cached(bytes(bytearray(raw)))
    assert cached != decode_cached(raw + b" ")
    assert cached != cached_from_head(Head(name="other"), raw)
    assert cached != decode_head(raw)
    assert decode_head(raw) != cached
    with pytest.raises(TypeError, match="unhashable"):
        hash(cached)


def test_the_decoded_form_is_not_part_of_the_value_and_is_freed_with_the_object():
    cached, made = decode_cached(b'{"metadata":{"name":"a"}}'), object()
    before = sys.getrefcount(made)
    set_decoded(cached, made)
    assert cached == decode_cached(cached.raw)
    assert "object object" not in repr(cached)
    assert pickle.loads(pickle.dumps(cached)).decoded is cached_from_head(cached, cached.raw).decoded is None
    del cached
    assert sys.getrefcount(made) == before


def test_a_cached_object_can_be_copied_pickled_and_printed():
    cached = decode_cached(json.dumps(FULL).encode())
    assert copy.copy(cached) == copy.deepcopy(cached) == pickle.loads(pickle.dumps(cached)) == cached
    assert repr(cached).startswith("CachedObject(name='blog', namespace='default'")
    assert repr(cached).endswith(f", raw={cached.raw!r})")


def test_a_cached_object_is_immutable():
    cached = decode_cached(b'{"metadata":{"name":"a"}}')
    for name in ("name", "raw", "decoded"):
        with pytest.raises(AttributeError):
            setattr(cached, name, b"other")


def test_a_cached_object_frees_its_bytes_when_it_is_freed():
    raws = [b'{"metadata":{"name":"%d"}}' % number for number in range(2)]
    before = [sys.getrefcount(raw) for raw in raws]
    several = [decode_cached(raw) for raw in raws]
    assert [one.raw for one in several] == [*raws]
    del several
    assert [sys.getrefcount(raw) for raw in raws] == before


def test_a_cached_object_is_no_larger_than_a_head_and_two_slots():
    cached = decode_cached(json.dumps(FULL).encode())
    pointer = 8
    fields = len(Head.__struct_fields__)
    assert sys.getsizeof(cached) <= (2 + fields) * pointer + (2 + 2) * pointer
