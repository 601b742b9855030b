"""Looks at a ToolRegistry: finds its tools among Services, asks who answers, and tells it."""

from collections.abc import Hashable, Iterator

from levelset import Context, Controller, by_label, matches
from levelset.kinds.core_v1 import Service
from levelset.kinds.discovery_v1 import EndpointSlice
from levelset_omnia.kinds import DiscoveredTool, Tool, ToolRegistry
from levelset_omnia.naming import SERVICE_NAME
from levelset_omnia.options import Options
from levelset_omnia.toolregistry.discovery import choose_service, discover
from levelset_omnia.toolregistry.status import note, registry_status

__all__ = ["labels_of", "place_of", "reconcile", "selected_labels", "selected_places", "tool_registries_controller"]

_SLICES = by_label(SERVICE_NAME)


def tool_registries_controller(options: Options | None = None) -> Controller[ToolRegistry]:
    """The controller of ToolRegistries."""
    chosen = options or Options()
    return Controller(
        ToolRegistry,
        reconcile,
        matches(Service, ours=selected_labels, theirs=labels_of),
        matches(EndpointSlice, ours=selected_places, theirs=place_of, indexes=[_SLICES]),
        name="toolregistries",
        concurrency=chosen.workers,
        backoff=chosen.backoff,
    )


def selected_labels(registry: ToolRegistry) -> Iterator[Hashable]:
    """One label of each selector, with the namespace: a Service that has not even this one is no tool of the registry.

    It is the last by name: `app` and `app.kubernetes.io/...`, which everything has, come before most others.
    """
    for tool in registry.spec.tools:
        selector = tool.endpoint.selector
        if selector is not None and selector.match_labels:
            yield (selector.namespace or registry.namespace, *max(selector.match_labels.items()))


def labels_of(service: Service) -> Iterator[Hashable]:
    """The labels of a Service, with its namespace."""
    for name, value in service.metadata.labels.items():
        yield (service.namespace, name, value)


def selected_places(registry: ToolRegistry) -> set[Hashable]:
    """The namespaces in which a registry looks for Services.

    Which of them are its tools is not known before it was looked at, and an EndpointSlice may come first.
    """
    selectors = [tool.endpoint.selector for tool in registry.spec.tools]
    return {one.namespace or registry.namespace for one in selectors if one is not None}


def place_of(endpoints: EndpointSlice) -> list[Hashable]:
    """The namespace of an EndpointSlice."""
    return [endpoints.namespace]


async def reconcile(registry: ToolRegistry, ctx: Context) -> None:
    """Looks at one registry."""
    tools = [await _discover(tool, registry, ctx) for tool in registry.spec.tools]
    status = registry_status(registry, tools, now=ctx.now())
    await ctx.set_status(registry, status)
    told = note(registry.status, status)
    if told is not None:
        ctx.record(registry, told.reason, told.message, warning=told.warning)


async def _discover(tool: Tool, registry: ToolRegistry, ctx: Context) -> DiscoveredTool:
    own, selector = registry.namespace or "", tool.endpoint.selector
    if selector is None:
        return discover(tool, None, namespace=own)
    place = selector.namespace or own
    service = choose_service(tool.name, await ctx.list(Service, namespace=place, labels=selector.match_labels))
    if service is None:
        return discover(tool, None, namespace=own)
    slices = await ctx.list(EndpointSlice, namespace=place, index=(_SLICES, service.name))
    return discover(tool, service, slices, namespace=own)
