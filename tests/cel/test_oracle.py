"""Expressions have the same values as in Google's C++ implementation (cel-expr-python).

Its results for some hundred expressions are recorded beside this file; where the package is installed, random
expressions are compared, too. The only known difference is the order of NaN, which Go's implementation, and so
Kubernetes, refuses.
"""

import importlib
import importlib.util
import json
import math
from pathlib import Path
from typing import Any

from hypothesis import assume, given, settings

from levelset.cel import (
    BOOL,
    DOUBLE,
    INT,
    STRING,
    CompileError,
    Declarations,
    EvaluationError,
    compile_rule,
    list_of,
    map_of,
)
from levelset.cel.errors import BadProgram
from tests.cel.expressions import expressions

RECORDED = Path(__file__).with_name("recorded.json")
KNOWN = Declarations({"x": INT, "d": DOUBLE, "s": STRING, "p": BOOL, "l": list_of(INT), "m": map_of(STRING, INT)})
VALUES: dict[str, Any] = {"x": 4, "d": 2.5, "s": "b-c", "p": True, "l": [1, 2, 0], "m": {"a": 1, "c": 3}}


def ours(text: str) -> Any:
    try:
        program = compile_rule(text, KNOWN, None)
    except BadProgram:
        return "error"  # a conversion of a constant, which Go computes before anything is evaluated
    except CompileError:
        return "compile error"
    try:
        return program(VALUES)
    except EvaluationError:
        return "error"


def same(one: Any, two: Any) -> bool:
    if isinstance(one, float) and isinstance(two, float) and math.isnan(one):
        return math.isnan(two)
    return bool(one == two) and isinstance(one, bool) == isinstance(two, bool)


def test_recorded_expressions_have_the_recorded_values() -> None:
    recorded: dict[str, Any] = json.loads(RECORDED.read_text())
    different = {text: (value, ours(text)) for text, value in recorded.items() if not same(value, ours(text))}
    assert len(recorded) >= 500
    assert different == {}


if importlib.util.find_spec("cel_expr_python") is not None:
    cel = importlib.import_module("cel_expr_python.cel")
    kinds = {"x": cel.Type.INT, "d": cel.Type.DOUBLE, "s": cel.Type.STRING, "p": cel.Type.BOOL}
    kinds |= {"l": cel.Type.List(cel.Type.INT), "m": cel.Type.Map(cel.Type.STRING, cel.Type.INT)}
    texts = importlib.import_module("cel_expr_python.ext.ext_strings").ExtStrings()
    environment = cel.NewEnv(variables=kinds, extensions=[texts])

    def theirs(text: str) -> Any:
        try:
            expression = environment.compile(text)
        except Exception:  # noqa: BLE001 (whatever it raises)
            return "compile error"
        found = expression.eval(data=VALUES)
        return "error" if "error" in str(found.type().name()).lower() else found.plain_value()

    @settings(max_examples=300, deadline=None)
    @given(expressions())
    def test_made_up_expressions_have_the_same_value(text: str) -> None:
        assume("0.0 / 0.0" not in text)
        assert same(theirs(text), ours(text)), text
