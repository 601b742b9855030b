"""The rollout of a version as a pure function: what is active, what is tried with which weight, and when to look again.

A version and its ConfigMap make a canary; other text in the same ConfigMap is a correction, and used at once. The time
at which a weight began is part of the state, so that whoever comes after a crash goes on where the last one was.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from levelset_omnia.durations import seconds_of
from levelset_omnia.kinds import AgentRuntime, Canary, PromptPack, PromptPackStatus, Revision

__all__ = ["Progress", "advance", "is_carried"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a rollout is."""

    active: Revision | None = None
    canary: Revision | None = None
    weight: int | None = None
    started: datetime | None = None
    held_by: tuple[str, ...] = ()
    """The agents that have not carried out the present weight, although the next step is due."""
    after: float | None = None
    """In how many seconds the next step is due, if time decides."""


def advance(
    pack: PromptPack, offered: Revision, agents: Sequence[AgentRuntime], *, active: Revision | None, now: datetime
) -> Progress:
    """The state of a pack's rollout now, at most one step from the state that was.

    `active` is what was active, with the hash of what is in its ConfigMap now.
    """
    before = pack.status or PromptPackStatus()
    if pack.spec.rollout.type == "immediate" or _is_same(before.active, offered):
        return Progress(active=offered)
    how = pack.spec.rollout.canary or Canary()
    if not _is_same(before.canary, offered) or before.step_started_at is None:
        begun = Progress(active=active, canary=offered, weight=how.weight, started=now, after=seconds_of(how.interval))
        return Progress(active=offered) if how.weight >= 100 else begun
    weight = max(before.canary_weight or 0, how.weight)
    present = Progress(active=active, canary=offered, weight=weight, started=before.step_started_at)
    return _step(present, how, agents, now=now)


def _step(present: Progress, how: Canary, agents: Sequence[AgentRuntime], *, now: datetime) -> Progress:
    canary, weight, started = present.canary, present.weight or 0, present.started or now
    due = started + timedelta(seconds=seconds_of(how.interval))
    is_last = weight >= 100
    if not is_last and now < due:
        return replace(present, after=(due - now).total_seconds())
    held_by = tuple(one.name for one in agents if canary is not None and not is_carried(one, canary, weight))
    if held_by:
        return replace(present, held_by=held_by)
    if is_last:
        return Progress(active=canary)
    more = min(100, weight + how.step_weight)
    return replace(present, weight=more, started=now, after=0.0 if more >= 100 else seconds_of(how.interval))


def is_carried(agent: AgentRuntime, canary: Revision, weight: int) -> bool:
    """Whether an agent gives this share to the version, in Pods that are ready; one without Pods has nothing to do."""
    status = agent.status
    if agent.spec.runtime.replicas == 0:
        return True
    if status is None or status.phase != "Running":
        return False
    tried = status.canary
    if tried is None or tried.version != canary.version:
        return status.active_version == canary.version
    return tried.weight >= weight and tried.ready >= tried.replicas


def _is_same(one: Revision | None, other: Revision) -> bool:
    return one is not None and (one.version, one.config_map) == (other.version, other.config_map)
