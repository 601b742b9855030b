"""Value types of Omnia's fields: durations such as `5m`, `1h30m` or `500ms`, and semantic versions."""

import re
from dataclasses import dataclass
from functools import total_ordering
from typing import Annotated, Final

from levelset import Meta

__all__ = ["DURATION", "SEMVER", "Duration", "Version", "is_same_version", "seconds_of"]

DURATION: Final = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"
"""The schema pattern of a duration: numbers, each with a unit, in the format of Go."""

Duration = Annotated[str, Meta(pattern=DURATION, max_length=32)]

_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)", re.ASCII)
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds_of(text: str) -> float:
    """The seconds of a duration; raises ValueError if it is malformed."""
    if re.fullmatch(DURATION, text) is None:
        raise ValueError(f"{text!r} is not a duration; write a number and a unit, such as 5m or 1h30m")
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))


_IDENTIFIER: Final = r"[0-9A-Za-z-]+"
SEMVER: Final = (
    r"^v?(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)"
    rf"(-{_IDENTIFIER}(\.{_IDENTIFIER})*)?(\+{_IDENTIFIER}(\.{_IDENTIFIER})*)?$"
)
"""The schema pattern of a version; a leading v is allowed."""
_VERSION: Final = re.compile(SEMVER, re.ASCII)


@total_ordering
@dataclass(frozen=True)
class Version:
    """A semantic version that can be compared; build metadata after a + is ignored."""

    numbers: tuple[int, ...]
    prerelease: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "Version | None":
        """The parsed version; None if the text is not a semantic version."""
        found = _VERSION.match(text)
        if found is None:
            return None
        before = (found[4] or "").removeprefix("-")
        return cls(tuple(int(found[group]) for group in (1, 2, 3)), tuple(before.split(".")) if before else ())

    @property
    def is_prerelease(self) -> bool:
        """Whether it has a prerelease part, and so precedes the release with the same numbers."""
        return bool(self.prerelease)

    def __lt__(self, other: "Version") -> bool:
        return self._rank() < other._rank()

    def _rank(self) -> tuple[object, ...]:
        # SemVer 11: numeric identifiers precede alphanumeric ones, and a release follows all of its prereleases.
        identifiers = tuple((0, int(one), "") if one.isdecimal() else (1, 0, one) for one in self.prerelease)
        return (self.numbers, not self.prerelease, identifiers)


def is_same_version(one: str, other: str) -> bool:
    """Whether two texts name the same version; a leading v and build metadata are ignored."""
    first, second = Version.parse(one), Version.parse(other)
    return one == other if first is None or second is None else first == second
