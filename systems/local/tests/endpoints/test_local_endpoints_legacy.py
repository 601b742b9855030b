"""Endpoints are those that Kubernetes would make of the same Service and Pods."""

from typing import Any

from levelset.objects import to_tree
from levelset_local.endpoints.legacy import is_same_endpoints, plan_endpoints
from systems.local.tests.endpoints.objects import pod, service

WEB = service(uid="u1")


def told(of: Any, *pods: Any) -> list[tuple[list[str], list[str], list[int]]]:
    subsets = plan_endpoints(of, pods).subsets
    return [
        ([one.ip for one in it.addresses], [one.ip for one in it.not_ready_addresses], [one.port for one in it.ports])
        for it in subsets
    ]


def test_an_object_is_as_kubernetes_writes_it() -> None:
    found = to_tree(plan_endpoints(service(uid="u1", labels={"team": "x"}), [pod("a", "127.1.1.1")]))
    assert found["metadata"]["name"] == "web"
    assert found["metadata"]["labels"] == {"team": "x", "endpoints.kubernetes.io/managed-by": "endpoint-controller"}
    assert found["subsets"] == [
        {
            "addresses": [
                {
                    "ip": "127.1.1.1",
                    "nodeName": "local",
                    "targetRef": {"kind": "Pod", "namespace": "test", "name": "a", "uid": "uid-a"},
                }
            ],
            "ports": [{"port": 8080, "protocol": "TCP"}],
        }
    ]


def test_the_ready_and_the_others_are_told_apart_and_sorted_by_their_numbers() -> None:
    pods = [pod("a", "127.1.1.10"), pod("b", "127.1.1.9"), pod("c", "127.1.1.3", ready=False)]
    assert told(WEB, *pods) == [(["127.1.1.9", "127.1.1.10"], ["127.1.1.3"], [8080])]


def test_who_is_going_or_has_ended_or_has_no_address_is_not_in_it() -> None:
    pods = [pod("a", "127.1.1.1", going=True), pod("b", "127.1.1.2", phase="Failed"), pod("c")]
    assert told(WEB, *pods) == []


def test_a_service_may_publish_who_is_not_ready_and_who_is_going() -> None:
    of = service(uid="u1", publishNotReadyAddresses=True)
    pods = [pod("a", "127.1.1.1", ready=False), pod("b", "127.1.1.2", going=True)]
    assert told(of, *pods) == [(["127.1.1.1", "127.1.1.2"], [], [8080])]


def test_ports_with_the_same_addresses_are_together_and_others_are_not() -> None:
    ports = [{"name": name, "port": 1, "targetPort": name} for name in ("http", "admin", "debug")]
    whole = pod("a", "127.1.1.1", ports=[("http", 1, "TCP"), ("admin", 2, "TCP"), ("debug", 3, "TCP")])
    part = pod("b", "127.1.1.2", ports=[("http", 1, "TCP"), ("admin", 2, "TCP")])
    assert told(service(uid="u1", ports=ports), whole, part) == [
        (["127.1.1.1", "127.1.1.2"], [], [2, 1]),
        (["127.1.1.1"], [], [3]),
    ]


def test_a_headless_service_without_ports_has_addresses_all_the_same() -> None:
    assert told(service(uid="u1", clusterIP="None", ports=[]), pod("a", "127.1.1.1")) == [(["127.1.1.1"], [], [])]
    assert told(service(uid="u1", ports=[]), pod("a", "127.1.1.1")) == []


def test_of_more_than_a_thousand_the_first_are_told_and_that_it_is_not_all() -> None:
    pods = [pod(f"pod-{number}", f"127.1.{number // 250}.{number % 250}") for number in range(1001)]
    found = plan_endpoints(WEB, pods)
    assert len(found.subsets[0].addresses) == 1000
    assert found.metadata.annotations == {"endpoints.kubernetes.io/over-capacity": "truncated"}


def test_only_a_difference_is_worth_a_write() -> None:
    one = plan_endpoints(WEB, [pod("a", "127.1.1.1")])
    assert is_same_endpoints(one, plan_endpoints(WEB, [pod("a", "127.1.1.1")]))
    assert not is_same_endpoints(None, one)
    assert not is_same_endpoints(one, plan_endpoints(WEB, []))
    assert not is_same_endpoints(one, plan_endpoints(service(uid="u2"), [pod("a", "127.1.1.1")]))
