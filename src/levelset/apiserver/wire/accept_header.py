"""Accept headers, parsed as kube-apiserver does: clauses in its order of preference, and the quirks of that order."""

from functools import lru_cache
from typing import Final

import msgspec

from levelset.objects.lazy_pattern import Pattern

__all__ = ["AcceptClause", "parse_accept"]

_MOST_IN_ORDER: Final = 12
"""As many clauses Go sorts by insertion; what it does with more is not worth copying."""
_number: Final = Pattern(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")


class AcceptClause(msgspec.Struct, frozen=True):
    """One clause of an Accept header: `application/json;as=Table;q=0.9` without its quality."""

    type: str
    subtype: str
    quality: float
    parameters: dict[str, str]

    def matches(self, media: str, *, any_type: bool = False) -> bool:
        """Whether this clause accepts a media type; only with `any_type` does `*/json` accept one."""
        kind, _, subtype = media.partition("/")
        if self.type == kind or (any_type and self.type == "*"):
            return self.subtype in (subtype, "*")
        return self.type == self.subtype == "*"


@lru_cache(maxsize=256)
def parse_accept(header: str) -> tuple[AcceptClause, ...]:
    """The clauses of an Accept header, the preferred one first; those that cannot be read are left out.

    As upstream, a clause of quality 0 is accepted, and one with a wildcard comes after those before it without one,
    whatever their qualities.
    """
    clauses = [one for one in map(_clause, header.split(",")) if one is not None]
    if len(clauses) > _MOST_IN_ORDER:
        return tuple(sorted(clauses, key=lambda one: -one.quality))
    for end in range(1, len(clauses)):
        at = end
        while at and _precedes(clauses[at], clauses[at - 1]):
            clauses[at - 1], clauses[at] = clauses[at], clauses[at - 1]
            at -= 1
    return tuple(clauses)


def _clause(text: str) -> AcceptClause | None:
    media, *rest = text.strip(" ").split(";")
    kind, _, remaining = media.partition("/")
    subtype, _, more = remaining.partition("/")
    if more or (not remaining and kind.strip(" ") != "*"):
        return None
    quality, parameters = 1.0, dict[str, str]()
    for part in rest:
        name, _, remaining_part = part.partition("=")
        value, _, more = remaining_part.partition("=")
        if more or not remaining_part:
            continue
        if name.strip(" ") == "q":
            quality = float(value) if _number.fullmatch(value) else 0.0
        else:
            parameters[name.strip(" ")] = value.strip(" ")
    return AcceptClause(kind.strip(" "), subtype.strip(" ") if remaining else "*", quality, parameters)


def _precedes(one: AcceptClause, other: AcceptClause) -> bool:
    """Whether a clause is moved before the one before it; no order of the clauses, but what upstream sorts by."""
    if one.quality > other.quality or (one.type != "*" and other.type == "*"):
        return True
    return one.subtype != "*" and other.subtype == "*"
