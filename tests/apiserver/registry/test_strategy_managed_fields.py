from copy import deepcopy
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelset.apiserver.registry import field_outlines
from levelset.apiserver.registry.builtin import written_members
from levelset.apiserver.registry.builtin.kind_table import builtin_kinds
from levelset.apiserver.registry.builtin.pods import KnownOutlines
from levelset.apiserver.registry.strategy import track_new_object
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.objects.json_tree import is_list, is_map
from levelset.patch.managed_fields import track_update
from tests.apiserver.support.server_state import NOW, make_served, widget

SERVED = make_served()


def slow(tree: dict[str, Any]) -> Any:
    """The managedFields that `track_update` computes."""
    tracked = track_update(None, tree, manager="m", shape=SERVED.shape(), now=NOW, api_version=SERVED.api_version)
    return tracked.object["metadata"].get("managedFields")  # type: ignore[union-attr]  # metadata is a map


def quick(tree: dict[str, Any]) -> Any:
    made = deepcopy(tree)
    track_new_object(SERVED, made, manager="m", now="2026-01-31T12:00:00Z")
    return made["metadata"].get("managedFields")


@pytest.mark.parametrize(
    "tree",
    [
        widget(),
        widget(spec={}),
        widget(spec={"color": "red", "free": {"a": {"b": [1, {"c": 2}]}, "e": {}}}),
        widget(spec={"items": [{"name": "y", "v": "1"}, {"name": "x"}]}),
        widget(spec={"items": [{"v": "no key"}]}),
        widget(spec={"items": [{"name": "x"}, {"name": "x", "v": "1"}]}),
        widget(spec={"items": []}),
        widget(labels={"b": "1", "a": "2"}, annotations={"x/y": "z"}, finalizers=["e.x/f", "e.x/a"]),
        widget(ownerReferences=[{"apiVersion": "v1", "kind": "K", "name": "o", "uid": "u"}], uid="u", generation=1),
    ],
)
def test_managed_fields_of_a_new_object_equal_those_of_track_update(tree: dict[str, Any]) -> None:
    assert quick(tree) == slow(tree)


def test_an_object_without_trackable_fields_has_no_managed_fields() -> None:
    assert quick(widget()) is None


trees = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["a", "b"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "name", ""]), inner, max_size=3)
    ),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from(["color", "items", "free", "odd"]), trees, max_size=4))
def test_managed_fields_of_any_object_equal_those_of_track_update(spec: dict[str, Any]) -> None:
    assert quick(widget(spec=spec)) == slow(widget(spec=spec))


def test_managed_fields_are_computed_once_per_outline() -> None:
    assert (
        quick(widget(spec={"color": "red"}))[0]["fieldsV1"] is quick(widget("b", spec={"color": "blue"}))[0]["fieldsV1"]
    )


POD: dict[str, Any] = {
    "metadata": {"labels": {"app": "web"}, "finalizers": ["e.x/f"]},
    "spec": {
        "containers": [
            {
                "name": "web",
                "image": "i",
                "tty": True,
                "ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 81, "hostPort": 1}],
                "env": [{"name": "A", "value": "b"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "p"}}}],
                "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}},
                "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                "args": ["x"],
            }
        ],
        "volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}],
        "securityContext": {"runAsUser": 1, "supplementalGroups": [1]},
        "tolerations": [{"key": "k"}],
        "hostNetwork": True,
    },
}
DEPLOYMENT: dict[str, Any] = {
    "metadata": {"annotations": {"x/y": "z"}},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"a": "b"}},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": POD["spec"]},
    },
}
POLICY: dict[str, Any] = {
    "metadata": {},
    "spec": {
        "podSelector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "k", "operator": "Exists"}]},
        "ingress": [{"from": [{"podSelector": {"matchLabels": {"a": "b"}}}]}],
        "policyTypes": ["Ingress"],
    },
}
BUILTIN = {"Pod": POD, "Deployment": DEPLOYMENT, "NetworkPolicy": POLICY}
CHANGES: tuple[Any, ...] = ("remove", "", 0, False, None, "other", [], {})


def places(tree: Any) -> list[tuple[Any, Any]]:
    """All members and items of a tree: the map or list, and the name or index."""
    steps: list[tuple[Any, Any]] = []
    if is_map(tree):
        steps = list(tree.items())
    elif is_list(tree):
        steps = list(enumerate(tree))
    return [(tree, name) for name, _ in steps] + [place for _, value in steps for place in places(value)]


def changed(base: dict[str, Any], data: st.DataObject) -> dict[str, Any]:
    """A copy of the object with up to three members or items that are removed, empty, or another value."""
    tree = deepcopy(base)
    for _ in range(data.draw(st.integers(0, 3))):
        owner, name = data.draw(st.sampled_from(places(tree) or places(tree := deepcopy(base))))
        change: Any = data.draw(st.sampled_from(CHANGES))
        if change == "remove":
            del owner[name]
        elif isinstance(change, type(owner[name])) or not change:
            owner[name] = deepcopy(change)
    return tree


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(["Pod", "Deployment"]), st.data())
def test_an_object_is_written_as_go_does_whatever_was_written_before(kind: str, data: st.DataObject) -> None:
    tree, members = changed(BUILTIN[kind], data), written_members.written_members(make_builtin(kind))
    assert members is not None
    remembered, alone = deepcopy(tree), deepcopy(tree)
    written_members.write_members(members, remembered)
    with patch.object(written_members, "_written_specs", KnownOutlines()):
        written_members.write_members(members, alone)
    assert remembered == alone


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(sorted(BUILTIN)), st.data())
def test_outlines_of_a_built_in_kind_tell_apart_what_is_owned_differently(kind: str, data: st.DataObject) -> None:
    """Each object is compared with what is computed without the cache, which holds those of all examples."""
    served = make_builtin(kind)
    tree, shape = changed(BUILTIN[kind], data), served.shape()
    members = written_members.written_members(served)
    expected = field_outlines.compute_fields(tree, shape, members)
    assert field_outlines.new_object_fields(tree, shape, members) == expected


@pytest.mark.parametrize("selector", [{}, {"matchExpressions": []}, {"matchLabels": {}, "matchExpressions": []}])
def test_a_struct_that_go_writes_empty_has_no_owner_whatever_was_created_before(selector: dict[str, Any]) -> None:
    served = make_builtin("NetworkPolicy")
    members = written_members.written_members(served)
    owned: list[Any] = []
    for given_selector in ({"matchExpressions": [{"key": "k", "operator": "Exists"}]}, {"matchLabels": {"a": "b"}}):
        for one in (given_selector, selector):
            tree = {"spec": {"podSelector": one, "policyTypes": ["Ingress"]}}
            owned.append(field_outlines.new_object_fields(tree, served.shape(), members))
    nothing: dict[str, Any] = {"f:spec": {"f:policyTypes": {}}}
    assert owned == [{"f:spec": {"f:podSelector": {}, "f:policyTypes": {}}}, nothing] * 2


def make_builtin(kind: str) -> ServedResource:
    return next(one for one in builtin_kinds() if one.kind == kind)
