"""A Service is reached where this machine can listen, and led to what is ready."""

from typing import Any

import pytest

from levelset.kinds.core_v1 import Service
from levelset.kinds.discovery_v1 import EndpointSlice
from levelset.objects import from_tree
from levelset_local.endpoints import plan_slices
from levelset_local.services import Door, Route, lookup_in, plan_doors
from levelset_local.services.proxies import Difference, difference
from levelset_machine import resolve_url
from systems.local.tests.endpoints.objects import pod, service


def slice_of(ports: Any, *endpoints: Any, kind: str = "IPv4") -> EndpointSlice:
    tree = {
        "metadata": {"name": "web-1"},
        "addressType": kind,
        "ports": ports,
        "endpoints": [{"addresses": [ip], "conditions": conditions} for ip, conditions in endpoints],
    }
    return from_tree(EndpointSlice, {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", **tree})


def doors(of: Service, *pods: Any) -> dict[Door, Route]:
    return plan_doors(of, plan_slices(of, pods, []).wanted)


def test_a_cluster_address_leads_to_the_pods_that_are_ready() -> None:
    of = service(uid="u1")
    pods = [pod("a", "127.1.1.1"), pod("b", "127.1.1.2", ready=False), pod("c", "127.1.1.3")]
    assert doors(of, *pods) == {Door("127.96.0.1", 80): Route((("127.1.1.1", 8080), ("127.1.1.3", 8080)))}


def test_there_is_a_door_before_there_are_pods() -> None:
    assert doors(service(uid="u1")) == {Door("127.96.0.1", 80): Route()}


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
def test_what_cannot_be_reached_here_has_no_door(spec: Any) -> None:
    assert doors(service(uid="u1", **spec), pod("a", "127.1.1.1")) == {}


@pytest.mark.parametrize("kind", ["NodePort", "LoadBalancer"])
def test_a_node_port_is_a_door_of_the_machine(kind: str) -> None:
    ports = [{"port": 80, "targetPort": 8080, "nodePort": 30080}]
    found = doors(service(uid="u1", type=kind, clusterIP="10.0.0.1", ports=ports), pod("a", "127.1.1.1"))
    assert found == {Door("127.0.0.1", 30080): Route((("127.1.1.1", 8080),))}


def test_ports_are_told_apart_by_name_and_by_protocol() -> None:
    ports = [
        {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 5353},
        {"name": "dns-tcp", "port": 53, "targetPort": 5300},
    ]
    assert doors(service(uid="u1", ports=ports), pod("a", "127.1.1.1")) == {
        Door("127.96.0.1", 53, "UDP"): Route((("127.1.1.1", 5353),)),
        Door("127.96.0.1", 53, "TCP"): Route((("127.1.1.1", 5300),)),
    }


def test_pods_with_another_number_for_a_port_are_reached_at_theirs() -> None:
    pods = [pod("a", "127.1.1.1"), pod("b", "127.1.1.2", ports=[("http", 9090, "TCP")])]
    (route,) = doors(service(uid="u1"), *pods).values()
    assert route.endpoints == (("127.1.1.1", 8080), ("127.1.1.2", 9090))


def test_who_is_stopping_is_led_to_only_if_nobody_else_is_there() -> None:
    of = service(uid="u1")
    going = pod("a", "127.1.1.1", going=True)
    assert doors(of, going)[Door("127.96.0.1", 80)].endpoints == (("127.1.1.1", 8080),)
    assert doors(of, going, pod("b", "127.1.1.2"))[Door("127.96.0.1", 80)].endpoints == (("127.1.1.2", 8080),)
    assert doors(of, pod("a", "127.1.1.1", going=True, ready=False))[Door("127.96.0.1", 80)].endpoints == ()


def test_slices_that_somebody_wrote_by_hand_count_too() -> None:
    mine = slice_of([{"port": 9}], ("127.1.1.9", {}))
    named = slice_of([{"name": "", "port": 9}], ("example.org", {}), kind="FQDN")
    found = plan_doors(service(uid="u1", selector={}), [mine, named])
    assert found == {Door("127.96.0.1", 80): Route((("127.1.1.9", 9),))}


@pytest.mark.parametrize(
    ("config", "seconds"), [({}, 10800.0), ({"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}}}, 60.0)]
)
def test_a_service_may_have_clients_stay_where_they_were(config: Any, seconds: float) -> None:
    (route,) = doors(service(uid="u1", sessionAffinity="ClientIP", **config)).values()
    assert route.sticky == seconds


def test_what_has_to_be_done_with_doors_is_the_difference() -> None:
    a, b, c = Door("127.0.0.1", 1), Door("127.0.0.1", 2), Door("127.0.0.1", 2, "UDP")
    assert difference([a, b], [b, c]) == Difference(close=(a,), lead=(b,), open=(c,))


def test_names_of_services_are_found() -> None:
    lookup = lookup_in([service(uid="u1"), service("none", uid="u2", clusterIP="None")])
    assert resolve_url("http://web.test.svc.cluster.local:80/", lookup) == "http://127.96.0.1:80/"
    assert resolve_url("http://none.test.svc:80/", lookup) == "http://none.test.svc:80/"
