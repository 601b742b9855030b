"""A number known only by its bounds, as sizes and costs are; the largest stands for having no bound."""

import math
from dataclasses import dataclass

__all__ = ["LARGEST", "UNKNOWN", "ZERO", "Span", "fixed"]

LARGEST = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Span:
    """Everything from `least` to `most`."""

    least: int
    most: int

    def __add__(self, other: "Span") -> "Span":
        return Span(min(self.least + other.least, LARGEST), min(self.most + other.most, LARGEST))

    def __mul__(self, other: "Span") -> "Span":
        return Span(min(self.least * other.least, LARGEST), min(self.most * other.most, LARGEST))

    def scaled(self, factor: float) -> "Span":
        """Both bounds times a factor, rounded up."""
        return Span(_scaled(self.least, factor), _scaled(self.most, factor))


def _scaled(number: int, factor: float) -> int:
    return min(math.ceil(float(number) * factor), LARGEST) if number < LARGEST or factor < 1 else LARGEST


def fixed(number: int) -> Span:
    """Exactly this number."""
    return Span(number, number)


ZERO = fixed(0)
UNKNOWN = Span(0, LARGEST)
