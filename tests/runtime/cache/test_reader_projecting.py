"""The metadata of a whole object, cut out of its bytes."""

import pytest

from levelset.errors import BadObject
from levelset.objects import Head, PartialObjectMetadata, decode, keep
from levelset.objects.cached_object import kept_of
from levelset.runtime.cache.reader import as_metadata

__all__: list[str] = []


def test_the_metadata_are_those_of_the_object_and_nothing_else_is_there() -> None:
    raw = b'{"kind":"ConfigMap", "metadata" : {"name":"a","labels":{"b":"}"},"more":[1]} ,"data":{"c":"d"}}'
    kept = as_metadata(keep(raw))
    found = decode(PartialObjectMetadata, kept.raw)
    assert (found.kind, found.api_version, found.name) == ("PartialObjectMetadata", "meta.k8s.io/v1", "a")
    assert found.metadata.labels == {"b": "}"}
    assert set(kept.tree()) == {"kind", "apiVersion", "metadata"}
    assert kept.tree()["metadata"]["more"] == [1], "what the class does not know is there, too"
    assert kept.head.name == "a"


@pytest.mark.parametrize("raw", [b"", b"{}", b"[]", b'{"metadata":', b"\xff"])
def test_what_has_no_metadata_is_no_object(raw: bytes) -> None:
    with pytest.raises(BadObject, match="this is no object with metadata"):
        as_metadata(kept_of(Head(name="a"), raw))
