import re
from datetime import UTC, datetime, timedelta, timezone
from random import Random
from typing import Any
from uuid import UUID

import pytest

from levelset.apiserver.registry.metadata import (
    format_timestamp,
    generate_name,
    inherit_metadata,
    init_metadata,
    is_deleting,
    merge_duplicate_owners,
    new_uid,
    read_metadata,
    write_timestamp,
)
from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.wire.status_errors import Undecodable
from levelset.storage import MemoryStorage


def test_an_object_without_metadata_gets_empty_metadata() -> None:
    tree: dict[str, Any] = {}
    assert read_metadata(tree) == []
    assert tree == {"metadata": {}}


def test_null_and_empty_fields_are_removed() -> None:
    tree: dict[str, Any] = {
        "metadata": {"name": "a", "labels": {}, "finalizers": [], "namespace": "", "annotations": None, "uid": None}
    }
    read_metadata(tree)
    assert tree == {"metadata": {"name": "a"}}


def test_empty_managed_fields_are_preserved() -> None:
    tree: dict[str, Any] = {"metadata": {"name": "a", "managedFields": []}}
    read_metadata(tree)
    assert tree == {"metadata": {"name": "a", "managedFields": []}}


def test_a_null_label_becomes_an_empty_one() -> None:
    tree: dict[str, Any] = {"metadata": {"labels": {"a": None, "b": "c"}}}
    read_metadata(tree)
    assert tree == {"metadata": {"labels": {"a": "", "b": "c"}}}


def test_zero_is_not_empty() -> None:
    tree: dict[str, Any] = {"metadata": {"deletionGracePeriodSeconds": 0}}
    read_metadata(tree)
    assert tree == {"metadata": {"deletionGracePeriodSeconds": 0}}


def test_unknown_fields_are_dropped_and_reported() -> None:
    tree: dict[str, Any] = {
        "metadata": {"name": "a", "z": 1, "b": 2, "ownerReferences": [{"uid": "u", "odd": 1, "controller": None}]}
    }
    assert read_metadata(tree) == ["metadata.b", "metadata.z", "metadata.ownerReferences[0].odd"]
    assert tree == {"metadata": {"name": "a", "ownerReferences": [{"uid": "u"}]}}


@pytest.mark.parametrize(
    "metadata",
    ["x", 1, [], {"labels": {"a": 1}}, {"name": 5}, {"finalizers": "x"}, {"ownerReferences": [1]}, {"generation": "1"}],
)
def test_fields_of_the_wrong_type_cannot_be_decoded(metadata: Any) -> None:
    with pytest.raises(Undecodable, match="metadata|Expected"):
        read_metadata({"metadata": metadata})


@pytest.mark.parametrize("text", ["", "now", "2001-13-01T00:00:00Z", "2001-01-01"])
@pytest.mark.parametrize("name", ["creationTimestamp", "deletionTimestamp"])
@pytest.mark.parametrize("more", [{}, {"labels": {"a": None}}])
def test_a_timestamp_that_is_no_time_cannot_be_decoded(name: str, text: str, more: Any) -> None:
    with pytest.raises(Undecodable, match=rf"metadata\.{name}: '{text}' is not a time"):
        read_metadata({"metadata": {name: text, **more}})


@pytest.mark.parametrize("text", ["2001-01-01T00:00:00Z", "2001-01-01T00:00:00.5+01:00", None])
def test_a_timestamp_may_be_any_time_or_absent(text: str | None) -> None:
    tree: dict[str, Any] = {"metadata": {"name": "a", "creationTimestamp": text}}
    assert read_metadata(tree) == []
    assert tree["metadata"] == ({"name": "a", "creationTimestamp": text} if text else {"name": "a"})


def test_server_fields_of_a_new_object_override_those_of_the_client() -> None:
    metadata: dict[str, Any] = {"name": "a", "uid": "mine", "selfLink": "/x", "generation": 9, "deletionTimestamp": "t"}
    init_metadata(metadata, namespace="x", uid="u", now="n", generation=True)
    assert metadata == {"name": "a", "namespace": "x", "uid": "u", "creationTimestamp": "n", "generation": 1}


def test_a_cluster_scoped_object_has_no_namespace() -> None:
    metadata: dict[str, Any] = {"name": "a", "namespace": "x"}
    init_metadata(metadata, namespace=None, uid="u", now="n", generation=False)
    assert metadata == {"name": "a", "uid": "u", "creationTimestamp": "n"}


def test_an_update_keeps_immutable_metadata() -> None:
    old = {"name": "a", "uid": "u", "creationTimestamp": "t", "generation": 3, "deletionTimestamp": "d"}
    metadata: dict[str, Any] = {"name": "a", "creationTimestamp": "other", "generation": 9, "selfLink": "/x"}
    inherit_metadata(metadata, old)
    assert metadata == old


def test_an_update_cannot_set_a_generation_on_a_kind_without_one() -> None:
    metadata: dict[str, Any] = {"generation": 9}
    inherit_metadata(metadata, {"name": "a"})
    assert metadata == {"name": "a"}


def test_repeated_owner_references_are_merged_into_the_first() -> None:
    metadata = {"ownerReferences": [{"uid": "u", "name": "a"}, {"uid": "v"}, {"name": "a", "uid": "u", "kind": ""}]}
    assert merge_duplicate_owners(metadata) == ["u"]
    assert metadata == {"ownerReferences": [{"uid": "u", "name": "a"}, {"uid": "v"}]}


def test_references_to_one_owner_by_other_names_stay() -> None:
    metadata = {"ownerReferences": [{"uid": "u", "name": "a"}, {"uid": "u", "name": "b"}]}
    assert merge_duplicate_owners(metadata) == []
    assert metadata == {"ownerReferences": [{"uid": "u", "name": "a"}, {"uid": "u", "name": "b"}]}


def test_generated_names_end_in_five_unambiguous_letters_and_fit_a_label() -> None:
    assert re.fullmatch(r"a{58}[bcdfghjklmnpqrstvwxz2456789]{5}", generate_name("a" * 70, Random(1)))


def test_uids_are_random_uuids() -> None:
    source = Random(1)
    made = [new_uid(source) for _ in range(100)]
    assert len(set(made)) == 100
    assert all(
        (UUID(one).version, UUID(one).variant, str(UUID(one))) == (4, "specified in RFC 4122", one) for one in made
    )


def test_times_are_whole_seconds_in_utc() -> None:
    moment = datetime(2026, 1, 31, 12, 0, 5, 999_999, UTC)
    assert format_timestamp(moment) == "2026-01-31T12:00:05Z"
    assert format_timestamp(moment.astimezone(timezone(timedelta(hours=2)))) == "2026-01-31T12:00:05Z"


def test_a_write_has_the_timestamp_of_the_server_clock() -> None:
    before = format_timestamp(datetime.now(UTC))
    assert before <= write_timestamp(ServerState(MemoryStorage(), Catalog())) <= format_timestamp(datetime.now(UTC))
    moment = datetime(2026, 1, 31, 13, 0, 0, 5, tzinfo=timezone(timedelta(hours=1)))
    assert write_timestamp(ServerState(MemoryStorage(), Catalog(), now=lambda: moment)) == "2026-01-31T12:00:00Z"


def test_an_object_with_a_deletion_timestamp_is_being_deleted() -> None:
    assert is_deleting({"metadata": {"deletionTimestamp": "t"}})
    assert not is_deleting({"metadata": {}})
