"""Request bodies, and the object in responses to writes."""

from typing import Any

import pytest

from levelset.client.request_body import request_body_of, write_of
from levelset.errors import BadObject
from levelset.objects import ObjectMeta
from levelset.objects.cached_object import decode_head
from levelset.objects.codec import decode, encode_tree, to_tree
from levelset.objects.meta import ManagedFieldsEntry
from tests.client.fixtures import ConfigMap, Website, website_crd

GVK = Website.__definition__.gvk
META = {"name": "blog", "namespace": "default", "uid": "u", "resourceVersion": "7", "labels": {"a": "b"}}


def child(**metadata: Any) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name="c", labels={"ü": "\u2028"}, **metadata), data={"a": "b"})


@pytest.mark.parametrize("obj", [child(), decode(ConfigMap, encode_tree(to_tree(child()))), website_crd()])
def test_an_apply_body_is_the_whole_object(obj: Any) -> None:
    assert request_body_of(obj).encode_for_apply() == encode_tree(to_tree(obj))


def test_an_apply_body_has_no_managed_fields() -> None:
    owned = child(managed_fields=(ManagedFieldsEntry(manager="m"),))
    assert request_body_of(owned).encode_for_apply() == request_body_of(child()).encode_for_apply()


@pytest.mark.parametrize("kind", ["Website", "PartialObjectMetadata", "Scale"])
def test_a_write_response_has_the_version_of_the_object(kind: str) -> None:
    body = encode_tree({"kind": kind, "metadata": META})
    write = write_of(GVK, "blog", "default", body)
    assert write is not None
    assert (write.name, write.namespace, write.resource_version, write.uid) == ("blog", "default", "7", "u")
    assert (write.is_gone, write.head) == (False, None if kind == "Scale" else decode_head(body))


@pytest.mark.parametrize(("finalizers", "is_gone"), [([], True), (["a/b"], False)])
def test_removing_the_last_finalizer_deletes_the_object(finalizers: list[str], is_gone: bool) -> None:
    deleted = {"deletionTimestamp": "2026-01-31T12:00:00Z", "deletionGracePeriodSeconds": 0, "finalizers": finalizers}
    write = write_of(GVK, "blog", "default", encode_tree({"kind": "Website", "metadata": META | deleted}))
    assert write is not None
    assert write.is_gone is is_gone


def test_an_object_without_a_version_in_the_response_to_a_delete_is_gone() -> None:
    write = write_of(GVK, "blog", "default", b'{"kind":"Website","metadata":{"uid":"u"}}', is_delete=True)
    assert write is not None
    assert (write.name, write.uid, write.resource_version, write.is_gone) == ("blog", "u", None, True)


@pytest.mark.parametrize("body", [b'{"kind":"Status","metadata":{"resourceVersion":"3"}}', b'{"metadata":{}}'])
def test_a_response_without_an_object_or_a_version_gives_no_write(body: bytes) -> None:
    assert write_of(GVK, "blog", "default", body) is None


@pytest.mark.parametrize("body", [b"", b"[]", b'{"kind":1,"metadata":{}}', b'{"kind":"Website"}'])
def test_a_response_that_is_not_an_object_is_a_bad_object(body: bytes) -> None:
    with pytest.raises(BadObject):
        write_of(GVK, "blog", "default", body)
