"""The status of a PromptPack as a pure function of its inputs, and the Events for its changes."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Literal

from msgspec import Struct

from levelset import Condition, replace
from levelset.objects import MicroTime, seconds_precision
from levelset_omnia.conditions import Conditions, StatusEvent
from levelset_omnia.kinds import AgentRuntime, PromptPack, PromptPackStatus, Revision, RolledBack
from levelset_omnia.kinds.values import Version, is_same_version
from levelset_omnia.promptpack.rollout import Progress, advance
from levelset_omnia.promptpack.selection import select
from levelset_omnia.promptpack.source import Problem

__all__ = ["Decision", "StatusInputs", "affected_agents", "decide", "status_events", "superseder"]

Phase = Literal["Pending", "Active", "Canary", "Superseded", "Failed"]


class StatusInputs(Struct, frozen=True, kw_only=True):
    """What the status of a pack depends on, besides the pack."""

    source: Revision | Problem
    active: Revision | None
    """The active revision, with the current hash of its ConfigMap."""
    versions: Sequence[PromptPack]
    """All objects of the same pack, this one among them."""
    agents: Sequence[AgentRuntime]
    """All agents that reference the pack."""
    now: datetime


class Decision(Struct, frozen=True):
    """The next status of a pack, and when to requeue it."""

    status: PromptPackStatus
    after: float | None = None
    is_held: bool = False


def decide(pack: PromptPack, inputs: StatusInputs) -> Decision:
    """The next status of a pack."""
    if isinstance(inputs.source, Problem):
        return Decision(_stamped(pack, _failed(pack, inputs, inputs.source), inputs.now))
    agents = affected_agents(pack, inputs)
    progress = advance(pack, inputs.source, agents, active=inputs.active, now=inputs.now)
    status = _progressed(pack, inputs, progress)
    notified = affected_agents(replace(pack, status=status), inputs)
    status = replace(status, conditions=_notified(pack, status, len(notified), inputs.now))
    return Decision(_stamped(pack, status, inputs.now), progress.after, bool(progress.held_by))


def affected_agents(pack: PromptPack, inputs: StatusInputs) -> list[AgentRuntime]:
    """The agents that use the version of this pack, as stable or as canary."""
    others = [one for one in inputs.versions if one.name != pack.name]
    return [one for one in inputs.agents if _uses(one, pack, [*others, pack])]


def superseder(pack: PromptPack, versions: Sequence[PromptPack]) -> str | None:
    """The newer active version that supersedes this one on every track; None if there is none."""
    mine = Version.parse(pack.spec.version)
    newer = [
        (version, one.status.active.version)
        for one in versions
        if one.name != pack.name and one.metadata.deletion_timestamp is None
        if one.status is not None and one.status.phase != "Failed" and one.status.active is not None
        if (version := Version.parse(one.status.active.version)) is not None
        if mine is not None and version > mine and (mine.is_prerelease or not version.is_prerelease)
    ]
    return max(newer)[1] if newer else None


def status_events(before: PromptPackStatus | None, after: PromptPackStatus) -> Iterator[StatusEvent]:
    """The Events for the change between two statuses."""
    was = before or PromptPackStatus()
    if after.canary_version is not None and after.canary_version != was.canary_version:
        yield StatusEvent(
            "CanaryStarted", f"{after.canary_version} starts as a canary with {after.canary_weight} % of the traffic"
        )
        yield from _shared_config_map(after)
    elif after.canary_version is not None and after.canary_weight != was.canary_weight:
        yield StatusEvent("CanaryStep", f"{after.canary_version} has {after.canary_weight} % of the traffic")
    if after.active_version is not None and after.active_version != was.active_version:
        yield StatusEvent("VersionActive", f"{after.active_version} is active")
    if after.phase != was.phase and after.phase == "Superseded":
        yield StatusEvent("Superseded", f"a newer version than {after.active_version} is active")
    if after.rolled_back is not None and after.rolled_back != was.rolled_back:
        yield StatusEvent("CanaryRolledBack", _rollback_message(after.rolled_back), warning=True)
    failed, failed_before = _invalid_source(after), _invalid_source(was)
    if failed is not None and failed != failed_before:
        yield StatusEvent(failed.reason, failed.message, warning=True)
    if failed is None and failed_before is not None:
        yield StatusEvent("SourceValid", "the source is valid again")


def _invalid_source(status: PromptPackStatus) -> Condition | None:
    return next((one for one in status.conditions if one.type == "SourceValid" and one.status == "False"), None)


def _rollback_message(failed: RolledBack) -> str:
    version, config_map = failed.revision.version, failed.revision.config_map
    counts = f"{failed.errors} of {failed.requests} requests failed"
    return f"{version} was rolled back: {counts}; change the version or ConfigMap {config_map} to try again"


def _shared_config_map(after: PromptPackStatus) -> Iterator[StatusEvent]:
    """The warning for two versions in one ConfigMap: Pods of both read its current content."""
    active, canary = after.active, after.canary
    if active is not None and canary is not None and active.config_map == canary.config_map:
        message = f"{active.version} and {canary.version} share ConfigMap {canary.config_map}; give each its own"
        yield StatusEvent("SharedConfigMap", message, warning=True)


def _uses(agent: AgentRuntime, pack: PromptPack, versions: Sequence[PromptPack]) -> bool:
    wanted = agent.spec.prompt_pack_ref
    if wanted.version is not None:
        return is_same_version(wanted.version, pack.spec.version)
    choice = select(versions, wanted)
    if choice is None:
        return False
    uses = [choice.stable, *([choice.candidate] if choice.candidate else [])]
    return any(one.pack.name == pack.name and one.revision.version == pack.spec.version for one in uses)


def _failed(pack: PromptPack, inputs: StatusInputs, problem: Problem) -> PromptPackStatus:
    """The status with an invalid source: the active version stays, and a canary is abandoned."""
    before = pack.status or PromptPackStatus()
    conditions = _conditions(pack, before, inputs.now).set(
        "SourceValid", False, "SourceValidationFailed", problem.message
    )
    return replace(
        before,
        phase="Failed",
        canary_version=None,
        canary_weight=None,
        canary=None,
        rolled_back=None,
        step_started_at=None,
        conditions=conditions.remove("CanaryProgressing").items,
        observed_generation=pack.metadata.generation,
    )


def _progressed(pack: PromptPack, inputs: StatusInputs, progress: Progress) -> PromptPackStatus:
    newer = superseder(pack, inputs.versions)
    phase: Phase = "Canary" if progress.canary is not None else "Superseded" if newer else "Active"
    if progress.rolled_back is not None:
        phase = "Failed"
    before = pack.status or PromptPackStatus()
    return replace(
        before,
        phase=phase,
        active_version=progress.active and progress.active.version,
        canary_version=progress.canary and progress.canary.version,
        canary_weight=progress.weight,
        active=progress.active,
        canary=progress.canary,
        rolled_back=progress.rolled_back,
        step_started_at=None if progress.started is None else MicroTime.of(progress.started),
        conditions=_rollout_conditions(pack, before, inputs, progress).items,
        observed_generation=pack.metadata.generation,
    )


def _rollout_conditions(
    pack: PromptPack, before: PromptPackStatus, inputs: StatusInputs, progress: Progress
) -> Conditions:
    conditions = _conditions(pack, before, inputs.now).set(
        "SourceValid", True, "SourceValid", "the ConfigMap with the prompts is valid"
    )
    newer = superseder(pack, inputs.versions)
    if newer is not None:
        conditions = conditions.set("Superseded", True, "NewerVersionPublished", f"{newer} is active")
    elif len(inputs.versions) > 1:
        conditions = conditions.set("Superseded", False, "IsChannelMax", "no newer version is active")
    else:
        conditions = conditions.remove("Superseded")
    if progress.rolled_back is not None:
        return conditions.set("CanaryProgressing", False, "RolledBack", _rollback_message(progress.rolled_back))
    if progress.canary is None:
        return conditions.remove("CanaryProgressing")
    if progress.held_by:
        message = f"{progress.weight} % is not reached by {', '.join(progress.held_by)}"
        return conditions.set("CanaryProgressing", False, "AgentsNotReady", message)
    return conditions.set("CanaryProgressing", True, "Progressing", f"{progress.weight} % of the traffic")


def _notified(pack: PromptPack, status: PromptPackStatus, count: int, now: datetime) -> tuple[object, ...]:
    conditions = _conditions(pack, status, now)
    if count:
        return conditions.set("AgentsNotified", True, "AgentsNotified", f"Notified {count} AgentRuntime(s)").items
    return conditions.set("AgentsNotified", True, "NoAgentsToNotify", "No AgentRuntime uses this version").items


def _conditions(pack: PromptPack, status: PromptPackStatus, now: datetime) -> Conditions:
    return Conditions(status.conditions, now, pack.metadata.generation)


def _stamped(pack: PromptPack, status: PromptPackStatus, now: datetime) -> PromptPackStatus:
    """The status with the time of its last change: now, if anything else differs."""
    same = replace(status, last_updated=None) == replace(pack.status or PromptPackStatus(), last_updated=None)
    return status if same else replace(status, last_updated=seconds_precision(now))
