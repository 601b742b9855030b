"""The environment of an agent's container and its tools file: the contract between operator and agent image."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from levelset.kinds.core_v1 import EnvVar, EnvVarSource, SecretKeySelector
from levelset_omnia.kinds import AgentRuntime, Tool, ToolRegistry
from levelset_omnia.promptpack import PackVersion, pack_name
from levelset_omnia.well_known import PROMPTS_PATH, TOOLS_PATH

__all__ = ["SecretSource", "environment", "secret_sources", "tools_file"]


def environment(
    agent: AgentRuntime, version: PackVersion, registry: ToolRegistry | None, *, is_candidate: bool = False
) -> tuple[EnvVar, ...]:
    """All environment variables, in the documented order."""
    return (
        *_base(agent, version),
        *([] if registry is None else _tools(registry)),
        *_session(agent),
        *([EnvVar(name="OMNIA_VARIANT", value="candidate")] if is_candidate else []),
    )


class SecretSource(Struct, frozen=True):
    """A value that an agent reads from a Secret; `part` is what it is for: `provider` or `session`."""

    part: str
    secret: str
    key: str


def secret_sources(agent: AgentRuntime) -> Iterator[SecretSource]:
    """The Secrets that environment variables reference, with their keys."""
    yield SecretSource("provider", agent.spec.provider_secret_ref.name, "api-key")
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
    yield _from_secret("OMNIA_PROVIDER_API_KEY", spec.provider_secret_ref.name, "api-key")


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


def _from_secret(name: str, secret: str, key: str) -> EnvVar:
    return EnvVar(name=name, value_from=EnvVarSource(secret_key_ref=SecretKeySelector(name=secret, key=key)))


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
