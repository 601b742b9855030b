"""When an apply can be skipped: the rules, without a server."""

from typing import Any

from levelset.objects import CachedObject, Ref, Unstructured, decode, decode_cached
from levelset.objects.codec import encode_tree
from levelset.runtime.controller.applied_cache import AppliedCache, ApplyRecord, apply_record_of, content_hash
from tests.runtime.controller.context_environment import ConfigMap

CHILD = Ref(ConfigMap, "c", "default")
DOCUMENT = b"document"


def raw(version: str = "1", *, generation: int | None = None, uid: str = "u", **parts: Any) -> bytes:
    labels = parts.pop("labels", {"a": "b"})
    metadata = {"name": "c", "uid": uid, "resourceVersion": version, "labels": labels}
    if generation:
        metadata["generation"] = generation
    return encode_tree({"metadata": metadata, **parts})


def holds(before: bytes, now: bytes, *, document: bytes = DOCUMENT, is_metadata: bool = False) -> bool:
    cached: CachedObject = decode_cached(now)
    return ApplyRecord.of(DOCUMENT, before).still_holds(document, cached, is_metadata=is_metadata)


def test_the_same_version_is_the_same_child() -> None:
    assert holds(raw("1"), raw("1"))
    assert holds(raw("1"), raw("1"), is_metadata=True)


def test_another_document_is_always_applied() -> None:
    assert not holds(raw("1"), raw("1"), document=b"other")


def test_a_recreated_child_is_applied_again() -> None:
    assert not holds(raw("1"), raw("1", uid="v"))


def test_a_changed_status_does_not_count_as_a_difference() -> None:
    assert holds(raw("1", spec={"a": 1}), raw("2", spec={"a": 1}, status={"b": 1}))


def test_changed_content_or_metadata_counts_as_a_difference() -> None:
    assert not holds(raw("1", data={"a": 1}), raw("2", data={"a": 2}))
    assert not holds(raw("1"), raw("2", labels={"a": "c"}))


def test_the_generation_decides_if_the_content_is_not_cached() -> None:
    assert holds(raw("1", generation=1), raw("2", generation=1), is_metadata=True)
    assert not holds(raw("1", generation=1), raw("2", generation=2), is_metadata=True)
    assert not holds(raw("1"), raw("2"), is_metadata=True)


def test_a_value_that_was_not_recorded_counts_as_a_difference() -> None:
    mark = ApplyRecord(hash(DOCUMENT), "u", "1")
    assert mark.still_holds(DOCUMENT, decode_cached(raw("1")), is_metadata=False)
    assert not mark.still_holds(DOCUMENT, decode_cached(raw("2")), is_metadata=False)
    assert not ApplyRecord(hash(DOCUMENT), "u", "1", 1).still_holds(
        DOCUMENT, decode_cached(raw("2", generation=1)), is_metadata=True
    )


def test_the_order_of_members_does_not_change_the_content_hash() -> None:
    assert content_hash(b'{"a":1,"b":2,"status":3}') == content_hash(b'{"b":2,"a":1}')
    assert content_hash(b"[]") == 0


def test_responses_are_kept_for_the_latest_children_and_only_for_their_version() -> None:
    applied = AppliedCache(most=2, responses=1)
    refs = [Ref(ConfigMap, name, "default") for name in "abc"]
    for ref in refs:
        applied.record(ref, ApplyRecord.of(DOCUMENT, raw("7")), ref.name)
    assert len(applied) == 2
    assert [applied.find(ref) is None for ref in refs] == [True, False, False]
    assert [applied.last_response(ref, "7") for ref in refs] == [None, None, "c"]
    assert applied.last_response(refs[2], "8") is None
    applied.forget(refs[2])
    assert applied.find(refs[2]) is None


def response(name: str, version: str, **data: str) -> ConfigMap:
    return decode(ConfigMap, raw(version, data=data).replace(b'"c"', b'"%b"' % name.encode(), 1))


def test_the_hashes_of_a_typed_response_are_computed_when_they_are_needed() -> None:
    applied = AppliedCache()
    applied.record(CHILD, apply_record_of(DOCUMENT, response("c", "1", a="1")), response("c", "1", a="1"))
    incomplete = applied.find(CHILD)
    assert incomplete is not None
    assert not incomplete.is_complete
    made = applied.with_content(CHILD, incomplete)
    assert made == ApplyRecord.of(DOCUMENT, raw("1", data={"a": "1"})) == applied.find(CHILD)
    assert made.still_holds(DOCUMENT, decode_cached(raw("2", data={"a": "1"}, status={"b": 1})), is_metadata=False)


def test_the_record_of_a_response_that_is_dropped_is_completed() -> None:
    applied = AppliedCache(responses=1)
    refs = [Ref(ConfigMap, name, "default") for name in "abc"]
    for ref in refs:
        made = response(ref.name, "1", a=ref.name)
        applied.record(ref, apply_record_of(DOCUMENT, made), made)
    records = [applied.find(ref) for ref in refs]
    assert [one is not None and one.is_complete for one in records] == [True, True, False]
    for ref, record in zip(refs[:2], records, strict=False):
        assert record is not None
        now = decode_cached(raw("2", data={"a": ref.name}, status={"b": 1}))
        assert applied.with_content(ref, record).still_holds(DOCUMENT, now, is_metadata=False)
        assert not record.still_holds(DOCUMENT, decode_cached(raw("2", data={"a": "other"})), is_metadata=False)


def test_an_unstructured_response_is_hashed_at_once() -> None:
    assert apply_record_of(DOCUMENT, Unstructured({"metadata": {"name": "c", "uid": "u"}})).is_complete


def test_a_deleted_child_is_forgotten_unless_another_one_of_its_name_was_applied_since() -> None:
    applied, ref = AppliedCache(most=2, responses=1), Ref(ConfigMap, "a", "default")
    applied.record(ref, ApplyRecord.of(DOCUMENT, raw("7", uid="new")), "a")
    applied.forget_deleted(ref, "old")
    assert applied.find(ref) is not None
    applied.forget_deleted(ref, "new")
    assert applied.find(ref) is None
    applied.forget_deleted(ref, "new")
