"""The order of API versions: stable before beta before alpha, and in each the highest number first.

`v2`, `v1`, `v2beta1`, `v1beta2`, `v1alpha1`, and after them by name whatever does not follow the pattern. The first one
that is served is what clients prefer.
"""

import re
from collections.abc import Iterable

__all__ = ["sort_versions"]

_VERSION = re.compile(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?")
_STAGE = {"alpha": 2, "beta": 1}


def sort_versions(names: Iterable[str]) -> list[str]:
    """The names of versions, the preferred one first."""
    return sorted(names, key=_rank)


def _rank(name: str) -> tuple[int, int, int, str]:
    found = _VERSION.fullmatch(name)
    if found is None:
        return (3, 0, 0, name)
    major, stage, minor = found.groups()
    return (_STAGE.get(stage, 0), -int(major), -int(minor or 0), name)
