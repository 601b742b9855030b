"""Which changes of its own objects concern a controller."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from levelset.client.object_types import Item, view_of
from levelset.objects.cached_object import decode_cached
from levelset.objects.codec import encode_tree
from levelset.runtime.controller.event_handlers import SELF_CHANGES
from tests.runtime.controller.controller_loop import Web

METADATA = st.fixed_dictionaries(
    {"name": st.just("blog"), "resourceVersion": st.sampled_from(["1", "2"])},
    optional={
        "generation": st.sampled_from([1, 2]),
        "deletionTimestamp": st.sampled_from(["2026-01-31T12:00:00Z", "2026-02-01T12:00:00Z"]),
        "labels": st.sampled_from([{}, {"a": "1"}]),
        "annotations": st.sampled_from([{}, {"a": "1"}]),
        "finalizers": st.sampled_from([[], ["a/b"]]),
    },
)


def item(metadata: dict[str, Any] | None) -> Item[Web] | None:
    return None if metadata is None else Item(decode_cached(encode_tree({"metadata": metadata})), view_of(Web))


@given(st.none() | METADATA, st.none() | METADATA)
def test_the_predicate_passes_the_same_changes_with_and_without_traces(old: Any, new: Any) -> None:
    was, now = item(old), item(new)
    traces = [None if one is None else SELF_CHANGES.trace(one) for one in (was, now)]
    expected = (was is not None or now is not None) and SELF_CHANGES.differs(*traces)
    assert SELF_CHANGES.passes(was, now) is expected
