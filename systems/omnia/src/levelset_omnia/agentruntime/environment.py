"""The environment of an agent's container and its tools file: the contract between operator and agent image."""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from msgspec import Struct

from levelset.kinds.core_v1 import EnvVar, EnvVarSource, SecretKeySelector
from levelset_omnia.kinds import AgentRuntime, Provider, ProviderDefaults, Tool, ToolRegistry
from levelset_omnia.promptpack import PackVersion, pack_name
from levelset_omnia.well_known import PROMPTS_PATH, TOOLS_PATH

__all__ = [
    "EffectiveProvider",
    "SecretSource",
    "effective_provider",
    "environment",
    "secret_sources",
    "tools_file",
]

_KEYS: Final = {"openai": "OPENAI_API_KEY", "claude": "ANTHROPIC_API_KEY", "gemini": "GEMINI_API_KEY"}
"""The usual key in the Secret of a provider, and the variable that has it."""


class EffectiveProvider(Struct, frozen=True, kw_only=True):
    """The provider of an agent: the one that it references, or its own."""

    type: str | None = None
    model: str | None = None
    base_url: str | None = None
    tuning: ProviderDefaults | None = None
    secret: str | None = None
    key: str | None = None


def environment(
    agent: AgentRuntime,
    version: PackVersion,
    registry: ToolRegistry | None,
    *,
    provider: EffectiveProvider | None = None,
    is_candidate: bool = False,
) -> tuple[EnvVar, ...]:
    """All environment variables, in the documented order."""
    return (
        *_base(agent, version),
        *([] if provider is None else _provider(provider)),
        *([] if registry is None else _tools(registry)),
        *_session(agent),
        *([EnvVar(name="OMNIA_VARIANT", value="candidate")] if is_candidate else []),
    )


class SecretSource(Struct, frozen=True):
    """A value that an agent reads from a Secret; `part` is what it is for: `provider` or `session`."""

    part: str
    secret: str
    key: str


def effective_provider(agent: AgentRuntime, referenced: Provider | None) -> EffectiveProvider | None:
    """The provider that an agent uses; None if it has none, and answers with a mock."""
    if referenced is not None:
        spec = referenced.spec
        return EffectiveProvider(
            type=spec.type,
            model=spec.model,
            base_url=spec.base_url,
            tuning=spec.defaults,
            secret=spec.secret_ref.name,
            key=spec.secret_ref.key,
        )
    own = agent.spec.provider
    if own is None or agent.spec.provider_ref is not None:
        return None
    secret = None if own.secret_ref is None else own.secret_ref.name
    return EffectiveProvider(type=own.type, model=own.model, base_url=own.base_url, tuning=own.config, secret=secret)


def secret_sources(agent: AgentRuntime, provider: EffectiveProvider | None) -> Iterator[SecretSource]:
    """The Secrets that environment variables reference, with their keys."""
    if provider is not None and provider.secret is not None:
        yield SecretSource("provider", provider.secret, provider.key or _KEYS.get(provider.type or "", "api-key"))
    session = agent.spec.session
    if session is not None and session.store_ref is not None:
        yield SecretSource("session", session.store_ref.name, "url")


def tools_file(registry: ToolRegistry) -> str:
    """The content of the tools file: the available tools with their endpoints, as JSON."""
    tools = {tool.name: tool for tool in registry.spec.tools}
    found = registry.status.discovered_tools if registry.status is not None else ()
    usable = [
        _tool(tools[one.name], one.endpoint, one.type or tools[one.name].type, one.description)
        for one in found
        if one.status == "Available" and one.name in tools
    ]
    return json.dumps({"tools": usable}, indent=2, sort_keys=True) + "\n"


def _base(agent: AgentRuntime, version: PackVersion) -> Iterable[EnvVar]:
    spec = agent.spec
    yield EnvVar(name="OMNIA_AGENT_NAME", value=agent.name)
    yield EnvVar(name="OMNIA_NAMESPACE", value=agent.namespace or "")
    yield EnvVar(name="OMNIA_PROMPTPACK_NAME", value=pack_name(version.pack))
    yield EnvVar(name="OMNIA_PROMPTPACK_VERSION", value=version.revision.version)
    yield EnvVar(name="OMNIA_PROMPTS_PATH", value=PROMPTS_PATH)
    yield EnvVar(name="OMNIA_FACADE_TYPE", value=spec.facade.type)
    yield EnvVar(name="OMNIA_FACADE_PORT", value=str(spec.facade.port))


def _provider(provider: EffectiveProvider) -> Iterable[EnvVar]:
    tuning = provider.tuning or ProviderDefaults()
    values = {
        "TYPE": provider.type,
        "MODEL": provider.model,
        "BASE_URL": provider.base_url,
        "TEMPERATURE": tuning.temperature,
        "TOP_P": tuning.top_p,
        "MAX_TOKENS": None if tuning.max_tokens is None else str(tuning.max_tokens),
    }
    yield from (EnvVar(name=f"OMNIA_PROVIDER_{name}", value=value) for name, value in values.items() if value)
    if provider.secret is None:
        return
    usual = _KEYS.get(provider.type or "")
    if provider.key is not None or usual is None:
        yield _from_secret("OMNIA_PROVIDER_API_KEY", provider.secret, provider.key or "api-key")
        return
    # Either key will do, as upstream; without both the agent reports that it has none.
    yield _from_secret(usual, provider.secret, usual, optional=True)
    yield _from_secret("OMNIA_PROVIDER_API_KEY", provider.secret, "api-key", optional=True)


def _tools(registry: ToolRegistry) -> Iterable[EnvVar]:
    yield EnvVar(name="OMNIA_TOOLREGISTRY_NAME", value=registry.name)
    yield EnvVar(name="OMNIA_TOOLREGISTRY_NAMESPACE", value=registry.namespace or "")
    yield EnvVar(name="OMNIA_TOOLS_PATH", value=TOOLS_PATH)


def _session(agent: AgentRuntime) -> Iterable[EnvVar]:
    session = agent.spec.session
    if session is None:
        return
    yield EnvVar(name="OMNIA_SESSION_TYPE", value=session.type)
    yield EnvVar(name="OMNIA_SESSION_TTL", value=session.ttl)
    if session.store_ref is not None:
        yield _from_secret("OMNIA_SESSION_STORE_URL", session.store_ref.name, "url")


def _from_secret(name: str, secret: str, key: str, *, optional: bool = False) -> EnvVar:
    selector = SecretKeySelector(name=secret, key=key, optional=True if optional else None)
    return EnvVar(name=name, value_from=EnvVarSource(secret_key_ref=selector))


def _tool(tool: Tool, endpoint: str, kind: str, description: str) -> dict[str, Any]:
    schema = tool.schema
    optional = {
        "description": description,
        "input": None if schema is None else schema.input,
        "output": None if schema is None else schema.output,
    }
    rest = {name: value for name, value in optional.items() if value}
    return {
        "name": tool.name,
        "type": kind,
        "endpoint": endpoint,
        "timeout": tool.timeout,
        "retries": tool.retries,
        **rest,
    }
