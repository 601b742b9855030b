import gc
from pathlib import Path
from typing import Any

import pytest

from levelset.objects import Model, Object, decode
from levelset.objects.model import python_name, wire_name
from tests.objects.samples import Website

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


def test_the_garbage_collector_does_not_track_decoded_objects():
    site = decode(Website, b'{"spec":{"image":"x","ports":[{"name":"http"}]},"status":{"conditions":[]}}')
    assert [part for part in (site, site.metadata, site.spec, site.status) if gc.is_tracked(part)] == []


def test_a_class_may_have_a_dict_of_its_own():
    class Noted(Object, api="example.dev/v1", dict=True):
        """Its objects have attributes that are no fields."""

    noted = decode(Noted, b'{"metadata":{"name":"a"}}')
    noted.__dict__["note"] = "seen"
    assert (noted.name, noted.__dict__) == ("a", {"note": "seen"})


def test_a_class_whose_values_may_refer_to_themselves_can_be_tracked():
    class Loose(Model, gc=True):
        parts: dict[str, Any] = {}

    loose = Loose(parts={})
    loose.parts["whole"] = loose
    assert gc.is_tracked(loose)
