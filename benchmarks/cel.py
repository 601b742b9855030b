"""Measures CEL rules: compiling one, and evaluating it on an object decoded from JSON.

Run `PYTHONPATH=src python benchmarks/cel.py`. cel-expr-python is measured too if it is installed,
including the conversion of the object, which a server has to do for each object.
"""

import importlib
import importlib.util
import time
from collections.abc import Callable
from typing import Any

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


def best(run: Callable[[], Any], rounds: int) -> float:
    """Microseconds of one call, in the best of five series."""
    series: list[float] = []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(rounds):
            run()
        series.append((time.perf_counter() - start) / rounds)
    return min(series) * 1e6


def peer(rule: str) -> Callable[[], Any] | None:
    """The same rule with cel-expr-python, if it is installed."""
    if importlib.util.find_spec("cel_expr_python") is None:
        return None
    cel = importlib.import_module("cel_expr_python.cel")
    kinds = dict.fromkeys(("self", "oldSelf"), cel.Type.DYN)
    program = cel.NewEnv(variables=kinds).compile(rule)
    return lambda: program.eval(data={"self": OBJECT, "oldSelf": OBJECT})


def main() -> None:
    kind = declared_type(SCHEMA)
    assert kind is not None
    known = Declarations({"self": kind, "oldSelf": kind})
    print(f"{'rule':12} {'evaluate':>10} {'compile':>10} {'cel-expr-python':>16} {'ratio':>7}")
    for name, rule in RULES.items():
        program, budget = compile_rule(rule, known), Budget(10**18)
        took = best(lambda program=program, budget=budget: program.evaluate(budget, OBJECT, OBJECT), 20_000)
        made = best(lambda rule=rule: compile_rule(rule, known), 100)
        other = peer(rule)
        theirs = best(other, 2_000) if other else None
        shown = f"{theirs:13.2f} us {theirs / took:6.1f}x" if theirs else "not installed"
        print(f"{name:12} {took:7.2f} us {made:7.0f} us {shown:>20}")
    rules = compile_rules({**SCHEMA, "x-kubernetes-validations": [{"rule": rule} for rule in RULES.values()]})
    assert not rules.problems, rules.problems
    took = best(lambda: rules.check(OBJECT, OBJECT), 5_000)
    print(f"all {len(RULES)} rules of a schema on an update: {took:.1f} us")


if __name__ == "__main__":
    main()
