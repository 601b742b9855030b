from typing import Any

from levelset.apiserver.registry.strategy import ignored_fields, restrict_to_subresource
from levelset.apiserver.resources.served_resource import Rules
from levelset.patch.field_paths import path
from tests.apiserver.support.server_state import make_served

OLD: dict[str, Any] = {"metadata": {"name": "a", "labels": {"l": "1"}}, "spec": {"n": 1}, "status": {"ok": True}}
NEW: dict[str, Any] = {
    "metadata": {"name": "a", "labels": {"l": "2"}, "annotations": {"x": "y"}, "resourceVersion": "7"},
    "spec": {"n": 2},
    "status": {"ok": False},
}


def test_the_main_endpoint_does_not_change_the_status() -> None:
    assert restrict_to_subresource(make_served(), OLD, {**NEW}, "") == {**NEW, "status": {"ok": True}}
    assert "status" not in restrict_to_subresource(make_served(), {"metadata": {}}, {**NEW}, "")


def test_without_the_subresource_the_status_is_a_plain_field() -> None:
    assert restrict_to_subresource(make_served(status=False), OLD, {**NEW}, "") == NEW


def test_the_status_endpoint_of_a_custom_resource_changes_the_status_only() -> None:
    made = restrict_to_subresource(make_served(), OLD, NEW, "status")
    assert made == {**OLD, "status": {"ok": False}, "metadata": {**OLD["metadata"], "resourceVersion": "7"}}


def test_the_rules_of_a_kind_tell_what_of_the_metadata_its_status_endpoint_leaves() -> None:
    made = restrict_to_subresource(make_served(rules=Rules(preserved_by_status="labels")), OLD, NEW, "status")
    assert made["spec"] == {"n": 1}
    assert made["metadata"] == {**NEW["metadata"], "labels": {"l": "1"}}
    made = restrict_to_subresource(make_served(rules=Rules(preserved_by_status="")), OLD, NEW, "status")
    assert made["metadata"] == NEW["metadata"]


def test_a_status_can_be_removed() -> None:
    assert "status" not in restrict_to_subresource(make_served(), OLD, {"metadata": {}}, "status")


def test_the_approval_endpoint_changes_the_conditions_only() -> None:
    old = {**OLD, "status": {"certificate": "c", "conditions": [1]}}
    new = {**NEW, "status": {"certificate": "d", "conditions": [2]}}
    made = restrict_to_subresource(make_served(), old, new, "approval")
    assert (made["spec"], made["status"]) == ({"n": 1}, {"certificate": "c", "conditions": [2]})
    assert restrict_to_subresource(make_served(), old, {"metadata": {}}, "approval")["status"] == {"certificate": "c"}


def test_an_endpoint_ignores_the_fields_it_does_not_write() -> None:
    assert path("status") in ignored_fields(make_served(), "")
    assert path("spec") in ignored_fields(make_served(), "status")
    assert not ignored_fields(make_served(status=False), "")
