"""The listeners of a Service: where this machine can listen, routed to the ready endpoints."""

from typing import Any

import pytest

from levelset.kinds.core_v1 import Service
from levelset.kinds.discovery_v1 import EndpointSlice
from levelset.objects import from_tree
from levelset_local.endpoints import plan_slices
from levelset_local.services import ListenAddress, Route, plan_listeners, service_lookup
from levelset_local.services.proxies import ListenerChanges, diff_listeners
from levelset_machine import resolve_url
from systems.local.tests.endpoints.endpoint_samples import pod, service


def slice_of(ports: Any, *endpoints: Any, kind: str = "IPv4") -> EndpointSlice:
    tree = {
        "metadata": {"name": "web-1"},
        "addressType": kind,
        "ports": ports,
        "endpoints": [{"addresses": [ip], "conditions": conditions} for ip, conditions in endpoints],
    }
    return from_tree(EndpointSlice, {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", **tree})


def listeners(of: Service, *pods: Any) -> dict[ListenAddress, Route]:
    return plan_listeners(of, plan_slices(of, pods, []).wanted)


def test_a_cluster_ip_routes_to_the_ready_pods() -> None:
    of = service(uid="u1")
    pods = [pod("a", "127.1.1.1"), pod("b", "127.1.1.2", ready=False), pod("c", "127.1.1.3")]
    assert listeners(of, *pods) == {ListenAddress("127.96.0.1", 80): Route((("127.1.1.1", 8080), ("127.1.1.3", 8080)))}


@pytest.mark.parametrize(
    ("target", "pods", "is_proxied"),
    [(80, (), False), (None, (), False), (8080, (), True), ("http", (), False), ("http", ("127.1.1.1",), True)],
)
def test_where_programs_listen_on_all_addresses_they_have_the_port_of_their_service(
    target: int | str | None, pods: tuple[str, ...], is_proxied: bool
) -> None:
    of = service(uid="u1", ports=[{"port": 80, "targetPort": target}])
    slices = plan_slices(of, [pod("a", ip) for ip in pods], []).wanted
    assert bool(plan_listeners(of, slices, all_addresses=True)) is is_proxied
    assert plan_listeners(of, slices)


def test_a_service_without_pods_has_a_listener() -> None:
    assert listeners(service(uid="u1")) == {ListenAddress("127.96.0.1", 80): Route()}


@pytest.mark.parametrize(
    "spec",
    [
        {"type": "ExternalName", "externalName": "example.org", "clusterIP": ""},
        {"clusterIP": "None"},
        {"clusterIP": "10.0.0.1"},
        {"clusterIP": ""},
        {"ports": [{"port": 80, "protocol": "SCTP"}]},
    ],
)
def test_an_unreachable_service_has_no_listener(spec: Any) -> None:
    assert listeners(service(uid="u1", **spec), pod("a", "127.1.1.1")) == {}


@pytest.mark.parametrize("kind", ["NodePort", "LoadBalancer"])
def test_a_node_port_has_a_listener_on_the_machine(kind: str) -> None:
    ports = [{"port": 80, "targetPort": 8080, "nodePort": 30080}]
    found = listeners(service(uid="u1", type=kind, clusterIP="10.0.0.1", ports=ports), pod("a", "127.1.1.1"))
    assert found == {ListenAddress("127.0.0.1", 30080): Route((("127.1.1.1", 8080),))}


def test_ports_are_matched_by_name_and_protocol() -> None:
    ports = [
        {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 5353},
        {"name": "dns-tcp", "port": 53, "targetPort": 5300},
    ]
    assert listeners(service(uid="u1", ports=ports), pod("a", "127.1.1.1")) == {
        ListenAddress("127.96.0.1", 53, "UDP"): Route((("127.1.1.1", 5353),)),
        ListenAddress("127.96.0.1", 53, "TCP"): Route((("127.1.1.1", 5300),)),
    }


def test_pods_with_another_number_for_a_named_port_are_routed_to_theirs() -> None:
    pods = [pod("a", "127.1.1.1"), pod("b", "127.1.1.2", ports=[("http", 9090, "TCP")])]
    (route,) = listeners(service(uid="u1"), *pods).values()
    assert route.endpoints == (("127.1.1.1", 8080), ("127.1.1.2", 9090))


def test_terminating_endpoints_are_used_only_if_none_is_ready() -> None:
    of = service(uid="u1")
    deleting = pod("a", "127.1.1.1", deleting=True)
    assert listeners(of, deleting)[ListenAddress("127.96.0.1", 80)].endpoints == (("127.1.1.1", 8080),)
    assert listeners(of, deleting, pod("b", "127.1.1.2"))[ListenAddress("127.96.0.1", 80)].endpoints == (
        ("127.1.1.2", 8080),
    )
    assert (
        listeners(of, pod("a", "127.1.1.1", deleting=True, ready=False))[ListenAddress("127.96.0.1", 80)].endpoints
        == ()
    )


def test_slices_of_other_managers_are_used_too() -> None:
    mine = slice_of([{"port": 9}], ("127.1.1.9", {}))
    named = slice_of([{"name": "", "port": 9}], ("example.org", {}), kind="FQDN")
    found = plan_listeners(service(uid="u1", selector={}), [mine, named])
    assert found == {ListenAddress("127.96.0.1", 80): Route((("127.1.1.9", 9),))}


@pytest.mark.parametrize(
    ("config", "seconds"), [({}, 10800.0), ({"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}}}, 60.0)]
)
def test_session_affinity_makes_a_route_sticky(config: Any, seconds: float) -> None:
    (route,) = listeners(service(uid="u1", sessionAffinity="ClientIP", **config)).values()
    assert route.sticky == seconds


def test_listener_changes_are_the_difference_of_present_and_wanted() -> None:
    a, b, c = ListenAddress("127.0.0.1", 1), ListenAddress("127.0.0.1", 2), ListenAddress("127.0.0.1", 2, "UDP")
    assert diff_listeners([a, b], [b, c]) == ListenerChanges(close=(a,), update=(b,), open=(c,))


def test_names_of_services_are_resolved() -> None:
    lookup = service_lookup([service(uid="u1"), service("none", uid="u2", clusterIP="None")])
    assert resolve_url("http://web.test.svc.cluster.local:80/", lookup) == "http://127.96.0.1:80/"
    assert resolve_url("http://none.test.svc:80/", lookup) == "http://none.test.svc:80/"
