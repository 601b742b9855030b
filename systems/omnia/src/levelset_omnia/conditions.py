"""Conditions and times of a status that move only with a change, so that whoever has nothing new to say is silent."""

from dataclasses import dataclass
from datetime import datetime
from typing import Self

from levelset import Condition, set_condition
from levelset.objects import remove_condition

__all__ = ["Conditions", "Note"]


@dataclass(frozen=True, slots=True)
class Note:
    """Something to be told as an Event."""

    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions of an object at one moment and generation."""

    items: tuple[Condition, ...]
    now: datetime
    generation: int

    def say(self, kind: str, status: bool, reason: str, message: str) -> Self:
        """The same with this condition; its time is that of the last change of its status."""
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

    def drop(self, kind: str) -> Self:
        """The same without a condition that has no meaning now."""
        return type(self)(remove_condition(self.items, kind), self.now, self.generation)
