"""All functions by name, each with the variants that its libraries declare."""

from collections.abc import Mapping

from levelset.cel.library import (
    addresses,
    authorizing,
    conversions,
    encoders,
    formats,
    lists,
    maths,
    optionals,
    quantities,
    regexes,
    semvers,
    sets,
    standard,
    strings,
    times,
    urls,
)
from levelset.cel.signatures import Overload

__all__ = ["FUNCTIONS"]

_LIBRARIES = (
    standard,
    conversions,
    times,
    strings,
    lists,
    sets,
    maths,
    regexes,
    encoders,
    optionals,
    urls,
    quantities,
    addresses,
    semvers,
    formats,
    authorizing,
)


def _collected() -> Mapping[str, list[Overload]]:
    found: dict[str, list[Overload]] = {}
    for library in _LIBRARIES:
        for overload in library.OVERLOADS:
            found.setdefault(overload.name, []).append(overload)
    return found


FUNCTIONS: Mapping[str, list[Overload]] = _collected()
