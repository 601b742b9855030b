"""ToolRegistry: tools that agents may call, given by URL or discovered by the labels of Services."""

from datetime import datetime
from typing import Annotated, Literal

from levelset import Column, Condition, ListMap, Meta, Resource, Rule, Spec, Status
from levelset.objects import Model
from levelset_omnia.kinds.values import Duration
from levelset_omnia.well_known import API

__all__ = [
    "DiscoveredTool",
    "Tool",
    "ToolEndpoint",
    "ToolRegistry",
    "ToolRegistrySpec",
    "ToolRegistryStatus",
    "ToolSchema",
    "ToolSelector",
    "ToolType",
]

ToolType = Literal["http", "grpc", "mcp"]


class ToolSelector(Model):
    """Selects the Service of a tool: the oldest one that has all of these labels."""

    match_labels: Annotated[dict[str, str], Meta(min_length=1, max_length=16)]
    namespace: Annotated[str, Meta(min_length=1, max_length=63)] | None = None
    """The namespace of the Service; defaults to that of the registry."""
    port: Annotated[str, Meta(min_length=1, max_length=63)] | None = None
    """The name of its port; the first port if it is not given, or if no port has that name."""


class ToolEndpoint(
    Model, rules=[Rule("has(self.url) != has(self.selector)", "an endpoint has either a url or a selector")]
):
    """The endpoint of a tool: a URL or a selector."""

    url: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9+.-]*://[^\s/]\S*$", max_length=2048)] | None = None
    selector: ToolSelector | None = None


class ToolSchema(Model):
    """The input and output of a tool, as JSON Schema."""

    input: str | None = None
    output: str | None = None


class Tool(Model):
    """One tool."""

    name: Annotated[str, Meta(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
    type: ToolType
    endpoint: ToolEndpoint
    description: str | None = None
    schema: ToolSchema | None = None
    timeout: Duration = "30s"
    retries: Annotated[int, Meta(ge=0, le=10)] = 0


class ToolRegistrySpec(Spec):
    """The desired tools of a registry."""

    tools: Annotated[tuple[Tool, ...], ListMap("name"), Meta(min_length=1, max_length=256)]


class DiscoveredTool(Model):
    """The observed state of one tool."""

    name: str
    endpoint: str = ""
    status: Literal["Available", "Unavailable", "Unknown"]
    type: ToolType | None = None
    description: str = ""
    message: str = ""
    """Why it is not available."""
    last_checked: datetime | None = None
    """When the rest of this entry last changed."""


class ToolRegistryStatus(Status):
    """The observed state of a registry."""

    phase: Literal["Pending", "Ready", "Degraded", "Failed"] | None = None
    discovered_tools_count: int | None = None
    discovered_tools: Annotated[tuple[DiscoveredTool, ...], ListMap("name")] = ()
    last_discovery_time: datetime | None = None
    conditions: Annotated[tuple[Condition, ...], ListMap("type")] = ()
    observed_generation: int | None = None


class ToolRegistry(
    Resource[ToolRegistrySpec, ToolRegistryStatus],
    api=API,
    short_names=["tr"],
    columns=[
        Column("Tools", ".status.discoveredToolsCount", "integer"),
        Column("Phase", ".status.phase"),
        Column("Age", ".metadata.creationTimestamp", "date"),
    ],
):
    """Tools that agents may call."""
