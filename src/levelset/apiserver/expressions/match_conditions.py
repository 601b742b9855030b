"""Match conditions of webhooks and policies: CEL expressions that must all be true for the plugin to be called."""

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from levelset.apiserver.resources.server_state import Tree
from levelset.errors import LevelsetError
from levelset.re2.step_budget import charge_import

if TYPE_CHECKING:
    from levelset.cel import Budget, Program

__all__ = [
    "BUDGET_EXHAUSTED",
    "CEL_IMPORT_STEPS",
    "MatchCondition",
    "MatchConditionError",
    "MatchConditions",
    "join_errors",
    "match_condition_error",
    "read_match_conditions",
]

COST_LIMIT: Final = 2_500_000
"""The cost budget that all match conditions of one webhook or policy share."""
CEL_IMPORT_STEPS: Final = 1_000_000
"""The steps of importing `levelset.cel`, see `levelset.re2.step_budget`."""
BUDGET_EXHAUSTED: Final = "validation failed due to running out of cost budget, no further validation rules will be run"


class MatchConditionError(LevelsetError):
    """The conditions cannot be decided: none is false, and at least one failed to evaluate."""


class MatchCondition(msgspec.Struct, frozen=True):
    """A CEL expression that must be true."""

    name: str
    expression: str


class MatchConditions:
    """The match conditions of a webhook or a policy."""

    __slots__ = ("_conditions", "_cost_limit", "_has_params")

    def __init__(
        self, conditions: Sequence[MatchCondition], *, has_params: bool = False, cost_limit: int = COST_LIMIT
    ) -> None:
        self._conditions = tuple(conditions)
        self._has_params = has_params
        self._cost_limit = cost_limit

    def __bool__(self) -> bool:
        return bool(self._conditions)

    def match(self, values: Mapping[str, Any]) -> bool:
        """Whether all are true for the given variables (`object`, `request`, ...); raises MatchConditionError."""
        if not self._conditions:
            return True
        budget, errors = _budget(self._cost_limit), list[str]()
        for condition in self._conditions:
            try:
                if _compiled(condition.expression, self._has_params)(values, budget) is not True:
                    return False
            except LevelsetError as error:
                if budget.total <= 0:
                    raise MatchConditionError(BUDGET_EXHAUSTED) from error
                errors.append(f"expression '{condition.expression}' resulted in error: {error}")
        # Errors count only now: as in Kubernetes, a single false condition skips the plugin whatever the others do.
        if errors:
            raise MatchConditionError(join_errors(errors))
        return True


def read_match_conditions(trees: Iterable[Tree]) -> tuple[MatchCondition, ...]:
    """Reads `matchConditions`."""
    return tuple(MatchCondition(str(one.get("name")), str(one.get("expression") or "").strip()) for one in trees)


def match_condition_error(expression: str, *, has_params: bool = False) -> str | None:
    """Why an expression cannot be a match condition, with kube-apiserver's message; None if it can."""
    try:
        _compiled(expression.strip(), has_params)
    except LevelsetError as error:
        return str(error)
    return None


def join_errors(errors: Sequence[str]) -> str:
    """Several messages as one, as Kubernetes aggregates errors: `[this, that]`."""
    return errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"


@functools.lru_cache(1024)
def _compiled(expression: str, has_params: bool) -> "Program":
    # Imported late: the CEL compiler takes a while to load, and most servers have no match conditions.
    charge_import("levelset.cel", CEL_IMPORT_STEPS)
    from levelset.apiserver.expressions.cel_programs import compile_expression  # noqa: PLC0415
    from levelset.cel import BOOL, policy_declarations  # noqa: PLC0415

    return compile_expression(expression, policy_declarations(has_params=has_params), BOOL)


def _budget(cost_limit: int) -> "Budget":
    from levelset.cel import Budget  # noqa: PLC0415 - as above

    return Budget(cost_limit)
