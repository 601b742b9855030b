"""How many Pods each ReplicaSet of a Deployment should have next: rolling, or spreading a change of size; pure.

During a roll there are never more than `desired + surge` Pods, and never fewer than `desired - unavailable` of them are
available, as long as those that were available stay so. To keep that word, a roll goes on only when each ReplicaSet has
taken notice of its last change: until then its numbers are about something else.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from levelset.kinds.apps_v1 import DeploymentSpec

__all__ = ["Limits", "Size", "limits_of", "roll", "spread"]


@dataclass(frozen=True, slots=True)
class Limits:
    """How many Pods there should be, how many more there may be, and how many may be missing."""

    desired: int
    surge: int = 0
    unavailable: int = 0

    @property
    def most(self) -> int:
        """How many Pods there may be at once."""
        return self.desired + self.surge if self.desired else 0

    @property
    def least(self) -> int:
        """How many Pods must be available."""
        return self.desired - self.unavailable


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A ReplicaSet in numbers: wanted, there, available, and how many there could be when it was last sized."""

    name: str
    wanted: int
    there: int = 0
    available: int = 0
    is_current: bool = True
    """Whether `there` and `available` are about what is wanted now."""
    created: datetime | None = None
    room: int | None = None

    @property
    def serving(self) -> int:
        """How many of those that are wanted are available."""
        return min(self.wanted, self.available)


def limits_of(spec: DeploymentSpec) -> Limits:
    """What a Deployment allows; if it allows nothing at all, one Pod may be missing, or nothing could ever change."""
    desired = 1 if spec.replicas is None else spec.replicas
    if spec.strategy.type == "Recreate":
        return Limits(desired)
    given = spec.strategy.rolling_update
    surge = _count("25%" if given is None or given.max_surge is None else given.max_surge, desired, up=True)
    missing = "25%" if given is None or given.max_unavailable is None else given.max_unavailable
    unavailable = _count(missing, desired, up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return Limits(desired, surge, min(unavailable, desired))


def roll(new: Size, olds: Sequence[Size], limits: Limits) -> dict[str, int]:
    """The next sizes on the way from old ReplicaSets to the new one, by name."""
    grown = replace(new, wanted=_grown(new, olds, limits))
    return {new.name: grown.wanted, **_shrunk(grown, olds, limits)}


def spread(sizes: Sequence[Size], limits: Limits) -> dict[str, int]:
    """The sizes after somebody changed how many there should be, in the middle of a roll: each keeps its share.

    What is left after rounding goes to the largest, or is taken from the largest.
    """
    total = sum(one.wanted for one in sizes)
    change = limits.most - total
    found: dict[str, int] = {}
    given = 0
    for one in _by_size(sizes, growing=change > 0):
        share = _share(one, limits, change, given)
        given += share
        found[one.name] = one.wanted + share
    for name, count in found.items():
        left = max(change - given, -count)
        found[name] += left
        given += left
    return found


def _count(given: int | str, desired: int, *, up: bool) -> int:
    """So many, or so many per cent of what is desired."""
    if isinstance(given, int):
        return max(0, given)
    digits = given.removesuffix("%")
    whole = desired * (int(digits) if digits.isascii() and digits.isdigit() else 0)
    return -(-whole // 100) if up else whole // 100


def _grown(new: Size, olds: Sequence[Size], limits: Limits) -> int:
    if new.wanted >= limits.desired:
        return limits.desired
    if not _is_current((new, *olds)):
        return new.wanted
    total = sum(max(one.wanted, one.there) for one in (new, *olds))
    return new.wanted + max(0, min(limits.most - total, limits.desired - new.wanted))


def _shrunk(new: Size, olds: Sequence[Size], limits: Limits) -> dict[str, int]:
    sizes = {one.name: one.wanted for one in olds}
    spare = new.serving + sum(sizes.values()) - limits.least
    if spare <= 0 or not _is_current((new, *olds)):
        return sizes
    ranked = sorted(olds, key=_age)
    for one in ranked:  # those that serve nobody first: they are in the way, and nobody misses them
        cut = min(one.wanted - one.serving, spare)
        sizes[one.name] -= cut
        spare -= cut
    spare = new.serving + sum(one.serving for one in olds) - limits.least
    for one in ranked:
        cut = max(0, min(sizes[one.name], spare))
        sizes[one.name] -= cut
        spare -= cut
    return sizes


def _is_current(sizes: Iterable[Size]) -> bool:
    return all(one.is_current for one in sizes)


def _by_size(sizes: Sequence[Size], *, growing: bool) -> list[Size]:
    """The largest first; of equal ones the youngest grow first, and the oldest shrink first."""
    aged = sorted(sizes, key=_age, reverse=growing)
    return sorted(aged, key=lambda one: -one.wanted)


def _share(one: Size, limits: Limits, change: int, given: int) -> int:
    if one.wanted == 0 or change in {0, given}:
        return 0
    if limits.most == 0:
        return -one.wanted
    room = one.room or limits.most
    share = math.floor(one.wanted * limits.most / room + 0.5) - one.wanted
    left = change - given
    return max(0, min(share, left)) if change > 0 else max(-one.wanted, min(0, max(share, left)))


def _age(one: Size) -> tuple[float, str]:
    return (0.0 if one.created is None else one.created.timestamp()), one.name
