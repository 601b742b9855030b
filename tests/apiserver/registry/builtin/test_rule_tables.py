"""Rule tables: lines of paths and checks, compiled to one function per table."""

from typing import Any

import pytest

from levelset.apiserver.registry.builtin.rules.checks import between, dns_label, one_of
from levelset.apiserver.registry.builtin.rules.rule_tables import (
    KindRules,
    Required,
    Table,
    Whole,
    always,
    immutable,
    on_create,
    remembered,
    required,
    zero,
)
from levelset.apiserver.registry.builtin.written_members import EmptyMap, equal
from levelset.apiserver.schema import field_errors
from levelset.errors import Cause


def fields(table: Table, tree: Any, at: str = "spec") -> list[tuple[str, str]]:
    out: list[Cause] = []
    table(tree, at, out, None)
    return [(one.field, one.reason.removeprefix("FieldValue")) for one in out]


def _report(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    out.append(field_errors.invalid(at, value, "x"))


def test_causes_come_in_the_order_of_the_lines():
    table = Table(("b", required), ("a", one_of("x")), ("b", required))
    assert fields(table, {"a": "y"}) == [("spec.b", "Required"), ("spec.a", "NotSupported"), ("spec.b", "Required")]


def test_a_check_runs_only_if_the_member_is_there_and_not_the_empty_text():
    table = Table(("a", one_of("x")), ("n", between(1, 2)))
    assert fields(table, {}) == fields(table, {"a": ""}) == fields(table, {"a": "x", "n": 1}) == []
    assert fields(table, {"a": "y", "n": 0}) == [("spec.a", "NotSupported"), ("spec.n", "Invalid")]


def test_a_required_member_is_not_checked_further_if_it_is_missing():
    table = Table(("name", Required("say it"), dns_label))
    out: list[Cause] = []
    table({}, "at", out, None)
    assert [one.message for one in out] == ["Required value: say it"]
    assert fields(table, {"name": "A"}) == [("spec.name", "Invalid")]


def test_an_absent_number_counts_as_zero_where_the_line_says_so():
    table = Table(("weight", zero, between(1, 100)))
    assert fields(table, {}) == [("spec.weight", "Invalid")]


def test_items_have_their_index_and_nested_members_their_path():
    table = Table(("ports[*]", Table(("name", required))), ("a.b", one_of("x")))
    assert fields(table, {"ports": [{"name": "x"}, {}], "a": {"b": "y"}}) == [
        ("spec.ports[1].name", "Required"),
        ("spec.a.b", "NotSupported"),
    ]
    assert fields(table, {"ports": [], "a": None}) == []


def test_a_root_table_has_plain_paths():
    assert fields(Table(("spec", Table(("a", required))), root=True), {"spec": {}}, "") == [("spec.a", "Required")]


def test_a_check_of_the_whole_map_runs_if_the_member_is_there():
    table = Table(("a", Whole(_report)), ("", _report), ("b", always(_report)))
    assert fields(table, {}) == [("spec", "Invalid"), ("spec.b", "Invalid")]
    assert fields(table, {"a": 1}) == [("spec", "Invalid"), ("spec", "Invalid"), ("spec.b", "Invalid")]


def test_rules_of_a_kind_know_creates_updates_and_status():
    kind = KindRules(
        rules=Table(("", on_create(_report)), root=True),
        changes=(("spec.a", immutable),),
        status=Table(("status.n", between(0, 1)), root=True),
    )
    old, new = {"spec": {"a": 1}, "status": {}}, {"spec": {"a": 2}, "status": {"n": 2}}
    assert [one.field for one in kind.validate(new, None)] == [""]
    assert [one.field for one in kind.validate(new, old)] == ["spec.a"]
    assert [one.field for one in kind.validate_part(new, old, "status")] == ["status.n"]


def test_absent_lists_and_maps_equal_empty_ones_as_in_go():
    assert equal({"a": [], "b": EmptyMap()}, {})
    assert equal([{"a": 1, "b": None}], [{"a": 1}])
    assert not equal({"a": 1}, {})
    assert not equal([1], [1, 2])


@pytest.mark.parametrize("value", [{}, "", 0, False])
def test_what_else_is_empty_and_written_differs_from_what_is_absent(value: Any):
    assert not equal({"a": value}, {})
    assert not equal({}, {"a": value})


def test_a_value_that_was_valid_is_not_checked_again_and_an_invalid_one_is():
    seen: list[Any] = []

    def check(value: Any, at: str, out: list[Cause], _context: Any) -> None:
        seen.append(value)
        if value == {"a": 2}:
            out.append(field_errors.invalid(at, "", "x"))

    table = Table(("m", remembered(check)))
    assert fields(table, {"m": {"a": 1}}) == fields(table, {"m": {"a": 1}}) == []
    assert fields(table, {"m": {"a": 2}}) == fields(table, {"m": {"a": 2}}) == [("spec.m", "Invalid")]
    assert seen == [{"a": 1}, {"a": 2}, {"a": 2}]


def test_an_empty_map_is_checked_only_if_a_rule_is_about_absent_members():
    optional, needed = Table(("n", between(1, 2))), Table(("n", required))
    assert optional.accepts_empty
    assert not needed.accepts_empty
    assert not Table(("", _report)).accepts_empty
    assert fields(Table(("a", optional), ("b", needed)), {"a": {}, "b": {}}) == [("spec.b.n", "Required")]
