from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from levelset.errors import BadPatch
from levelset.patch.field_paths import path
from levelset.patch.field_sets import EMPTY, FieldSet, parse_fields, print_fields
from tests.patch.test_field_sets import sets
from tests.patch.trees_strategy import deep, trees

wire_keys = some.sampled_from(
    [".", "f:a", "f:b", "x:y", "bad", 'k:{"n":1}', 'k:{ "n": 1 }', "k:1", 'v:"x"', "i:0", "i:x"]
)
wires: Any = some.recursive(
    some.just({}) | some.none(), lambda inner: some.dictionaries(wire_keys, inner, max_size=3), max_leaves=8
)


def test_a_set_is_printed_in_the_order_of_kubernetes() -> None:
    fields = FieldSet.of(
        path("spec"),
        path("spec", "ports", {"proto": "TCP", "port": 443}),
        path("spec", "ports", {"proto": "TCP", "port": 80}),
        path("spec", "b"),
        (*path("spec", "set"), 'v:"x"'),
        path("metadata", "labels", "l"),
    )
    assert msgspec.json.encode(print_fields(fields)).decode() == (
        '{"f:metadata":{"f:labels":{"f:l":{}}},"f:spec":{".":{},"f:b":{},"f:ports":'
        '{"k:{\\"port\\":80,\\"proto\\":\\"TCP\\"}":{},"k:{\\"port\\":443,\\"proto\\":\\"TCP\\"}":{}},'
        '"f:set":{"v:\\"x\\"":{}}}}'
    )


@pytest.mark.parametrize(
    ("wire", "printed"),
    [
        (None, {}),
        ({}, {}),
        ({".": {}}, {}),
        ({"f:a": None}, {"f:a": {}}),
        ({"f:a": {".": {}}}, {"f:a": {}}),
        ({"f:a": {".": {"anything": 1}, "f:b": {}}}, {"f:a": {".": {}, "f:b": {}}}),
        ({"f:a": {"x:new": {}}}, {"f:a": {}}),
        ({"f:a": {"x:new": {"f:b": 5}, "f:c": {}}}, {"f:a": {"f:c": {}}}),
        ({"k:{ }": {}}, {"k:{}": {}}),
        ({'k:{"b":1,"a":2}': {"f:x": {}}, 'k:{"a":2.0,"b":1}': {}}, {'k:{"a":2,"b":1}': {".": {}, "f:x": {}}}),
    ],
)
def test_fieldsv1_is_decoded_as_kubernetes_decodes_it(wire: Any, printed: Any) -> None:
    assert print_fields(parse_fields(wire)) == printed


@pytest.mark.parametrize(
    ("wire", "where"),
    [
        ([], "fieldsV1"),
        ("f:a", "fieldsV1"),
        ({"f:a": 1}, "fieldsV1.f:a"),
        ({"f:a": {"f:b": []}}, "fieldsV1.f:a.f:b"),
        ({"f:a": {"bad": {}}}, "fieldsV1.f:a.bad"),
        ({"f:a": {"k:[1]": {}}}, "fieldsV1.f:a.k:[1]"),
        ({"i:x": {}}, "fieldsV1.i:x"),
        ({1: {}}, "fieldsV1.1"),
    ],
)
def test_a_fault_is_named_by_the_keys_that_lead_to_it(wire: Any, where: str) -> None:
    with pytest.raises(BadPatch) as caught:
        parse_fields(wire)
    assert caught.value.field == where
    assert where in str(caught.value)


def test_the_same_fault_is_named_from_where_it_was_found() -> None:
    for where in ("managedFields[0].fieldsV1", "managedFields[1].fieldsV1"):
        with pytest.raises(BadPatch, match="must begin with") as caught:
            parse_fields({"nonsense": {}}, where=where)
        assert caught.value.field == f"{where}.nonsense"


@pytest.mark.parametrize("depth", [300, 5000, 100_000])
def test_a_set_too_deep_to_work_with_is_refused(depth: int) -> None:
    wire: Any = {}
    for _ in range(depth):
        wire = {"f:a": wire}
    with pytest.raises(BadPatch, match="deeper"):
        parse_fields(wire)


@given(sets)
def test_a_printed_set_is_read_back_as_it_was(fields: FieldSet) -> None:
    assert parse_fields(print_fields(fields)) == fields
    encoded = msgspec.json.encode(print_fields(fields))
    again = print_fields(parse_fields(msgspec.json.decode(encoded)))
    assert msgspec.json.encode(again) == encoded


@given(sets)
def test_the_order_on_the_wire_does_not_matter(fields: FieldSet) -> None:
    def turned(node: dict[str, Any]) -> dict[str, Any]:
        return {name: turned(child) for name, child in reversed(node.items())}

    read = parse_fields(turned(fields.tree))
    assert str(read.tree) == str(fields.tree)


@given(wires | trees() | some.integers(0, 40).map(deep))
def test_anything_else_is_refused_as_a_bad_patch(wire: Any) -> None:
    try:
        fields = parse_fields(wire)
    except BadPatch:
        return
    assert parse_fields(print_fields(fields)) == fields
    assert fields == EMPTY or list(fields)
