"""Property tests: what holds for all schemas and all objects."""

import copy
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelset.apiserver.schema import Compiled, check_structural, compile_schema
from levelset.errors import Cause
from tests.apiserver.schema.strategies import ANYTHING, PLAIN, PLAIN_SCHEMAS, STRUCTURAL, TREES

RESOURCES = st.dictionaries(st.sampled_from(["spec", "status", "a", "metadata"]), TREES, max_size=3)


def thorough(schema: Any, *, resource: bool) -> Compiled:
    """The same schema without its generated code."""
    compiled = compile_schema(schema, resource=resource)
    compiled._admits = compiled._checks = lambda _: False
    return compiled


@settings(max_examples=100, deadline=None)
@given(STRUCTURAL, TREES, st.booleans())
def test_the_generated_code_agrees_with_the_thorough_one(schema: Any, tree: Any, resource: bool) -> None:
    one, other = copy.deepcopy(tree), copy.deepcopy(tree)
    quick = compile_schema(schema, resource=resource).admit(one)
    slow = thorough(schema, resource=resource).admit(other)
    assert quick == slow
    assert one == other


@settings(max_examples=100, deadline=None)
@given(STRUCTURAL | PLAIN_SCHEMAS, TREES)
def test_validating_only_agrees_with_the_thorough_code(schema: Any, tree: Any) -> None:
    before = copy.deepcopy(tree)
    quick = compile_schema(schema, resource=False).validate(tree)
    assert quick == thorough(schema, resource=False).validate(tree)
    assert tree == before


@settings(max_examples=100, deadline=None)
@given(PLAIN_SCHEMAS, PLAIN)
def test_plain_keywords_behave_as_in_json_schema(schema: Any, tree: Any) -> None:
    expected = jsonschema_rs.Draft4Validator(schema).is_valid(tree)
    assert (not compile_schema(schema, resource=False).validate(tree)) == expected


@settings(max_examples=100, deadline=None)
@given(STRUCTURAL, TREES, st.booleans())
def test_pruning_twice_drops_nothing_the_second_time(schema: Any, tree: Any, resource: bool) -> None:
    compiled = compile_schema(schema, resource=resource)
    compiled.prune(tree)
    after = copy.deepcopy(tree)
    assert compiled.prune(tree) == []
    assert tree == after


@settings(max_examples=100, deadline=None)
@given(STRUCTURAL, TREES)
def test_defaulting_twice_changes_nothing_the_second_time(schema: Any, tree: Any) -> None:
    compiled = compile_schema(schema, resource=False)
    compiled.default(tree)
    after = copy.deepcopy(tree)
    compiled.default(tree)
    assert tree == after


@settings(max_examples=100, deadline=None)
@given(STRUCTURAL, TREES)
def test_an_admitted_object_is_admitted_again_unchanged(schema: Any, tree: Any) -> None:
    if check_structural({"type": "object", "properties": {"spec": schema}}, "x"):
        return
    compiled = compile_schema(schema, resource=False)
    first = compiled.admit(tree)
    after = copy.deepcopy(tree)
    assert compiled.admit(tree).causes == first.causes
    assert tree == after


@settings(max_examples=100, deadline=None)
@given(STRUCTURAL, RESOURCES)
def test_an_unchanged_object_may_always_be_written_again(schema: Any, tree: Any) -> None:
    compiled = compile_schema({"type": "object", "properties": {"spec": schema}})
    compiled.load(tree)
    assert compiled.validate(tree, copy.deepcopy(tree)) == []


@settings(max_examples=100, deadline=None)
@given(ANYTHING | STRUCTURAL, ANYTHING, ANYTHING)
def test_any_schema_and_any_object_are_handled_without_an_exception(schema: Any, tree: Any, old: Any) -> None:
    assert all(isinstance(one, Cause) for one in check_structural(schema, "x"))
    assert all(isinstance(one, Cause) for one in compile_schema(schema).admit(tree, old).causes)


KEYWORDS = st.sampled_from(
    [
        *("type", "properties", "items", "additionalProperties", "default", "enum", "required", "pattern", "format"),
        *("minimum", "maxLength", "multipleOf", "allOf", "anyOf", "not", "nullable", "$ref", "x-kubernetes-list-type"),
        *("x-kubernetes-list-map-keys", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"),
    ]
)


@settings(max_examples=100, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYWORDS, inner, max_size=5),
        max_leaves=15,
    ),
    ANYTHING,
)
def test_invalid_values_of_known_keywords_raise_no_exception(schema: Any, tree: Any) -> None:
    check_structural(schema, "x", status=True)
    compile_schema(schema, resource=False).admit(tree)


@pytest.mark.parametrize("depth", [90, 120, 400, 5000])
def test_a_deep_schema_is_refused_or_compiled_but_never_breaks(depth: int) -> None:
    schema: dict[str, Any] = {"type": "string"}
    tree: Any = "x"
    for _ in range(depth):
        schema, tree = {"type": "object", "properties": {"a": schema}}, {"a": tree}
    causes = check_structural(schema, "x")
    assert bool(causes) == (depth > 100)
    compile_schema(schema).admit(tree)
