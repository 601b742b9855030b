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
