"""The failed reconciles of a test: which objects fail at the moment, which errors the test allows, and their text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from levelset.errors import ConfigError
from levelset.objects.ref import Ref
from levelset.runtime.controller.actions import Outcome
from levelset.runtime.controller.request import Reason

__all__ = ["AllowedErrors", "FailureRecorder", "check_allowed", "describe_error", "is_allowed", "leaves_of"]

AllowedErrors = bool | type[Exception] | tuple[type[Exception], ...]
"""The errors of reconciles that a test expects: all (True), none (False), those of a class, or of several."""

_MOST_LEAVES: Final = 3


@dataclass(eq=False)
class FailureRecorder:
    """An observer of one process that records the objects whose last reconcile failed or met a conflict."""

    failing: dict[tuple[str, Ref[Any]], Outcome[Any]] = field(default_factory=dict[tuple[str, Ref[Any]], Outcome[Any]])
    """The last outcomes, by controller and object; a success, a Retry and the end of the object remove them."""

    def queued(self, _: str, _depth: int, /) -> None:
        """Ignored: only outcomes are recorded."""

    def started(self, _: str, _ref: Ref[Any], _reasons: tuple[Reason, ...], /) -> None:
        """Ignored: only outcomes are recorded."""

    def finished(self, name: str, ref: Ref[Any], outcome: Outcome[Any], _: float, /) -> None:
        """Records a failure, or that the object fails no more."""
        if outcome.is_error or outcome.result == "conflict":
            self.failing[name, ref] = outcome
        elif self.failing:
            self.failing.pop((name, ref), None)


def check_allowed(allowed: Any, name: str) -> None:
    """Raises ConfigError unless the value of an option is True, False, a class of exceptions, or a tuple of them."""
    several: Any = allowed if isinstance(allowed, tuple) else (allowed,)  # pyright: ignore[reportUnknownVariableType]
    many: tuple[Any, ...] = several
    if not isinstance(allowed, bool) and not all(isinstance(one, type) and issubclass(one, Exception) for one in many):
        raise ConfigError(f"{name}={allowed!r}: give True, an exception class, or a tuple of classes")


def is_allowed(error: BaseException | None, allowed: AllowedErrors) -> bool:
    """Whether a test expects this error; of a group, whether it expects all errors inside."""
    if isinstance(allowed, bool):
        return allowed
    return error is not None and all(isinstance(one, allowed) for one in leaves_of(error))


def leaves_of(error: BaseException) -> Iterator[BaseException]:
    """The errors inside an exception group, or the error itself."""
    if not isinstance(error, BaseExceptionGroup):
        yield error
        return
    inside: Sequence[BaseException] = cast("BaseExceptionGroup[BaseException]", error).exceptions
    for one in inside:
        yield from leaves_of(one)


def describe_error(error: BaseException) -> str:
    """The class and the first line of an error; of a group, those of the errors inside."""
    leaves = list(leaves_of(error))
    shown = list(dict.fromkeys(map(_describe_leaf, leaves[:_MOST_LEAVES])))
    more = len(leaves) - _MOST_LEAVES
    return "; ".join([*shown, *([f"and {more} more"] if more > 0 else [])])


def _describe_leaf(error: BaseException) -> str:
    text = str(error).strip().split("\n", 1)[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
