"""The status of a PromptPack as a pure function of what is known, and what there is to tell about the change."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from levelset import replace
from levelset.objects import MicroTime, seconds_precision
from levelset_omnia.conditions import Conditions, Note
from levelset_omnia.kinds import AgentRuntime, PromptPack, PromptPackStatus, Revision
from levelset_omnia.promptpack.rollout import Progress, advance
from levelset_omnia.promptpack.selecting import select
from levelset_omnia.promptpack.source import Problem
from levelset_omnia.versions import Version, is_same_version

__all__ = ["Decision", "Known", "concerned", "decide", "notes", "superseder"]

Phase = Literal["Pending", "Active", "Canary", "Superseded", "Failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What a pack's status depends on, besides the pack."""

    source: Revision | Problem
    active: Revision | None
    """What was active, with the hash of what is in its ConfigMap now."""
    versions: Sequence[PromptPack]
    """All objects of the same pack, this one among them."""
    agents: Sequence[AgentRuntime]
    """All agents that name the pack."""
    now: datetime


@dataclass(frozen=True, slots=True)
class Decision:
    """The status that a pack should have, and when to look again."""

    status: PromptPackStatus
    after: float | None = None
    is_held: bool = False


def decide(pack: PromptPack, known: Known) -> Decision:
    """The next status of a pack."""
    if isinstance(known.source, Problem):
        return Decision(_stamped(pack, _failed(pack, known, known.source), known.now))
    agents = concerned(pack, known)
    progress = advance(pack, known.source, agents, active=known.active, now=known.now)
    status = _progressed(pack, known, progress)
    notified = concerned(replace(pack, status=status), known)
    status = replace(status, conditions=_notified(pack, status, len(notified), known.now))
    return Decision(_stamped(pack, status, known.now), progress.after, bool(progress.held_by))


def concerned(pack: PromptPack, known: Known) -> list[AgentRuntime]:
    """The agents that use the version that a pack asks for, or try it."""
    others = [one for one in known.versions if one.name != pack.name]
    return [one for one in known.agents if _uses(one, pack, [*others, pack])]


def superseder(pack: PromptPack, versions: Sequence[PromptPack]) -> str | None:
    """The version that has taken the place of this one on every track, if one has."""
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


def notes(before: PromptPackStatus | None, after: PromptPackStatus) -> Iterator[Note]:
    """What has happened between two states of a pack."""
    was = before or PromptPackStatus()
    if after.canary_version is not None and after.canary_version != was.canary_version:
        yield Note("CanaryStarted", f"{after.canary_version} is tried with {after.canary_weight} % of the traffic")
        yield from _shared(after)
    elif after.canary_version is not None and after.canary_weight != was.canary_weight:
        yield Note("CanaryStep", f"{after.canary_version} has {after.canary_weight} % of the traffic")
    if after.active_version is not None and after.active_version != was.active_version:
        yield Note("VersionActive", f"{after.active_version} is active")
    if after.phase != was.phase and after.phase == "Superseded":
        yield Note("Superseded", f"a newer version than {after.active_version} is active")
    failed = next((one for one in after.conditions if one.type == "SourceValid" and one.status == "False"), None)
    if failed is not None and (was.phase != "Failed" or failed not in was.conditions):
        yield Note(failed.reason, failed.message, warning=True)
    if failed is None and was.phase == "Failed":
        yield Note("SourceValid", "the prompts can be used again")


def _shared(after: PromptPackStatus) -> Iterator[Note]:
    """Warns of two versions in one ConfigMap: Pods of both see what is in it now."""
    active, tried = after.active, after.canary
    if active is not None and tried is not None and active.config_map == tried.config_map:
        words = f"{active.version} and {tried.version} are both in ConfigMap {tried.config_map}; give each its own"
        yield Note("SharedConfigMap", words, warning=True)


def _uses(agent: AgentRuntime, pack: PromptPack, versions: Sequence[PromptPack]) -> bool:
    wanted = agent.spec.prompt_pack_ref
    if wanted.version is not None:
        return is_same_version(wanted.version, pack.spec.version)
    choice = select(versions, wanted)
    if choice is None:
        return False
    uses = [choice.stable, *([choice.candidate] if choice.candidate else [])]
    return any(one.pack.name == pack.name and one.revision.version == pack.spec.version for one in uses)


def _failed(pack: PromptPack, known: Known, problem: Problem) -> PromptPackStatus:
    """What was active stays so; a version that was being tried is given up."""
    before = pack.status or PromptPackStatus()
    said = _conditions(pack, before, known.now).say("SourceValid", False, "SourceValidationFailed", problem.message)
    return replace(
        before,
        phase="Failed",
        canary_version=None,
        canary_weight=None,
        canary=None,
        step_started_at=None,
        conditions=said.drop("CanaryProgressing").items,
        observed_generation=pack.metadata.generation,
    )


def _progressed(pack: PromptPack, known: Known, progress: Progress) -> PromptPackStatus:
    newer = superseder(pack, known.versions)
    phase: Phase = "Canary" if progress.canary is not None else "Superseded" if newer else "Active"
    before = pack.status or PromptPackStatus()
    return replace(
        before,
        phase=phase,
        active_version=progress.active and progress.active.version,
        canary_version=progress.canary and progress.canary.version,
        canary_weight=progress.weight,
        active=progress.active,
        canary=progress.canary,
        step_started_at=None if progress.started is None else MicroTime.of(progress.started),
        conditions=_told(pack, before, known, progress).items,
        observed_generation=pack.metadata.generation,
    )


def _told(pack: PromptPack, before: PromptPackStatus, known: Known, progress: Progress) -> Conditions:
    said = _conditions(pack, before, known.now).say(
        "SourceValid", True, "SourceValid", "the ConfigMap with the prompts is there"
    )
    newer = superseder(pack, known.versions)
    if newer is not None:
        said = said.say("Superseded", True, "NewerVersionPublished", f"{newer} is active")
    elif len(known.versions) > 1:
        said = said.say("Superseded", False, "IsChannelMax", "no newer version is active")
    else:
        said = said.drop("Superseded")
    if progress.canary is None:
        return said.drop("CanaryProgressing")
    if progress.held_by:
        words = f"{progress.weight} % is not carried out by {', '.join(progress.held_by)}"
        return said.say("CanaryProgressing", False, "AgentsNotReady", words)
    return said.say("CanaryProgressing", True, "Progressing", f"{progress.weight} % of the traffic")


def _notified(pack: PromptPack, status: PromptPackStatus, count: int, now: datetime) -> tuple[object, ...]:
    said = _conditions(pack, status, now)
    if count:
        return said.say("AgentsNotified", True, "AgentsNotified", f"Notified {count} AgentRuntime(s)").items
    return said.say("AgentsNotified", True, "NoAgentsToNotify", "No AgentRuntime uses this version").items


def _conditions(pack: PromptPack, status: PromptPackStatus, now: datetime) -> Conditions:
    return Conditions(status.conditions, now, pack.metadata.generation)


def _stamped(pack: PromptPack, status: PromptPackStatus, now: datetime) -> PromptPackStatus:
    """The status with the time of its last change, which is now only if something else is different."""
    same = replace(status, last_updated=None) == replace(pack.status or PromptPackStatus(), last_updated=None)
    return status if same else replace(status, last_updated=seconds_precision(now))
