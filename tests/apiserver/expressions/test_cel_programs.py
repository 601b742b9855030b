"""Expressions of policies: what they must give, variables that build on each other, and what they may cost."""

from typing import Any

import pytest

from levelset.apiserver.expressions.cel_programs import Composition, OutOfBudget, Run, Uncompilable
from levelset.cel import APPLIED, BOOL, NULL, PATCHES, STRING, EvaluationError

PLAIN = Composition(has_params=False)


def composed(**variables: str) -> Composition:
    made = PLAIN
    for name, text in variables.items():
        made = made.with_variable(name, text)
    return made


def value(composition: Composition, text: str, **values: Any) -> Any:
    return Run(composition, values).value(composition.compile(text))


def test_variables_use_those_before_with_their_types() -> None:
    made = composed(a="object.n", b="variables.a + 1", c="'x' + string(variables.b)")
    assert value(made, "variables.c", object={"n": 1}) == "x2"
    with pytest.raises(Uncompilable, match="found no matching overload"):
        made.compile("variables.c + 1")
    assert composed(a="variables.b", b="1").problem("a") is not None


def test_a_policy_without_variables_does_not_know_the_word() -> None:
    with pytest.raises(Uncompilable, match="undeclared reference to 'variables'"):
        PLAIN.compile("variables.a == 1")


def test_variables_are_there_without_being_evaluated() -> None:
    made = composed(a="object.nothing")
    assert value(made, "has(variables.a)", object={}) is True
    with pytest.raises(EvaluationError, match='composited variable "a" fails to evaluate: no such key: nothing'):
        value(made, "variables.a == 1", object={})
    assert value(made, "true || variables.a == 1", object={}) is True


def test_a_variable_that_does_not_compile_fails_where_it_is_used() -> None:
    made = composed(a="1 +")
    assert "Syntax error" in str(made.problem("a"))
    with pytest.raises(EvaluationError, match='composited variable "a" fails to compile'):
        value(made, "variables.a == 1", object={})


def test_a_variable_is_evaluated_once() -> None:
    asked: list[str] = []

    class Watched(dict[str, Any]):
        def __getitem__(self, name: str) -> Any:
            asked.append(name)
            return super().__getitem__(name)

    made = composed(a="object.n")
    run = Run(made, {"object": Watched(n=1)})
    program = made.compile("variables.a + variables.a")
    assert [run.value(program), run.value(program)] == [2, 2]
    assert asked == ["n"]


@pytest.mark.parametrize(
    ("text", "wanted", "told"),
    [
        ("1", (BOOL,), "must evaluate to bool"),
        ("1", (STRING, NULL), "must evaluate to one of [string null_type]"),
        ("Object.spec{}", (APPLIED,), "must evaluate to Object"),
        ("[1]", (PATCHES,), "must evaluate to list(JSONPatch)"),
    ],
)
def test_expressions_must_give_what_is_wanted(text: str, wanted: Any, told: str) -> None:
    with pytest.raises(Uncompilable) as caught:
        Composition(has_params=False, is_mutating=True).compile(text, *wanted)
    assert str(caught.value) == told


def test_all_expressions_of_a_run_share_a_budget_with_the_variables() -> None:
    made = composed(a="object.all(a, object.all(b, a + b >= 0))")
    values = {"object": list(range(30))}
    heavy, light = made.compile("variables.a"), made.compile("1 == 1")
    assert Run(made, values).value(heavy) is True
    with pytest.raises(OutOfBudget, match="running out of cost budget"):
        Run(made, values, 500).value(heavy)
    run = Run(made, values, 20)
    assert [run.value(light) for _ in range(5)] == [True] * 5
    with pytest.raises(OutOfBudget):
        run.value(made.compile("object.all(a, a >= 0)"))


def test_messages_have_nobody_to_ask() -> None:
    with pytest.raises(Uncompilable, match="undeclared reference to 'authorizer'"):
        PLAIN.compile("authorizer.path('/').check('get').reason()", STRING, has_authorizer=False)


def test_a_namespace_has_the_fields_of_one() -> None:
    space = {"metadata": {"name": "n", "labels": {"a": "b"}, "uid": "u"}, "status": {"phase": "Active"}}
    text = "namespaceObject.metadata.labels.a == 'b' && namespaceObject.metadata.UID == 'u'"
    assert value(PLAIN, f"{text} && namespaceObject.status.phase == 'Active'", namespaceObject=space) is True
    with pytest.raises(Uncompilable, match="undefined field 'nothing'"):
        PLAIN.compile("namespaceObject.nothing")
