"""The conditions of webhooks and policies, which are expressions in CEL: all must be true for them to be asked."""

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from levelset.apiserver.resources.server_state import Tree
from levelset.errors import LevelsetError

if TYPE_CHECKING:
    from levelset.cel import Budget, Program

__all__ = ["EXHAUSTED", "Condition", "Conditions", "ConditionsFailed", "condition_problem", "joined", "read_conditions"]

COST: Final = 2_500_000
"""The steps that all conditions of one webhook or policy may take together."""
EXHAUSTED: Final = "validation failed due to running out of cost budget, no further validation rules will be run"


class ConditionsFailed(LevelsetError):
    """Nobody can tell whether the conditions hold: none is false, and some have no value."""


@dataclass(frozen=True, slots=True)
class Condition:
    """An expression in CEL that must be true."""

    name: str
    expression: str


class Conditions:
    """All conditions of a webhook or of a policy."""

    __slots__ = ("_conditions", "_has_params", "_steps")

    def __init__(self, conditions: Sequence[Condition], *, has_params: bool = False, steps: int = COST) -> None:
        self._conditions = tuple(conditions)
        self._has_params = has_params
        self._steps = steps

    def __bool__(self) -> bool:
        return bool(self._conditions)

    def hold(self, values: Mapping[str, Any]) -> bool:
        """Whether all are true for `object`, `oldObject`, `request`, and so on; raises ConditionsFailed."""
        if not self._conditions:
            return True
        budget, problems = _budget(self._steps), list[str]()
        for condition in self._conditions:
            try:
                if _compiled(condition.expression, self._has_params)(values, budget) is not True:
                    return False
            except LevelsetError as error:
                if budget.total <= 0:
                    raise ConditionsFailed(EXHAUSTED) from error
                problems.append(f"expression '{condition.expression}' resulted in error: {error}")
        # One that is false spares the webhook, whatever became of the others.
        if problems:
            raise ConditionsFailed(joined(problems))
        return True


def read_conditions(trees: Iterable[Tree]) -> tuple[Condition, ...]:
    """The conditions as they are written."""
    return tuple(Condition(str(one.get("name")), str(one.get("expression") or "").strip()) for one in trees)


def condition_problem(expression: str, *, has_params: bool = False) -> str | None:
    """Why an expression cannot be a condition, in the words of Kubernetes; None if it can."""
    try:
        _compiled(expression.strip(), has_params)
    except LevelsetError as error:
        return str(error)
    return None


def joined(problems: Sequence[str]) -> str:
    """Several problems as one: `[this, that]`."""
    return problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"


@functools.lru_cache(1024)
def _compiled(expression: str, has_params: bool) -> "Program":
    # Late: the compiler takes a while to load, and most servers have no conditions.
    from levelset.apiserver.expressions.cel_programs import compile_text  # noqa: PLC0415
    from levelset.cel import BOOL, policy_declarations  # noqa: PLC0415

    return compile_text(expression, policy_declarations(has_params=has_params), BOOL)


def _budget(steps: int) -> "Budget":
    from levelset.cel import Budget  # noqa: PLC0415 - as above

    return Budget(steps)
