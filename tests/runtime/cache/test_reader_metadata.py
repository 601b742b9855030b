"""`as_metadata`: the PartialObjectMetadata of a whole object, cut out of its bytes."""

import pytest

from levelset.errors import BadObject
from levelset.objects import Head, PartialObjectMetadata, decode, decode_cached
from levelset.objects.cached_object import cached_from_head
from levelset.runtime.cache.reader import as_metadata

__all__: list[str] = []


def test_as_metadata_has_the_metadata_of_the_object_and_nothing_else() -> None:
    raw = b'{"kind":"ConfigMap", "metadata" : {"name":"a","labels":{"b":"}"},"more":[1]} ,"data":{"c":"d"}}'
    cached = as_metadata(decode_cached(raw))
    found = decode(PartialObjectMetadata, cached.raw)
    assert (found.kind, found.api_version, found.name) == ("PartialObjectMetadata", "meta.k8s.io/v1", "a")
    assert found.metadata.labels == {"b": "}"}
    assert set(cached.tree()) == {"kind", "apiVersion", "metadata"}
    assert cached.tree()["metadata"]["more"] == [1], "what the class does not know is there, too"
    assert cached.head.name == "a"


@pytest.mark.parametrize("raw", [b"", b"{}", b"[]", b'{"metadata":', b"\xff"])
def test_an_object_without_metadata_is_rejected(raw: bytes) -> None:
    with pytest.raises(BadObject, match="not an object with metadata"):
        as_metadata(cached_from_head(Head(name="a"), raw))
