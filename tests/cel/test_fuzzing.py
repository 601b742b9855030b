"""For any text as an expression and any tree as an object, only errors of CEL are raised."""

import contextlib
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from levelset.cel import (
    DYN,
    Budget,
    CompileError,
    CostExceeded,
    Declarations,
    EvaluationError,
    compile_rule,
    compile_rules,
)
from levelset.cel.program import Program

NAMES = "self x l m s true false null in has all exists map filter size type int string list dyn i v"
SIGNS = (
    "+ - * / % ! && || == != < <= > >= ? : . , ( ) [ ] { } .? [? @ # ` \\ 1 2u 3.5 'a' b'c' r'\\d' optional.of matches"
)
WORDS = [*NAMES.split(), *SIGNS.split(), chr(0xD800), "é"]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=15).map(" ".join) | st.text(max_size=30)
TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
PATHS = st.sampled_from(
    ["self", "self.a", "self.b", "self['c']", "self[0]", "self.?a", "size(self.a)", "self.a.b", "1", "'a'", "[1]"]
)
JOINED = st.builds("({} {} {})".format, PATHS, st.sampled_from(["+", "-", "==", "<", "in", "&&", "||"]), PATHS)
EXPRESSIONS = st.one_of(
    JOINED,
    st.builds("{}.all(i, {})".format, PATHS, JOINED),
    st.builds("{}.map(i, v, {})".format, PATHS, JOINED),
    st.builds(
        "{}.{}".format,
        PATHS,
        st.sampled_from(["size()", "startsWith('a')", "matches(self.b)", "join()", "sum()", "hasValue()"]),
    ),
    st.builds(
        "{}({})".format,
        st.sampled_from(["int", "double", "string", "duration", "ip", "quantity", "url", "type"]),
        PATHS,
    ),
)


def compiled(text: str) -> Program | None:
    try:
        return compile_rule(text, Declarations({"self": DYN, "x": DYN, "l": DYN, "m": DYN, "s": DYN}), None)
    except CompileError as error:
        assert str(error).startswith("ERROR: <input>:")
        return None


@settings(max_examples=300, deadline=None)
@given(TEXTS)
def test_any_text_compiles_or_raises_an_error_with_its_position(text: str) -> None:
    compiled(text)


@settings(max_examples=300, deadline=None)
@given(EXPRESSIONS, TREES)
def test_any_value_gives_a_value_or_an_error(text: str, tree: Any) -> None:
    program = compiled(text)
    if program is None:
        return
    with contextlib.suppress(EvaluationError, CostExceeded):
        program({"self": tree}, Budget(50_000))


RULES = [{"rule": "self.a == 1 || self.b.exists(i, i > 1)"}, {"rule": "self.c['a'] == oldSelf.c['a']"}]
PROPERTIES = {
    "a": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 0"}]},
    "b": {"type": "array", "maxItems": 5, "items": {"type": "number"}},
    "c": {"type": "object", "maxProperties": 5, "additionalProperties": {"type": "string", "format": "date-time"}},
}
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "object", "properties": PROPERTIES, "x-kubernetes-validations": RULES}},
}
CHECKED = compile_rules(SCHEMA)


@settings(max_examples=150, deadline=None)
@given(TREES, TREES)
def test_objects_that_do_not_fit_their_schema_raise_only_errors_of_cel(new: Any, old: Any) -> None:
    assert CHECKED.problems == ()
    for finding in CHECKED.check(new, old):
        assert finding.message
