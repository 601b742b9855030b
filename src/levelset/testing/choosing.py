"""Which calls a fault strikes: by verb, kind and name, a share of them, so many, from then on, for so long; pure."""

from collections.abc import Collection
from dataclasses import dataclass, fields
from random import Random
from typing import Any, Final, TypedDict

from levelset.client.kinds import view_of
from levelset.errors import ConfigError
from levelset.testing.calls import About

__all__ = ["READS", "VERBS", "WRITES", "Choice", "Chooser", "Which", "which"]

READS: Final = ("get", "list", "watch")
WRITES: Final = ("create", "update", "patch", "apply", "delete", "deletecollection")
VERBS: Final = (*READS, *WRITES)


class Choice(TypedDict, total=False):
    """How a fault chooses its calls; what is left out chooses all.

    - `verbs`, `kinds` and `names` of the objects; a kind is a class, a GroupVersionKind or its name. `patch` is every
      patch but an apply, which is `apply`. Leases and Events are left alone unless `kinds` names them.
    - `share` of those calls, by the chance that `seed` makes the same each time.
    - `skip` lets so many pass first; `count` is how many are struck at most.
    - `after` so many seconds from the first call on, and `during` so many seconds.
    """

    verbs: Collection[str]
    kinds: Collection[Any]
    names: Collection[str]
    share: float
    skip: int
    count: int | None
    after: float
    during: float | None
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Which:
    """A choice as a value; see `Choice`."""

    verbs: tuple[str, ...] = VERBS
    kinds: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    share: float = 1.0
    skip: int = 0
    count: int | None = None
    after: float = 0.0
    during: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        unknown = [verb for verb in self.verbs if verb not in VERBS]
        if unknown or not self.verbs:
            raise ConfigError(f"verbs={self.verbs!r}: choose from {', '.join(VERBS)}")
        for is_right, said, rule in (
            (0 < self.share <= 1, f"share={self.share!r}", "above 0 and at most 1"),
            (self.skip >= 0, f"skip={self.skip!r}", "0 or more"),
            (self.count is None or self.count >= 1, f"count={self.count!r}", "1 or more, or None for all"),
            (self.after >= 0, f"after={self.after!r}", "a number of seconds, 0 or more"),
            (self.during is None or self.during > 0, f"during={self.during!r}", "a number of seconds above 0, or None"),
        ):
            if not is_right:
                raise ConfigError(f"{said}, but it must be {rule}")

    def fits(self, call: About) -> bool:
        """Whether a call is one of those that are chosen from; calls about no objects never are."""
        if not call.kind or call.verb not in self.verbs:
            return False
        if call.kind not in self.kinds if self.kinds else call.is_own:
            return False
        return not self.names or call.name in self.names

    def words(self, usual: tuple[str, ...] = VERBS) -> str:
        """What is chosen otherwise than usual, as it is written in a call."""
        plain = Which(verbs=usual)
        said = {one.name: getattr(self, one.name) for one in fields(self)}
        return ", ".join(f"{name}={value!r}" for name, value in said.items() if value != getattr(plain, name))


def which(usual: tuple[str, ...], choice: Choice) -> Which:
    """The value of what somebody chose, where `usual` are the verbs if he chose none."""
    unknown = choice.keys() - Choice.__annotations__.keys()
    if unknown:
        raise ConfigError(f"a fault cannot be chosen by {', '.join(sorted(unknown))}; by {', '.join(_CHOICES)}")
    said: dict[str, Any] = {"verbs": usual, **choice}
    for name in ("verbs", "kinds", "names"):
        if isinstance(said.get(name), str | type):
            raise ConfigError(f"{name}={said[name]!r}: give several, such as ({said[name]!r},)")
        said[name] = tuple(said.get(name, ()))
    said["kinds"] = tuple(map(_kind_name, said["kinds"]))
    return Which(**said)


_CHOICES: Final = tuple(Choice.__annotations__)


def _kind_name(kind: Any) -> str:
    return kind if isinstance(kind, str) else view_of(kind).gvk.kind


class Chooser:
    """Chooses among the calls that come, one after the other."""

    __slots__ = ("_begun", "_passed", "_random", "struck", "which")

    def __init__(self, which: Which) -> None:
        self.which = which
        self.struck = 0
        self._random = Random(which.seed)  # noqa: S311  # a chance that can be repeated is what is wanted
        self._passed = 0
        self._begun: float | None = None

    def chooses(self, call: About, *, now: float) -> bool:
        """Whether this one is struck."""
        self._begun = now if self._begun is None else self._begun
        which = self.which
        if not which.fits(call) or not self._is_time(now - self._begun):
            return False
        if self._passed < which.skip:
            self._passed += 1
            return False
        if which.count is not None and self.struck >= which.count:
            return False
        if which.share < 1 and self._random.random() >= which.share:
            return False
        self.struck += 1
        return True

    def _is_time(self, seconds: float) -> bool:
        which = self.which
        return which.after <= seconds and (which.during is None or seconds < which.after + which.during)
