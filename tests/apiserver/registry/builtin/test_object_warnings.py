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


def pod_warnings(spec: Any, **metadata: Any) -> list[str]:
    warner = object_warnings("", "Pod")
    assert warner is not None
    return list(warner({"metadata": {"name": "a", **metadata}, "spec": spec}, None))


def test_files_of_a_volume_in_one_another_are_warned_of() -> None:
    items = [{"key": "a", "path": "a"}, {"key": "b", "path": "a/b"}, {"key": "c", "path": "ab"}]
    volumes = [
        {"name": "v", "configMap": {"name": "c", "items": items}},
        {"name": "w", "projected": {"sources": [{}, {"secret": {"name": "s", "items": items[:1]}}]}},
    ]
    assert pod_warnings({"volumes": volumes}) == [
        'volume "v" (ConfigMap "c"): overlapping paths: "a/b" with "a"',
        'volume "w" (Projected) has no sources provided',
    ]
    token = {"serviceAccountToken": {"path": "a/"}}
    both = [{"name": "w", "projected": {"sources": [{"secret": {"name": "s", "items": items[:1]}}, token]}}]
    assert pod_warnings({"volumes": both}) == [
        'volume "w" (Projected): overlapping paths: "a" (ServiceAccountToken) with "a" (Secret "s")'
    ]


def test_addresses_that_programs_read_differently_are_warned_of() -> None:
    spec = {"dnsConfig": {"nameservers": ["::ffff:10.0.0.1", "010.0.0.1", "10.0.0.1"]}, "hostAliases": [{"ip": "0::1"}]}
    assert pod_warnings(spec) == [
        'spec.dnsConfig.nameservers[0]: non-standard IP address "::ffff:10.0.0.1" is invalid: use "10.0.0.1"',
        'spec.dnsConfig.nameservers[1]: non-standard IP address "010.0.0.1" is invalid: use "10.0.0.1"',
        'spec.hostAliases[0].ip: IPv6 address "0::1" should be in RFC 5952 canonical format ("::1")',
    ]


def test_annotations_that_do_nothing_any_more_are_warned_of() -> None:
    notes = {"scheduler.alpha.kubernetes.io/critical-pod": "", "security.alpha.kubernetes.io/sysctls": ""}
    assert [one.partition(":")[0] for one in pod_warnings({}, annotations=notes)] == [
        f"metadata.annotations[{name}]" for name in notes
    ]
