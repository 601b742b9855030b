"""The reconciler of AgentRuntimes: reads the dependencies, applies the children, and writes the status."""

from typing import Literal

from levelset import (
    Action,
    ApiError,
    Conflict,
    Context,
    Controller,
    GiveUp,
    Retry,
    by,
    matches,
    owns,
    references,
    replace,
    requeue,
)
from levelset.errors import Invalid, Unreachable
from levelset.kinds.apps_v1 import Deployment
from levelset.kinds.core_v1 import ConfigMap, Pod, Secret, Service
from levelset_omnia.agentruntime.children import ChildBuilder, is_rolled_out, plan_replicas
from levelset_omnia.agentruntime.dependencies import (
    ConfigHashes,
    Dependencies,
    missing_secrets,
    provider_of,
    read_dependencies,
    registry_of,
    secret_refs,
)
from levelset_omnia.agentruntime.environment import EffectiveProvider
from levelset_omnia.agentruntime.pod_reports import ReadReport, read_report, read_reports
from levelset_omnia.agentruntime.status import Facts, Problem, agent_status, status_events
from levelset_omnia.kinds import AgentRuntime, PromptPack, Provider, ToolRegistry
from levelset_omnia.options import Options
from levelset_omnia.promptpack import Choice, agent_pack_keys, pack_keys
from levelset_omnia.promptpack.selection import PACKS
from levelset_omnia.well_known import AGENT_FINALIZER, selector_of

__all__ = ["agent_runtimes_controller", "needs_reports"]


def agent_runtimes_controller(
    options: Options | None = None, *, read: ReadReport = read_report
) -> Controller[AgentRuntime]:
    """The controller of AgentRuntimes; `read` reads the report of a Pod."""
    chosen = options or Options()
    return Controller(
        AgentRuntime,
        _Reconciler(chosen, read).reconcile,
        owns(Deployment, metadata_only=False),
        owns(Service),
        owns(ConfigMap, metadata_only=False),
        matches(PromptPack, ours=agent_pack_keys, theirs=pack_keys, when=by.value(_pack_changes), indexes=[PACKS]),
        references(ToolRegistry, registry_of, when=by.value(_tool_changes)),
        references(Provider, provider_of, when=by.value(_provider_changes)),
        references(Secret, secret_refs, metadata_only=True),
        cleanup=_clean_up,
        finalizer=AGENT_FINALIZER,
        name="agentruntimes",
        concurrency=chosen.workers,
        backoff=chosen.backoff,
    )


class _Reconciler:
    def __init__(self, options: Options, read: ReadReport) -> None:
        self._options = options
        self._read = read
        self._hashes = ConfigHashes()

    async def reconcile(self, agent: AgentRuntime, ctx: Context) -> Action | None:
        """Reconciles one agent."""
        found = await read_dependencies(agent, ctx)
        facts = Facts(
            choice=found.choice,
            has_registry=found.has_registry,
            stable=found.stable,
            candidate=found.candidate,
            problem=found.problem,
        )
        wait = self._options.dependency_seconds
        if found.choice is None:
            await _write_status(agent, facts, ctx)
            raise Retry(found.problem.message if found.problem else "its PromptPack does not exist", seconds=wait)
        applied = await self._apply(agent, found, found.choice, facts, ctx)
        is_reported = needs_reports(agent, applied)
        if is_reported:
            applied = await self._read_pods(agent, found.provider, applied, ctx)
        await _write_status(agent, applied, ctx)
        waits = [
            *([wait] if found.has_registry is False else []),
            *([self._options.report_seconds] if is_reported else []),
        ]
        return requeue(min(waits)) if waits else None

    async def _apply(
        self, agent: AgentRuntime, found: Dependencies, choice: Choice, facts: Facts, ctx: Context
    ) -> Facts:
        """Applies the children; returns the facts with the applied ones."""
        children = ChildBuilder(agent, found.registry, self._options, provider=found.provider)
        part: Literal["Deployment", "Service"] = "Deployment"
        try:
            stable, candidate = await self._deploy(agent, children, found, choice, ctx)
            facts = replace(facts, stable=stable, candidate=candidate)
            part = "Service"
            await ctx.apply(children.service(), owner=agent)
        except Conflict:
            raise  # another writer was first: not a failure of the agent, it is requeued
        except (ApiError, Unreachable) as error:
            await _write_failure(agent, replace(facts, problem=Problem(part, f"{part}Failed", str(error))), ctx)
            if isinstance(error, Invalid):
                raise GiveUp(f"{part} of {agent.name}: {error}") from error
            raise
        return facts

    async def _read_pods(
        self, agent: AgentRuntime, provider: EffectiveProvider | None, facts: Facts, ctx: Context
    ) -> Facts:
        """Adds what the Pods report, and the Secrets that they wait for."""
        # Live: Pods are not watched, since only the few agents that do not run yet, or run a canary, need them.
        pods = await ctx.client.list(Pod, namespace=agent.namespace, labels=selector_of(agent.name))
        reports = await read_reports(pods, agent.spec.facade.port, self._read)
        missing = [one async for one in missing_secrets(agent, provider, ctx)]
        return replace(facts, reports=tuple(reports), missing=tuple(missing))

    async def _deploy(
        self, agent: AgentRuntime, children: ChildBuilder, found: Dependencies, choice: Choice, ctx: Context
    ) -> tuple[Deployment, Deployment | None]:
        """Scales both Deployments, the candidate first, so that there are never too few ready Pods."""
        tools = children.tools()
        if tools is not None:
            await ctx.apply(tools, owner=agent)
        total, canary, candidate = agent.spec.runtime.replicas, choice.candidate, found.candidate
        planned = plan_replicas(total, weight=None if canary is None else choice.weight, candidate=candidate)
        if canary is not None and planned.candidate:
            digest = await self._hashes.of(agent, canary, found.provider, ctx)
            built = children.candidate(canary, replicas=planned.candidate, digest=digest)
            candidate = await ctx.apply(built, owner=agent)
        digest = await self._hashes.of(agent, choice.stable, found.provider, ctx)
        built = children.stable(choice.stable, replicas=planned.stable, digest=digest)
        stable = await ctx.apply(built, owner=agent)
        if candidate is not None and not planned.candidate and is_rolled_out(stable, total):
            await ctx.delete(candidate)
            candidate = None
        if tools is None and found.tools is not None:
            await ctx.delete(found.tools)
        return stable, candidate


def needs_reports(agent: AgentRuntime, facts: Facts) -> bool:
    """Whether the reports of its Pods are read: while none is ready, and while a canary is judged by its errors."""
    statuses = [one.status for one in (facts.stable, facts.candidate) if one is not None and one.status is not None]
    if agent.spec.runtime.replicas and not any(one.ready_replicas for one in statuses):
        return True
    candidate = None if facts.choice is None else facts.choice.candidate
    strategy = None if candidate is None else candidate.pack.spec.rollout.canary
    return strategy is not None and strategy.rollback is not None


async def _clean_up(agent: AgentRuntime, ctx: Context) -> None:
    """Records the deletion; the garbage collector deletes the children by their owner references."""
    ctx.record(agent, "Deleted", f"the Deployment and the Service of {agent.name} are deleted with it")


async def _write_status(agent: AgentRuntime, facts: Facts, ctx: Context) -> None:
    status = agent_status(agent, facts, now=ctx.now())
    await ctx.set_status(agent, status)
    for event in status_events(agent.status, status, facts):
        ctx.record(agent, event.reason, event.message, warning=event.warning)


async def _write_failure(agent: AgentRuntime, facts: Facts, ctx: Context) -> None:
    """Writes the status of a failure; only logs if that fails too, so that the first error is raised."""
    try:
        await _write_status(agent, facts, ctx)
    except (ApiError, Unreachable) as error:
        ctx.log.warning("status of a failed child was not written", error=str(error))


def _pack_changes(pack: PromptPack) -> object:
    """The parts of a pack whose change requeues its agents."""
    status = pack.status
    rollout = None if status is None else (status.phase, status.active, status.canary, status.canary_weight)
    failed = None if status is None else next((one for one in status.conditions if one.type == "SourceValid"), None)
    return pack.metadata.labels, pack.spec, pack.metadata.deletion_timestamp is None, rollout, failed


def _provider_changes(provider: Provider) -> object:
    """The parts of a Provider whose change requeues its agents."""
    status = provider.status
    return provider.spec, None if status is None else (status.phase, status.secret_version)


def _tool_changes(registry: ToolRegistry) -> object:
    """The parts of a registry whose change requeues its agents."""
    return registry.spec, None if registry.status is None else registry.status.discovered_tools
