"""The status of an AgentRuntime as a pure function of what was found and done."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from levelset.kinds.apps_v1 import Deployment
from levelset_omnia.agentruntime.splitting import ready_of, split
from levelset_omnia.conditions import Conditions, Note
from levelset_omnia.kinds import AgentRuntime, AgentRuntimeStatus, CanaryReplicas, ReplicaCounts
from levelset_omnia.promptpack import Choice

__all__ = ["Facts", "Problem", "agent_status", "notes"]

Part = Literal["PromptPack", "Deployment", "Service"]
Phase = Literal["Pending", "Running", "Failed"]


@dataclass(frozen=True, slots=True)
class Problem:
    """What keeps an agent from running: which part of it, in a word and in a sentence."""

    part: Part
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of an agent after a look at it."""

    choice: Choice | None = None
    has_registry: bool | None = None
    """Whether its ToolRegistry is there; None if it names none."""
    stable: Deployment | None = None
    candidate: Deployment | None = None
    problem: Problem | None = None


def agent_status(agent: AgentRuntime, facts: Facts, *, now: datetime) -> AgentRuntimeStatus:
    """The status that an agent should have."""
    before = agent.status or AgentRuntimeStatus()
    counts = _counts(agent, facts)
    phase: Phase = "Failed" if facts.problem else "Running" if counts.ready > 0 else "Pending"
    said = _conditions(agent, facts, Conditions(before.conditions, now, agent.metadata.generation))
    return AgentRuntimeStatus(
        phase=phase,
        replicas=counts,
        active_version=before.active_version if facts.choice is None else facts.choice.stable.revision.version,
        canary=before.canary if facts.choice is None else _canary(agent, facts.choice, facts.candidate),
        conditions=_ready(said, facts, counts).items,
        observed_generation=agent.metadata.generation,
    )


def notes(before: AgentRuntimeStatus | None, after: AgentRuntimeStatus, problem: Problem | None) -> Iterator[Note]:
    """What has happened between two states of an agent."""
    was = before or AgentRuntimeStatus()
    if problem is not None:
        told = next((one for one in was.conditions if one.type == f"{problem.part}Ready"), None)
        if was.phase != "Failed" or told is None or told.message != problem.message:
            yield Note(problem.reason, problem.message, warning=True)
    elif after.phase != was.phase and after.phase is not None:
        words = "pods are ready" if after.phase == "Running" else "waits for pods to be ready"
        yield Note(after.phase, f"{after.active_version}: {words}")


def _counts(agent: AgentRuntime, facts: Facts) -> ReplicaCounts:
    found = [one.status for one in (facts.stable, facts.candidate) if one is not None and one.status is not None]
    return ReplicaCounts(
        desired=agent.spec.runtime.replicas,
        ready=sum(one.ready_replicas for one in found),
        available=sum(one.available_replicas for one in found),
    )


def _canary(agent: AgentRuntime, choice: Choice, candidate: Deployment | None) -> CanaryReplicas | None:
    if choice.candidate is None:
        return None
    replicas, _ = split(agent.spec.runtime.replicas, choice.weight)
    return CanaryReplicas(
        version=choice.candidate.revision.version,
        weight=choice.weight,
        replicas=replicas,
        ready=min(replicas, ready_of(candidate)),
    )


def _conditions(agent: AgentRuntime, facts: Facts, said: Conditions) -> Conditions:
    """What holds of the parts, as far as the look came."""
    problem = facts.problem
    for part, reason, words in _parts(facts):
        said = said.say(f"{part}Ready", True, reason, words)
    ref = agent.spec.tool_registry_ref
    if ref is None:
        said = said.drop("ToolRegistryReady")
    elif facts.has_registry:
        said = said.say("ToolRegistryReady", True, "ToolRegistryFound", f"ToolRegistry {ref.name} is there")
    elif facts.has_registry is False:
        words = f"ToolRegistry {ref.name} is not there; the agent runs without tools"
        said = said.say("ToolRegistryReady", False, "ToolRegistryNotFound", words)
    return said if problem is None else said.say(f"{problem.part}Ready", False, problem.reason, problem.message)


def _parts(facts: Facts) -> Iterator[tuple[Part, str, str]]:
    """The parts that are right: those that come before the one with the problem."""
    failed = None if facts.problem is None else facts.problem.part
    if failed != "PromptPack" and facts.choice is not None:
        yield "PromptPack", "PromptPackFound", f"PromptPack {facts.choice.stable.pack.name} is there"
    if failed not in ("PromptPack", "Deployment"):
        yield "Deployment", "DeploymentCreated", "the Deployment is as it should be"
    if failed is None:
        yield "Service", "ServiceCreated", "the Service is as it should be"


def _ready(said: Conditions, facts: Facts, counts: ReplicaCounts) -> Conditions:
    if facts.problem is not None:
        return said.say("Ready", False, "RuntimeNotReady", facts.problem.message)
    if counts.ready > 0:
        return said.say("Ready", True, "RuntimeReady", "pods are ready")
    return said.say("Ready", False, "RuntimeNotReady", "Waiting for pods to be ready")
