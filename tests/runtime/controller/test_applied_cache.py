"""When an apply can be spared: the rules, without a server."""

from typing import Any

from levelset.objects import Kept, Ref, keep
from levelset.objects.codec import encode_tree
from levelset.runtime.controller.applied_cache import Applied, Mark, content_of
from tests.runtime.controller.desk import ConfigMap

CHILD = Ref(ConfigMap, "c", "default")
DOCUMENT = b"document"


def raw(version: str = "1", *, generation: int | None = None, uid: str = "u", **parts: Any) -> bytes:
    labels = parts.pop("labels", {"a": "b"})
    metadata = {"name": "c", "uid": uid, "resourceVersion": version, "labels": labels}
    if generation:
        metadata["generation"] = generation
    return encode_tree({"metadata": metadata, **parts})


def holds(before: bytes, now: bytes, *, document: bytes = DOCUMENT, is_metadata: bool = False) -> bool:
    kept: Kept = keep(now)
    return Mark.of(DOCUMENT, before).still_holds(document, kept, is_metadata=is_metadata)


def test_the_same_version_is_the_same_child() -> None:
    assert holds(raw("1"), raw("1"))
    assert holds(raw("1"), raw("1"), is_metadata=True)


def test_another_document_is_always_applied() -> None:
    assert not holds(raw("1"), raw("1"), document=b"other")


def test_a_child_that_was_made_anew_is_applied() -> None:
    assert not holds(raw("1"), raw("1", uid="v"))


def test_a_status_is_no_difference() -> None:
    assert holds(raw("1", spec={"a": 1}), raw("2", spec={"a": 1}, status={"b": 1}))


def test_other_content_or_other_metadata_are_a_difference() -> None:
    assert not holds(raw("1", data={"a": 1}), raw("2", data={"a": 2}))
    assert not holds(raw("1"), raw("2", labels={"a": "c"}))


def test_a_generation_tells_where_the_content_is_not_known() -> None:
    assert holds(raw("1", generation=1), raw("2", generation=1), is_metadata=True)
    assert not holds(raw("1", generation=1), raw("2", generation=2), is_metadata=True)
    assert not holds(raw("1"), raw("2"), is_metadata=True)


def test_what_was_not_looked_at_is_a_difference() -> None:
    for mark in (Mark.of(DOCUMENT, raw("1"), is_metadata=True), Mark(hash(DOCUMENT), "u", "1")):
        assert mark.still_holds(DOCUMENT, keep(raw("1")), is_metadata=False)
        assert not mark.still_holds(DOCUMENT, keep(raw("2")), is_metadata=False)
    assert not Mark(hash(DOCUMENT), "u", "1", 1).still_holds(DOCUMENT, keep(raw("2", generation=1)), is_metadata=True)


def test_the_order_of_members_is_no_content() -> None:
    assert content_of(b'{"a":1,"b":2,"status":3}') == content_of(b'{"b":2,"a":1}')
    assert content_of(b"[]") == 0


def test_answers_are_remembered_for_the_latest_and_for_their_version_only() -> None:
    applied = Applied(most=2, answers=1)
    refs = [Ref(ConfigMap, name, "default") for name in "abc"]
    for ref in refs:
        applied.note(ref, Mark.of(DOCUMENT, raw("7")), ref.name)
    assert len(applied) == 2
    assert [applied.find(ref) is None for ref in refs] == [True, False, False]
    assert [applied.answer(ref, "7") for ref in refs] == [None, None, "c"]
    assert applied.answer(refs[2], "8") is None
    applied.forget(refs[2])
    assert applied.find(refs[2]) is None
