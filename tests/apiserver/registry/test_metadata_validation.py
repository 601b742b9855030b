from collections import Counter
from typing import Any

import pytest

from levelset.apiserver.registry.metadata import (
    check_common_metadata,
    check_immutable_metadata,
    check_metadata,
    check_updated_metadata,
    finalizer_warnings,
)
from levelset.apiserver.resources.served_resource import MetadataChecks, Rules

OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"}


def found(metadata: dict[str, Any], rules: Rules | None = None) -> list[tuple[str, str]]:
    return [(one.field, one.reason) for one in check_metadata({"name": "a", **metadata}, rules or Rules())]


def reports(metadata: dict[str, Any], old: dict[str, Any], rules: Rules, *, is_part: bool = False) -> Counter[str]:
    causes = check_updated_metadata({"name": "a", **metadata}, {"name": "a", **old}, rules, is_part=is_part)
    return Counter(one.field for one in causes)


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"labels": {"a": "", "example.com/b.c_d": "V.a-l_1"}},
        {"annotations": {"a": "any thing\n{}", "Example.com/B": ""}},
        {"finalizers": ["example.com/f", "short"]},
        {"ownerReferences": [OWNER, {**OWNER, "uid": "v", "controller": True}]},
    ],
)
def test_valid_metadata_has_no_causes(metadata: dict[str, Any]) -> None:
    assert found(metadata) == []


@pytest.mark.parametrize(
    ("metadata", "field", "reason"),
    [
        ({"name": None}, "metadata.name", "FieldValueRequired"),
        ({"name": "Upper"}, "metadata.name", "FieldValueInvalid"),
        ({"name": "a" * 254}, "metadata.name", "FieldValueInvalid"),
        ({"labels": {"a b": "x"}}, "metadata.labels", "FieldValueInvalid"),
        ({"labels": {"a": "-x"}}, "metadata.labels", "FieldValueInvalid"),
        ({"annotations": {"/x": "x"}}, "metadata.annotations", "FieldValueInvalid"),
        ({"annotations": {"a": "x" * 262_145}}, "metadata.annotations", "FieldValueTooLong"),
        ({"finalizers": ["in valid"]}, "metadata.finalizers", "FieldValueInvalid"),
        ({"finalizers": ["orphan", "foregroundDeletion"]}, "metadata.finalizers", "FieldValueInvalid"),
        ({"ownerReferences": [{**OWNER, "uid": ""}]}, "metadata.ownerReferences.uid", "FieldValueInvalid"),
        ({"ownerReferences": [{**OWNER, "kind": "Event"}]}, "metadata.ownerReferences", "FieldValueInvalid"),
    ],
)
def test_invalid_metadata_is_reported_by_field(metadata: dict[str, Any], field: str, reason: str) -> None:
    assert found(metadata) == [(field, reason)]


def test_only_one_owner_may_be_the_controller() -> None:
    owners = [{**OWNER, "controller": True}, {**OWNER, "uid": "v", "controller": True}]
    assert found({"ownerReferences": owners}) == [("metadata.ownerReferences", "FieldValueInvalid")]


def test_built_in_kinds_need_qualified_finalizers() -> None:
    rules = Rules(finalizers_need_slash=True)
    assert found({"finalizers": ["short", "orphan"]}, rules) == [("metadata.finalizers[0]", "FieldValueInvalid")]


def test_unchanged_metadata_is_not_validated_again() -> None:
    odd = {"labels": {"a b": "x"}, "finalizers": ["in valid"]}
    assert reports(odd, odd, Rules()) == {}
    assert reports({"labels": {"a b": "y"}}, odd, Rules()).keys() == {"metadata.labels"}


def test_a_cause_of_an_update_is_reported_each_time_that_metadata_are_checked() -> None:
    odd = {"labels": {"a b": "x"}, "finalizers": ["-a"], "deletionGracePeriodSeconds": 5, "generateName": "A/b"}
    names = ["labels", "finalizers", "finalizers[0]", "deletionGracePeriodSeconds", "generateName"]
    rules = Rules(finalizers_need_slash=True, metadata_checks=MetadataChecks(own=2, update=0))
    expected = dict(zip([f"metadata.{one}" for one in names], [4, 3, 2, 1, 3], strict=True))
    assert reports(odd, {}, rules) == expected
    part = dict(zip([f"metadata.{one}" for one in names], [3, 1, 1, 2, 1], strict=True))
    assert reports(odd, {}, rules, is_part=True) == part


def test_the_prefix_of_a_name_is_checked_again_by_every_update() -> None:
    rules, odd = Rules(metadata_checks=MetadataChecks(own=1)), {"generateName": "Not_Valid"}
    assert reports(odd, odd, rules) == {"metadata.generateName": 1}
    assert reports(odd, odd, Rules()) == {}


def test_kinds_may_leave_the_metadata_of_a_new_object_to_what_is_checked_of_all_valid_ones() -> None:
    rules = Rules(metadata_checks=MetadataChecks(create=False))
    odd = {"name": "A_b", "generateName": "a/b", "labels": {"a b": "x"}}
    assert check_metadata(odd, rules) == []
    fields = [one.field for one in check_common_metadata(odd, rules)]
    assert fields == ["metadata.generateName", "metadata.labels"]
    assert [one.field for one in check_common_metadata(odd, Rules())] == ["metadata.generateName"]


@pytest.mark.parametrize("field", ["uid", "deletionTimestamp", "deletionGracePeriodSeconds", "namespace"])
def test_immutable_metadata_cannot_change(field: str) -> None:
    causes = check_immutable_metadata({"name": "a", field: "new"}, {"name": "a"})
    assert [(one.field, one.reason) for one in causes] == [(f"metadata.{field}", "FieldValueInvalid")]


def test_no_finalizer_can_be_added_to_an_object_that_is_being_deleted() -> None:
    old = {"deletionTimestamp": "t", "finalizers": ["e.x/a", "e.x/b"]}
    causes = check_immutable_metadata({**old, "finalizers": ["e.x/b", "e.x/c"]}, old)
    assert [(one.field, one.reason) for one in causes] == [("metadata.finalizers", "FieldValueForbidden")]
    assert check_immutable_metadata({**old, "finalizers": ["e.x/b"]}, old) == []


def test_unqualified_finalizers_cause_a_warning_once() -> None:
    metadata = {"finalizers": ["short", "example.com/f", "orphan"]}
    assert len(finalizer_warnings(metadata)) == 1
    assert finalizer_warnings(metadata, metadata) == []


def test_a_warning_says_that_a_finalizer_with_a_domain_needs_a_path() -> None:
    (plain, domain) = finalizer_warnings({"finalizers": ["mine", "finalizer.keda.sh", "keda.sh/mine"]})
    assert "prefer a domain-qualified finalizer name to avoid" in plain
    assert '"finalizer.keda.sh": prefer a domain-qualified finalizer name including a path (/) to avoid' in domain


def test_the_prefix_of_a_generated_name_is_reported_before_the_name() -> None:
    both = found({"name": "A_x", "generateName": "A_"})
    assert both == [("metadata.generateName", "FieldValueInvalid"), ("metadata.name", "FieldValueInvalid")]
