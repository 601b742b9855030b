"""Who leads: the rules of an election by Lease, without a clock and without a server.

A Lease names its holder and is renewed by it. Whoever else wants it looks at it now and then: once it has not changed
for a whole lease, by the looker's own clock, the holder is taken to be gone. Two machines' clocks are never compared.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from levelset.client.client import Client
from levelset.errors import ConfigError

__all__ = ["Election", "LeaderElection", "Record"]

_JITTER = 1.2


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderElection:
    """How several processes of one program agree on the one that works.

    `name` is the Lease's, the same in all of them; `namespace` is the client's unless given. Others take over `lease`
    seconds after the last renewal; the leader gives up by itself if it could not renew for `renew` seconds; whoever
    waits, and whoever renews, tries every `retry` seconds. With `release`, a leader that stops hands over at once.
    The Lease is kept where the work is, unless `client` leads to another cluster; it stays open at the end.
    """

    name: str
    namespace: str | None = None
    identity: str | None = None
    lease: int = 15
    renew: float = 10.0
    retry: float = 2.0
    release: bool = True
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    client: Client | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self._require(bool(self.name), "name", "the name of the Lease, the same for all candidates")
        self._require(self.namespace != "", "namespace", "a namespace, or None for the client's")
        self._require(self.identity != "", "identity", "a name that no other candidate has, or None for a made-up one")
        self._require(isinstance(self.lease, int) and self.lease >= 1, "lease", "a whole number of seconds, at least 1")
        self._require(self.retry > 0, "retry", "a positive number of seconds")
        self._require(self.renew > self.retry * _JITTER, "renew", f"longer than {_JITTER} times retry ({self.retry} s)")
        self._require(self.lease > self.renew, "lease", f"longer than renew ({self.renew} s)")

    def _require(self, holds: bool, name: str, rule: str) -> None:
        if not holds:
            raise ConfigError(f"LeaderElection({name}={getattr(self, name)!r}): {name} must be {rule}")

    @property
    def patience(self) -> float:
        """How many seconds one request may take: short enough for a second one before it is too late."""
        return max(1.0, self.renew / 2)

    def pause(self, chance: float) -> float:
        """How long a candidate waits before it looks again; `chance` is from 0 to 1, so that they do not go in step."""
        return self.retry * (1 + _JITTER * chance)


@dataclass(frozen=True, slots=True)
class Record:
    """What a Lease says: who holds it, for how long after a renewal, since when, and how often it changed hands."""

    holder: str = ""
    duration: int = 0
    acquired: str = ""
    renewed: str = ""
    transitions: int = 0


class Election:
    """One candidate's view of the election; times are seconds on its own clock."""

    def __init__(self, settings: LeaderElection, identity: str) -> None:
        self.settings = settings
        self.identity = identity
        self._record: Record | None = None
        self._changed_at = 0.0
        self._renewed_at: float | None = None

    @property
    def holder(self) -> str:
        """Who held the Lease when it was last seen; empty if nobody."""
        return self._record.holder if self._record is not None else ""

    @property
    def deadline(self) -> float | None:
        """When we stop to lead unless the Lease is renewed before; None if we do not lead."""
        return None if self._renewed_at is None else self._renewed_at + self.settings.renew

    def leads(self, now: float) -> bool:
        """Whether the Lease is surely ours: nobody else can believe that it is free."""
        deadline = self.deadline
        return deadline is not None and now < deadline

    def see(self, record: Record | None, now: float) -> None:
        """Takes in what the Lease says, as read at `now`; None if there is no Lease."""
        if record != self._record:
            self._record, self._changed_at = record, now
        if self.holder != self.identity:
            self._renewed_at = None

    def wanted(self, now: float, stamp: str) -> Record | None:
        """What to write in order to lead, or to go on leading; None while somebody else holds the Lease."""
        settings, record = self.settings, self._record
        if record is None:
            return Record(self.identity, settings.lease, stamp, stamp)
        if record.holder == self.identity:
            return replace(record, duration=settings.lease, renewed=stamp)
        if record.holder and now < self._changed_at + (record.duration or settings.lease):
            return None
        return Record(self.identity, settings.lease, stamp, stamp, record.transitions + 1)

    def wrote(self, record: Record, sent: float) -> None:
        """Takes in that the server has accepted this record, which was sent at `sent`.

        The lease is counted from the sending: others see the record later, and so wait longer than we lead.
        """
        self._record, self._changed_at, self._renewed_at = record, sent, sent

    def resign(self) -> None:
        """Leads no longer, whatever the Lease says."""
        self._renewed_at = None

    def given_up(self, stamp: str) -> Record:
        """What to write in order to hand over: nobody holds it, and whoever looks may take it."""
        record = self._record or Record()
        return replace(record, holder="", duration=1, acquired=stamp, renewed=stamp)
