import copy
import gc
import json
import pickle
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as some

from levelset.errors import BadObject
from levelset.objects.cached_object import Head, keep, keep_all, kept_of, read_head, set_made, without_managed_fields
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
    assert keep(raw, managed_fields=False) == kept_of(read_head(cut), cut)


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


JSON = some.recursive(
    some.none() | some.booleans() | some.integers(-9, 9) | some.text(max_size=3),
    lambda inner: some.lists(inner, max_size=2) | some.dictionaries(some.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


@given(some.dictionaries(some.sampled_from(["raw", "made", "head", "metadata", "_raw", "__class__", ""]), JSON))
def test_no_name_in_the_metadata_has_an_influence_on_what_is_beside_the_head(hostile):
    plain = {"name": "a", "resourceVersion": "7", "labels": {"x": "y"}}
    raws = [json.dumps({"metadata": metadata}).encode() for metadata in ({**hostile, **plain}, {**plain, **hostile})]
    for raw, together in zip(raws, keep_all(raws) or [], strict=True):
        for kept in (keep(raw), together):
            assert (kept.raw, kept.made) == (raw, None)
            assert (kept.name, kept.resource_version, kept.labels) == ("a", "7", {"x": "y"})
            assert kept == kept_of(read_head(raw), raw)


def test_a_kept_object_is_its_own_head():
    kept = keep(json.dumps(FULL).encode())
    assert (kept.head is kept, isinstance(kept, Head), kept.head.name) == (True, True, "blog")
    assert type(read_head(kept.raw)) is Head


def test_kept_objects_are_equal_if_their_heads_and_bytes_are():
    raw = json.dumps(FULL).encode()
    kept = keep(raw)
    assert kept == keep(bytes(bytearray(raw)))
    assert kept != keep(raw + b" ")
    assert kept != kept_of(Head(name="other"), raw)
    assert kept != read_head(raw)
    assert read_head(raw) != kept
    with pytest.raises(TypeError, match="unhashable"):
        hash(kept)


def test_what_was_decoded_of_a_kept_object_is_no_part_of_it_and_goes_with_it():
    kept, made = keep(b'{"metadata":{"name":"a"}}'), object()
    before = sys.getrefcount(made)
    set_made(kept, made)
    assert kept == keep(kept.raw)
    assert "object object" not in repr(kept)
    assert pickle.loads(pickle.dumps(kept)).made is kept_of(kept, kept.raw).made is None
    del kept
    assert sys.getrefcount(made) == before


def test_a_kept_object_can_be_copied_sent_and_shown():
    kept = keep(json.dumps(FULL).encode())
    assert copy.copy(kept) == copy.deepcopy(kept) == pickle.loads(pickle.dumps(kept)) == kept
    assert repr(kept).startswith("Kept(name='blog', namespace='default'")
    assert repr(kept).endswith(f", raw={kept.raw!r})")


def test_nobody_changes_a_kept_object():
    kept = keep(b'{"metadata":{"name":"a"}}')
    for name in ("name", "raw", "made"):
        with pytest.raises(AttributeError):
            setattr(kept, name, b"other")


def test_a_kept_object_lets_go_of_its_bytes_when_it_goes():
    raws = [b'{"metadata":{"name":"%d"}}' % number for number in range(2)]
    before = [sys.getrefcount(raw) for raw in raws]
    several, single = keep_all(raws), keep(raws[0])
    assert [one.raw for one in several or []] == [*raws]
    assert single.raw is raws[0]
    del several, single
    assert [sys.getrefcount(raw) for raw in raws] == before


def test_a_kept_object_is_no_larger_than_a_head_and_a_pair_beside_it():
    kept = keep(json.dumps(FULL).encode())
    pointer = 8
    fields = len(Head.__struct_fields__)
    assert sys.getsizeof(kept) <= (2 + fields) * pointer + (2 + 2) * pointer
