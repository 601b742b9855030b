"""How the tests of CEL evaluate an expression: with a few variables of known types."""

from typing import Any

from levelset.cel import DYN, INT, STRING, Declarations, EvaluationError, compile_rule, list_of, map_of

__all__ = ["VARIABLES", "evaluate", "failure"]

VARIABLES = {"self": DYN, "x": INT, "s": STRING, "l": list_of(INT), "m": map_of(STRING, INT)}
_VALUES: dict[str, Any] = {"self": {"a": 1, "b": {"c": "d"}}, "x": 4, "s": "b-c", "l": [1, 2, 0], "m": {"a": 1, "c": 3}}


def evaluate(text: str, **values: Any) -> Any:
    """The value of an expression; variables that are not given have one of their own."""
    return compile_rule(text, Declarations(VARIABLES), None)({**_VALUES, **values})


def failure(text: str, **values: Any) -> str:
    """What an expression that has no value says."""
    try:
        found = evaluate(text, **values)
    except EvaluationError as error:
        return str(error)
    raise AssertionError(f"{text} gives {found!r}")
