from typing import Any

import pytest

from levelset.apiserver.registry.metadata import check_immutable_metadata, check_metadata, finalizer_warnings
from levelset.apiserver.resources.served_resource import Rules

OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"}


def found(
    metadata: dict[str, Any], old: dict[str, Any] | None = None, rules: Rules | None = None
) -> list[tuple[str, str]]:
    return [(one.field, one.reason) for one in check_metadata({"name": "a", **metadata}, rules or Rules(), old)]


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
    assert found({"finalizers": ["short", "orphan"]}, rules=rules) == [("metadata.finalizers[0]", "FieldValueInvalid")]


def test_unchanged_metadata_is_not_validated_again() -> None:
    odd = {"labels": {"a b": "x"}, "finalizers": ["in valid"]}
    assert found(odd, {"name": "a", **odd}) == []
    assert found({"labels": {"a b": "y"}}, {"name": "a", **odd}) == [("metadata.labels", "FieldValueInvalid")]


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
