"""The status of a ToolRegistry as a pure function of its discovered tools."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from levelset import replace
from levelset.objects import seconds_precision
from levelset_omnia.conditions import Conditions, StatusEvent
from levelset_omnia.kinds import DiscoveredTool, ToolRegistry, ToolRegistryStatus

__all__ = ["phase_of", "registry_status", "status_event"]

Phase = Literal["Pending", "Ready", "Degraded", "Failed"]


def registry_status(registry: ToolRegistry, tools: Sequence[DiscoveredTool], *, now: datetime) -> ToolRegistryStatus:
    """The status with these tools; its times only move with a change."""
    before = registry.status or ToolRegistryStatus()
    previous = {one.name: one for one in before.discovered_tools}
    conditions = Conditions(before.conditions, now, registry.metadata.generation)
    status = replace(
        before,
        phase=phase_of(tools),
        discovered_tools_count=len(tools),
        discovered_tools=tuple(_checked(previous.get(one.name), one, now) for one in tools),
        conditions=conditions.set("ToolsDiscovered", True, "ToolsDiscovered", f"Discovered {len(tools)} tool(s)").items,
        observed_generation=registry.metadata.generation,
    )
    return status if status == before else replace(status, last_discovery_time=seconds_precision(now))


def phase_of(tools: Sequence[DiscoveredTool]) -> Phase:
    """Ready if all tools are available, Failed if none is."""
    available = sum(one.status == "Available" for one in tools)
    if not available:
        return "Failed"
    return "Ready" if available == len(tools) else "Degraded"


def status_event(before: ToolRegistryStatus | None, after: ToolRegistryStatus) -> StatusEvent | None:
    """The Event for the change between two statuses; None if the phase is the same."""
    if before is not None and before.phase == after.phase:
        return None
    missing = [one.name for one in after.discovered_tools if one.status != "Available"]
    if not missing:
        return StatusEvent("Ready", f"all {len(after.discovered_tools)} tools are available")
    return StatusEvent(after.phase or "Pending", f"not available: {', '.join(missing)}", warning=True)


def _checked(before: DiscoveredTool | None, tool: DiscoveredTool, now: datetime) -> DiscoveredTool:
    is_same = before is not None and replace(before, last_checked=None) == tool
    return before if before is not None and is_same else replace(tool, last_checked=seconds_precision(now))
