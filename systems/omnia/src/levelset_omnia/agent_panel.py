"""What the dashboard shows on the page of an AgentRuntime: agent, prompts, tools, and a conversation with it."""

import asyncio
import json
from typing import Any, Final

from levelset import Client, LevelsetError, Ref
from levelset.errors import Unreachable
from levelset.kinds.core_v1 import ConfigMap, Service
from levelset.runtime.manager import ObjectPanel, Panel, PanelSection
from levelset_omnia.kinds import AgentRuntime, PromptPack, ToolRegistry

__all__ = ["agent_panel"]

_WITHIN: Final = 120.0
_LARGEST: Final = 1 << 20
_LONGEST_PROMPT: Final = 20_000


def agent_panel() -> ObjectPanel:
    """The panel of AgentRuntimes."""
    return ObjectPanel(_describe, _answer)


async def _describe(client: Client, ref: Ref[Any]) -> Panel:
    agent = await client.get(AgentRuntime, ref.name, namespace=ref.namespace)
    sections = [_agent(agent), await _prompts(client, agent), await _tools(client, agent)]
    is_ready = agent.status is not None and agent.status.replicas is not None and agent.status.replicas.ready > 0
    return Panel(tuple(sections), "Try it" if is_ready else "")


def _agent(agent: AgentRuntime) -> PanelSection:
    status, spec = agent.status, agent.spec
    replicas = None if status is None else status.replicas
    provider = spec.provider_ref.name if spec.provider_ref else (spec.provider.type if spec.provider else "mock")
    rows = (
        ("Phase", (status.phase if status else None) or "Pending"),
        ("Replicas", "0" if replicas is None else f"{replicas.ready} of {replicas.desired} ready"),
        ("Provider", provider or "mock"),
        ("Session", spec.session.type if spec.session else "memory"),
        ("Facade", f"{spec.facade.type}, port {spec.facade.port}"),
    )
    return PanelSection("Agent", rows)


async def _prompts(client: Client, agent: AgentRuntime) -> PanelSection:
    named = agent.spec.prompt_pack_ref
    pack = await client.find(PromptPack, named.name, namespace=agent.metadata.namespace)
    active = None if pack is None or pack.status is None else pack.status.active
    rows = (("PromptPack", named.name), ("Version", "none is active" if active is None else active.version))
    found = None
    if active is not None:
        found = await client.find(ConfigMap, active.config_map, namespace=agent.metadata.namespace)
    texts = {} if found is None else found.data
    text = "\n\n".join(f"{name}:\n{value}" for name, value in sorted(texts.items()))
    return PanelSection("Prompt", rows, text[:_LONGEST_PROMPT])


async def _tools(client: Client, agent: AgentRuntime) -> PanelSection:
    named = agent.spec.tool_registry_ref
    if named is None:
        return PanelSection("Tools", (("ToolRegistry", "none"),))
    registry = await client.find(ToolRegistry, named.name, namespace=named.namespace or agent.metadata.namespace)
    status = None if registry is None else registry.status
    found = () if status is None else status.discovered_tools
    rows = tuple((one.name, f"{one.status}, {one.endpoint}") for one in found)
    return PanelSection("Tools", (("ToolRegistry", named.name), *rows))


async def _answer(client: Client, ref: Ref[Any], message: str, session: str) -> str:
    """The reply of the agent to a message, through its Service; raises LevelsetError."""
    agent = await client.get(AgentRuntime, ref.name, namespace=ref.namespace)
    service = await client.get(Service, ref.name, namespace=ref.namespace)
    address = service.spec.cluster_ip or ""
    host = f"[{address}]" if ":" in address else address
    return await asyncio.to_thread(_send, f"http://{host}:{agent.spec.facade.port}/v1/messages", message, session)


def _send(url: str, message: str, session: str) -> str:
    body = json.dumps({"message": message, "session": session}).encode()
    # Imported late: they bring parsers of mails along, and most systems are started without a chat.
    import urllib.error  # noqa: PLC0415
    import urllib.request  # noqa: PLC0415

    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310 - of a Service
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=_WITHIN) as response:
            tree = json.loads(response.read(_LARGEST))
    except urllib.error.HTTPError as error:
        raise LevelsetError(
            f"the agent could not answer: {error.read(_LARGEST).decode(errors='replace')[:500]}"
        ) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Unreachable(f"the agent at {url} does not answer: {error}") from error
    return str(tree["text"])
