"""CEL expressions of admission policies: compilation with the policy's variables, and evaluation within a cost budget.

Used by `admission/policies/` to evaluate and by `registry/builtin/rules/policy_rules.py` to validate. Importing it
loads the CEL compiler, so that its users import it late.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec.structs import replace

from levelset.apiserver.expressions.match_conditions import BUDGET_EXHAUSTED
from levelset.cel import (
    DYN,
    OBJECT_LIMIT,
    Budget,
    CompileError,
    CostExceeded,
    Declarations,
    EvaluationError,
    Program,
    Type,
    compile_rule,
    policy_declarations,
)
from levelset.errors import LevelsetError, Malformed

__all__ = [
    "CostBudgetExceeded",
    "ExpressionCompileError",
    "PolicyEnvironment",
    "PolicyEvaluation",
    "compile_expression",
]


class ExpressionCompileError(Malformed):
    """An expression that does not compile or has the wrong type; the message is that of kube-apiserver."""


class CostBudgetExceeded(LevelsetError):
    """The expressions of a policy exceeded their shared cost budget."""


def compile_expression(text: str, declarations: Declarations, *types: Type) -> Program:
    """Compiles an expression, whose result must have one of these types if any are given.

    Raises ExpressionCompileError.
    """
    return _with_type(_compile(text, declarations), types)


def _compile(text: str, declarations: Declarations) -> Program:
    try:
        return compile_rule(text, declarations, None)
    except CompileError as error:
        raise ExpressionCompileError(f"compilation failed: {error}") from error


def _with_type(program: Program, types: tuple[Type, ...]) -> Program:
    if types and not any(program.type.same(one) for one in types):
        names = " ".join(map(_type_name, types))
        wanted = f"one of [{names}]" if len(types) > 1 else names
        raise ExpressionCompileError(f"must evaluate to {wanted} but got {_type_name(program.type)}")
    return program


@dataclass(frozen=True, slots=True)
class _Source:
    """An expression with what its declarations depend on, by which its program is cached."""

    key: tuple[Any, ...]
    text: str
    declarations: Declarations = field(compare=False)


@functools.lru_cache(1024)
def _compiled(source: _Source) -> Program:
    """The program, which is compiled in a thread when a long one is written, and used on the event loop then."""
    return _compile(source.text, source.declarations)


def _type_name(kind: Type) -> str:
    return "null_type" if kind.kind == "null_type" else str(kind)


class PolicyEnvironment(msgspec.Struct, frozen=True):
    """The CEL environment of a policy: its declared variables, of which each may use those before it. Immutable."""

    has_params: bool
    is_mutating: bool = False
    programs: Mapping[str, Program | ExpressionCompileError] | None = None
    object_type: Type | None = None
    params_type: Type | None = None
    texts: tuple[tuple[str, str], ...] = ()
    """The names and expressions of the variables."""

    def with_variable(self, name: str, text: str) -> "PolicyEnvironment":
        """The environment with one more variable; an error is recorded, see `compile_error`."""
        try:
            program: Program | ExpressionCompileError = self.compile(text)
        except ExpressionCompileError as error:
            program = error
        programs = {**(self.programs or {}), name: program}
        return replace(self, programs=programs, texts=(*self.texts, (name, text)))

    def compile_error(self, name: str) -> ExpressionCompileError | None:
        """The compile error of a variable; None if it compiled."""
        found = (self.programs or {}).get(name)
        return found if isinstance(found, ExpressionCompileError) else None

    def compile(self, text: str, *types: Type, has_authorizer: bool = True) -> Program:
        """Compiles an expression that may use the variables; raises ExpressionCompileError."""
        declarations = self._declarations(has_authorizer=has_authorizer)
        if self.object_type is not None or self.params_type is not None:
            return compile_expression(text, declarations, *types)
        key = (text, self.texts, self.has_params, self.is_mutating, has_authorizer)
        return _with_type(_compiled(_Source(key, text, declarations)), types)

    def _declarations(self, *, has_authorizer: bool = True) -> Declarations:
        variables = None if self.programs is None else {name: _type(made) for name, made in self.programs.items()}
        schemas = {"seen": self.object_type, "given": self.params_type}
        return policy_declarations(
            variables,
            has_params=self.has_params,
            has_authorizer=has_authorizer,
            is_mutating=self.is_mutating,
            **{word: kind for word, kind in schemas.items() if kind is not None},
        )


def _type(made: Program | ExpressionCompileError) -> Type:
    return replace(made.type, nullable=False) if isinstance(made, Program) else DYN


class PolicyEvaluation:
    """One evaluation of the expressions of a policy, which share variables and a cost budget."""

    __slots__ = ("_budget", "_values", "_variables")

    def __init__(
        self, environment: PolicyEnvironment, values: Mapping[str, Any], cost_limit: int = OBJECT_LIMIT
    ) -> None:
        self._budget = Budget(cost_limit)
        self._values: dict[str, Any] = dict(values)
        self._variables = _Variables(environment.programs or {}, self._values, self._budget)
        self._values["variables"] = self._variables

    def value(self, program: Program) -> Any:
        """The value of a program; raises EvaluationError, with the expression in its message, or CostBudgetExceeded."""
        self._variables.spent = 0
        try:
            return program(self._values, self._budget)
        except (EvaluationError, CostExceeded) as error:
            if self._budget.total - self._variables.spent <= 0:
                raise CostBudgetExceeded(BUDGET_EXHAUSTED) from error
            raise EvaluationError(f"expression '{program.text}' resulted in error: {error}") from error
        finally:
            self._budget.total -= self._variables.spent


class _Variables(dict[str, Any]):
    """The variables of a policy: each is evaluated at its first use, and then cached."""

    def __init__(
        self, programs: Mapping[str, Program | ExpressionCompileError], values: Mapping[str, Any], budget: Budget
    ) -> None:
        super().__init__()
        self._programs = programs
        self._values = values
        self._budget = budget
        self._errors: dict[str, EvaluationError] = {}
        self.spent = 0

    def __contains__(self, name: object) -> bool:
        return name in self._programs

    def __missing__(self, name: str) -> Any:
        if name in self._errors:
            raise self._errors[name]
        program = self._programs[name]
        if isinstance(program, ExpressionCompileError):
            raise EvaluationError(f'composited variable "{name}" fails to compile: {program}')
        left = max(self._budget.total - self.spent, 0)
        budget = Budget(left)
        try:
            value = self[name] = program(self._values, budget)
        except EvaluationError as error:
            self._errors[name] = failure = EvaluationError(f'composited variable "{name}" fails to evaluate: {error}')
            raise failure from error
        finally:
            self.spent += left - budget.total
        return value
