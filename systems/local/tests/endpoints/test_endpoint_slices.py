"""EndpointSlices equal those of Kubernetes for the same Service and Pods."""

from collections.abc import Iterable
from typing import Any

import pytest

from levelset import replace
from levelset.kinds.discovery_v1 import EndpointSlice
from levelset.objects import to_tree
from levelset_local.endpoints.endpoint_slices import SlicePlan, _pod_name, plan_slices
from levelset_local.endpoints.pod_endpoints import endpoint_inputs, port_of
from systems.local.tests.endpoints.endpoint_samples import pod, service

WEB = service(uid="u1")


def apply(plan: SlicePlan, before: Iterable[EndpointSlice] = ()) -> list[EndpointSlice]:
    """The slices after a plan was executed."""
    gone = {one.name for one in (*plan.stale, *plan.empty)}
    left = {one.name: one for one in before if one.name not in gone}
    return list({**left, **{one.name: one for one in plan.wanted}}.values())


def addresses(one: EndpointSlice) -> list[str]:
    return [address for endpoint in one.endpoints for address in endpoint.addresses]


def only(*pods: Any, of: Any = WEB) -> EndpointSlice:
    (found,) = plan_slices(of, pods, []).wanted
    return found


def test_a_slice_equals_that_of_kubernetes() -> None:
    found = to_tree(only(pod("a", "127.96.128.1"), of=service(uid="u1", labels={"team": "x"})))
    name = found["metadata"].pop("name")
    assert name.startswith("web-")
    assert len(name) == len("web-") + 5
    assert found == {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "namespace": "test",
            "labels": {
                "team": "x",
                "kubernetes.io/service-name": "web",
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            },
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Service",
                    "name": "web",
                    "uid": "u1",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "addressType": "IPv4",
        "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
        "endpoints": [
            {
                "addresses": ["127.96.128.1"],
                "conditions": {"ready": True, "serving": True, "terminating": False},
                "nodeName": "local",
                "targetRef": {"kind": "Pod", "namespace": "test", "name": "a", "uid": "uid-a"},
            }
        ],
    }


@pytest.mark.parametrize(
    ("ready", "deleting", "published", "conditions"),
    [
        (True, False, False, (True, True, False)),
        (False, False, False, (False, False, False)),
        (True, True, False, (False, True, True)),
        (False, True, False, (False, False, True)),
        (False, False, True, (True, False, False)),
        (True, True, True, (True, True, True)),
    ],
)
def test_conditions_show_whether_a_pod_is_serving_and_terminating(
    ready: bool, deleting: bool, published: bool, conditions: tuple[bool, bool, bool]
) -> None:
    of = service(uid="u1", publishNotReadyAddresses=published)
    found = only(pod("a", "127.96.128.1", ready=ready, deleting=deleting), of=of).endpoints[0].conditions
    assert (found.ready, found.serving, found.terminating) == conditions


@pytest.mark.parametrize(
    "absent",
    [pod("a"), pod("a", "127.1.1.1", phase="Failed"), pod("a", "127.1.1.1", phase="Succeeded"), pod("a", "::1")],
)
def test_a_pod_without_an_address_or_that_has_finished_is_not_an_endpoint(absent: Any) -> None:
    assert only(absent).endpoints == ()


def test_a_service_without_pods_has_one_empty_slice() -> None:
    found = only()
    assert (found.endpoints, found.ports) == ((), ())
    assert plan_slices(WEB, [], [found]) == SlicePlan()


def test_the_empty_slice_is_replaced_by_the_first_pod_and_restored_after_the_last() -> None:
    nothing = only()
    plan = plan_slices(WEB, [pod("a", "127.1.1.1")], [nothing])
    assert plan.empty == (nothing,)
    back = plan_slices(WEB, [], plan.wanted)
    assert [one.name for one in back.wanted] == [nothing.name]
    assert back.empty == plan.wanted


def test_pods_with_another_number_for_a_named_port_are_in_another_slice() -> None:
    pods = [pod("a", "127.1.1.1"), pod("b", "127.1.1.2", ports=[("http", 9090, "TCP")]), pod("c", "127.1.1.3")]
    found = plan_slices(WEB, pods, []).wanted
    assert {one.ports[0].port: addresses(one) for one in found} == {
        8080: ["127.1.1.1", "127.1.1.3"],
        9090: ["127.1.1.2"],
    }


def test_a_port_that_a_pod_does_not_have_is_left_out_of_its_slice() -> None:
    ports = [{"name": "web", "port": 80, "targetPort": "http"}, {"name": "dns", "port": 53, "targetPort": "dns"}]
    found = only(pod("a", "127.1.1.1"), of=service(uid="u1", ports=ports))
    assert [(one.name, one.port) for one in found.ports] == [("web", 8080)]


def test_ports_are_resolved_by_name_and_protocol_by_number_and_by_default() -> None:
    container = {"name": "beside", "image": "x", "restartPolicy": "Always"}
    one = pod(
        "a",
        ports=[("dns", 5353, "UDP"), ("dns", 5300, "TCP")],
        initContainers=[container | {"ports": [{"name": "side", "containerPort": 7}]}],
    )
    ports = service(
        uid="u1",
        ports=[
            {"port": 53, "protocol": "UDP", "targetPort": "dns"},
            {"port": 53, "protocol": "TCP", "targetPort": "dns"},
            {"port": 80, "targetPort": 8080},
            {"port": 81},
            {"port": 82, "targetPort": "side"},
            {"port": 83, "targetPort": "none"},
        ],
    ).spec.ports
    assert [port_of(one, port) for port in ports] == [5353, 5300, 8080, 81, 7, None]


def test_an_endpoint_has_a_host_name_if_the_pod_has_one_in_the_subdomain() -> None:
    assert only(pod("a", "127.1.1.1", hostname="first", subdomain="web")).endpoints[0].hostname == "first"
    assert only(pod("a", "127.1.1.1", hostname="first", subdomain="other")).endpoints[0].hostname is None


def test_a_headless_service_is_marked_and_needs_no_ports() -> None:
    found = only(pod("a", "127.1.1.1"), of=service(uid="u1", clusterIP="None", ports=[]))
    assert found.metadata.labels["service.kubernetes.io/headless"] == ""
    assert (addresses(found), found.ports) == (["127.1.1.1"], ())


def test_each_ip_family_has_its_own_slices() -> None:
    both = pod("a", "127.1.1.1", more_ips=["::1"])
    found = plan_slices(service(uid="u1", ipFamilies=["IPv4", "IPv6"]), [both], []).wanted
    assert {one.address_type: addresses(one) for one in found} == {"IPv4": ["127.1.1.1"], "IPv6": ["::1"]}


def many(count: int) -> list[Any]:
    return [pod(f"pod-{number:03}", f"127.1.{number // 250}.{number % 250}") for number in range(count)]


def test_a_slice_has_at_most_a_hundred_endpoints() -> None:
    found = plan_slices(WEB, many(250), []).wanted
    assert sorted(len(one.endpoints) for one in found) == [50, 100, 100]
    assert len({one.name for one in found}) == 3
    assert plan_slices(WEB, many(250), found) == SlicePlan()


def test_an_endpoint_stays_in_its_slice_and_one_change_is_one_write() -> None:
    before = list(plan_slices(WEB, many(250), []).wanted)
    pods = [pod("pod-000", "127.1.0.0", ready=False), *many(250)[1:]]
    plan = plan_slices(WEB, pods, before)
    assert len(plan.wanted) == 1
    assert plan_slices(WEB, many(249), before).wanted[0].name in {one.name for one in before}


def test_new_endpoints_go_to_changed_slices_then_to_one_that_fits_all_then_to_new_slices() -> None:
    before = list(plan_slices(WEB, many(250), []).wanted)
    swapped = plan_slices(WEB, [*many(250)[1:], pod("new", "127.2.2.2")], before)
    assert [len(one.endpoints) for one in swapped.wanted] == [100]
    joined = plan_slices(WEB, many(260), before)
    assert [len(one.endpoints) for one in joined.wanted] == [60]
    grown = plan_slices(WEB, many(310), before)
    assert [len(one.endpoints) for one in grown.wanted] == [60]
    assert {one.name for one in grown.wanted}.isdisjoint(one.name for one in before)


def test_a_slice_without_endpoints_is_deleted() -> None:
    before = list(plan_slices(WEB, many(150), []).wanted)
    inside = {one.name: {_pod_name(endpoint) for endpoint in one.endpoints} for one in before}
    small = next(name for name, names in inside.items() if len(names) == 50)
    plan = plan_slices(WEB, [one for one in many(150) if one.name not in inside[small]], before)
    assert (plan.wanted, [one.name for one in plan.empty]) == ((), [small])


def test_the_order_of_pods_makes_no_difference() -> None:
    pods = many(5)
    one_by_one: list[EndpointSlice] = []
    for count in range(1, 6):
        one_by_one = apply(plan_slices(WEB, pods[-count:], one_by_one), one_by_one)
    assert one_by_one == list(plan_slices(WEB, pods, []).wanted)


def test_slices_of_an_earlier_service_are_deleted_and_their_names_reused() -> None:
    old = plan_slices(service(uid="u0"), many(1), []).wanted
    plan = plan_slices(WEB, many(1), old)
    assert plan.stale == old
    assert [one.name for one in plan.wanted] == [one.name for one in old]
    assert plan.wanted[0].metadata.owner_references[0].uid == "u1"


def test_labels_of_the_service_are_copied_except_reserved_ones() -> None:
    before = [only(of=service(uid="u1", labels={"a": "1"}))]
    after = service(uid="u1", labels={"b": "2", "kubernetes.io/service-name": "other"})
    (found,) = plan_slices(after, [], before).wanted
    assert found.metadata.labels["b"] == "2"
    assert "a" not in found.metadata.labels
    assert found.metadata.labels["kubernetes.io/service-name"] == "web"


def test_endpoint_inputs_change_with_relevant_fields_only() -> None:
    one = pod("a", "127.1.1.1")
    noted = replace(one, metadata=replace(one.metadata, annotations={"x": "y"}, resource_version="7"))
    assert endpoint_inputs(one) == endpoint_inputs(noted)
    others = [
        pod("a", "127.1.1.2"),
        pod("a", "127.1.1.1", ready=False),
        pod("a", "127.1.1.1", deleting=True),
        pod("a", "127.1.1.1", phase="Failed"),
        pod("a", "127.1.1.1", labels={"app": "x"}),
        pod("a", "127.1.1.1", hostname="x"),
        pod("a", "127.1.1.1", nodeName="x"),
        pod("a", "127.1.1.1", ports=()),
    ]
    assert len({endpoint_inputs(one), *map(endpoint_inputs, others)}) == 1 + len(others)
