"""CEL programs: expressions parsed, checked and compiled once, and evaluated many times within a cost budget."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from levelset.cel import compiler
from levelset.cel.checker import check
from levelset.cel.compiler import FAILURES, Generator
from levelset.cel.cost_estimate import estimate
from levelset.cel.errors import CompileError, CostExceeded, EvaluationError, Issue
from levelset.cel.library.functions import FUNCTIONS
from levelset.cel.literals import check_literals
from levelset.cel.parser import MAX_LENGTH, parse
from levelset.cel.syntax_tree import Ident, Node, walk
from levelset.cel.types import BOOL, Type
from levelset.re2.step_budget import StepsExceeded, charge, remaining, spend

__all__ = ["CALL_LIMIT", "OBJECT_LIMIT", "Budget", "Declarations", "Program", "compile_rule"]

CALL_LIMIT = 1_000_000  # steps of one evaluation
OBJECT_LIMIT = 10_000_000  # steps of all evaluations for one object
_STEPS_PER_CHARACTER = 120  # of compiling an expression, see `levelset.re2.step_budget`
_EMITTERS = (compiler.call, compiler.fold)  # imported for their side effect: they register their emitters


def _no_struct(_: str) -> Type | None:
    return None


class Declarations(msgspec.Struct, frozen=True):
    """The environment of an expression: variables with their types, and the object types that it may construct."""

    variables: Mapping[str, Type]
    structs: Callable[[str], Type | None] = _no_struct


class Budget:
    """The remaining steps: `left` for the current evaluation, `total` for all evaluations that share this budget."""

    __slots__ = ("left", "total")

    def __init__(self, total: int = OBJECT_LIMIT) -> None:
        self.total = total
        self.left = 0


class Program:
    """A compiled expression: call it with the values of its variables.

    Values are JSON trees; see `levelset.cel.values.converter` for those that must be converted first. A program has no
    state between calls. Raises EvaluationError if there is no result, CostExceeded if the cost limit is exceeded.
    """

    __slots__ = ("_run", "_weight", "cost", "names", "text", "type", "uses")

    def __init__(self, text: str, tree: Node, declarations: Declarations) -> None:
        generator = Generator(declarations.variables)
        self._run = generator.function(tree)
        self._weight = generator.weight
        self.cost = estimate(tree, declarations.variables)
        self.names = tuple(declarations.variables)
        self.text = text
        self.type = tree.type
        self.uses = frozenset(node.name for node in walk(tree) if isinstance(node, Ident))

    def __call__(self, variables: Mapping[str, Any], budget: Budget | None = None) -> Any:
        """The value of the expression for these variables."""
        return self.evaluate(budget or Budget(), *[variables.get(name) for name in self.names])

    def evaluate(self, budget: Budget, *values: Any) -> Any:
        """The value of the expression for variables in the order of their declaration."""
        limit = start = min(budget.total, CALL_LIMIT)
        allowed = remaining()
        if allowed is not None and allowed < start:
            start = allowed
        budget.left = start - self._weight
        try:
            result = self._run(budget, *values)
        except FAILURES as error:
            raise _evaluation_error(error) from None
        except CostExceeded:
            if start < limit:
                raise StepsExceeded from None
            raise
        finally:
            budget.total -= start - budget.left
            if allowed is not None:
                spend(start - budget.left)
        if budget.left < 0:
            raise StepsExceeded if start < limit else CostExceeded
        return result


def _evaluation_error(error: BaseException) -> EvaluationError:
    """The CEL error for a Python exception in generated code."""
    if isinstance(error, EvaluationError):
        return error
    if isinstance(error, KeyError):
        return EvaluationError(f"no such key: {error.args[0] if error.args else ''}")
    if isinstance(error, RecursionError):
        return EvaluationError("the value is nested too deeply")
    return EvaluationError("no such overload")


def compile_rule(text: str, declarations: Declarations, result: Type | None = BOOL) -> Program:
    """Compiles this expression, which must have the type `result` (None for any); raises CompileError.

    Compiling is charged to the step budget, if there is one: raises StepsExceeded.
    """
    charge(_STEPS_PER_CHARACTER * min(len(text), MAX_LENGTH))
    try:
        return _compile(text, declarations, result)
    except RecursionError:
        raise CompileError(text[:80], [Issue(0, "expression recursion limit exceeded")]) from None


def _compile(text: str, declarations: Declarations, result: Type | None) -> Program:
    tree = parse(text)
    kind = check(text, tree, declarations.variables, FUNCTIONS, declarations.structs)
    check_literals(text, tree)
    if result is not None and not kind.same(result):
        raise CompileError(text, [Issue(tree.position, f"cel expression must evaluate to a {result}")])
    return Program(text, tree, declarations)
