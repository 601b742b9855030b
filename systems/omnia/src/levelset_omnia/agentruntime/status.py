"""The status of an AgentRuntime as a pure function of what the reconciler has observed."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Literal

from msgspec import Struct

from levelset.kinds.apps_v1 import Deployment
from levelset.objects import find_condition
from levelset_omnia.agentruntime.children import ready_replicas, split_replicas
from levelset_omnia.agentruntime.pod_reports import PodProblem, PodReport, counts_of
from levelset_omnia.conditions import Conditions, StatusEvent
from levelset_omnia.kinds import AgentRuntime, AgentRuntimeStatus, CanaryReplicas, ReplicaCounts
from levelset_omnia.promptpack import Choice

__all__ = ["Facts", "Problem", "agent_status", "status_events"]

Part = Literal["PromptPack", "Provider", "Deployment", "Service"]
Phase = Literal["Pending", "Running", "Failed"]


class Problem(Struct, frozen=True):
    """What keeps an agent from running: the failing part, with the reason and message of its condition."""

    part: Part
    reason: str
    message: str


class Facts(Struct, frozen=True, kw_only=True):
    """What a reconcile has observed of an agent."""

    choice: Choice | None = None
    has_registry: bool | None = None
    """Whether its ToolRegistry exists; None if it references none."""
    stable: Deployment | None = None
    candidate: Deployment | None = None
    problem: Problem | None = None
    reports: tuple[PodReport, ...] = ()
    """What its Pods report, if that was read."""
    missing: tuple[PodProblem, ...] = ()
    """The Secrets that its Pods wait for."""

    @property
    def pod_problems(self) -> Sequence[PodProblem]:
        """What keeps its Pods from answering, each problem once."""
        return tuple(dict.fromkeys([*self.missing, *(each for one in self.reports for each in one.problems)]))


def agent_status(agent: AgentRuntime, facts: Facts, *, now: datetime) -> AgentRuntimeStatus:
    """The status that an agent should have."""
    before = agent.status or AgentRuntimeStatus()
    counts = _counts(agent, facts)
    phase: Phase = "Failed" if facts.problem else "Running" if counts.ready > 0 else "Pending"
    conditions = _conditions(agent, facts, Conditions(before.conditions, now, agent.metadata.generation))
    return AgentRuntimeStatus(
        phase=phase,
        replicas=counts,
        active_version=before.active_version if facts.choice is None else facts.choice.stable.revision.version,
        canary=before.canary if facts.choice is None else _canary(agent, facts.choice, facts),
        conditions=_ready(conditions, facts, counts).items,
        observed_generation=agent.metadata.generation,
    )


def status_events(before: AgentRuntimeStatus | None, after: AgentRuntimeStatus, facts: Facts) -> Iterator[StatusEvent]:
    """The Events for the change between two statuses."""
    was, problem = before or AgentRuntimeStatus(), facts.problem
    if problem is not None:
        reported = next((one for one in was.conditions if one.type == f"{problem.part}Ready"), None)
        if was.phase != "Failed" or reported is None or reported.message != problem.message:
            yield StatusEvent(problem.reason, problem.message, warning=True)
    elif after.phase != was.phase and after.phase is not None:
        message = "pods are ready" if after.phase == "Running" else "waiting for pods to be ready"
        yield StatusEvent(after.phase, f"{after.active_version}: {message}")
    waiting = find_condition(after.conditions, "Ready")
    if facts.pod_problems and waiting is not None and waiting.status == "False":
        reported = find_condition(was.conditions, "Ready")
        if reported is None or reported.message != waiting.message:
            yield StatusEvent("PodsNotReady", waiting.message, warning=True)


def _counts(agent: AgentRuntime, facts: Facts) -> ReplicaCounts:
    found = [one.status for one in (facts.stable, facts.candidate) if one is not None and one.status is not None]
    return ReplicaCounts(
        desired=agent.spec.runtime.replicas,
        ready=sum(one.ready_replicas for one in found),
        available=sum(one.available_replicas for one in found),
    )


def _canary(agent: AgentRuntime, choice: Choice, facts: Facts) -> CanaryReplicas | None:
    if choice.candidate is None:
        return None
    replicas, _ = split_replicas(agent.spec.runtime.replicas, choice.weight)
    requests, errors = counts_of(facts.candidate, facts.reports)
    return CanaryReplicas(
        version=choice.candidate.revision.version,
        weight=choice.weight,
        replicas=replicas,
        ready=min(replicas, ready_replicas(facts.candidate)),
        requests=requests,
        errors=errors,
    )


def _conditions(agent: AgentRuntime, facts: Facts, conditions: Conditions) -> Conditions:
    """The conditions of the parts up to the one that failed."""
    problem = facts.problem
    for part, reason, message in _parts(facts):
        conditions = conditions.set(f"{part}Ready", True, reason, message)
    ref = agent.spec.tool_registry_ref
    if ref is None:
        conditions = conditions.remove("ToolRegistryReady")
    elif facts.has_registry:
        conditions = conditions.set("ToolRegistryReady", True, "ToolRegistryFound", f"ToolRegistry {ref.name} exists")
    elif facts.has_registry is False:
        message = f"ToolRegistry {ref.name} does not exist; the agent runs without tools"
        conditions = conditions.set("ToolRegistryReady", False, "ToolRegistryNotFound", message)
    if agent.spec.provider_ref is None:
        conditions = conditions.remove("ProviderReady")
    conditions = _session_store(agent, facts, conditions)
    return (
        conditions
        if problem is None
        else conditions.set(f"{problem.part}Ready", False, problem.reason, problem.message)
    )


def _session_store(agent: AgentRuntime, facts: Facts, conditions: Conditions) -> Conditions:
    session = agent.spec.session
    if session is None or session.type == "memory":
        return conditions.remove("SessionStoreReady")
    problem = next((one for one in facts.pod_problems if one.part == "session"), None)
    if problem is not None:
        return conditions.set("SessionStoreReady", False, "SessionStoreNotReady", problem.message)
    if _counts(agent, facts).ready > 0:
        return conditions.set("SessionStoreReady", True, "SessionStoreReady", f"pods reach the {session.type} store")
    return conditions.remove("SessionStoreReady")


def _parts(facts: Facts) -> Iterator[tuple[Part, str, str]]:
    """The parts that are ready: those before the one that failed."""
    failed = None if facts.problem is None else facts.problem.part
    if failed != "PromptPack" and facts.choice is not None:
        yield "PromptPack", "PromptPackFound", f"PromptPack {facts.choice.stable.pack.name} exists"
    if failed not in ("PromptPack", "Provider") and facts.choice is not None:
        yield "Provider", "ProviderFound", "the provider is ready"
    if failed not in ("PromptPack", "Provider", "Deployment"):
        yield "Deployment", "DeploymentCreated", "the Deployment is applied"
    if failed is None:
        yield "Service", "ServiceCreated", "the Service is applied"


def _ready(conditions: Conditions, facts: Facts, counts: ReplicaCounts) -> Conditions:
    if facts.problem is not None:
        return conditions.set("Ready", False, "RuntimeNotReady", facts.problem.message)
    if counts.ready > 0:
        return conditions.set("Ready", True, "RuntimeReady", "pods are ready")
    message = "; ".join(one.message for one in facts.pod_problems) or "Waiting for pods to be ready"
    return conditions.set("Ready", False, "RuntimeNotReady", message)
