from pathlib import Path

import pytest

from levelset.objects.model import python_name, wire_name

BUILTIN_FIELDS = (Path(__file__).parent / "builtin_fields.txt").read_text().split()


@pytest.mark.parametrize(
    ("python", "wire"),
    [
        ("pod_ip", "podIP"),
        ("cluster_ips", "clusterIPs"),
        ("uid", "uid"),
        ("ip", "ip"),
        ("ready_replicas", "readyReplicas"),
        ("host_pid", "hostPID"),
        ("pod_cidrs", "podCIDRs"),
        ("non_resource_urls", "nonResourceURLs"),
        ("fields_v1", "fieldsV1"),
        ("continue_", "continue"),
        ("from_", "from"),
        ("target_cpu_utilization_percentage", "targetCPUUtilizationPercentage"),
        ("open_api_v3_schema", "openAPIV3Schema"),
    ],
)
def test_a_name_has_one_form_in_python_and_one_on_the_wire(python, wire):
    assert wire_name(python) == wire
    assert python_name(wire) == python


def test_every_field_of_the_builtin_kinds_is_written_as_kubernetes_writes_it():
    odd = {wire for wire in BUILTIN_FIELDS if wire_name(python_name(wire)) != wire}
    assert odd == {wire for wire in BUILTIN_FIELDS if wire.startswith(("$", "x-"))} | {"Port"}


def test_no_two_fields_of_the_builtin_kinds_share_a_python_name():
    names = [python_name(wire) for wire in BUILTIN_FIELDS if wire not in ("Port", "$schema")]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("wire", ["$ref", "x-kubernetes-map-type", "3d", "", "__", "éclair"])
def test_any_wire_name_gives_a_usable_identifier(wire):
    assert python_name(wire).isidentifier()
