"""The dependencies of an agent, read from the cache: its pack, its registry, its Secrets and its children."""

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TypeVar

from msgspec import Struct

from levelset import Context, Object, OnlyMetadata, Ref
from levelset.kinds.apps_v1 import Deployment
from levelset.kinds.core_v1 import ConfigMap, Secret
from levelset.objects import find_condition
from levelset_omnia.agentruntime.children import candidate_name, tools_name
from levelset_omnia.agentruntime.environment import EffectiveProvider, effective_provider, secret_sources
from levelset_omnia.agentruntime.pod_reports import PodProblem
from levelset_omnia.agentruntime.status import Problem
from levelset_omnia.kinds import AgentRuntime, PromptPack, Provider, ToolRegistry
from levelset_omnia.promptpack import Choice, PackVersion, agent_pack_keys, config_hash, content_hash, select
from levelset_omnia.promptpack.selection import PACKS

__all__ = [
    "ConfigHashes",
    "Dependencies",
    "missing_secrets",
    "provider_of",
    "read_dependencies",
    "registry_of",
    "secret_hash",
    "secret_refs",
]

T = TypeVar("T", bound=Object)


class Dependencies(Struct, frozen=True, kw_only=True):
    """What an agent depends on, and its current children."""

    choice: Choice | None
    problem: Problem | None
    registry: ToolRegistry | None
    has_registry: bool | None
    provider: EffectiveProvider | None
    stable: Deployment | None
    candidate: Deployment | None
    tools: ConfigMap | None


def registry_of(agent: AgentRuntime) -> Iterator[Ref[ToolRegistry]]:
    """The registry that an agent references."""
    ref = agent.spec.tool_registry_ref
    if ref is not None:
        yield Ref(ToolRegistry, ref.name, ref.namespace or agent.namespace)


def provider_of(agent: AgentRuntime) -> Iterator[Ref[Provider]]:
    """The Provider that an agent references."""
    ref = agent.spec.provider_ref
    if ref is not None:
        yield Ref(Provider, ref.name, ref.namespace or agent.namespace)


def secret_refs(agent: AgentRuntime) -> Iterator[Ref[Secret]]:
    """The Secrets that an agent references itself; that of its Provider is watched by the Provider."""
    for source in secret_sources(agent, effective_provider(agent, None)):
        yield Ref(Secret, source.secret, agent.namespace)


async def missing_secrets(
    agent: AgentRuntime, provider: EffectiveProvider | None, ctx: Context
) -> AsyncIterator[PodProblem]:
    """The Secrets that an agent references and that do not exist: its Pods wait for them."""
    for source in secret_sources(agent, provider):
        if await ctx.find(OnlyMetadata(Secret), source.secret, namespace=agent.namespace) is None:
            message = f"Secret {source.secret} does not exist; create it with the key {source.key}"
            yield PodProblem(source.part, message)


async def read_dependencies(agent: AgentRuntime, ctx: Context) -> Dependencies:
    """Reads the dependencies and children of an agent."""
    packs = list(await ctx.list(PromptPack, index=(PACKS, agent_pack_keys(agent)[0])))
    choice = select(packs, agent.spec.prompt_pack_ref)
    problem = _pack_problem(agent, packs) if choice is None else await _source_problem(choice, ctx)
    provider = next(provider_of(agent), None)
    referenced = None if provider is None else await ctx.find(provider)
    problem = problem or (None if provider is None else _provider_problem(provider, referenced))
    named = next(registry_of(agent), None)
    registry = None if named is None else await ctx.find(named)
    namespace = agent.namespace
    return Dependencies(
        choice=None if problem else choice,
        problem=problem,
        registry=registry,
        has_registry=None if named is None else registry is not None,
        provider=effective_provider(agent, referenced),
        stable=_own(agent, await ctx.find(Ref(Deployment, agent.name, namespace))),
        candidate=_own(agent, await ctx.find(Ref(Deployment, candidate_name(agent), namespace))),
        tools=_own(agent, await ctx.find(Ref(ConfigMap, tools_name(agent), namespace))),
    )


class ConfigHashes:
    """Computes the hash of what an agent reads when it starts.

    Secrets are read from the server when their resourceVersion changes; only their hashes stay in memory.
    """

    def __init__(self) -> None:
        self._secrets: dict[Ref[Secret], tuple[str, str]] = {}

    async def of(
        self, agent: AgentRuntime, version: PackVersion, provider: EffectiveProvider | None, ctx: Context
    ) -> str:
        """The hash for the Pods of one version."""
        prompts = version.revision.hash or await _prompts_hash(version, ctx)
        parts = {"prompts": prompts, "version": version.revision.version}
        for source in secret_sources(agent, provider):
            ref = Ref(Secret, source.secret, agent.namespace)
            parts[f"secret/{ref.name}"] = await self._secret(ref, ctx)
        return config_hash(parts)

    async def _secret(self, ref: Ref[Secret], ctx: Context) -> str:
        head = await ctx.find(OnlyMetadata(Secret), ref.name, namespace=ref.namespace)
        if head is None:
            self._secrets.pop(ref, None)
            return ""
        read_version, digest = self._secrets.get(ref, ("", ""))
        if read_version == head.metadata.resource_version:
            return digest
        secret = await ctx.live(ref)
        if secret is None:
            return ""
        digest = secret_hash(secret)
        self._secrets[ref] = secret.metadata.resource_version, digest
        return digest


def secret_hash(secret: Secret) -> str:
    """The hash of the content of a Secret; it does not reveal the values, as it is only a part of another hash."""
    return config_hash({name: value.hex() for name, value in secret.data.items()})


async def _prompts_hash(version: PackVersion, ctx: Context) -> str:
    found = await ctx.find(Ref(ConfigMap, version.revision.config_map, version.pack.namespace))
    return "" if found is None else content_hash(found)


async def _source_problem(choice: Choice, ctx: Context) -> Problem | None:
    """The problem of a pack that was not reconciled yet, if its ConfigMap does not exist."""
    version = choice.stable
    if (
        version.revision.hash
        or await ctx.find(Ref(ConfigMap, version.revision.config_map, version.pack.namespace)) is not None
    ):
        return None
    message = f"PromptPack {version.pack.name}: ConfigMap {version.revision.config_map} does not exist"
    return Problem("PromptPack", "PromptPackInvalid", message)


def _provider_problem(ref: Ref[Provider], found: Provider | None) -> Problem | None:
    """The problem of a Provider; one that was not reconciled yet has none."""
    if found is None:
        return Problem("Provider", "ProviderNotFound", f"Provider {ref.name} does not exist in {ref.namespace}")
    if found.status is None or found.status.phase != "Error":
        return None
    failed = find_condition(found.status.conditions, "SecretFound")
    message = failed.message if failed is not None else "its status has the reason"
    return Problem("Provider", "ProviderNotReady", f"Provider {ref.name} is not ready: {message}")


def _pack_problem(agent: AgentRuntime, packs: Sequence[PromptPack]) -> Problem:
    wanted = agent.spec.prompt_pack_ref
    for pack in packs:
        failed = find_condition(pack.status.conditions, "SourceValid") if pack.status else None
        if pack.status is not None and pack.status.phase == "Failed":
            message = f"PromptPack {pack.name}: {failed.message if failed else 'its source is invalid'}"
            return Problem("PromptPack", "PromptPackInvalid", message)
    if not packs:
        return Problem("PromptPack", "PromptPackNotFound", f"PromptPack {wanted.name} does not exist")
    version = f"version {wanted.version}" if wanted.version else f"version on track {wanted.track}"
    return Problem("PromptPack", "PromptPackNotFound", f"PromptPack {wanted.name} has no {version}")


def _own(agent: AgentRuntime, child: T | None) -> T | None:
    """The child; None if another owner has an object with its name."""
    uid = agent.metadata.uid
    owners = () if child is None else child.metadata.owner_references
    return child if any(one.uid == uid and one.controller for one in owners) else None
