"""What a compiled schema does to an object."""

import copy
from typing import Any

import pytest

from levelset.apiserver.schema import Admission, Definitions, compile_schema

TEXT: dict[str, Any] = {"type": "string"}
FREE = "x-kubernetes-preserve-unknown-fields"


def spec(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}


def admitted(schema: Any, value: Any, old: Any = None) -> tuple[Any, Admission]:
    tree = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": value}
    former = None if old is None else {**tree, "spec": old}
    outcome = compile_schema(schema).admit(tree, former)
    return tree["spec"], outcome


def fields(outcome: Admission) -> list[tuple[str, str]]:
    return [(one.field, one.reason.removeprefix("FieldValue")) for one in outcome.causes]


def test_unknown_fields_are_pruned_and_named() -> None:
    value, outcome = admitted(spec(a=TEXT, l={"type": "array", "items": spec()}), {"a": "x", "b": 1, "l": [{"c": 1}]})
    assert value == {"a": "x", "l": [{}]}
    assert outcome == Admission(("spec.b", "spec.l[0].c"), ())


def test_metadata_api_version_and_kind_are_not_pruned() -> None:
    tree = {"apiVersion": "v1", "kind": "W", "metadata": {"odd": 1}, "extra": 1}
    assert compile_schema({"type": "object"}).admit(tree).dropped == ("extra",)
    assert tree == {"apiVersion": "v1", "kind": "W", "metadata": {"odd": 1}}


def test_a_null_is_dropped_unless_it_is_nullable_or_defaulted() -> None:
    schema = spec(plain=TEXT, nulled={**TEXT, "nullable": True}, filled={**TEXT, "default": "d"}, free={FREE: True})
    value, outcome = admitted(schema, {"plain": None, "nulled": None, "filled": None, "free": None})
    assert value == {"nulled": None, "filled": "d"}
    assert not outcome.causes


def test_a_nullable_field_with_a_default_keeps_its_null() -> None:
    schema = spec(a={**TEXT, "nullable": True, "default": "d"})
    assert admitted(schema, {"a": None})[0] == {"a": None}
    assert admitted(schema, {})[0] == {"a": "d"}


def test_a_null_in_a_list_stays_and_is_wrong() -> None:
    _, outcome = admitted(spec(l={"type": "array", "items": TEXT}), {"l": ["a", None]})
    assert fields(outcome) == [("spec.l[1]", "TypeInvalid")]


def test_a_null_in_a_map_is_dropped() -> None:
    value, outcome = admitted(spec(m={"type": "object", "additionalProperties": TEXT}), {"m": {"a": None, "b": "x"}})
    assert (value, outcome.causes) == ({"m": {"b": "x"}}, ())


def test_a_missing_object_gets_its_default_and_the_defaults_inside_it() -> None:
    inner = {"type": "object", "default": {}, "properties": {"b": {"type": "integer", "default": 1}}}
    schema = spec(a=inner)
    first, _ = admitted(schema, {})
    first["a"]["b"] = 2
    assert admitted(schema, {})[0] == {"a": {"b": 1}}


def test_defaults_are_not_shared_between_objects() -> None:
    compiled = compile_schema(spec(a={"type": "object", "default": {"l": []}, FREE: True}))
    one: dict[str, Any] = {"spec": {}}
    other: dict[str, Any] = {"spec": {}}
    compiled.admit(one)
    compiled.admit(other)
    one["spec"]["a"]["l"].append(1)
    assert other["spec"]["a"] == {"l": []}


def test_an_integer_or_a_text() -> None:
    schema = spec(a={"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, TEXT], "maximum": 5})
    assert [not admitted(schema, {"a": value})[1].causes for value in (1, "50%", 9, True, 1.5)] == [1, 1, 0, 0, 0]


@pytest.mark.parametrize(
    ("value", "more"), [(0.1, ["Checked value must be of type integer (default format) in spec.a"]), (True, [])]
)
def test_of_a_value_that_is_neither_the_first_alternative_is_reported(value: Any, more: list[str]) -> None:
    schema = spec(a={"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, TEXT], "pattern": "^x"})
    messages = [one.message.partition(": ")[2].partition(": ")[2] for one in admitted(schema, {"a": value})[1].causes]
    named = "number" if value == 0.1 else "boolean"
    assert sorted(messages) == sorted(
        [
            f'spec.a in body must be of type integer,string: "{named}"',
            '"spec.a" must validate at least one schema (anyOf)',
            f'spec.a in body must be of type integer: "{named}"',
            *more,
        ]
    )


def test_a_whole_float_is_an_integer() -> None:
    schema = spec(a={"type": "integer", "maximum": 5})
    assert [not admitted(schema, {"a": value})[1].causes for value in (1.0, 1.5, 9.0, 1e300)] == [1, 0, 0, 0]


def test_a_boolean_is_neither_a_number_nor_an_enum_value_of_1() -> None:
    schema = spec(a={"type": "integer"}, b={"type": "integer", "enum": [1]})
    _, outcome = admitted(schema, {"a": True, "b": True})
    assert fields(outcome) == [("spec.a", "TypeInvalid"), ("spec.b", "TypeInvalid"), ("spec.b", "NotSupported")]


def test_messages_are_those_of_kubernetes() -> None:
    schema = spec(n={"type": "integer", "maximum": 3}, s={**TEXT, "enum": ["a"], "maxLength": 2})
    _, outcome = admitted(schema, {"n": "many", "s": "abc"})
    assert [one.message for one in outcome.causes] == [
        'Invalid value: "string": spec.n in body must be of type integer: "string"',
        "Too long: may not be more than 2 bytes",
        'Unsupported value: "abc": supported values: "a"',
    ]
    _, outcome = admitted(schema, {"n": 4})
    assert outcome.causes[0].message == "Invalid value: 4: spec.n in body should be less than or equal to 3"


def test_a_set_holds_each_value_once() -> None:
    schema = spec(l={"type": "array", "x-kubernetes-list-type": "set", "items": TEXT})
    assert fields(admitted(schema, {"l": ["a", "b", "a", "a"]})[1]) == [("spec.l[2]", "Duplicate")]


@pytest.mark.parametrize(
    ("keyword", "value", "wrong"),
    [
        ("anyOf", [{"required": ["a"]}, {"required": ["b"]}], {}),
        ("oneOf", [{"required": ["a"]}, {"required": ["b"]}], {"a": "x", "b": "x"}),
        ("allOf", [{"required": ["a"]}, {"properties": {"a": {"maxLength": 2}}}], {"a": "xxx"}),
        ("not", {"required": ["a", "b"]}, {"a": "x", "b": "x"}),
    ],
)
def test_alternatives_are_obeyed(keyword: str, value: Any, wrong: dict[str, Any]) -> None:
    schema = spec(a=TEXT, b=TEXT)
    schema["properties"]["spec"][keyword] = value
    assert not admitted(schema, {"a": "x"})[1].causes
    causes = admitted(schema, wrong)[1].causes
    assert [one for one in causes if one.field == "<nil>" and '"spec" must' in one.message]  # as upstream


def test_alternatives_neither_prune_nor_default() -> None:
    schema = spec(a=TEXT, b=TEXT)
    schema["properties"]["spec"]["anyOf"] = [{"properties": {"a": {"minLength": 1}}}]
    assert admitted(schema, {"a": "x", "b": "y"})[0] == {"a": "x", "b": "y"}


def test_an_unchanged_value_may_stay_wrong() -> None:
    schema = spec(a={**TEXT, "maxLength": 1}, b={**TEXT, "maxLength": 1})
    old = {"a": "long", "b": "x"}
    assert not admitted(schema, {**old, "b": "y"}, old)[1].causes
    assert fields(admitted(schema, {"a": "long", "b": "long"}, old)[1]) == [("spec.b", "TooLong")]


def test_an_atomic_map_is_compared_as_a_whole() -> None:
    short = {**TEXT, "maxLength": 1}
    schema = spec(m={"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": short, "b": short}})
    old = {"m": {"a": "long", "b": "x"}}
    assert not admitted(schema, copy.deepcopy(old), old)[1].causes
    assert fields(admitted(schema, {"m": {"a": "long", "b": "y"}}, old)[1]) == [("spec.m.a", "TooLong")]


def test_old_duplicates_may_stay() -> None:
    schema = spec(l={"type": "array", "x-kubernetes-list-type": "set", "items": TEXT}, a=TEXT)
    old = {"l": ["x", "x"]}
    assert not admitted(schema, {"l": ["x", "x", "y"], "a": "z"}, old)[1].causes
    assert fields(admitted(schema, {"l": ["y", "y"]}, {"l": ["y"]})[1]) == [("spec.l[1]", "Duplicate")]


def test_validating_does_not_change_the_object() -> None:
    tree = {"spec": {"unknown": 1}}
    assert compile_schema(spec(a={**TEXT, "default": "x"})).validate(tree) == []
    assert tree == {"spec": {"unknown": 1}}


def test_loading_prunes_and_defaults_stored_objects_that_are_no_longer_valid() -> None:
    tree = {"spec": {"a": "too long", "gone": 1}}
    compile_schema(spec(a={**TEXT, "maxLength": 1}, b={**TEXT, "default": "x"})).load(tree)
    assert tree == {"spec": {"a": "too long", "b": "x"}}


def test_definitions_may_refer_to_themselves() -> None:
    ref = {"$ref": "#/components/schemas/Tree"}
    tree_schema = {"type": "object", "properties": {"name": TEXT, "more": {"type": "array", "items": ref}}}
    compiled = compile_schema(ref, definitions=Definitions({"Tree": tree_schema}))
    tree: dict[str, Any] = {"name": "a", "more": [{"name": "b", "more": [{"name": 1, "odd": 2}]}]}
    outcome = compiled.admit(tree)
    assert outcome.dropped == ("more[0].more[0].odd",)
    assert fields(outcome) == [("more[0].more[0].name", "TypeInvalid")]
    assert outcome.type_error == compiled.first_type_error(tree)


@pytest.mark.parametrize("depth", [60, 3000])
def test_a_tree_may_be_deep_but_not_endless(depth: int) -> None:
    ref = {"$ref": "Tree"}
    compiled = compile_schema(ref, definitions=Definitions({"Tree": {"type": "object", "properties": {"a": ref}}}))
    tree: dict[str, Any] = {}
    for _ in range(depth):
        tree = {"a": tree}
    causes = compiled.admit(tree).causes
    assert bool(causes) == (depth > 100)


def test_an_unknown_reference_accepts_everything() -> None:
    compiled = compile_schema({"$ref": "#/components/schemas/Nowhere"}, definitions=Definitions())
    assert compiled.admit({"a": 1}) == Admission()


def test_embedded_metadata_is_typed() -> None:
    schema = spec(t={"type": "object", "x-kubernetes-embedded-resource": True, FREE: True})
    embedded = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": 5, "labels": {"a": "b c"}}}
    _, outcome = admitted(schema, {"t": embedded})
    assert fields(outcome) == [("spec.t.metadata.labels", "Invalid"), ("spec.t.metadata", "Undecodable")]


@pytest.mark.parametrize("value", [{"a": "x", "b": 1}, {"a": None}, {"a": 1}])
def test_accepts_is_true_only_for_surely_valid_values(value: Any) -> None:
    schema = compile_schema(spec(a=TEXT))
    head = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}}
    assert schema.accepts({**head, "spec": {"a": "x"}})
    assert not schema.accepts({**head, "spec": value})


@pytest.mark.parametrize("limit", ["maximum", "minimum", "multipleOf"])
def test_a_limit_that_is_no_number_of_its_type_makes_every_number_wrong(limit: str) -> None:
    schema = spec(a={"type": "integer", "format": "int32", limit: -1e10 if limit == "minimum" else 1e10})
    _, outcome = admitted(schema, {"a": 0})
    assert "with format int32 in spec.a" in str(outcome.causes)


def test_alternatives_of_which_none_fits_say_so() -> None:
    _, outcome = admitted(spec(a={"type": "integer", "allOf": [{"minimum": 2}, {"minimum": 3}]}), {"a": 1})
    assert '"spec.a" must validate all the schemas (allOf). None validated' in str(outcome.causes)
