"""Compilation: errors and their positions, and long expressions, which are compiled piece by piece."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelset.cel import BOOL, INT, CompileError, Declarations, EvaluationError, compile_rule, declared_type
from levelset.errors import Malformed
from levelset.re2.step_budget import StepsExceeded, within
from tests.cel.evaluation import VARIABLES

EXPECTED = (
    "expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, "
    "IDENTIFIER}"
)
WRONG = [
    ("x <", f"1:4: Syntax error: mismatched input '<EOF>' {EXPECTED}"),
    ("", f"1:0: Syntax error: mismatched input '<EOF>' {EXPECTED}"),
    ("x y", "1:3: Syntax error: extraneous input 'y' expecting <EOF>"),
    ("x y z", "1:3: Syntax error: mismatched input 'y' expecting <EOF>"),
    ("* x", f"1:1: Syntax error: extraneous input '*' {EXPECTED}"),
    ("* *", f"1:1: Syntax error: mismatched input '*' {EXPECTED}"),
    ("(x", "1:3: Syntax error: mismatched input '<EOF>' expecting ')'"),
    ("x ; 1", "1:3: Syntax error: token recognition error at: ';'"),
    ("'abc", "1:1: Syntax error: token recognition error at: ''abc'"),
    ("x ==\nother", "2:1: undeclared reference to 'other' (in container '')"),
    ("x == 'a'", "1:3: found no matching overload for '_==_' applied to '(int, string)'"),
    ("x + 's'", "1:3: found no matching overload for '_+_' applied to '(int, string)'"),
    ("s.nosuch()", "1:9: undeclared reference to 'nosuch' (in container '')"),
    ("s.startsWith(1)", "1:13: found no matching overload for 'startsWith' applied to 'string.(int)'"),
    ("x && true", "1:1: expected type 'bool' but found 'int'"),
    ("x.a", "1:2: type 'int' does not support field selection"),
    ("[1, 'a']", "1:5: expected type 'int' but found 'string'"),
    (
        "x.all(i, true)",
        "1:1: expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)",
    ),
    ("l.all(1, true)", "1:7: argument must be a simple name"),
    ("has(x)", "1:5: invalid argument to has() macro"),
    ("s.matches('(')", "1:11: invalid matches argument: error parsing regexp: missing closing ): `(`"),
    ("duration('x') == duration('1s')", "1:10: invalid duration argument"),
    ("9223372036854775808", "1:1: invalid int literal"),
    ("for", "1:1: reserved identifier: for"),
    ("Thing{a: 1}", "1:6: undeclared reference to 'Thing' (in container '')"),
]


@pytest.mark.parametrize(("text", "message"), WRONG, ids=[text for text, _ in WRONG])
def test_an_error_has_its_position(text: str, message: str) -> None:
    with pytest.raises(CompileError) as caught:
        compile_rule(text, Declarations(VARIABLES), None)
    assert str(caught.value).splitlines()[0] == f"ERROR: <input>:{message}"


def test_an_error_shows_its_line_with_a_caret_under_the_position() -> None:
    with pytest.raises(Malformed) as caught:
        compile_rule("x > 1 &&\n  other", Declarations(VARIABLES))
    assert str(caught.value).splitlines()[1:] == [" |   other", " | ..^"]
    assert caught.value.position == 11


def test_all_type_errors_are_reported_at_once() -> None:
    with pytest.raises(CompileError) as caught:
        compile_rule("one > 1 && two > 1", Declarations({}))
    assert [issue.position for issue in caught.value.issues] == [0, 11]


def test_the_result_must_have_the_wanted_type() -> None:
    with pytest.raises(CompileError, match="cel expression must evaluate to a bool"):
        compile_rule("x + 1", Declarations(VARIABLES), BOOL)


def test_fields_that_a_schema_does_not_know_are_undefined() -> None:
    kind = declared_type(
        {"type": "object", "properties": {"a": {"type": "string"}, "b": {"x-kubernetes-preserve-unknown-fields": True}}}
    )
    assert kind is not None
    for name in ("b", "c"):
        with pytest.raises(CompileError, match=f"undefined field '{name}'"):
            compile_rule(f"self.{name} == 'a'", Declarations({"self": kind}))


OPERANDS = {"true": True, "false": False, "(1 / x == 1)": None}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(sorted(OPERANDS)), min_size=2, max_size=300), st.sampled_from(["&&", "||"]))
def test_an_operator_with_many_operands_has_the_value_of_its_operands(operands: list[str], operator: str) -> None:
    program = compile_rule(f" {operator} ".join(operands), Declarations({"x": INT}))
    values, decisive = {OPERANDS[each] for each in operands}, operator == "||"
    if decisive not in values and None in values:
        with pytest.raises(EvaluationError, match="division by zero"):
            program({"x": 0})
    else:
        assert program({"x": 0}) is (decisive if decisive in values else not decisive)


@pytest.mark.parametrize("count", [39, 41, 81, 200])
def test_long_lists_and_maps_have_all_their_elements(count: int) -> None:
    known = Declarations({"x": INT})
    items = ", ".join(f"x + {at}" for at in range(count))
    entries = ", ".join(f"{at}: [x + {at}][0]" for at in range(count))
    assert compile_rule(f"[{items}]", known, None)({"x": 1}) == list(range(1, count + 1))
    assert compile_rule(f"{{{entries}}}", known, None)({"x": 1}) == {at: at + 1 for at in range(count)}
    optional = ", ".join(f"?optional.of(x + {at})" if at % 2 else "?optional.none()" for at in range(count))
    assert compile_rule(f"[{optional}]", known, None)({"x": 1}) == list(range(2, count + 1, 2))


def test_a_list_of_thousands_of_elements_has_all_of_them() -> None:
    items = ", ".join(f"x + {at}" for at in range(1_700))
    assert compile_rule(f"[{items}]", Declarations({"x": INT}), None)({"x": 1}) == list(range(1, 1_701))


def test_compiling_is_charged_by_the_length_of_the_expression() -> None:
    text = " && ".join(["x > 0"] * 100)
    with pytest.raises(StepsExceeded):
        within(10_000, lambda: compile_rule(text, Declarations({"x": INT})))
    assert within(1_000_000, lambda: compile_rule(text, Declarations({"x": INT})))({"x": 1})
