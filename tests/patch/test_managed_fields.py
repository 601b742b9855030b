from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from levelset.errors import BadPatch
from levelset.objects.timestamps import MicroTime, format_time
from levelset.patch.field_paths import path
from levelset.patch.field_sets import FieldSet
from levelset.patch.managed_fields import (
    NEVER_TRACKED,
    ManagedEntry,
    cap_updates,
    entry_time,
    parse_managed,
    print_managed,
)
from tests.patch.trees_strategy import trees

WIRE: dict[str, Any] = {
    "manager": "m",
    "operation": "Update",
    "apiVersion": "v1",
    "time": "2026-01-01T00:00:00Z",
    "fieldsType": "FieldsV1",
    "fieldsV1": {"f:a": {}},
    "subresource": "status",
}


def entry(manager: str, second: int = 0, *, version: str = "v1", field: str = "a", **more: Any) -> ManagedEntry:
    time = f"2026-01-01T00:00:{second:02}Z"
    return ManagedEntry(manager, more.pop("operation", "Update"), version, FieldSet.of(path(field)), time, **more)


def by_key(*entries: ManagedEntry) -> dict[Any, ManagedEntry]:
    return {one.key: one for one in entries}


def test_an_entry_is_read_and_written_as_it_was() -> None:
    read = ManagedEntry.parse(WIRE)
    assert read == ManagedEntry(
        "m", "Update", "v1", FieldSet.of(path("a")), "2026-01-01T00:00:00Z", subresource="status"
    )
    assert list(read.print().items()) == list(WIRE.items())


def test_absent_members_of_an_entry_are_omitted() -> None:
    wire = {name: member for name, member in WIRE.items() if name not in {"time", "subresource", "fieldsV1"}}
    assert ManagedEntry.parse(wire).print() == {**wire, "fieldsV1": {}}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"operation": "Delete"}, "operation"),
        ({"operation": None}, "operation"),
        ({"apiVersion": ""}, "apiVersion"),
        ({"apiVersion": 1}, "apiVersion"),
        ({"fieldsType": None}, "fieldsType"),
        ({"fieldsType": "FieldsV2"}, "fieldsType"),
        ({"manager": {}}, "manager"),
        ({"time": "yesterday"}, "time"),
        ({"time": 5}, "time"),
        ({"subresource": []}, "subresource"),
        ({"fieldsV1": {"f:a": 1}}, "fieldsV1.f:a"),
    ],
)
def test_a_fault_names_the_entry_and_the_field(change: Any, field: str) -> None:
    with pytest.raises(BadPatch) as caught:
        parse_managed([WIRE, {**WIRE, **change}])
    assert caught.value.field == f"metadata.managedFields[1].{field}"
    assert str(caught.value.field) in str(caught.value)


@pytest.mark.parametrize("tree", [{}, "x", [None], [[]]])
def test_managed_fields_must_be_a_list_of_entries(tree: Any) -> None:
    with pytest.raises(BadPatch):
        parse_managed(tree)


def test_an_applier_has_one_entry_for_all_versions_and_an_updater_one_for_each() -> None:
    assert entry("m", operation="Apply").key == entry("m", operation="Apply", version="v2").key
    assert entry("m").key != entry("m", version="v2").key
    assert entry("m").key != entry("m", subresource="status").key
    assert entry("m").key != entry("m", operation="Apply").key


def test_entries_are_sorted_by_operation_then_age_then_name() -> None:
    entries = [
        entry("b", 2),
        entry("z", 1),
        entry("a", 2, version="v2"),
        entry("a", 2, subresource="status"),
        entry("a", 2),
        entry("z", 9, operation="Apply"),
        ManagedEntry("q", "Update", "v1", FieldSet.of(path("a"))),
    ]
    printed: list[Any] = print_managed(by_key(*entries))
    assert [(one["manager"], one["apiVersion"], one.get("subresource")) for one in printed] == [
        ("z", "v1", None),
        ("q", "v1", None),
        ("z", "v1", None),
        ("a", "v1", None),
        ("a", "v1", "status"),
        ("a", "v2", None),
        ("b", "v1", None),
    ]


def test_identifying_and_server_maintained_fields_have_no_owner() -> None:
    assert path("metadata", "resourceVersion") in NEVER_TRACKED
    assert path("kind") in NEVER_TRACKED
    assert path("metadata", "labels") not in NEVER_TRACKED


def test_ten_updaters_keep_their_own_entries() -> None:
    managers = by_key(*[entry(f"m{number}", number) for number in range(10)], entry("x", operation="Apply"))
    assert cap_updates(managers) is managers


def test_the_oldest_update_entries_are_merged_when_there_are_more_than_ten() -> None:
    managers = by_key(*[entry(f"m{number}", number, field=f"f{number}") for number in range(12)])
    capped = list(cap_updates(managers).values())
    ancient = [one for one in capped if one.manager == "ancient-changes"]
    assert len(capped) == 10
    assert ancient == [
        ManagedEntry(
            "ancient-changes",
            "Update",
            "v1",
            FieldSet.of(path("f0"), path("f1"), path("f2")),
            "2026-01-01T00:00:02Z",
        )
    ]


def test_entries_that_were_merged_before_are_merged_again() -> None:
    managers = by_key(*[entry(f"m{number}", number, field=f"f{number}") for number in range(11)])
    once = dict(cap_updates(managers))
    late = entry("late", 30, field="late")
    twice = cap_updates({**once, late.key: late})
    ancient = [one for one in twice.values() if one.manager == "ancient-changes"]
    assert len(twice) == 10
    assert set(ancient[0].fields) == {path("f0"), path("f1"), path("f2")}


def test_entries_of_different_versions_are_merged_separately() -> None:
    managers = by_key(*[entry(f"m{number}", number, version=f"v{number}") for number in range(12)])
    assert len(cap_updates(managers)) == 12
    mixed = by_key(*[entry(f"m{number}", number, version=f"v{number % 2}") for number in range(12)])
    found = [one.api_version for one in cap_updates(mixed).values() if one.manager == "ancient-changes"]
    assert sorted(found) == ["v0", "v1"]


@given(some.lists(trees() | some.dictionaries(some.sampled_from(list(WIRE)), trees()), max_size=3) | trees())
def test_anything_else_is_refused_as_a_bad_patch(tree: Any) -> None:
    try:
        parse_managed(tree)
    except BadPatch:
        return
    assert not tree


@pytest.mark.parametrize(
    "moment", [datetime(2026, 1, 31, 12, 0, 0, 999_999, UTC), datetime(1969, 1, 1, 0, 0, 0, 5, UTC)]
)
def test_an_entry_has_its_time_as_all_times_are_written(moment: datetime) -> None:
    assert entry_time(moment) == format_time(moment)
    assert entry_time(MicroTime.of(moment)) == format_time(MicroTime.of(moment))


@pytest.mark.parametrize(
    "other", [{"manager": None}, {"subresource": None}, {"time": None}, {"time": ""}, {"fieldsV1": None}, {"more": 1}]
)
def test_a_list_is_read_as_its_entries_one_by_one(other: dict[str, Any]) -> None:
    wire = {**WIRE, **other}
    assert parse_managed([WIRE, {**wire, "manager": "n"}, wire]) == by_key(
        ManagedEntry.parse(WIRE), ManagedEntry.parse({**wire, "manager": "n"}), ManagedEntry.parse(wire)
    )
