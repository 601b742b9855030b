"""Conditions and Events of a status; transition times only move with a change, to avoid needless writes."""

from datetime import datetime
from typing import Self

from msgspec import Struct

from levelset import Condition, set_condition
from levelset.objects import remove_condition

__all__ = ["Conditions", "StatusEvent"]


class StatusEvent(Struct, frozen=True):
    """An Event to record for a change of a status."""

    reason: str
    message: str
    warning: bool = False


class Conditions(Struct, frozen=True):
    """The conditions of an object at one moment and generation."""

    items: tuple[Condition, ...]
    now: datetime
    generation: int

    def set(self, kind: str, status: bool, reason: str, message: str) -> Self:
        """A copy with this condition; its transition time is that of the last change of its status."""
        items = set_condition(
            self.items,
            kind,
            status,
            now=self.now,
            reason=reason,
            message=message,
            observed_generation=self.generation,
        )
        return type(self)(items, self.now, self.generation)

    def remove(self, kind: str) -> Self:
        """A copy without a condition that does not apply any more."""
        return type(self)(remove_condition(self.items, kind), self.now, self.generation)
