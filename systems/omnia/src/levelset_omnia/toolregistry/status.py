"""The status of a ToolRegistry: which tools there are, how many of them answer, and since when."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from levelset import replace
from levelset.objects import seconds_precision
from levelset_omnia.conditions import Conditions, Note
from levelset_omnia.kinds import DiscoveredTool, ToolRegistry, ToolRegistryStatus

__all__ = ["note", "phase_of", "registry_status"]

Phase = Literal["Pending", "Ready", "Degraded", "Failed"]


def registry_status(registry: ToolRegistry, tools: Sequence[DiscoveredTool], *, now: datetime) -> ToolRegistryStatus:
    """The status with these tools; times are those of the last change."""
    before = registry.status or ToolRegistryStatus()
    known = {one.name: one for one in before.discovered_tools}
    said = Conditions(before.conditions, now, registry.metadata.generation)
    made = replace(
        before,
        phase=phase_of(tools),
        discovered_tools_count=len(tools),
        discovered_tools=tuple(_checked(known.get(one.name), one, now) for one in tools),
        conditions=said.say("ToolsDiscovered", True, "ToolsDiscovered", f"Discovered {len(tools)} tool(s)").items,
        observed_generation=registry.metadata.generation,
    )
    return made if made == before else replace(made, last_discovery_time=seconds_precision(now))


def phase_of(tools: Sequence[DiscoveredTool]) -> Phase:
    """Ready if all tools are available, Failed if none is."""
    available = sum(one.status == "Available" for one in tools)
    if not available:
        return "Failed"
    return "Ready" if available == len(tools) else "Degraded"


def note(before: ToolRegistryStatus | None, after: ToolRegistryStatus) -> Note | None:
    """What has happened between two states of a registry, if it is worth an Event."""
    if before is not None and before.phase == after.phase:
        return None
    missing = [one.name for one in after.discovered_tools if one.status != "Available"]
    if not missing:
        return Note("Ready", f"all {len(after.discovered_tools)} tools are available")
    return Note(after.phase or "Pending", f"not available: {', '.join(missing)}", warning=True)


def _checked(before: DiscoveredTool | None, tool: DiscoveredTool, now: datetime) -> DiscoveredTool:
    is_same = before is not None and replace(before, last_checked=None) == tool
    return before if before is not None and is_same else replace(tool, last_checked=seconds_precision(now))
