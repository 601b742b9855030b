"""Durations as Omnia's objects write them: `5m`, `1h30m`, `500ms`."""

import re
from typing import Annotated, Final

from levelset import Meta

__all__ = ["DURATION", "Duration", "seconds_of"]

DURATION: Final = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"
"""What the schema asks of a duration: numbers, each with a unit, the way Go writes them."""

Duration = Annotated[str, Meta(pattern=DURATION, max_length=32)]

_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)", re.ASCII)
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds_of(text: str) -> float:
    """The seconds that a duration stands for; ValueError for what is no duration."""
    if re.fullmatch(DURATION, text) is None:
        raise ValueError(f"{text!r} is no duration; write a number and a unit, such as 5m or 1h30m")
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
