"""Measures CEL rules: compiling one, and evaluating it on an object decoded from JSON.

Run `PYTHONPATH=src python benchmarks/cel.py`. cel-expr-python (Google's C++), common-expression-language (Rust) and
cel-python (pure Python) are measured beside ours if they are installed, including the conversion of the object, which a
server has to do for each object. Each cell is microseconds to evaluate / to compile.
"""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from best_time import best
from levelset.cel import Budget, Declarations, compile_rule, compile_rules, declared_type

NAMES = {"type": "array", "maxItems": 20, "items": {"type": "string", "maxLength": 20}}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        **{name: {"type": "integer"} for name in ("replicas", "min", "max")},
        **{name: {"type": "string", "maxLength": 63} for name in ("name", "mode")},
        "names": NAMES,
    },
}
OBJECT: dict[str, Any] = {
    "replicas": 3,
    "min": 1,
    "max": 5,
    "name": "web-frontend",
    "names": ["a1", "a2", "a3", "a4", "a5"],
}
RULES = {
    "range": "self.min <= self.replicas && self.replicas <= self.max",
    "presence": "!has(self.mode) || self.mode in ['fast', 'slow']",
    "list of 5": "self.names.all(n, n.startsWith('a'))",
    "pattern": "self.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
    "transition": "self.replicas >= oldSelf.replicas",
}


Compile = Callable[[str], Callable[[], Any]]
"""Compiles a rule; what it returns converts the object and evaluates the rule."""


def levelset() -> Compile:
    kind = declared_type(SCHEMA)
    assert kind is not None
    known, budget = Declarations({"self": kind, "oldSelf": kind}), Budget(10**18)

    def compile_one(rule: str) -> Callable[[], Any]:
        program = compile_rule(rule, known)
        return lambda: program.evaluate(budget, OBJECT, OBJECT)

    return compile_one


def cel_expr_python() -> Compile:
    cel = importlib.import_module("cel_expr_python.cel")
    environment = cel.NewEnv(variables=dict.fromkeys(("self", "oldSelf"), cel.Type.DYN))

    def compile_one(rule: str) -> Callable[[], Any]:
        program = environment.compile(rule)
        return lambda: program.eval(data={"self": OBJECT, "oldSelf": OBJECT}).value()

    return compile_one


def common_expression_language() -> Compile:
    cel = importlib.import_module("cel")

    def compile_one(rule: str) -> Callable[[], Any]:
        program = cel.compile(rule)
        return lambda: program.execute({"self": OBJECT, "oldSelf": OBJECT})

    return compile_one


def cel_python() -> Compile:
    celpy = importlib.import_module("celpy")
    environment = celpy.Environment()

    def compile_one(rule: str) -> Callable[[], Any]:
        program = environment.program(environment.compile(rule))
        return lambda: program.evaluate({name: celpy.json_to_cel(OBJECT) for name in ("self", "oldSelf")})

    return compile_one


def installed() -> dict[str, Compile]:
    """The compilers that can be loaded, by the names of their packages."""
    here = str(Path(__file__).resolve().parent)
    sys.path[:] = [one for one in sys.path if one != here]  # a package has the name of this file
    found: dict[str, Compile] = {}
    for make in (levelset, cel_expr_python, common_expression_language, cel_python):
        try:
            found[make.__name__.replace("_", "-")] = make()
        except ImportError:
            print(f"{make.__name__.replace('_', '-')} is not installed")
    return found


def main() -> None:
    compilers = installed()
    print(f"| rule | {' | '.join(compilers)} |\n|---|{'---|' * len(compilers)}")
    for name, rule in RULES.items():
        cells: list[str] = []
        for compile_one in compilers.values():
            evaluate = compile_one(rule)
            assert bool(evaluate()), rule
            made = best(lambda compile_one=compile_one, rule=rule: compile_one(rule))
            cells.append(f"{best(evaluate):.2f} / {made:.0f}")
        print(f"| {name} | {' | '.join(cells)} |")
    rules = compile_rules({**SCHEMA, "x-kubernetes-validations": [{"rule": rule} for rule in RULES.values()]})
    assert not rules.problems, rules.problems
    took = best(lambda: rules.check(OBJECT, OBJECT))
    print(f"\nall {len(RULES)} rules of a schema on an update: {took:.1f} us")


if __name__ == "__main__":
    main()
