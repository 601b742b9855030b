"""What starts before what, and stops after what: the order of a manager's life, without doing any of it.

Servers come first, so that whoever asks how we are gets an answer while caches fill, and webhooks before caches,
since the first list may need a conversion. What only a leader may do comes last. Stopping goes the other way round.
"""

from enum import IntEnum

from levelset.errors import ConfigError

__all__ = ["Phase", "Roster"]


class Phase(IntEnum):
    """The stages of a manager's start, in their order."""

    SERVERS = 0
    """Health and metrics."""

    WEBHOOKS = 1
    """What the API server itself asks."""

    CACHES = 2
    """The clusters and all that is declared there."""

    OTHERS = 3
    """What every replica does, leader or not."""

    WARM_UP = 4
    """The caches of what will run once we lead, so that a takeover is quick."""

    LEADERS = 5
    """What only the leader does; begins with the election."""


class Roster:
    """Who takes part, under which name and in which phase; and whether it may start now.

    `reached` is the last phase that has been begun, None before the start.
    """

    def __init__(self) -> None:
        self._members: dict[str, Phase] = {}
        self.reached: Phase | None = None
        self.is_stopping = False

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def add(self, name: str, phase: Phase) -> bool:
        """Takes a member in, and says whether it is to be started at once; ConfigError for a name that is taken."""
        if self.is_stopping:
            raise ConfigError(f"cannot add {name!r}: the manager is stopping; make another one")
        if not name:
            raise ConfigError("what runs in a manager needs a name: it is what logs and metrics call it")
        if name in self._members:
            raise ConfigError(f"there is a {name!r} in this manager already; give one of them another name")
        self._members[name] = phase
        return self.reached is not None and phase <= self.reached

    def remove(self, name: str) -> None:
        """Forgets a member; nothing if there is none of that name."""
        self._members.pop(name, None)

    def begin(self, phase: Phase) -> list[str]:
        """Begins the next phase, and gives those to start in it, in the order in which they came."""
        if self.is_stopping:
            return []
        expected = Phase.SERVERS if self.reached is None else Phase(self.reached + 1)
        if phase is not expected:
            raise RuntimeError(f"phase {phase.name} cannot begin now: {expected.name} comes first")
        self.reached = phase
        return self._of(phase)

    def stop(self) -> list[tuple[Phase, list[str]]]:
        """Refuses newcomers from now on; gives who is to be stopped, phase by phase, in the order of stopping."""
        self.is_stopping = True
        last_first = [(phase, self._of(phase)[::-1]) for phase in reversed(Phase)]
        return [(phase, names) for phase, names in last_first if names]

    def _of(self, phase: Phase) -> list[str]:
        return [name for name, when in self._members.items() if when is phase]
