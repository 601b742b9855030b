"""Test support of CEL: evaluates an expression with a few typed variables."""

from typing import Any

from levelset.cel import DYN, INT, STRING, Declarations, EvaluationError, compile_rule, list_of, map_of

__all__ = ["VARIABLES", "evaluate", "failure"]

VARIABLES = {"self": DYN, "x": INT, "s": STRING, "l": list_of(INT), "m": map_of(STRING, INT)}
_VALUES: dict[str, Any] = {"self": {"a": 1, "b": {"c": "d"}}, "x": 4, "s": "b-c", "l": [1, 2, 0], "m": {"a": 1, "c": 3}}


def evaluate(text: str, **values: Any) -> Any:
    """The value of an expression; variables that are not given have default values."""
    return compile_rule(text, Declarations(VARIABLES), None)({**_VALUES, **values})


def failure(text: str, **values: Any) -> str:
    """The error message of an expression that fails."""
    try:
        found = evaluate(text, **values)
    except EvaluationError as error:
        return str(error)
    raise AssertionError(f"{text} gives {found!r}")
