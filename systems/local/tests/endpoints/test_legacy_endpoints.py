"""The Endpoints object equals that of Kubernetes for the same Service and Pods."""

from typing import Any

from levelset.objects import to_tree
from levelset_local.endpoints.legacy_endpoints import is_same_endpoints, plan_endpoints
from systems.local.tests.endpoints.endpoint_samples import pod, service

WEB = service(uid="u1")


def subsets_of(of: Any, *pods: Any) -> list[tuple[list[str], list[str], list[int]]]:
    subsets = plan_endpoints(of, pods).subsets
    return [
        ([one.ip for one in it.addresses], [one.ip for one in it.not_ready_addresses], [one.port for one in it.ports])
        for it in subsets
    ]


def test_the_endpoints_object_equals_that_of_kubernetes() -> None:
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


def test_ready_and_not_ready_addresses_are_separate_and_sorted() -> None:
    pods = [pod("a", "127.1.1.10"), pod("b", "127.1.1.9"), pod("c", "127.1.1.3", ready=False)]
    assert subsets_of(WEB, *pods) == [(["127.1.1.9", "127.1.1.10"], ["127.1.1.3"], [8080])]


def test_terminating_and_finished_pods_and_those_without_an_address_are_left_out() -> None:
    pods = [pod("a", "127.1.1.1", deleting=True), pod("b", "127.1.1.2", phase="Failed"), pod("c")]
    assert subsets_of(WEB, *pods) == []


def test_publish_not_ready_addresses_includes_unready_and_terminating_pods() -> None:
    of = service(uid="u1", publishNotReadyAddresses=True)
    pods = [pod("a", "127.1.1.1", ready=False), pod("b", "127.1.1.2", deleting=True)]
    assert subsets_of(of, *pods) == [(["127.1.1.1", "127.1.1.2"], [], [8080])]


def test_ports_with_the_same_addresses_are_in_one_subset() -> None:
    ports = [{"name": name, "port": 1, "targetPort": name} for name in ("http", "admin", "debug")]
    whole = pod("a", "127.1.1.1", ports=[("http", 1, "TCP"), ("admin", 2, "TCP"), ("debug", 3, "TCP")])
    part = pod("b", "127.1.1.2", ports=[("http", 1, "TCP"), ("admin", 2, "TCP")])
    assert subsets_of(service(uid="u1", ports=ports), whole, part) == [
        (["127.1.1.1", "127.1.1.2"], [], [2, 1]),
        (["127.1.1.1"], [], [3]),
    ]


def test_a_headless_service_without_ports_has_addresses() -> None:
    assert subsets_of(service(uid="u1", clusterIP="None", ports=[]), pod("a", "127.1.1.1")) == [(["127.1.1.1"], [], [])]
    assert subsets_of(service(uid="u1", ports=[]), pod("a", "127.1.1.1")) == []


def test_more_than_a_thousand_addresses_are_truncated() -> None:
    pods = [pod(f"pod-{number}", f"127.1.{number // 250}.{number % 250}") for number in range(1001)]
    found = plan_endpoints(WEB, pods)
    assert len(found.subsets[0].addresses) == 1000
    assert found.metadata.annotations == {"endpoints.kubernetes.io/over-capacity": "truncated"}


def test_only_a_changed_object_is_written() -> None:
    one = plan_endpoints(WEB, [pod("a", "127.1.1.1")])
    assert is_same_endpoints(one, plan_endpoints(WEB, [pod("a", "127.1.1.1")]))
    assert not is_same_endpoints(None, one)
    assert not is_same_endpoints(one, plan_endpoints(WEB, []))
    assert not is_same_endpoints(one, plan_endpoints(service(uid="u2"), [pod("a", "127.1.1.1")]))
