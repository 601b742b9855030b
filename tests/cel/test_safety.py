"""Compiling and evaluating any expression ends in bounded time, with a value or an error of CEL."""

import pytest

from levelset.cel import Budget, CompileError, CostExceeded, Declarations, EvaluationError, compile_rule
from levelset.cel.values import converter
from tests.cel.evaluation import VARIABLES, evaluate

DEEP = [
    "(" * 5000 + "1" + ")" * 5000,
    "[" * 5000 + "]" * 5000,
    "{'a': " * 3000 + "1" + "}" * 3000,
    "!" * 5000 + "true",
    "-" * 5000 + "x",
    "x" + ".a" * 5000,
    "x" + "[0]" * 5000,
    "x" + " + x" * 5000,
    "true ? " * 3000 + "1" + " : 1" * 3000,
    "l.all(i, " * 2000 + "true" + ")" * 2000,
    "f(" * 3000 + ")" * 3000,
    "x" * 200_000,
    "'" + "a" * 200_000 + "'",
    "1" * 5000,
    "1e" + "9" * 5000,
    "s.matches('" + "(" * 5000 + "')",
    "s.matches('" + "((((a{1000}){1000}){1000}){1000})" + "')",
]


@pytest.mark.parametrize("text", DEEP, ids=range(len(DEEP)))
def test_an_expression_beyond_the_limits_is_refused(text: str) -> None:
    with pytest.raises((CompileError, EvaluationError)):
        evaluate(text)


@pytest.mark.parametrize("depth", [5, 15, 25, 60])
def test_nested_logic_and_loops_compile_beyond_the_limits_of_python(depth: int) -> None:
    nested = "x > 0"
    for number in range(depth):
        nested = f"({nested} && x < 9) || x > {number}"
    assert evaluate(nested) is True
    loops = "v0 == v0"
    for number in range(min(depth, 25)):
        loops = f"[1].all(v{number}, {loops})" if number % 2 else f"[1].exists(v{number}, {loops})"
    assert evaluate(loops) is True


def test_long_chains_of_logic_compile() -> None:
    assert evaluate(" && ".join(["x > 0"] * 600)) is True
    assert evaluate(" || ".join(["x < 0 && self.zz"] * 200 + ["true"])) is True


BOMBS = [
    "lists.range(1000).all(a, lists.range(1000).all(b, lists.range(1000).all(c, true)))",
    "lists.range(300).map(a, lists.range(300).map(b, lists.range(300)))",
    "[s, s, s].map(a, [s, s, s].map(b, lists.range(1000).map(c, a + b + s + s + s))).size() > 0",
    "lists.range(100000).sort().size() > 0",
    "lists.range(900000).all(i, lists.range(900000).exists(j, j == i))",
    "lists.range(1000).all(i, i in lists.range(100000))",
    "lists.range(3000).all(i, lists.range(3000) == lists.range(3000))",
    "lists.range(100000).distinct().size() > 0",
    "sets.contains(lists.range(100000), lists.range(100000))",
    "[lists.range(100000)].all(b, lists.range(1000).map(i, b).flatten().size() > 0)",
    "[lists.range(100000)].all(b, lists.range(10000).all(i, (b + b).size() > 0))",
    "[[lists.range(100000)]].all(b, lists.range(10000).all(i, b == [lists.range(100000)] || b != b))",
    "[lists.range(100000)].all(b, lists.range(10000).all(i, '%s'.format([b]) != ''))",
    "lists.range(100000).all(i, 'x'.matches('(a{1000}){' + string(i % 9 + 1) + '}' + string(i)) || true)",
    "lists.range(1000).map(i, s).join(s + s + s + s).size() > 0",
    "s.replace('a', s).replace('a', s).size() > 0",
    "[s.replace('a', s)].all(t, lists.range(10000).all(i, double(t + '1') > 0.0 || t == t + 'a'))",
]


@pytest.mark.parametrize("text", BOMBS)
def test_an_expensive_expression_exceeds_the_step_limit(text: str) -> None:
    program = compile_rule(text, Declarations(VARIABLES), None)
    with pytest.raises((CostExceeded, EvaluationError)):
        program({"s": "a" * 1000, "x": 1}, Budget(200_000))


def test_sets_of_many_items_are_compared_quickly() -> None:
    schema = {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}
    convert = converter(schema)
    assert convert is not None
    one, two = (convert([f"{number}" for number in order]) for order in (range(50_000), reversed(range(50_000))))
    assert one == two
    assert len(one + two) == 50_000


def test_logical_operators_do_not_swallow_an_exceeded_budget() -> None:
    text = "lists.range(1000).all(a, lists.range(10000).all(b, b >= 0)) || true"
    with pytest.raises(CostExceeded):
        evaluate(text)


def test_evaluations_share_a_budget() -> None:
    program = compile_rule("lists.range(1000).all(i, i >= 0)", Declarations({}))
    budget = Budget(20_000)
    for _ in range(3):
        program({}, budget)
    with pytest.raises(CostExceeded):
        program({}, Budget(100))
    budget.total = 3_000
    with pytest.raises(CostExceeded):
        program({}, budget)
    assert budget.total <= 0


EVIL = [
    "(a+)+$",
    "(a|a)*$",
    "(a|aa)+$",
    "(.*)*x",
    "(a*)*b",
    "^(([a-z])+.)+[A-Z]([a-z])+$",
    "(x+x+)+y",
    "a?" * 50 + "a" * 50,
]


@pytest.mark.parametrize("pattern", EVIL)
def test_any_regular_expression_is_matched_in_bounded_time(pattern: str) -> None:
    program = compile_rule(f"s.matches('{pattern}')", Declarations(VARIABLES))
    for text in ("a" * 50, "a" * 30 + "!", "x" * 2000, "a" * 2000 + "!"):
        assert program({"s": text}) in (True, False)


def test_texts_of_an_expression_never_become_code() -> None:
    nasty = "'; import os; os.system(\\'x\\') #{0}{1}\\n\\\\'"
    assert evaluate(f"{nasty} + {nasty}") == "'; import os; os.system('x') #{0}{1}\n\\"[1:] * 2
    assert evaluate("self.`__class__`.`a b`", self={"__class__": {"a b": 1}}) == 1
    assert evaluate("self['__import__(\"os\")']", self={'__import__("os")': 2}) == 2
