"""Looks at a PromptPack: checks its prompts, takes the next step of its rollout, and tells how it is."""

from collections.abc import Iterator

from levelset import Action, Context, Controller, GiveUp, Ref, Retry, by, matches, references, requeue
from levelset.kinds.core_v1 import ConfigMap
from levelset_omnia.hashing import content_hash
from levelset_omnia.kinds import AgentRuntime, PromptPack, Revision
from levelset_omnia.options import Options
from levelset_omnia.promptpack.selecting import AGENTS, PACKS, offers_pack, wants_pack
from levelset_omnia.promptpack.source import Problem, check_source
from levelset_omnia.promptpack.status import Known, decide, notes

__all__ = ["config_maps", "prompt_packs_controller"]


def prompt_packs_controller(options: Options | None = None) -> Controller[PromptPack]:
    """The controller of PromptPacks."""
    chosen = options or Options()
    return Controller(
        PromptPack,
        _Reconciler(chosen).reconcile,
        references(ConfigMap, config_maps),
        matches(AgentRuntime, ours=offers_pack, theirs=wants_pack, when=by.value(_progress_of), indexes=[AGENTS]),
        matches(PromptPack, ours=offers_pack, theirs=offers_pack, when=by.value(_offer_of), indexes=[PACKS]),
        name="promptpacks",
        concurrency=chosen.workers,
        backoff=chosen.backoff,
    )


def config_maps(pack: PromptPack) -> Iterator[Ref[ConfigMap]]:
    """The ConfigMaps that a pack depends on: that of its version, and that of the version that is active."""
    named = pack.spec.source.config_map_ref
    if named is not None:
        yield Ref(ConfigMap, named.name, pack.namespace)
    if pack.status is not None and pack.status.active is not None:
        yield Ref(ConfigMap, pack.status.active.config_map, pack.namespace)


class _Reconciler:
    def __init__(self, options: Options) -> None:
        self._wait = options.dependency_seconds

    async def reconcile(self, pack: PromptPack, ctx: Context) -> Action | None:
        """Looks at one pack."""
        known = await _look(pack, ctx)
        decision = decide(pack, known)
        await ctx.set_status(pack, decision.status)
        for note in notes(pack.status, decision.status):
            ctx.record(pack, note.reason, note.message, warning=note.warning)
        if isinstance(known.source, Problem):
            if known.source.missing:
                raise Retry(known.source.message, seconds=self._wait)
            raise GiveUp(known.source.message)
        if decision.is_held:
            return requeue(self._wait)
        return None if decision.after is None else requeue(decision.after)


async def _look(pack: PromptPack, ctx: Context) -> Known:
    key = offers_pack(pack)[0]
    return Known(
        source=check_source(pack, await _named(pack, ctx)),
        active=await _active(pack, ctx),
        versions=list(await ctx.list(PromptPack, index=(PACKS, key))),
        agents=list(await ctx.list(AgentRuntime, index=(AGENTS, key))),
        now=ctx.now(),
    )


async def _named(pack: PromptPack, ctx: Context) -> ConfigMap | None:
    named = pack.spec.source.config_map_ref
    return None if named is None else await ctx.find(Ref(ConfigMap, named.name, pack.namespace))


async def _active(pack: PromptPack, ctx: Context) -> Revision | None:
    """What is active, as its ConfigMap is now.

    If the pack's new version is in the same ConfigMap, the hash stays as it was: Pods of the active version that were
    replaced because of it would read the new one.
    """
    active, named = None if pack.status is None else pack.status.active, pack.spec.source.config_map_ref
    if active is None or (named is not None and named.name == active.config_map):
        return active
    found = await ctx.find(Ref(ConfigMap, active.config_map, pack.namespace))
    if found is None:
        return active
    return Revision(version=active.version, config_map=active.config_map, hash=content_hash(found))


def _progress_of(agent: AgentRuntime) -> object:
    """What of an agent concerns its pack: which version it wants, and how far it has come with it."""
    status, spec = agent.status, agent.spec
    told = None if status is None else (status.phase, status.active_version, status.canary)
    return spec.prompt_pack_ref, spec.runtime.replicas, told


def _offer_of(pack: PromptPack) -> object:
    """What of a pack concerns other versions of it."""
    status = pack.status
    told = None if status is None else (status.phase, status.active, status.canary, status.canary_weight)
    return pack.metadata.labels, pack.spec.version, pack.metadata.deletion_timestamp is None, told
