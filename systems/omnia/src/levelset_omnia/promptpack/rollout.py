"""The rollout of a version as a pure function: the active version, the canary with its weight, and the requeue time.

Another version or another ConfigMap starts a canary; other content of the same ConfigMap is a correction, and used at
once. A canary whose requests fail too often is rolled back, and not started again until it changes. The start of the
current weight is part of the status, so that a restarted operator continues the rollout.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from levelset import replace
from levelset_omnia.kinds import AgentRuntime, Canary, PromptPack, PromptPackStatus, Revision, RolledBack
from levelset_omnia.kinds.values import seconds_of

__all__ = ["Progress", "advance", "has_reached"]


class Progress(Struct, frozen=True):
    """The state of a rollout."""

    active: Revision | None = None
    canary: Revision | None = None
    weight: int | None = None
    started: datetime | None = None
    rolled_back: RolledBack | None = None
    """The offered revision, if it was rolled back."""
    held_by: tuple[str, ...] = ()
    """The agents that have not reached the current weight, although the next step is due."""
    after: float | None = None
    """Seconds until the next step; None if it does not depend on time."""


def advance(
    pack: PromptPack, offered: Revision, agents: Sequence[AgentRuntime], *, active: Revision | None, now: datetime
) -> Progress:
    """The next state of a pack's rollout, at most one step after the state in its status.

    `active` is the active revision, with the current hash of its ConfigMap.
    """
    before = pack.status or PromptPackStatus()
    if pack.spec.rollout.type == "immediate" or _is_same(before.active, offered):
        return Progress(active=offered)
    strategy = pack.spec.rollout.canary or Canary()
    rolled_back = before.rolled_back
    if rolled_back is not None and rolled_back.revision == offered:
        return Progress(active=active, rolled_back=rolled_back)
    if not _is_same(before.canary, offered) or before.step_started_at is None:
        first = Progress(
            active=active, canary=offered, weight=strategy.weight, started=now, after=seconds_of(strategy.interval)
        )
        return Progress(active=offered) if strategy.weight >= 100 else first
    failed = _failed(offered, strategy, agents)
    if failed is not None:
        return Progress(active=active, rolled_back=failed)
    weight = max(before.canary_weight or 0, strategy.weight)
    present = Progress(active=active, canary=offered, weight=weight, started=before.step_started_at)
    return _step(present, strategy, agents, now=now)


def _step(present: Progress, strategy: Canary, agents: Sequence[AgentRuntime], *, now: datetime) -> Progress:
    canary, weight, started = present.canary, present.weight or 0, present.started or now
    due = started + timedelta(seconds=seconds_of(strategy.interval))
    is_last = weight >= 100
    if not is_last and now < due:
        return replace(present, after=(due - now).total_seconds())
    held_by = tuple(one.name for one in agents if canary is not None and not has_reached(one, canary, weight))
    if held_by:
        return replace(present, held_by=held_by)
    if is_last:
        return Progress(active=canary)
    more = min(100, weight + strategy.step_weight)
    return replace(present, weight=more, started=now, after=0.0 if more >= 100 else seconds_of(strategy.interval))


def _failed(canary: Revision, strategy: Canary, agents: Sequence[AgentRuntime]) -> RolledBack | None:
    """The canary as rolled back, if too many of its requests have failed; None if not, or if that is not known yet."""
    limit = strategy.rollback
    if limit is None:
        return None
    counted = [one.status.canary for one in agents if one.status is not None and one.status.canary is not None]
    requests = sum(one.requests for one in counted if one.version == canary.version)
    errors = sum(one.errors for one in counted if one.version == canary.version)
    if requests < limit.min_requests or errors * 100 <= limit.max_error_rate * requests:
        return None
    return RolledBack(revision=canary, requests=requests, errors=errors)


def has_reached(agent: AgentRuntime, canary: Revision, weight: int) -> bool:
    """Whether an agent has ready Pods for this weight of the canary; an agent without replicas always has."""
    status = agent.status
    if agent.spec.runtime.replicas == 0:
        return True
    if status is None or status.phase != "Running":
        return False
    carried = status.canary
    if carried is None or carried.version != canary.version:
        return status.active_version == canary.version
    return carried.weight >= weight and carried.ready >= carried.replicas


def _is_same(one: Revision | None, other: Revision) -> bool:
    return one is not None and (one.version, one.config_map) == (other.version, other.config_map)
