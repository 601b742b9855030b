"""The expressions of admission policies, compiled: what each may use, and what it must give."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from levelset.apiserver.expressions.match_conditions import EXHAUSTED
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

__all__ = ["Composition", "OutOfBudget", "Run", "Uncompilable", "compile_text"]


class Uncompilable(Malformed):
    """An expression that cannot be used where it stands; the message is that of Kubernetes."""


class OutOfBudget(LevelsetError):
    """The expressions of a policy took more steps together than they may."""


def compile_text(text: str, declarations: Declarations, *wanted: Type) -> Program:
    """A program of the expression, which must give one of these types, if any are named; raises Uncompilable."""
    try:
        program = compile_rule(text, declarations, None)
    except CompileError as error:
        raise Uncompilable(f"compilation failed: {error}") from error
    if wanted and not any(program.type.same(one) for one in wanted):
        names = " ".join(map(_name, wanted))
        raise Uncompilable(f"must evaluate to one of [{names}]" if len(wanted) > 1 else f"must evaluate to {names}")
    return program


def _name(kind: Type) -> str:
    return "null_type" if kind.kind == "null_type" else str(kind)


@dataclass(frozen=True, slots=True)
class Composition:
    """The variables of a policy, as far as they have been declared: each may use those before it."""

    has_params: bool
    is_mutating: bool = False
    programs: Mapping[str, Program | Uncompilable] | None = None
    seen: Type | None = None
    given: Type | None = None

    def with_variable(self, name: str, text: str) -> "Composition":
        """The same with one more variable; raises nothing: see `problem`."""
        try:
            made: Program | Uncompilable = compile_text(text, self._declarations())
        except Uncompilable as error:
            made = error
        return replace(self, programs={**(self.programs or {}), name: made})

    def problem(self, name: str) -> Uncompilable | None:
        """Why a variable cannot be used; None if it can."""
        found = (self.programs or {}).get(name)
        return found if isinstance(found, Uncompilable) else None

    def compile(self, text: str, *wanted: Type, has_authorizer: bool = True) -> Program:
        """A program that may use the variables; raises Uncompilable."""
        return compile_text(text, self._declarations(has_authorizer=has_authorizer), *wanted)

    def _declarations(self, *, has_authorizer: bool = True) -> Declarations:
        types = None if self.programs is None else {name: _type(made) for name, made in self.programs.items()}
        kinds = {"seen": self.seen, "given": self.given}
        return policy_declarations(
            types,
            has_params=self.has_params,
            has_authorizer=has_authorizer,
            is_mutating=self.is_mutating,
            **{word: kind for word, kind in kinds.items() if kind is not None},
        )


def _type(made: Program | Uncompilable) -> Type:
    return replace(made.type, nullable=False) if isinstance(made, Program) else DYN


class Run:
    """One evaluation of the expressions of a policy, which share values and a budget."""

    __slots__ = ("_budget", "_values", "_variables")

    def __init__(self, composition: Composition, values: Mapping[str, Any], steps: int = OBJECT_LIMIT) -> None:
        self._budget = Budget(steps)
        self._values: dict[str, Any] = dict(values)
        self._variables = _Variables(composition.programs or {}, self._values, self._budget)
        self._values["variables"] = self._variables

    def value(self, program: Program) -> Any:
        """What the program gives; raises EvaluationError with the expression in it, or OutOfBudget."""
        self._variables.spent = 0
        try:
            return program(self._values, self._budget)
        except (EvaluationError, CostExceeded) as error:
            if self._budget.total - self._variables.spent <= 0:
                raise OutOfBudget(EXHAUSTED) from error
            raise EvaluationError(f"expression '{program.text}' resulted in error: {error}") from error
        finally:
            self._budget.total -= self._variables.spent


class _Variables(dict[str, Any]):
    """The variables of a policy: each is evaluated when it is first looked at, and then kept."""

    def __init__(
        self, programs: Mapping[str, Program | Uncompilable], values: Mapping[str, Any], budget: Budget
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
        if isinstance(program, Uncompilable):
            raise EvaluationError(f'composited variable "{name}" fails to compile: {program}')
        left = max(self._budget.total - self.spent, 0)
        budget = Budget(left)
        try:
            found = self[name] = program(self._values, budget)
        except EvaluationError as error:
            self._errors[name] = told = EvaluationError(f'composited variable "{name}" fails to evaluate: {error}')
            raise told from error
        finally:
            self.spent += left - budget.total
        return found
