"""Tool discovery among Services, and the status of a registry, as pure functions."""

from datetime import UTC, datetime, timedelta

import pytest

from levelset import replace
from levelset.kinds.core_v1 import Service, ServicePort
from levelset.kinds.discovery_v1 import EndpointPort
from levelset_omnia.kinds import DiscoveredTool, ToolEndpoint
from levelset_omnia.toolregistry import choose_service, discover, phase_of, registry_status
from levelset_omnia.well_known import TOOL_NAME, TOOL_PATH, TOOL_TYPE
from systems.omnia.tests.support import endpoints, registry, service, tool

__all__: list[str] = []

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def found(name: str, *, is_available: bool = True) -> DiscoveredTool:
    return DiscoveredTool(name=name, status="Available" if is_available else "Unavailable")


@pytest.mark.parametrize(
    ("path", "end"), [("", ""), ("/", "/"), ("/v1/ask", "/v1/ask"), ("v1", "/v1"), ("/a?b=c", "/a?b=c")]
)
def test_the_path_annotation_is_appended_to_the_url(path: str, end: str) -> None:
    one = discover(tool(), service(annotations={TOOL_PATH: path}), [endpoints()], namespace="test")
    assert one.endpoint == f"http://search.test.svc.cluster.local:8080{end}"


@pytest.mark.parametrize(
    ("annotation", "scheme"), [("grpc", "grpc"), ("mcp", "http"), ("http", "http"), ("soap", "grpc"), (None, "grpc")]
)
def test_the_type_annotation_takes_precedence_unless_it_is_invalid(annotation: str | None, scheme: str) -> None:
    annotations = {} if annotation is None else {TOOL_TYPE: annotation}
    one = discover(tool(type="grpc"), service(annotations=annotations), [endpoints()], namespace="test")
    assert one.endpoint.partition(":")[0] == scheme


@pytest.mark.parametrize(("ready", "status"), [(True, "Available"), (None, "Available"), (False, "Unavailable")])
def test_an_endpoint_without_a_ready_condition_is_ready(ready: bool | None, status: str) -> None:
    assert discover(tool(), service(), [endpoints(ready=ready)], namespace="test").status == status


def test_endpoints_of_another_port_do_not_count() -> None:
    ports = (ServicePort(name="web", port=80), ServicePort(name="tool", port=9000))
    other = endpoints(ports=(EndpointPort(name="web", port=80),))
    assert discover(tool(port="tool"), service(ports=ports), [other], namespace="test").status == "Unavailable"
    assert discover(tool(port="web"), service(ports=ports), [other], namespace="test").status == "Available"
    whole = endpoints(ports=())
    assert discover(tool(port="tool"), service(ports=ports), [whole], namespace="test").status == "Available"


def test_an_external_name_service_needs_no_endpoints() -> None:
    one = discover(tool(), service(type="ExternalName", external_name="a.example.dev"), namespace="test")
    assert one.status == "Available"


def test_without_ports_or_an_endpoint_a_tool_is_unavailable() -> None:
    assert discover(tool(), service(ports=()), namespace="test").message == "Service search has no port"
    nowhere = replace(tool(), endpoint=ToolEndpoint())
    assert discover(nowhere, None, namespace="test").status == "Unavailable"


def test_a_service_that_names_the_tool_is_preferred_then_one_that_names_none_then_the_oldest() -> None:
    def made(name: str, tool_name: str | None, age: int) -> Service:
        annotations = {} if tool_name is None else {TOOL_NAME: tool_name}
        return service(name, annotations=annotations).with_metadata(creation_timestamp=NOW - timedelta(seconds=age))

    other, none, young, old = made("a", "x", 99), made("b", None, 50), made("c", "search", 1), made("d", "search", 2)
    services = [other, none, young, old]
    assert choose_service("search", services) is old
    assert choose_service("search", services[:3]) is young
    assert choose_service("search", services[:2]) is none
    assert choose_service("search", services[:1]) is other
    assert choose_service("search", []) is None


def test_services_that_are_being_deleted_are_skipped() -> None:
    assert choose_service("search", [service().with_metadata(deletion_timestamp=NOW)]) is None


def test_the_phase_depends_on_whether_all_some_or_no_tools_are_available() -> None:
    assert phase_of([found("a"), found("b")]) == "Ready"
    assert phase_of([found("a"), found("b", is_available=False)]) == "Degraded"
    assert phase_of([found("a", is_available=False)]) == "Failed"
    assert phase_of([]) == "Failed"


def test_times_move_only_with_a_change() -> None:
    first = registry_status(registry(), [found("a"), found("b")], now=NOW)
    later = replace(registry(), status=first)
    assert registry_status(later, [found("a"), found("b")], now=NOW + timedelta(hours=1)) == first
    changed = registry_status(later, [found("a"), found("b", is_available=False)], now=NOW + timedelta(hours=1))
    assert changed.last_discovery_time == NOW + timedelta(hours=1)
    assert [one.last_checked for one in changed.discovered_tools] == [NOW, NOW + timedelta(hours=1)]
