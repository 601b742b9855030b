"""Looks at an AgentRuntime: finds what it needs, builds what it consists of, and tells how it is."""

from dataclasses import replace
from typing import Literal

from levelset import (
    Action,
    ApiError,
    Conflict,
    Context,
    Controller,
    GiveUp,
    Invalid,
    Retry,
    Unreachable,
    by,
    matches,
    owns,
    references,
    requeue,
)
from levelset.kinds.apps_v1 import Deployment
from levelset.kinds.core_v1 import ConfigMap, Secret, Service
from levelset_omnia.agentruntime.children import Plan
from levelset_omnia.agentruntime.looking import Digests, Found, look, registry_of, secret_refs
from levelset_omnia.agentruntime.splitting import arrange, is_rolled_out
from levelset_omnia.agentruntime.status import Facts, Problem, agent_status, notes
from levelset_omnia.kinds import AgentRuntime, PromptPack, ToolRegistry
from levelset_omnia.naming import AGENT_FINALIZER
from levelset_omnia.options import Options
from levelset_omnia.promptpack import Choice, offers_pack, wants_pack
from levelset_omnia.promptpack.selecting import PACKS

__all__ = ["agent_runtimes_controller"]


def agent_runtimes_controller(options: Options | None = None) -> Controller[AgentRuntime]:
    """The controller of AgentRuntimes."""
    chosen = options or Options()
    return Controller(
        AgentRuntime,
        _Reconciler(chosen).reconcile,
        owns(Deployment, metadata_only=False),
        owns(Service),
        owns(ConfigMap, metadata_only=False),
        matches(PromptPack, ours=wants_pack, theirs=offers_pack, when=by.value(_offer_of), indexes=[PACKS]),
        references(ToolRegistry, registry_of, when=by.value(_tools_of)),
        references(Secret, secret_refs, metadata_only=True),
        cleanup=_take_down,
        finalizer=AGENT_FINALIZER,
        name="agentruntimes",
        concurrency=chosen.workers,
        backoff=chosen.backoff,
    )


class _Reconciler:
    def __init__(self, options: Options) -> None:
        self._options = options
        self._digests = Digests()

    async def reconcile(self, agent: AgentRuntime, ctx: Context) -> Action | None:
        """Looks at one agent."""
        found = await look(agent, ctx)
        facts = Facts(
            choice=found.choice,
            has_registry=found.has_registry,
            stable=found.stable,
            candidate=found.candidate,
            problem=found.problem,
        )
        wait = self._options.dependency_seconds
        if found.choice is None:
            await _tell(agent, facts, ctx)
            raise Retry(found.problem.message if found.problem else "its PromptPack is not there", seconds=wait)
        await self._build(agent, found, found.choice, facts, ctx)
        return requeue(wait) if found.has_registry is False else None

    async def _build(self, agent: AgentRuntime, found: Found, choice: Choice, facts: Facts, ctx: Context) -> None:
        """Makes the children as they should be, and tells how that went."""
        plan = Plan(agent, found.registry, self._options)
        part: Literal["Deployment", "Service"] = "Deployment"
        try:
            stable, candidate = await self._deploy(agent, plan, found, choice, ctx)
            facts = replace(facts, stable=stable, candidate=candidate)
            part = "Service"
            await ctx.apply(plan.service(), owner=agent)
        except Conflict:
            raise  # somebody else was first, which is no failure: it is looked at again
        except (ApiError, Unreachable) as error:
            await _tell_failure(agent, replace(facts, problem=Problem(part, f"{part}Failed", str(error))), ctx)
            if isinstance(error, Invalid):
                raise GiveUp(f"{part} of {agent.name}: {error}") from error
            raise
        await _tell(agent, facts, ctx)

    async def _deploy(
        self, agent: AgentRuntime, plan: Plan, found: Found, choice: Choice, ctx: Context
    ) -> tuple[Deployment, Deployment | None]:
        """Brings the Pods of both versions to their numbers: the candidate's first, so that there are never too few."""
        tools = plan.tools()
        if tools is not None:
            await ctx.apply(tools, owner=agent)
        total, tried, kept = agent.spec.runtime.replicas, choice.candidate, found.candidate
        arranged = arrange(total, weight=None if tried is None else choice.weight, candidate=kept)
        if tried is not None and arranged.candidate:
            digest = await self._digests.of(agent, tried, ctx)
            kept = await ctx.apply(plan.candidate(tried, replicas=arranged.candidate, digest=digest), owner=agent)
        digest = await self._digests.of(agent, choice.stable, ctx)
        stable = await ctx.apply(plan.stable(choice.stable, replicas=arranged.stable, digest=digest), owner=agent)
        if kept is not None and not arranged.candidate and is_rolled_out(stable, total):
            await ctx.delete(kept)
            kept = None
        if tools is None and found.tools is not None:
            await ctx.delete(found.tools)
        return stable, kept


async def _take_down(agent: AgentRuntime, ctx: Context) -> None:
    """Is called before an agent disappears; what it consists of is owned by it, and goes with it."""
    ctx.record(agent, "Deleted", f"the Deployment and the Service of {agent.name} go with it")


async def _tell(agent: AgentRuntime, facts: Facts, ctx: Context) -> None:
    status = agent_status(agent, facts, now=ctx.now())
    await ctx.set_status(agent, status)
    for note in notes(agent.status, status, facts.problem):
        ctx.record(agent, note.reason, note.message, warning=note.warning)


async def _tell_failure(agent: AgentRuntime, facts: Facts, ctx: Context) -> None:
    """Tells what went wrong, if the server can be told at all."""
    try:
        await _tell(agent, facts, ctx)
    except (ApiError, Unreachable) as error:
        ctx.log.warning("the failure of a child was not told", error=str(error))


def _offer_of(pack: PromptPack) -> object:
    """What of a pack concerns the agents that use it."""
    status = pack.status
    told = None if status is None else (status.phase, status.active, status.canary, status.canary_weight)
    failed = None if status is None else next((one for one in status.conditions if one.type == "SourceValid"), None)
    return pack.metadata.labels, pack.spec, pack.metadata.deletion_timestamp is None, told, failed


def _tools_of(registry: ToolRegistry) -> object:
    """What of a registry concerns the agents that use it."""
    return registry.spec, None if registry.status is None else registry.status.discovered_tools
