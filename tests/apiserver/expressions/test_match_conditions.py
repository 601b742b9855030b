"""Conditions of webhooks and policies: all must be true, and one that is false is enough."""

import pytest

from levelset.apiserver.expressions.match_conditions import (
    Conditions,
    ConditionsFailed,
    condition_problem,
    read_conditions,
)

VALUES = {"object": {"n": 1}, "request": {"operation": "CREATE"}}


def conditions(*expressions: str, has_params: bool = False) -> Conditions:
    trees = [{"name": f"c{number}", "expression": one} for number, one in enumerate(expressions)]
    return Conditions(read_conditions(trees), has_params=has_params)


@pytest.mark.parametrize(
    ("expressions", "held"),
    [((), True), (("true", " object.n == 1 "), True), (("true", "false"), False), (("object.m == 1", "false"), False)],
)
def test_conditions_hold_or_not(expressions: tuple[str, ...], *, held: bool) -> None:
    assert conditions(*expressions).hold(VALUES) is held


def test_no_conditions_are_nothing() -> None:
    assert not conditions()
    assert conditions("true")


def test_what_has_no_value_is_told() -> None:
    with pytest.raises(ConditionsFailed) as caught:
        conditions("object.m == 1", "true").hold(VALUES)
    assert str(caught.value) == "expression 'object.m == 1' resulted in error: no such key: m"
    with pytest.raises(ConditionsFailed, match=r"^\[expression 'object.m == 1' .*, expression 'object.o == 1' .*\]$"):
        conditions("object.m == 1", "object.o == 1").hold(VALUES)


def test_conditions_have_a_budget_together() -> None:
    one = read_conditions([{"name": "c", "expression": "object.all(a, object.all(b, a + b >= 0))"}] * 3)
    with pytest.raises(ConditionsFailed, match="running out of cost budget"):
        Conditions(one, steps=1000).hold({"object": list(range(10))})
    assert Conditions(one).hold({"object": list(range(10))})


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("true", None),
        ("authorizer.requestResource.check('x').allowed() && namespaceObject == null", None),
        ("1 + 1", "must evaluate to bool"),
        ("object.metadata.name", "must evaluate to bool"),
    ],
)
def test_a_condition_is_an_expression_that_is_true_or_false(expression: str, problem: str | None) -> None:
    assert condition_problem(expression) == problem


def test_params_are_known_only_where_there_are_some() -> None:
    assert condition_problem("params.n == 1", has_params=True) is None
    found = condition_problem("params.n == 1")
    assert found is not None
    assert found.startswith("compilation failed: ERROR: <input>:1:1: undeclared reference to 'params'")
    assert "variables" in str(condition_problem("variables.n == 1"))
