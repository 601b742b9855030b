from typing import Any

import pytest

from levelset.apiserver.registry.builtin.written_members import component_members, narrow_integers, write_members


@pytest.mark.parametrize(
    ("given", "stays"),
    [(2**53, 0), (2**31, -(2**31)), (2**32 + 5, 5), (2**31 - 1, 2**31 - 1), (-(2**31) - 1, 2**31 - 1)],
)
def test_a_number_keeps_the_low_bits_that_its_field_has(given: int, stays: int) -> None:
    tree: dict[str, Any] = {"spec": {"template": {"spec": {"containers": [{"ports": [{"hostPort": given}]}]}}}}
    narrow_integers("apps", "v1", "Deployment", tree)
    assert tree == {"spec": {"template": {"spec": {"containers": [{"ports": [{"hostPort": stays}]}]}}}}


def test_a_field_of_64_bits_and_values_that_are_no_integers_stay() -> None:
    tree = {"spec": {"activeDeadlineSeconds": 2**40, "containers": [{"name": "a", "stdin": True}], "priority": "x"}}
    before = str(tree)
    narrow_integers("", "v1", "Pod", tree)
    assert str(tree) == before


def test_the_values_of_maps_are_narrowed_and_unknown_kinds_are_left() -> None:
    tree = {"spec": {"replicas": 2**32}}
    narrow_integers("example.com", "v1", "Odd", tree)
    assert tree == {"spec": {"replicas": 2**32}}


def test_a_pointer_is_written_as_null_only_if_it_is_absent() -> None:
    members = component_members("io.k8s.api.core.v1.TypedLocalObjectReference")
    assert members is not None
    for given, written in (({}, None), ({"apiGroup": ""}, ""), ({"apiGroup": "a"}, "a")):
        tree: dict[str, Any] = {"kind": "A", "name": "b", **given}
        write_members(members, tree)
        assert tree["apiGroup"] == written
