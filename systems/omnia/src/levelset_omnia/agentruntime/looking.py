"""Everything that an agent depends on, read from the caches: its pack, its registry, its Secrets and its children."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from levelset import Context, Object, OnlyMetadata, Ref, find_condition
from levelset.kinds.apps_v1 import Deployment
from levelset.kinds.core_v1 import ConfigMap, Secret
from levelset_omnia.agentruntime.children import candidate_name, tools_name
from levelset_omnia.agentruntime.environment import secrets_of
from levelset_omnia.agentruntime.status import Problem
from levelset_omnia.hashing import config_hash, content_hash, secret_hash
from levelset_omnia.kinds import AgentRuntime, PromptPack, ToolRegistry
from levelset_omnia.promptpack import Choice, Use, select, wants_pack
from levelset_omnia.promptpack.selecting import PACKS

__all__ = ["Digests", "Found", "look", "registry_of", "secret_refs"]

T = TypeVar("T", bound=Object)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was found."""

    choice: Choice | None
    problem: Problem | None
    registry: ToolRegistry | None
    has_registry: bool | None
    stable: Deployment | None
    candidate: Deployment | None
    tools: ConfigMap | None


def registry_of(agent: AgentRuntime) -> Iterator[Ref[ToolRegistry]]:
    """The registry that an agent names."""
    ref = agent.spec.tool_registry_ref
    if ref is not None:
        yield Ref(ToolRegistry, ref.name, ref.namespace or agent.namespace)


def secret_refs(agent: AgentRuntime) -> Iterator[Ref[Secret]]:
    """The Secrets that an agent names."""
    for name in secrets_of(agent):
        yield Ref(Secret, name, agent.namespace)


async def look(agent: AgentRuntime, ctx: Context) -> Found:
    """Reads everything."""
    packs = list(await ctx.list(PromptPack, index=(PACKS, wants_pack(agent)[0])))
    choice = select(packs, agent.spec.prompt_pack_ref)
    problem = _pack_problem(agent, packs) if choice is None else await _unread(choice, ctx)
    named = next(registry_of(agent), None)
    registry = None if named is None else await ctx.find(named)
    place = agent.namespace
    return Found(
        choice=None if problem else choice,
        problem=problem,
        registry=registry,
        has_registry=None if named is None else registry is not None,
        stable=_own(agent, await ctx.find(Ref(Deployment, agent.name, place))),
        candidate=_own(agent, await ctx.find(Ref(Deployment, candidate_name(agent), place))),
        tools=_own(agent, await ctx.find(Ref(ConfigMap, tools_name(agent), place))),
    )


class Digests:
    """Makes the hash of what an agent reads when it starts.

    Secrets are read from the server when their version changes, and only their hashes are kept in memory.
    """

    def __init__(self) -> None:
        self._secrets: dict[Ref[Secret], tuple[str, str]] = {}

    async def of(self, agent: AgentRuntime, use: Use, ctx: Context) -> str:
        """The hash for Pods of one version."""
        prompts = use.revision.hash or await _hash_of(use, ctx)
        parts = {"prompts": prompts, "version": use.revision.version}
        for ref in secret_refs(agent):
            parts[f"secret/{ref.name}"] = await self._secret(ref, ctx)
        return config_hash(parts)

    async def _secret(self, ref: Ref[Secret], ctx: Context) -> str:
        head = await ctx.find(OnlyMetadata(Secret), ref.name, namespace=ref.namespace)
        if head is None:
            self._secrets.pop(ref, None)
            return ""
        version, known = self._secrets.get(ref, ("", ""))
        if version == head.metadata.resource_version:
            return known
        secret = await ctx.live(ref)
        if secret is None:
            return ""
        made = secret_hash(secret)
        self._secrets[ref] = secret.metadata.resource_version, made
        return made


async def _hash_of(use: Use, ctx: Context) -> str:
    found = await ctx.find(Ref(ConfigMap, use.revision.config_map, use.pack.namespace))
    return "" if found is None else content_hash(found)


async def _unread(choice: Choice, ctx: Context) -> Problem | None:
    """Whether a pack that nobody has looked at yet names prompts that are not there."""
    use = choice.stable
    if use.revision.hash or await ctx.find(Ref(ConfigMap, use.revision.config_map, use.pack.namespace)) is not None:
        return None
    words = f"PromptPack {use.pack.name}: ConfigMap {use.revision.config_map} is not there"
    return Problem("PromptPack", "PromptPackInvalid", words)


def _pack_problem(agent: AgentRuntime, packs: Sequence[PromptPack]) -> Problem:
    wanted = agent.spec.prompt_pack_ref
    for pack in packs:
        failed = find_condition(pack.status.conditions, "SourceValid") if pack.status else None
        if pack.status is not None and pack.status.phase == "Failed":
            words = f"PromptPack {pack.name}: {failed.message if failed else 'its source is wrong'}"
            return Problem("PromptPack", "PromptPackInvalid", words)
    if not packs:
        return Problem("PromptPack", "PromptPackNotFound", f"PromptPack {wanted.name} is not there")
    version = f"version {wanted.version}" if wanted.version else f"version on track {wanted.track}"
    return Problem("PromptPack", "PromptPackNotFound", f"PromptPack {wanted.name} has no {version}")


def _own(agent: AgentRuntime, child: T | None) -> T | None:
    """The child, unless it belongs to somebody else who happens to use its name."""
    uid = agent.metadata.uid
    owners = () if child is None else child.metadata.owner_references
    return child if any(one.uid == uid and one.controller for one in owners) else None
