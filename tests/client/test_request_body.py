"""Objects on their way to a server, and what its answers say about them."""

from typing import Any

import pytest

from levelset.client.request_body import draft_of, write_of
from levelset.errors import BadObject
from levelset.objects import ObjectMeta
from levelset.objects.cached_object import read_head
from levelset.objects.codec import decode, encode_tree, to_tree
from levelset.objects.meta import ManagedFieldsEntry
from tests.client.world import ConfigMap, Website, website_crd

GVK = Website.__definition__.gvk
META = {"name": "blog", "namespace": "default", "uid": "u", "resourceVersion": "7", "labels": {"a": "b"}}


def child(**metadata: Any) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name="c", labels={"ü": "\u2028"}, **metadata), data={"a": "b"})


@pytest.mark.parametrize("obj", [child(), decode(ConfigMap, encode_tree(to_tree(child()))), website_crd()])
def test_what_is_applied_is_the_whole_object(obj: Any) -> None:
    assert draft_of(obj).applied_body() == encode_tree(to_tree(obj))


def test_what_is_applied_does_not_say_who_owns_what() -> None:
    owned = child(managed_fields=(ManagedFieldsEntry(manager="m"),))
    assert draft_of(owned).applied_body() == draft_of(child()).applied_body()


@pytest.mark.parametrize("kind", ["Website", "PartialObjectMetadata", "Scale"])
def test_an_answer_to_a_write_says_which_version_the_object_has(kind: str) -> None:
    body = encode_tree({"kind": kind, "metadata": META})
    write = write_of(GVK, "blog", "default", body)
    assert write is not None
    assert (write.name, write.namespace, write.resource_version, write.uid) == ("blog", "default", "7", "u")
    assert (write.is_gone, write.head) == (False, None if kind == "Scale" else read_head(body))


@pytest.mark.parametrize(("finalizers", "is_gone"), [([], True), (["a/b"], False)])
def test_who_takes_the_last_finalizer_off_removes_the_object(finalizers: list[str], is_gone: bool) -> None:
    deleted = {"deletionTimestamp": "2026-01-31T12:00:00Z", "deletionGracePeriodSeconds": 0, "finalizers": finalizers}
    write = write_of(GVK, "blog", "default", encode_tree({"kind": "Website", "metadata": META | deleted}))
    assert write is not None
    assert write.is_gone is is_gone


@pytest.mark.parametrize("body", [b'{"kind":"Status","metadata":{"resourceVersion":"3"}}', b'{"metadata":{}}'])
def test_an_answer_without_an_object_or_a_version_says_nothing(body: bytes) -> None:
    assert write_of(GVK, "blog", "default", body) is None


@pytest.mark.parametrize("body", [b"", b"[]", b'{"kind":1,"metadata":{}}', b'{"kind":"Website"}'])
def test_an_answer_that_is_no_object_is_a_bad_object(body: bytes) -> None:
    with pytest.raises(BadObject):
        write_of(GVK, "blog", "default", body)
