"""What users state about a controller: conditions that hold always, eventually, or at the end.

```python
Exploration(scenario, make, invariants=[at_most_one_page, eventually(is_published), finally_(nothing_is_left)])
```

A condition is a function of a `State`, about its objects and `state.outside`; it raises AssertionError or returns False
where it does not hold. A bare function is `always`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import iscoroutine
from typing import Literal

from levelset.errors import ConfigError
from levelset.testing.explore.faults.disturbance import StepName
from levelset.testing.explore.records.run_result import BrokenInvariant, Change
from levelset.testing.explore.records.stored_state import State

__all__ = ["Invariant", "InvariantChecker", "Statement", "always", "eventually", "finally_", "statement_of"]

Invariant = Callable[[State], object]
"""A condition: raises AssertionError or returns False if it does not hold."""


@dataclass(frozen=True)
class Statement:
    """A condition, and when it must hold; made by `always`, `eventually` and `finally_`."""

    when: Literal["always", "eventually", "finally"]
    condition: Invariant
    within: float | None = None

    @property
    def name(self) -> str:
        """The name of the condition function, by which findings name it."""
        found: str = getattr(self.condition, "__name__", repr(self.condition))
        return found

    def __call__(self, state: State) -> object:
        """What the condition returns or raises for a state."""
        return self.condition(state)

    def problem(self, state: State) -> str | None:
        """Why the condition does not hold in a state; None if it does."""
        try:
            result = self.condition(state)
        except AssertionError as error:
            return str(error).split("\n", 1)[0] or f"{self.name} does not hold"
        except Exception as error:  # noqa: BLE001 -- the user's function; that it fails is the finding
            return f"{self.name} raised {type(error).__name__}: {error}"
        if iscoroutine(result):
            result.close()
            return f"{self.name} is async, but invariants are not awaited; write `def`"
        return f"{self.name} does not hold" if result is False else None


def always(condition: Invariant) -> Statement:
    """The condition holds at every revision, after every call to the outside, and whenever time has passed."""
    return Statement("always", _callable(condition, "always"))


def eventually(condition: Invariant, *, within: float | None = None) -> Statement:
    """The condition holds at some moment after the scenario, within so many virtual seconds.

    By default it has the exploration's `within`. It may cease to hold later: state what stays with `finally_`.
    """
    if within is not None and not within > 0:
        raise ConfigError(f"eventually(within={within!r}): give a number of seconds above 0")
    return Statement("eventually", _callable(condition, "eventually"), within)


def finally_(condition: Invariant) -> Statement:
    """The condition holds at the end of each run, when everything has settled or the time to recover is over."""
    return Statement("finally", _callable(condition, "finally_"))


def _callable(condition: Invariant, name: str) -> Invariant:
    if isinstance(condition, Statement) or not callable(condition):
        raise ConfigError(f"{name}({condition!r}): give a function of a State")
    return condition


def statement_of(one: Invariant | Statement) -> Statement:
    """A bare function as `always`."""
    return one if isinstance(one, Statement) else Statement("always", one)


class InvariantChecker:
    """Checks the statements of one run."""

    def __init__(self, invariants: Sequence[Invariant | Statement], state: State, *, within: float) -> None:
        statements = [statement_of(one) for one in invariants]
        self.broken: list[BrokenInvariant] = []
        self._state = state
        self._within = within
        self._always = [one for one in statements if one.when == "always"]
        self._eventually = [one for one in statements if one.when == "eventually"]
        self._finally = [one for one in statements if one.when == "finally"]
        self._failing: set[str] = set()
        self._problems: dict[str, str] = {}
        self._ended_at: float | None = None

    @property
    def has_any(self) -> bool:
        """Whether something is to be checked while time passes."""
        return bool(self._always or self._eventually)

    @property
    def waits_until(self) -> float | None:
        """Until when a statement may still become true after the scenario; None if there is none."""
        if self._ended_at is None or not self._eventually:
            return None
        return self._ended_at + max(self._limit(one) for one in self._eventually)

    def check(self, change: Change | None, step: StepName | None = None) -> None:
        """Checks what must hold always, and what may have come true."""
        for one in self._always:
            words = one.problem(self._state)
            if words is None:
                self._failing.discard(one.name)
            elif one.name not in self._failing:
                self._failing.add(one.name)
                self.broken.append(BrokenInvariant(one.name, words, change, step))
        if self._ended_at is not None and self._eventually:
            self._eventually = [one for one in self._eventually if not self._has_come_true(one)]

    def end_scenario(self) -> None:
        """From now on statements of `eventually` may come true."""
        self._ended_at = self._state.at
        self.check(None)

    def finish(self) -> None:
        """Reports what has not come true, and what does not hold at the end."""
        for one in self._eventually:
            why = self._problems.get(one.name, "the scenario did not end")
            words = f"{one.name} did not come true within {self._limit(one):g} seconds after the scenario: {why}"
            self.broken.append(BrokenInvariant(one.name, words, None, is_at_end=True))
        for one in self._finally:
            if (problem := one.problem(self._state)) is not None:
                self.broken.append(BrokenInvariant(one.name, f"at the end: {problem}", None, is_at_end=True))

    def _limit(self, one: Statement) -> float:
        return self._within if one.within is None else one.within

    def _has_come_true(self, one: Statement) -> bool:
        assert self._ended_at is not None
        if self._state.at > self._ended_at + self._limit(one):
            return False
        problem = one.problem(self._state)
        self._problems[one.name] = problem or ""
        return problem is None
