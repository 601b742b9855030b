"""Semantic versions: which of two is newer, which is a prerelease, and which two are the same."""

import re
from dataclasses import dataclass
from functools import total_ordering
from typing import Final

__all__ = ["SEMVER", "Version", "is_same_version"]

_IDENTIFIER: Final = r"[0-9A-Za-z-]+"
SEMVER: Final = (
    r"^v?(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)"
    rf"(-{_IDENTIFIER}(\.{_IDENTIFIER})*)?(\+{_IDENTIFIER}(\.{_IDENTIFIER})*)?$"
)
"""What the schema asks of a version; a leading v is tolerated."""
_VERSION: Final = re.compile(SEMVER, re.ASCII)


@total_ordering
@dataclass(frozen=True)
class Version:
    """A version that can be compared; what stands behind a + says nothing about its age."""

    numbers: tuple[int, ...]
    prerelease: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "Version | None":
        """The version that a text stands for, or None."""
        found = _VERSION.match(text)
        if found is None:
            return None
        before = (found[4] or "").removeprefix("-")
        return cls(tuple(int(found[place]) for place in (1, 2, 3)), tuple(before.split(".")) if before else ())

    @property
    def is_prerelease(self) -> bool:
        """Whether it comes before the version with the same numbers."""
        return bool(self.prerelease)

    def __lt__(self, other: "Version") -> bool:
        return self._rank() < other._rank()

    def _rank(self) -> tuple[object, ...]:
        # Numbers come before words, and whoever has no prerelease after all who have one.
        marks = tuple((0, int(one), "") if one.isdecimal() else (1, 0, one) for one in self.prerelease)
        return (self.numbers, not self.prerelease, marks)


def is_same_version(one: str, other: str) -> bool:
    """Whether two texts name the same version: a leading v and what stands behind a + do not count."""
    first, second = Version.parse(one), Version.parse(other)
    return one == other if first is None or second is None else first == second
