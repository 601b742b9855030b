"""All functions by name, each with the overloads of all libraries."""

from collections.abc import Mapping

from levelset.cel.library import (
    authorizer,
    conversions,
    formats,
    ip_addresses,
    lists,
    optionals,
    quantities,
    regexes,
    semver,
    sets,
    standard,
    strings,
    times,
    urls,
)
from levelset.cel.types import Overload

__all__ = ["FUNCTIONS"]

_LIBRARIES = (
    standard,
    conversions,
    times,
    strings,
    lists,
    sets,
    regexes,
    optionals,
    urls,
    quantities,
    ip_addresses,
    semver,
    formats,
    authorizer,
)


def _collected() -> Mapping[str, list[Overload]]:
    found: dict[str, list[Overload]] = {}
    for library in _LIBRARIES:
        for overload in library.OVERLOADS:
            found.setdefault(overload.name, []).append(overload)
    return found


FUNCTIONS: Mapping[str, list[Overload]] = _collected()
