"""Tools among Services as a pure function, and the status that comes of it."""

from datetime import UTC, datetime, timedelta

import pytest

from levelset import replace
from levelset.kinds.core_v1 import Service, ServicePort
from levelset.kinds.discovery_v1 import EndpointPort
from levelset_omnia.kinds import DiscoveredTool, ToolEndpoint
from levelset_omnia.naming import TOOL_NAME, TOOL_PATH, TOOL_TYPE
from levelset_omnia.toolregistry import choose_service, discover, phase_of, registry_status
from systems.omnia.tests.world import endpoints, registry, service, tool

__all__: list[str] = []

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def found(name: str, *, is_there: bool = True) -> DiscoveredTool:
    return DiscoveredTool(name=name, status="Available" if is_there else "Unavailable")


@pytest.mark.parametrize(
    ("path", "end"), [("", ""), ("/", "/"), ("/v1/ask", "/v1/ask"), ("v1", "/v1"), ("/a?b=c", "/a?b=c")]
)
def test_a_path_follows_the_port(path: str, end: str) -> None:
    one = discover(tool(), service(annotations={TOOL_PATH: path}), [endpoints()], namespace="test")
    assert one.endpoint == f"http://search.test.svc.cluster.local:8080{end}"


@pytest.mark.parametrize(
    ("said", "scheme"), [("grpc", "grpc"), ("mcp", "http"), ("http", "http"), ("soap", "grpc"), (None, "grpc")]
)
def test_a_service_knows_its_type_best_unless_its_word_means_nothing(said: str | None, scheme: str) -> None:
    annotations = {} if said is None else {TOOL_TYPE: said}
    one = discover(tool(type="grpc"), service(annotations=annotations), [endpoints()], namespace="test")
    assert one.endpoint.partition(":")[0] == scheme


@pytest.mark.parametrize(("ready", "status"), [(True, "Available"), (None, "Available"), (False, "Unavailable")])
def test_an_endpoint_of_which_nothing_is_said_is_ready(ready: bool | None, status: str) -> None:
    assert discover(tool(), service(), [endpoints(ready=ready)], namespace="test").status == status


def test_endpoints_of_another_port_do_not_count() -> None:
    ports = (ServicePort(name="web", port=80), ServicePort(name="tool", port=9000))
    other = endpoints(ports=(EndpointPort(name="web", port=80),))
    assert discover(tool(port="tool"), service(ports=ports), [other], namespace="test").status == "Unavailable"
    assert discover(tool(port="web"), service(ports=ports), [other], namespace="test").status == "Available"
    whole = endpoints(ports=())
    assert discover(tool(port="tool"), service(ports=ports), [whole], namespace="test").status == "Available"


def test_an_external_name_has_no_endpoints_to_ask_for() -> None:
    one = discover(tool(), service(type="ExternalName", external_name="a.example.dev"), namespace="test")
    assert one.status == "Available"


def test_without_ports_or_an_endpoint_there_is_no_tool() -> None:
    assert discover(tool(), service(ports=()), namespace="test").message == "Service search has no port"
    nowhere = replace(tool(), endpoint=ToolEndpoint())
    assert discover(nowhere, None, namespace="test").status == "Unavailable"


def test_the_service_that_names_the_tool_is_taken_then_one_that_names_none_then_the_oldest() -> None:
    def made(name: str, said: str | None, age: int) -> Service:
        annotations = {} if said is None else {TOOL_NAME: said}
        return service(name, annotations=annotations).with_metadata(creation_timestamp=NOW - timedelta(seconds=age))

    other, none, young, old = made("a", "x", 99), made("b", None, 50), made("c", "search", 1), made("d", "search", 2)
    everybody = [other, none, young, old]
    assert choose_service("search", everybody) is old
    assert choose_service("search", everybody[:3]) is young
    assert choose_service("search", everybody[:2]) is none
    assert choose_service("search", everybody[:1]) is other
    assert choose_service("search", []) is None


def test_services_that_are_being_deleted_are_passed_over() -> None:
    assert choose_service("search", [service().with_metadata(deletion_timestamp=NOW)]) is None


def test_the_phase_says_whether_all_some_or_none_are_available() -> None:
    assert phase_of([found("a"), found("b")]) == "Ready"
    assert phase_of([found("a"), found("b", is_there=False)]) == "Degraded"
    assert phase_of([found("a", is_there=False)]) == "Failed"
    assert phase_of([]) == "Failed"


def test_times_move_only_with_a_change() -> None:
    first = registry_status(registry(), [found("a"), found("b")], now=NOW)
    later = replace(registry(), status=first)
    assert registry_status(later, [found("a"), found("b")], now=NOW + timedelta(hours=1)) == first
    changed = registry_status(later, [found("a"), found("b", is_there=False)], now=NOW + timedelta(hours=1))
    assert changed.last_discovery_time == NOW + timedelta(hours=1)
    assert [one.last_checked for one in changed.discovered_tools] == [NOW, NOW + timedelta(hours=1)]
