"""Validation rules on whole objects: violations, their fields, and ratcheting."""

from typing import Any

import pytest

from levelset.cel import OMITTED, Finding, compile_rules

RULES = "x-kubernetes-validations"


def spec(properties: dict[str, Any], *rules: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": properties, RULES: list(rules)}}}


def check(schema: dict[str, Any], new: Any, old: Any = None) -> list[tuple[str, str]]:
    rules = compile_rules(schema)
    assert rules.problems == ()
    former = None if old is None else {"spec": old}
    return [(one.field, one.message) for one in rules.check({"spec": new}, former)]


INT = {"type": "integer"}
TEXT = {"type": "string", "maxLength": 20}


def test_a_rule_that_does_not_hold_is_a_finding_with_its_field() -> None:
    schema = spec({"a": {**INT, RULES: [{"rule": "self > 1"}]}})
    assert check(schema, {"a": 2}) == []
    assert check(schema, {}) == []
    assert check(schema, {"a": 1}) == [("spec.a", "failed rule: self > 1")]


def test_a_finding_has_the_reason_the_path_and_the_message_of_its_rule() -> None:
    rule = {"rule": "self.a < self.b", "message": "a first", "reason": "FieldValueForbidden", "fieldPath": ".a"}
    rules = compile_rules(spec({"a": INT, "b": INT}, rule))
    assert rules.check({"spec": {"a": 2, "b": 1}}) == [Finding("spec.a", "FieldValueForbidden", "a first", OMITTED)]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("'no ' + self.s + '!'", "no bad!"),
        ("'  '", "plain"),
        ("'two\\nlines'", "plain"),
        ("self.s.substring(9)", "plain"),
        ("lists.range(3000).map(i, 'xx').join()", "plain"),
    ],
)
def test_a_message_may_be_computed_and_falls_back(expression: str, message: str) -> None:
    rule = {"rule": "self.s != 'bad'", "message": "plain", "messageExpression": expression}
    rules = compile_rules(spec({"s": TEXT}, rule))
    assert [one.message for one in rules.check({"spec": {"s": "bad"}})] == [message]


def test_list_items_are_named_by_index_and_map_entries_by_key() -> None:
    item = {"type": "object", "properties": {"v": INT}, RULES: [{"rule": "self.v > 0"}]}
    value = {**INT, RULES: [{"rule": "self < 10"}]}
    schema = spec(
        {
            "l": {"type": "array", "maxItems": 9, "items": item},
            "m": {"type": "object", "maxProperties": 9, "additionalProperties": value},
        }
    )
    found = check(schema, {"l": [{"v": 1}, {"v": 0}], "m": {"ok": 1, "bad": 11}})
    assert [field for field, _ in found] == ["spec.l[1]", "spec.m[bad]"]


def test_an_error_while_evaluating_is_a_finding() -> None:
    values = {"type": "object", "maxProperties": 5, "additionalProperties": INT}
    schema = spec(
        {"m": values, "i": {"x-kubernetes-int-or-string": True}}, {"rule": "self.m['k'] > 0"}, {"rule": "self.i > 1"}
    )
    rules = compile_rules(schema)
    unmatched = "'no such overload': call arguments did not match a supported operator, function or macro signature"
    assert [(one.message, one.value) for one in rules.check({"spec": {"m": {}, "i": "a"}})] == [
        ("no such key: k evaluating rule: self.m['k'] > 0", "object"),
        (f"{unmatched} for rule: self.i > 1", "object"),
    ]


def test_transition_rules_run_only_on_updates_of_existing_values() -> None:
    schema = spec({"a": {**INT, RULES: [{"rule": "self >= oldSelf"}]}})
    assert check(schema, {"a": 1}) == []
    assert check(schema, {"a": 1}, {}) == []
    assert check(schema, {"a": 1}, {"a": 1}) == []
    assert check(schema, {"a": 1}, {"a": 2}) == [("spec.a", "failed rule: self >= oldSelf")]


def test_with_optional_old_self_a_transition_rule_always_runs() -> None:
    rule = {"rule": "oldSelf.hasValue() ? self != 'new' : self == 'new'", "optionalOldSelf": True}
    schema = spec({"s": {**TEXT, RULES: [rule]}})
    assert check(schema, {"s": "new"}) == []
    assert check(schema, {"s": "old"}) != []
    assert check(schema, {"s": "new"}, {"s": "x"}) != []


def test_items_of_keyed_lists_are_compared_by_key() -> None:
    item = {
        "type": "object",
        "required": ["n"],
        "properties": {"n": TEXT, "v": {**INT, RULES: [{"rule": "self >= oldSelf"}]}},
    }
    keyed = {
        "type": "array",
        "maxItems": 9,
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["n"],
    }
    schema = spec({"l": keyed})
    old = {"l": [{"n": "a", "v": 5}, {"n": "b", "v": 1}]}
    assert check(schema, {"l": [{"n": "b", "v": 1}, {"n": "a", "v": 5}, {"n": "c", "v": 0}]}, old) == []
    assert check(schema, {"l": [{"n": "a", "v": 4}]}, old) == [("spec.l[0].v", "failed rule: self >= oldSelf")]


def test_violations_in_unchanged_values_are_ignored() -> None:
    schema = spec({"n": {**INT, RULES: [{"rule": "self < 5"}]}, "m": INT})
    assert check(schema, {"n": 9, "m": 2}, {"n": 9, "m": 1}) == []
    assert check(schema, {"n": 8, "m": 1}, {"n": 9, "m": 1}) == [("spec.n", "failed rule: self < 5")]
    whole = spec({"n": INT, "m": INT}, {"rule": "self.n < 5"})
    assert check(whole, {"n": 9, "m": 2}, {"n": 9, "m": 1}) == [("spec", "failed rule: self.n < 5")]
    assert check(whole, {"n": 9, "m": 1}, {"n": 9, "m": 1}) == []


def test_values_have_the_type_of_their_format() -> None:
    schema = spec(
        {
            "t": {
                "type": "string",
                "format": "date-time",
                RULES: [{"rule": "self > timestamp('2020-01-01T00:00:00Z')"}],
            },
            "d": {"type": "string", "format": "duration", RULES: [{"rule": "self <= duration('1h')"}]},
            "y": {"type": "string", "format": "date", RULES: [{"rule": "self.getFullYear() == 2024"}]},
            "b": {"type": "string", "format": "byte", RULES: [{"rule": "self == b'hello'"}]},
            "f": {"type": "number", RULES: [{"rule": "self / 2.0 == 1.5"}]},
            "i": {"x-kubernetes-int-or-string": True, RULES: [{"rule": "type(self) == int ? self < 5 : self == 'x'"}]},
        }
    )
    good = {"t": "2021-01-01T00:00:00Z", "d": "30m", "y": "2024-05-01", "b": "aGVsbG8=", "f": 3, "i": "x"}
    assert check(schema, good) == []
    bad = {"t": "2019-01-01T00:00:00Z", "d": "2h", "y": "2023-05-01", "b": "aGVsbA==", "f": 2, "i": 7}
    assert [field for field, _ in check(schema, bad)] == [f"spec.{name}" for name in "tdybfi"]


def test_a_keyed_list_in_another_order_has_not_changed() -> None:
    item = {"type": "object", "properties": {"name": {"type": "string"}, "n": {"type": "integer"}}}
    keyed = {
        "type": "array",
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "x-kubernetes-validations": [{"rule": "self.all(x, x.n < 5)"}],
    }
    schema = spec({"l": keyed})
    one, two = {"name": "a", "n": 9}, {"name": "b", "n": 1}
    assert check(schema, {"l": [one, two]}, {"l": [two, one]}) == []
    assert check(schema, {"l": [one, two]}, {"l": [one, {**two, "n": 2}]}) != []


def test_sets_and_keyed_lists_are_equal_whatever_their_order() -> None:
    texts = {"type": "array", "maxItems": 5, "items": TEXT, "x-kubernetes-list-type": "set"}
    item = {"type": "object", "required": ["n"], "properties": {"n": TEXT, "v": INT}}
    keyed = {
        "type": "array",
        "maxItems": 5,
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["n"],
    }
    schema = spec(
        {"s": texts, "k": keyed},
        {"rule": "self.s == oldSelf.s", "message": "s"},
        {"rule": "self.k == oldSelf.k", "message": "k"},
    )
    one: dict[str, Any] = {"s": ["a", "b"], "k": [{"n": "a", "v": 1}, {"n": "b", "v": 2}]}
    two = {"s": ["b", "a"], "k": [{"n": "b", "v": 2}, {"n": "a", "v": 1}]}
    assert check(schema, two, one) == []
    assert check(schema, {"s": ["a"], "k": one["k"][:1]}, one) == [("spec", "s"), ("spec", "k")]


def test_field_names_that_are_not_cel_identifiers_are_escaped() -> None:
    names = {
        "namespace": "__namespace__",
        "dash-ed": "dash__dash__ed",
        "x.y": "x__dot__y",
        "a__b": "a__underscores__b",
        "s/t": "s__slash__t",
    }
    schema = spec(
        dict.fromkeys(names, TEXT), *({"rule": f"!has(self.{each}) || self.{each} == 'ok'"} for each in names.values())
    )
    assert check(schema, dict.fromkeys(names, "ok")) == []
    assert len(check(schema, dict.fromkeys(names, "no"))) == len(names)


def test_the_root_has_its_kind_and_name() -> None:
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"n": TEXT}}},
        RULES: [{"rule": "self.metadata.name == self.spec.n && self.kind == 'W'"}],
    }
    rules = compile_rules(schema)
    assert rules.problems == ()
    assert rules.check({"kind": "W", "metadata": {"name": "a"}, "spec": {"n": "a"}}) == []
    assert [one.field for one in rules.check({"kind": "W", "metadata": {"name": "b"}, "spec": {"n": "a"}})] == [""]


def test_a_null_in_a_nullable_field_counts_as_absent() -> None:
    schema = spec({"a": {**TEXT, "nullable": True}}, {"rule": "!has(self.a) || self.a == 'x'"})
    assert check(schema, {"a": None}) == []
    assert check(schema, {"a": "y"}) != []


def test_rules_inside_all_of_are_checked() -> None:
    schema = spec({"a": INT})
    schema["properties"]["spec"]["allOf"] = [{"properties": {"a": {RULES: [{"rule": "self > 0"}]}}}]
    assert check(schema, {"a": 0}) == [("spec.a", "failed rule: self > 0")]


def test_the_rules_of_an_object_share_a_budget_and_report_when_it_is_exceeded() -> None:
    rule = {"rule": "self.all(a, self.all(b, self.all(c, a >= 0 && b >= 0 && c >= 0)))"}
    schema = spec({"l": {"type": "array", "maxItems": 100, "items": INT, RULES: [rule]}})
    rules = compile_rules(schema)
    found = rules.check({"spec": {"l": list(range(100))}})
    assert [one.message.split(":")[0] for one in found] == ["'operation cancelled"]
    assert "no further validation rules will be run" in found[0].message
