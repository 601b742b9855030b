"""The reconciler of ToolRegistries: discovers the tools among Services, and writes the status."""

from collections.abc import Hashable, Iterator

from levelset import Context, Controller, matches
from levelset.kinds.core_v1 import Service
from levelset.kinds.discovery_v1 import EndpointSlice
from levelset.runtime.cache import by_label
from levelset_omnia.kinds import DiscoveredTool, Tool, ToolRegistry
from levelset_omnia.options import Options
from levelset_omnia.toolregistry.discovery import choose_service, discover
from levelset_omnia.toolregistry.status import registry_status, status_event
from levelset_omnia.well_known import SERVICE_NAME

__all__ = [
    "labels_of",
    "namespace_of",
    "reconcile",
    "selected_labels",
    "selected_namespaces",
    "tool_registries_controller",
]

_SLICES = by_label(SERVICE_NAME)


def tool_registries_controller(options: Options | None = None) -> Controller[ToolRegistry]:
    """The controller of ToolRegistries."""
    chosen = options or Options()
    return Controller(
        ToolRegistry,
        reconcile,
        matches(Service, ours=selected_labels, theirs=labels_of),
        matches(EndpointSlice, ours=selected_namespaces, theirs=namespace_of, indexes=[_SLICES]),
        name="toolregistries",
        concurrency=chosen.workers,
        backoff=chosen.backoff,
    )


def selected_labels(registry: ToolRegistry) -> Iterator[Hashable]:
    """One label of each selector, with its namespace; only Services with such a label can be tools of the registry.

    The last label by name is usually selective: `app` and `app.kubernetes.io/...`, which most objects have, sort first.
    """
    for tool in registry.spec.tools:
        selector = tool.endpoint.selector
        if selector is not None and selector.match_labels:
            yield (selector.namespace or registry.namespace, *max(selector.match_labels.items()))


def labels_of(service: Service) -> Iterator[Hashable]:
    """The labels of a Service, each with its namespace."""
    for name, value in service.metadata.labels.items():
        yield (service.namespace, name, value)


def selected_namespaces(registry: ToolRegistry) -> set[Hashable]:
    """The namespaces in which a registry selects Services.

    Which of these Services are its tools is only known after a reconcile, and an EndpointSlice may arrive before.
    """
    selectors = [tool.endpoint.selector for tool in registry.spec.tools]
    return {one.namespace or registry.namespace for one in selectors if one is not None}


def namespace_of(endpoints: EndpointSlice) -> list[Hashable]:
    """The namespace of an EndpointSlice."""
    return [endpoints.namespace]


async def reconcile(registry: ToolRegistry, ctx: Context) -> None:
    """Reconciles one registry."""
    tools = [await _discover(tool, registry, ctx) for tool in registry.spec.tools]
    status = registry_status(registry, tools, now=ctx.now())
    await ctx.set_status(registry, status)
    event = status_event(registry.status, status)
    if event is not None:
        ctx.record(registry, event.reason, event.message, warning=event.warning)


async def _discover(tool: Tool, registry: ToolRegistry, ctx: Context) -> DiscoveredTool:
    own, selector = registry.namespace or "", tool.endpoint.selector
    if selector is None:
        return discover(tool, None, namespace=own)
    namespace = selector.namespace or own
    service = choose_service(tool.name, await ctx.list(Service, namespace=namespace, labels=selector.match_labels))
    if service is None:
        return discover(tool, None, namespace=own)
    slices = await ctx.list(EndpointSlice, namespace=namespace, index=(_SLICES, service.name))
    return discover(tool, service, slices, namespace=own)
