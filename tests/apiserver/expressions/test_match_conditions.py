"""Match conditions of webhooks and policies: all must be true, and a single false one is conclusive."""

import pytest

from levelset.apiserver.expressions.match_conditions import (
    MatchConditionError,
    MatchConditions,
    match_condition_error,
    read_match_conditions,
)

VALUES = {"object": {"n": 1}, "request": {"operation": "CREATE"}}


def conditions(*expressions: str, has_params: bool = False) -> MatchConditions:
    trees = [{"name": f"c{number}", "expression": one} for number, one in enumerate(expressions)]
    return MatchConditions(read_match_conditions(trees), has_params=has_params)


@pytest.mark.parametrize(
    ("expressions", "held"),
    [((), True), (("true", " object.n == 1 "), True), (("true", "false"), False), (("object.m == 1", "false"), False)],
)
def test_match_conditions_are_all_true_or_not(expressions: tuple[str, ...], *, held: bool) -> None:
    assert conditions(*expressions).match(VALUES) is held


def test_no_match_conditions_always_match() -> None:
    assert not conditions()
    assert conditions("true")


def test_evaluation_errors_are_reported() -> None:
    with pytest.raises(MatchConditionError) as caught:
        conditions("object.m == 1", "true").match(VALUES)
    assert str(caught.value) == "expression 'object.m == 1' resulted in error: no such key: m"
    with pytest.raises(
        MatchConditionError, match=r"^\[expression 'object.m == 1' .*, expression 'object.o == 1' .*\]$"
    ):
        conditions("object.m == 1", "object.o == 1").match(VALUES)


def test_match_conditions_share_a_cost_budget() -> None:
    one = read_match_conditions([{"name": "c", "expression": "object.all(a, object.all(b, a + b >= 0))"}] * 3)
    with pytest.raises(MatchConditionError, match="running out of cost budget"):
        MatchConditions(one, cost_limit=1000).match({"object": list(range(10))})
    assert MatchConditions(one).match({"object": list(range(10))})


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("true", None),
        ("authorizer.requestResource.check('x').allowed() && namespaceObject == null", None),
        ("1 + 1", "must evaluate to bool but got int"),
        ("object.metadata.name", "must evaluate to bool but got dyn"),
    ],
)
def test_a_match_condition_must_be_a_boolean_expression(expression: str, problem: str | None) -> None:
    assert match_condition_error(expression) == problem


def test_params_are_declared_only_if_there_is_a_param_kind() -> None:
    assert match_condition_error("params.n == 1", has_params=True) is None
    found = match_condition_error("params.n == 1")
    assert found is not None
    assert found.startswith("compilation failed: ERROR: <input>:1:1: undeclared reference to 'params'")
    assert "variables" in str(match_condition_error("variables.n == 1"))
