"""Warnings about objects that are valid, and not what their writers may think."""

from typing import Any

from levelset.apiserver.registry.builtin.object_warnings import object_warnings

MASTER = "node-role.kubernetes.io/master"
INSTEAD = f'{MASTER} is use "node-role.kubernetes.io/control-plane" instead'


def warnings_of(node_affinity: Any) -> list[str]:
    warner = object_warnings("", "Pod")
    assert warner is not None
    return list(warner({"metadata": {"name": "a"}, "spec": {"affinity": {"nodeAffinity": node_affinity}}}, None))


def test_a_required_node_affinity_with_a_deprecated_label_is_warned_of() -> None:
    terms = [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["not valid"]}]}]
    terms += [{"matchExpressions": [{"key": "a", "operator": "Exists"}, {"key": MASTER, "operator": "Exists"}]}]
    place = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    assert warnings_of({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}) == [
        f"{place}.nodeSelectorTerms[1].matchExpressions[1].key: {INSTEAD}"
    ]


def test_a_preferred_node_affinity_is_warned_of_values_that_no_label_has() -> None:
    expressions = [{"key": MASTER, "operator": "In", "values": ["good", "not valid"]}]
    term = {"weight": 1, "preference": {"matchExpressions": expressions}}
    place = "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference"
    key, value = warnings_of({"preferredDuringSchedulingIgnoredDuringExecution": [term]})
    assert key == f"{place}.matchExpressions[0].key: {INSTEAD}"
    assert value.startswith(f"{place}.matchExpressions[0].values[1]: not valid is invalid, a valid label must be")


def test_an_address_of_a_port_that_is_not_one_of_the_host_is_warned_of() -> None:
    warner = object_warnings("", "Pod")
    assert warner is not None
    port: dict[str, Any] = {"name": "http", "containerPort": 80, "protocol": "TCP", "hostIP": "::1"}
    spec = {"containers": [{"name": "main", "ports": [port]}]}
    shown = "{Name:http HostPort:0 ContainerPort:80 Protocol:TCP HostIP:::1}"
    assert list(warner({"metadata": {"name": "a"}, "spec": spec}, None)) == [
        f"spec.containers[0].ports[0]: hostIP set without hostPort: {shown}"
    ]
    port["hostPort"] = 80
    assert list(warner({"metadata": {"name": "a"}, "spec": spec}, None)) == []
