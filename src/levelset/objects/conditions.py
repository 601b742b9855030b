"""Conditions: the lines of a status that say what holds, why, and since when."""

from collections.abc import Iterable
from datetime import datetime
from typing import Literal

from levelset.objects.meta import Condition
from levelset.objects.times import seconds_precision

__all__ = ["find_condition", "is_condition_true", "remove_condition", "set_condition"]


def set_condition(
    conditions: Iterable[Condition],
    type: str,  # noqa: A002  # the word of the API
    status: Literal["True", "False", "Unknown"] | bool | None,
    *,
    now: datetime,
    reason: str = "",
    message: str = "",
    observed_generation: int | None = None,
) -> tuple[Condition, ...]:
    """The conditions with this one set.

    `lastTransitionTime` moves only when the status does. A new condition goes to the end, the others keep their
    places; if nothing at all changed the result equals what was given. A bool is read as True or False, None as
    Unknown.
    """
    before = tuple(conditions)
    present = find_condition(before, type)
    word = _word(status)
    moved = present is None or present.status != word or present.last_transition_time is None
    made = Condition(
        type=type,
        status=word,
        reason=reason,
        message=message,
        last_transition_time=seconds_precision(now) if moved or present is None else present.last_transition_time,
        observed_generation=observed_generation,
    )
    if present is None:
        return (*before, made)
    return tuple(made if one is present else one for one in before if one is present or one.type != type)


def find_condition(conditions: Iterable[Condition], type: str) -> Condition | None:  # noqa: A002
    """The condition of that type, or None."""
    return next((one for one in conditions if one.type == type), None)


def is_condition_true(conditions: Iterable[Condition], type: str) -> bool:  # noqa: A002
    """Whether the condition is there and True; Unknown and absent are not."""
    found = find_condition(conditions, type)
    return found is not None and found.status == "True"


def remove_condition(conditions: Iterable[Condition], type: str) -> tuple[Condition, ...]:  # noqa: A002
    """The conditions without that one."""
    return tuple(one for one in conditions if one.type != type)


def _word(status: str | bool | None) -> Literal["True", "False", "Unknown"]:
    if status is None:
        return "Unknown"
    if status in (True, "True"):
        return "True"
    if status in (False, "False"):
        return "False"
    if status == "Unknown":
        return "Unknown"
    raise ValueError(f"a condition's status is True, False or Unknown, not {status!r}")
