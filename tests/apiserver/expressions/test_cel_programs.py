"""Expressions of policies: their result types, variables and cost budget."""

from typing import Any

import pytest

from levelset.apiserver.expressions.cel_programs import (
    CostBudgetExceeded,
    ExpressionCompileError,
    PolicyEnvironment,
    PolicyEvaluation,
)
from levelset.cel import APPLIED, BOOL, NULL, PATCHES, STRING, EvaluationError

PLAIN = PolicyEnvironment(has_params=False)


def composed(**variables: str) -> PolicyEnvironment:
    made = PLAIN
    for name, text in variables.items():
        made = made.with_variable(name, text)
    return made


def value(environment: PolicyEnvironment, text: str, **values: Any) -> Any:
    return PolicyEvaluation(environment, values).value(environment.compile(text))


def test_a_variable_can_use_earlier_variables_with_their_types() -> None:
    made = composed(a="object.n", b="variables.a + 1", c="'x' + string(variables.b)")
    assert value(made, "variables.c", object={"n": 1}) == "x2"
    with pytest.raises(ExpressionCompileError, match="found no matching overload"):
        made.compile("variables.c + 1")
    assert composed(a="variables.b", b="1").compile_error("a") is not None


def test_without_variables_the_name_is_not_declared() -> None:
    with pytest.raises(ExpressionCompileError, match="undeclared reference to 'variables'"):
        PLAIN.compile("variables.a == 1")


def test_has_does_not_evaluate_a_variable() -> None:
    made = composed(a="object.nothing")
    assert value(made, "has(variables.a)", object={}) is True
    with pytest.raises(EvaluationError, match='composited variable "a" fails to evaluate: no such key: nothing'):
        value(made, "variables.a == 1", object={})
    assert value(made, "true || variables.a == 1", object={}) is True


def test_a_variable_that_does_not_compile_fails_where_it_is_used() -> None:
    made = composed(a="1 +")
    assert "Syntax error" in str(made.compile_error("a"))
    with pytest.raises(EvaluationError, match='composited variable "a" fails to compile'):
        value(made, "variables.a == 1", object={})


def test_a_variable_is_evaluated_once() -> None:
    read: list[str] = []

    class Watched(dict[str, Any]):
        def __getitem__(self, name: str) -> Any:
            read.append(name)
            return super().__getitem__(name)

    made = composed(a="object.n")
    run = PolicyEvaluation(made, {"object": Watched(n=1)})
    program = made.compile("variables.a + variables.a")
    assert [run.value(program), run.value(program)] == [2, 2]
    assert read == ["n"]


@pytest.mark.parametrize(
    ("text", "types", "expected"),
    [
        ("1", (BOOL,), "must evaluate to bool but got int"),
        ("1", (STRING, NULL), "must evaluate to one of [string null_type] but got int"),
        ("Object.spec{}", (APPLIED,), "must evaluate to Object but got Object.spec"),
        ("[1]", (PATCHES,), "must evaluate to list(JSONPatch) but got list(int)"),
    ],
)
def test_an_expression_must_have_the_expected_type(text: str, types: Any, expected: str) -> None:
    with pytest.raises(ExpressionCompileError) as caught:
        PolicyEnvironment(has_params=False, is_mutating=True).compile(text, *types)
    assert str(caught.value) == expected


def test_expressions_and_variables_share_a_cost_budget() -> None:
    made = composed(a="object.all(a, object.all(b, a + b >= 0))")
    values = {"object": list(range(30))}
    expensive, cheap = made.compile("variables.a"), made.compile("1 == 1")
    assert PolicyEvaluation(made, values).value(expensive) is True
    with pytest.raises(CostBudgetExceeded, match="running out of cost budget"):
        PolicyEvaluation(made, values, 500).value(expensive)
    run = PolicyEvaluation(made, values, 20)
    assert [run.value(cheap) for _ in range(5)] == [True] * 5
    with pytest.raises(CostBudgetExceeded):
        run.value(made.compile("object.all(a, a >= 0)"))


def test_message_expressions_have_no_authorizer() -> None:
    with pytest.raises(ExpressionCompileError, match="undeclared reference to 'authorizer'"):
        PLAIN.compile("authorizer.path('/').check('get').reason()", STRING, has_authorizer=False)


def test_namespace_object_has_the_type_of_a_namespace() -> None:
    space = {"metadata": {"name": "n", "labels": {"a": "b"}, "uid": "u"}, "status": {"phase": "Active"}}
    text = "namespaceObject.metadata.labels.a == 'b' && namespaceObject.metadata.UID == 'u'"
    assert value(PLAIN, f"{text} && namespaceObject.status.phase == 'Active'", namespaceObject=space) is True
    with pytest.raises(ExpressionCompileError, match="undefined field 'nothing'"):
        PLAIN.compile("namespaceObject.nothing")
