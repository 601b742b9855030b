"""The reconciler of PromptPacks: validates the source, advances the rollout, and writes the status."""

from collections.abc import Iterator

from levelset import Action, Context, Controller, GiveUp, Ref, Retry, by, matches, references, requeue
from levelset.kinds.core_v1 import ConfigMap
from levelset_omnia.kinds import AgentRuntime, PromptPack, Revision
from levelset_omnia.options import Options
from levelset_omnia.promptpack.selection import AGENTS, PACKS, agent_pack_keys, pack_keys
from levelset_omnia.promptpack.source import Problem, check_source, content_hash
from levelset_omnia.promptpack.status import StatusInputs, decide, status_events

__all__ = ["config_maps", "prompt_packs_controller"]


def prompt_packs_controller(options: Options | None = None) -> Controller[PromptPack]:
    """The controller of PromptPacks."""
    chosen = options or Options()
    return Controller(
        PromptPack,
        _Reconciler(chosen).reconcile,
        references(ConfigMap, config_maps),
        matches(AgentRuntime, ours=pack_keys, theirs=agent_pack_keys, when=by.value(_agent_changes), indexes=[AGENTS]),
        matches(PromptPack, ours=pack_keys, theirs=pack_keys, when=by.value(_version_changes), indexes=[PACKS]),
        name="promptpacks",
        concurrency=chosen.workers,
        backoff=chosen.backoff,
    )


def config_maps(pack: PromptPack) -> Iterator[Ref[ConfigMap]]:
    """The ConfigMaps that a pack depends on: that of its spec, and that of its active revision."""
    named = pack.spec.source.config_map_ref
    if named is not None:
        yield Ref(ConfigMap, named.name, pack.namespace)
    if pack.status is not None and pack.status.active is not None:
        yield Ref(ConfigMap, pack.status.active.config_map, pack.namespace)


class _Reconciler:
    def __init__(self, options: Options) -> None:
        self._wait = options.dependency_seconds

    async def reconcile(self, pack: PromptPack, ctx: Context) -> Action | None:
        """Reconciles one pack."""
        inputs = await _read_inputs(pack, ctx)
        decision = decide(pack, inputs)
        await ctx.set_status(pack, decision.status)
        for event in status_events(pack.status, decision.status):
            ctx.record(pack, event.reason, event.message, warning=event.warning)
        if isinstance(inputs.source, Problem):
            if inputs.source.missing:
                raise Retry(inputs.source.message, seconds=self._wait)
            raise GiveUp(inputs.source.message)
        if decision.is_held:
            return requeue(self._wait)
        return None if decision.after is None else requeue(decision.after)


async def _read_inputs(pack: PromptPack, ctx: Context) -> StatusInputs:
    key = pack_keys(pack)[0]
    return StatusInputs(
        source=check_source(pack, await _config_map(pack, ctx)),
        active=await _active(pack, ctx),
        versions=list(await ctx.list(PromptPack, index=(PACKS, key))),
        agents=list(await ctx.list(AgentRuntime, index=(AGENTS, key))),
        now=ctx.now(),
    )


async def _config_map(pack: PromptPack, ctx: Context) -> ConfigMap | None:
    named = pack.spec.source.config_map_ref
    return None if named is None else await ctx.find(Ref(ConfigMap, named.name, pack.namespace))


async def _active(pack: PromptPack, ctx: Context) -> Revision | None:
    """The active revision, with the current hash of its ConfigMap.

    If the spec references the same ConfigMap, the hash stays: Pods of the active version that a changed hash would
    replace would read the prompts of the new version.
    """
    active, named = None if pack.status is None else pack.status.active, pack.spec.source.config_map_ref
    if active is None or (named is not None and named.name == active.config_map):
        return active
    found = await ctx.find(Ref(ConfigMap, active.config_map, pack.namespace))
    if found is None:
        return active
    return Revision(version=active.version, config_map=active.config_map, hash=content_hash(found))


def _agent_changes(agent: AgentRuntime) -> object:
    """The parts of an agent whose change requeues its pack."""
    status, spec = agent.status, agent.spec
    progress = None if status is None else (status.phase, status.active_version, status.canary)
    return spec.prompt_pack_ref, spec.runtime.replicas, progress


def _version_changes(pack: PromptPack) -> object:
    """The parts of a PromptPack whose change requeues other versions of the pack."""
    status = pack.status
    rollout = None if status is None else (status.phase, status.active, status.canary, status.canary_weight)
    return pack.metadata.labels, pack.spec.version, pack.metadata.deletion_timestamp is None, rollout
