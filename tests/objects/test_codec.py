import json
import random
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from levelset.errors import BadObject
from levelset.objects.codec import (
    decode,
    decode_tree,
    encode,
    encode_tree,
    from_tree,
    read_manifests,
    to_tree,
    write_manifests,
)
from levelset.objects.meta import ObjectMeta
from levelset.objects.model import Spec, replace
from levelset.objects.quantity import Quantity
from levelset.objects.resource import Resource, origin_of
from levelset.objects.scheme import Scheme
from levelset.objects.timestamps import MicroTime
from levelset.objects.unstructured import Unstructured
from tests.objects.samples import Port, Website, WebsiteStatus, blog
from tests.objects.tree_strategies import maps, trees


class LeaseSpec(Spec):
    renew_time: MicroTime | None = None
    memory: Quantity | None = None


class Lease(Resource[LeaseSpec, None], api="example.dev/v1"):
    """Something with a time and an amount."""


RICH = {
    "apiVersion": "example.dev/v1",
    "kind": "Website",
    "metadata": {"name": "blog", "namespace": "default", "newInMeta": {"a": [1]}},
    "spec": {
        "image": "blog:1",
        "replicas": 1,
        "theme": {"dark": True},
        "ports": [
            {"name": "http", "containerPort": 80, "protocol": "TCP"},
            {"name": "admin", "containerPort": 81, "protocol": "UDP"},
        ],
    },
    "status": {"ready": 1, "extra": [None, {"deep": 1}]},
    "extraTop": "kept",
}


def test_reading_and_writing_gives_the_same_object():
    assert decode(Website, encode(blog(replicas=2))) == blog(replicas=2)


def test_an_untouched_object_is_written_exactly_as_it_was_read():
    assert to_tree(decode(Website, json.dumps(RICH))) == RICH


def test_a_change_keeps_every_field_that_the_class_does_not_know():
    site = decode(Website, json.dumps(RICH))
    ports = (*site.spec.ports, Port(name="metrics", container_port=90))
    ports = tuple(replace(port, container_port=8080) if port.name == "http" else port for port in ports)
    changed = site.with_spec(image="blog:2", ports=ports).with_status(ready=2).with_metadata(labels={"a": "b"})

    expected = json.loads(json.dumps(RICH))
    expected["spec"]["image"] = "blog:2"
    expected["spec"]["ports"][0]["containerPort"] = 8080
    expected["spec"]["ports"].append({"name": "metrics", "containerPort": 90})
    expected["status"]["ready"] = 2
    expected["metadata"]["labels"] = {"a": "b"}
    assert json.loads(encode(changed)) == expected


def test_a_removed_field_is_not_written():
    site = decode(Website, json.dumps(RICH))
    tree = to_tree(replace(site, status=None).with_spec(ports=()))
    assert "status" not in tree
    assert "ports" not in tree["spec"]
    assert tree["spec"]["theme"] == {"dark": True}


def test_an_explicit_default_stays_explicit():
    assert to_tree(decode(Website, json.dumps(RICH)).with_spec(image="x"))["spec"]["replicas"] == 1


def test_a_replaced_status_keeps_its_unknown_fields():
    site = decode(Website, json.dumps(RICH)).with_status(WebsiteStatus(ready=7))
    assert to_tree(site)["status"] == {"ready": 7, "extra": [None, {"deep": 1}]}


def test_a_null_counts_as_absent_beside_managed_fields_too():
    managed = b'"managedFields":[{"manager":"m","operation":"Update","fieldsV1":{"f:spec":{}}}]'
    raw = b'{"metadata":{"name":"x","labels":null,' + managed + b'},"spec":{"image":"i"}}'
    for site in (decode(Website, raw), from_tree(Website, decode_tree(raw))):
        assert (site.name, site.metadata.managed_fields[0].manager) == ("x", "m")
    with pytest.raises(BadObject) as refused:
        decode(Website, raw.replace(b'"image":"i"', b'"image":3'))
    assert refused.value.field == "spec.image"


def test_a_null_counts_as_absent():
    site = decode(Website, b'{"metadata":{"name":"x","creationTimestamp":null,"labels":null},"spec":{"image":"i"}}')
    assert site.metadata == ObjectMeta(name="x")


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (b'{"spec":{"image":1}}', "spec.image"),
        (b'{"spec":{}}', "spec"),
        (b'{"kind":"Pod","spec":{"image":"x"}}', "kind"),
        (b'{"apiVersion":"example.dev/v2","spec":{"image":"x"}}', "apiVersion"),
        (b'{"spec":{"image":"x","replicas":-1}}', "spec.replicas"),
        (b'{"spec":{"image":"x","ports":[{"containerPort":"y"}]}}', "spec.ports[0].containerPort"),
        (b"[]", ""),
    ],
)
def test_a_wrong_member_is_named(raw, field):
    with pytest.raises(BadObject, match="no Website") as caught:
        decode(Website, raw)
    assert caught.value.field == field


def test_broken_json_is_refused_with_its_position():
    with pytest.raises(BadObject, match="no JSON") as caught:
        decode_tree(b'{"a" 1}')
    assert caught.value.position == 5


def test_deep_nesting_is_refused():
    for text in (b"[" * 100_000, b'{"a":' * 100_000):
        with pytest.raises(BadObject):
            decode_tree(text)
        with pytest.raises(BadObject):
            decode(Website, text)


def test_times_are_written_with_the_precision_of_kubernetes():
    at = datetime(2026, 1, 31, 12, tzinfo=UTC)
    lease = Lease.new("l", LeaseSpec(renew_time=MicroTime.of(at)))
    lease = lease.with_metadata(creation_timestamp=at)
    tree = to_tree(lease)
    assert tree["spec"]["renewTime"] == "2026-01-31T12:00:00.000000Z"
    assert tree["metadata"]["creationTimestamp"] == "2026-01-31T12:00:00Z"
    assert decode(Lease, encode(lease)) == lease


def test_quantities_are_read_and_written():
    lease = decode(Lease, b'{"spec":{"memory":"1.5Gi"}}')
    assert lease.spec.memory == Quantity.parse("1536Mi")
    assert to_tree(lease)["spec"]["memory"] == "1.5Gi"
    assert to_tree(Lease.new("l", LeaseSpec(memory=Quantity.parse("1.5Gi"))))["spec"]["memory"] == "1536Mi"


@pytest.mark.parametrize("spec", ['{"memory":"much"}', '{"renewTime":"now"}', '{"renewTime":5}'])
def test_a_bad_quantity_or_time_is_named(spec):
    with pytest.raises(BadObject, match=r"at spec\."):
        decode(Lease, f'{{"spec":{spec}}}')


def test_values_that_json_cannot_represent_are_rejected():
    for thing in ({"a": object()}, {"a": blog}, {1j: 2}, {"a": {"a", 1j}}):
        with pytest.raises(BadObject):
            encode_tree(thing)


def test_from_tree_stores_the_tree_as_the_origin():
    site = from_tree(Website, RICH)
    assert to_tree(site) == RICH
    assert origin_of(site) is not None


def test_manifests_give_typed_objects_where_there_is_a_class():
    text = """
apiVersion: example.dev/v1
kind: Website
metadata: {name: blog}
spec: {image: "blog:1"}
---
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
- {apiVersion: v1, kind: Secret, metadata: {name: b}}
"""
    site, *rest = read_manifests(text, Scheme(Website))
    assert isinstance(site, Website)
    assert [(type(one), one.name) for one in rest] == [(Unstructured, "a"), (Unstructured, "b")]


def test_a_document_without_a_kind_is_refused():
    with pytest.raises(ValueError, match="apiVersion"):
        read_manifests("a: 1")
    with pytest.raises(BadObject, match="map of members"):
        read_manifests("- 1")


def test_manifests_read_back_as_they_were_written():
    objects = [decode(Website, json.dumps(RICH)), Unstructured({"apiVersion": "v1", "kind": "X", "metadata": {}})]
    again = read_manifests(write_manifests(objects), Scheme(Website))
    assert [to_tree(one) for one in again] == [to_tree(one) for one in objects]


@given(trees())
def test_any_tree_reads_back_as_it_was_written(tree):
    assert decode_tree(encode_tree(tree)) == tree


@given(maps(), maps(), some.integers(0, 5), some.lists(maps(), max_size=3))
def test_no_unknown_field_is_ever_lost(extra, more, replicas, items):
    ports = [{"name": f"p{index}", "x": item} for index, item in enumerate(items)]
    tree = {**RICH, "x-extra": extra, "spec": {**RICH["spec"], "x-more": more, "ports": ports}}
    site = from_tree(Website, tree)
    changed = to_tree(site.with_spec(replicas=replicas, ports=tuple(reversed(site.spec.ports))))
    assert changed["x-extra"] == extra
    assert changed["spec"]["x-more"] == more
    assert changed["spec"].get("ports", []) == ports[::-1]


@settings(max_examples=300)
@given(some.binary(max_size=60))
def test_no_bytes_raise_anything_but_a_bad_object(raw):
    for kind in (Website, Lease):
        try:
            decode(kind, raw)
        except BadObject as error:
            assert str(error)


@pytest.mark.slow
def test_a_million_fuzzed_bytes_raise_nothing_but_a_bad_object():
    rng = random.Random(7)
    base = json.dumps(RICH).encode()
    for _ in range(1_000_000 // len(base)):
        raw = bytearray(base)
        for _ in range(rng.randrange(1, 6)):
            raw[rng.randrange(len(raw))] = rng.randrange(256)
        try:
            encode(decode(Website, bytes(raw)))
        except BadObject:
            continue
