from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from levelset.errors import BadPatch, PatchFailed
from levelset.objects.json_tree import copy_tree, same
from levelset.patch import (
    ANYTHING,
    Shape,
    apply_strategic,
    builtin_shape,
    make_strategic,
    make_strategic_three_way,
    shape_of,
)
from tests.patch.trees_strategy import deep, maps, scalars, trees


def builtin(group: str, kind: str) -> Shape:
    shape = builtin_shape(group, "v1", kind)
    assert shape is not None
    return shape


DEPLOYMENT = builtin("apps", "Deployment")
CONFIG_MAP = builtin("", "ConfigMap")
SERVICE = builtin("", "Service")

POD: Any = {
    "containers": [
        {
            "name": "a",
            "image": "a:1",
            "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}],
            "ports": [{"name": "http", "containerPort": 80}],
        },
        {"name": "b", "image": "b:1", "args": ["x", "y"]},
    ],
    "volumes": [{"name": "v1", "emptyDir": {}}, {"name": "v2", "emptyDir": {}}],
    "tolerations": [{"key": "k1", "operator": "Exists"}],
    "imagePullSecrets": [{"name": "s1"}],
    "nodeSelector": {"zone": "a", "disk": "ssd"},
}


def deployment(pod: Any) -> Any:
    return {"kind": "Deployment", "spec": {"replicas": 1, "template": {"spec": pod}}}


def patched(pod_patch: Any, pod: Any = POD) -> Any:
    """The pod spec of a Deployment after a patch of it."""
    patch = {"spec": {"template": {"spec": pod_patch}}}
    return apply_strategic(deployment(pod), patch, DEPLOYMENT)["spec"]["template"]["spec"]


def column(items: Any, name: str = "name") -> Any:
    return [item.get(name) for item in items]


def finalizers(*names: Any) -> Any:
    return {"metadata": {"finalizers": list(names)}}


def test_containers_are_merged_by_name():
    pod = patched({"containers": [{"name": "b", "image": "b:2"}, {"name": "c", "image": "c:1"}]})
    assert column(pod["containers"]) == ["a", "b", "c"]
    assert column(pod["containers"], "image") == ["a:1", "b:2", "c:1"]
    assert pod["containers"][1]["args"] == ["x", "y"]


def test_a_container_is_removed_with_a_delete_directive():
    assert column(patched({"containers": [{"name": "a", "$patch": "delete"}]})["containers"]) == ["b"]
    assert column(patched({"containers": [{"name": "zz", "$patch": "delete"}]})["containers"]) == ["a", "b"]


def test_a_list_is_replaced_with_a_replace_directive():
    only = {"name": "only", "image": "o:1"}
    assert patched({"containers": [{"$patch": "replace"}, only]})["containers"] == [only]
    assert patched({"containers": [only, {"$patch": "replace"}]})["containers"] == [only]
    assert patched({"containers": [{"$patch": "replace"}]})["containers"] == []


def test_a_map_is_replaced_with_a_replace_directive():
    assert patched({"nodeSelector": {"$patch": "replace", "rack": "r"}})["nodeSelector"] == {"rack": "r"}


def test_a_map_is_emptied_with_a_delete_directive():
    assert patched({"nodeSelector": {"$patch": "delete"}})["nodeSelector"] == {}


def test_the_merge_directive_is_accepted_although_it_is_the_default():
    pod = patched(
        {"$patch": "merge", "containers": [{"$patch": "merge"}, {"name": "a", "$patch": "merge", "tty": True}]}
    )
    assert pod["containers"][0] == {**POD["containers"][0], "tty": True}
    assert column(pod["containers"]) == ["a", "b"]


def test_nested_lists_are_merged_by_their_own_keys():
    env = [{"name": "Y", "value": "9"}, {"name": "Z", "value": "3"}, {"name": "X", "$patch": "delete"}]
    container = patched({"containers": [{"name": "a", "env": env}]})["containers"][0]
    assert container["env"] == [{"name": "Y", "value": "9"}, {"name": "Z", "value": "3"}]
    assert container["image"] == "a:1"


def test_ports_are_merged_by_container_port():
    ports = [{"containerPort": 80, "name": "web"}, {"containerPort": 443, "name": "tls"}]
    assert patched({"containers": [{"name": "a", "ports": ports}]})["containers"][0]["ports"] == ports


def test_lists_without_a_merge_key_are_replaced():
    pod = patched({"tolerations": [{"key": "k2"}], "containers": [{"name": "b", "args": ["z"]}]})
    assert pod["tolerations"] == [{"key": "k2"}]
    assert pod["containers"][1]["args"] == ["z"]


def test_element_order_can_be_given():
    order = [{"name": "c"}, {"name": "b"}, {"name": "a"}]
    pod = patched({"$setElementOrder/containers": order, "containers": [{"name": "c", "image": "c:1"}]})
    assert column(pod["containers"]) == ["c", "b", "a"]


def test_volumes_keep_only_the_source_that_is_retained():
    change = {"name": "v1", "$retainKeys": ["name", "configMap"], "configMap": {"name": "cm"}}
    pod = patched({"volumes": [change]})
    assert pod["volumes"] == [{"name": "v1", "configMap": {"name": "cm"}}, {"name": "v2", "emptyDir": {}}]


def test_finalizers_are_merged_as_a_set():
    document = apply_strategic(finalizers("x/a", "x/b"), finalizers("x/c", "x/a"), CONFIG_MAP)
    assert sorted(document["metadata"]["finalizers"]) == ["x/a", "x/b", "x/c"]
    removal = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/a", "x/c"]}}
    assert apply_strategic(document, removal, CONFIG_MAP) == finalizers("x/b")


def test_keys_of_plain_maps_are_merged_and_removed_by_null():
    patch = {"data": {"x": None, "z": "3", "none": None}, "metadata": {"labels": {"l": "1"}}}
    result = apply_strategic({"data": {"x": "1", "y": "2"}, "metadata": {}}, patch, CONFIG_MAP)
    assert result == {"data": {"y": "2", "z": "3"}, "metadata": {"labels": {"l": "1"}}}


def test_a_list_item_without_its_merge_key_is_refused():
    with pytest.raises(BadPatch, match=r"spec\.template\.spec\.containers\[0\] has no name") as caught:
        patched({"containers": [{"image": "x:1"}]})
    assert caught.value.field == "spec.template.spec.containers[0]"


def test_an_unknown_directive_is_refused():
    with pytest.raises(BadPatch, match="expected delete, merge or replace") as caught:
        patched({"containers": [{"name": "a", "$patch": "explode"}]})
    assert caught.value.field == "spec.template.spec.containers[0].$patch"


def test_a_patch_that_changes_nothing_gives_the_same_object():
    assert patched({"containers": [{"name": "a", "image": "a:1"}]}) == POD


def test_secrets_of_a_service_account_are_merged_by_name_and_pull_secrets_replaced():
    account = {"secrets": [{"name": "a"}], "imagePullSecrets": [{"name": "p"}]}
    patch = {"secrets": [{"name": "b"}], "imagePullSecrets": [{"name": "q"}]}
    result = apply_strategic(account, patch, builtin("", "ServiceAccount"))
    assert sorted(column(result["secrets"])) == ["a", "b"]
    assert result["imagePullSecrets"] == [{"name": "q"}]


@pytest.mark.parametrize(
    ("before", "change", "order", "after"),
    [
        ("abc", "d", None, "dabc"),
        ("abc", "ca", None, "bca"),
        ("abcd", "ce", None, "abced"),
        ("abcd", "", "db", "acdb"),
        ("abcd", "", "dcba", "dcba"),
        ("abcd", "x", "bxa", "bxacd"),
        ("abcd", "", "zyb", "abcd"),
        ("", "ab", "ba", None),
        ("", "ba", "xba", "ba"),
    ],
)
def test_items_of_the_patch_have_its_order_and_others_keep_their_relative_position(before, change, order, after):
    def named(letters: str) -> Any:
        return [{"name": letter} for letter in letters]

    patch: Any = {"containers": named(change)} if change else {}
    if order is not None:
        patch["$setElementOrder/containers"] = named(order)
    if after is None:
        with pytest.raises(BadPatch, match="out of the order"):
            patched(patch, {"containers": named(before)})
    else:
        assert column(patched(patch, {"containers": named(before)})["containers"]) == list(after)


def test_a_new_ordered_item_takes_the_place_of_a_deleted_one_at_the_end():
    containers = [{"name": "1"}, {"name": "2"}, {"name": "4"}]
    change: Any = {
        "$setElementOrder/containers": [{"name": "2"}, {"name": "3"}],
        "containers": [{"name": "3"}, {"name": "1", "$patch": "delete"}],
    }
    assert column(patched(change, {"containers": containers})["containers"]) == ["2", "4", "3"]
    del change["containers"][1]
    assert column(patched(change, {"containers": containers})["containers"]) == ["1", "2", "3", "4"]


def test_the_order_of_a_set_can_be_given():
    patch = {"metadata": {"$setElementOrder/finalizers": ["c", "a"], "finalizers": ["c"]}}
    assert apply_strategic(finalizers("a", "b"), patch, CONFIG_MAP) == finalizers("c", "a", "b")


def test_maps_with_a_patch_directive_are_left_out_where_there_is_nothing_to_merge_with():
    change = {
        "containers": [{"$patch": "replace"}, {"name": "a", "env": [{"name": "X", "$patch": "delete"}], "tty": None}],
        "$setElementOrder/containers": [{"name": "a"}],
        "nodeSelector": {"$patch": "replace", "rack": "r"},
        "affinity": {"$patch": "delete"},
        "volumes": [{"name": "v", "$retainKeys": ["name"], "$patch": "merge"}],
        "$deleteFromPrimitiveList/none": ["x"],
        "securityContext": {"$setElementOrder/groups": [1], "user": None},
    }
    assert apply_strategic(None, deployment(change), DEPLOYMENT) == deployment(
        {
            "containers": [{"name": "a", "env": []}],
            "$setElementOrder/containers": [{"name": "a"}],  # as kube-apiserver, which finds no such field then
            "volumes": [{"name": "v", "$retainKeys": ["name"]}],
            "$deleteFromPrimitiveList/none": ["x"],
            "securityContext": {"$setElementOrder/groups": [1]},
        }
    )


def test_a_map_with_strategy_replace_is_replaced():
    budget = builtin("policy", "PodDisruptionBudget")
    result = apply_strategic({"spec": {"selector": {"a": 1}}}, {"spec": {"selector": {"b": 1}}}, budget)
    assert result == {"spec": {"selector": {"b": 1}}}


def test_something_of_another_type_is_replaced():
    assert patched({"containers": {"a": 1}, "nodeSelector": [1], "tolerations": 5}) | {"volumes": []} == {
        **POD,
        "containers": {"a": 1},
        "nodeSelector": [1],
        "tolerations": 5,
        "volumes": [],
    }


def test_the_first_of_two_items_with_one_key_is_merged_and_both_are_deleted():
    ports: Any = [{"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}, {"port": 80}]
    change = {"spec": {"ports": [{"port": 53, "name": "dns"}]}}
    result = apply_strategic({"spec": {"ports": ports}}, change, SERVICE)["spec"]["ports"]
    assert result == [{**ports[0], "name": "dns"}, *ports[1:]]
    gone = {"spec": {"ports": [{"port": 53, "$patch": "delete"}]}}
    assert apply_strategic({"spec": {"ports": ports}}, gone, SERVICE)["spec"]["ports"] == ports[2:]


def test_an_item_of_the_document_without_its_key_is_left_alone():
    pod = {"containers": [{"image": "odd"}, 5, {"name": "a"}]}
    assert patched({"containers": [{"name": "a", "tty": True}]}, pod)["containers"] == [
        {"image": "odd"},
        5,
        {"name": "a", "tty": True},
    ]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"containers": ["a"]}, "containers[0]"),
        ({"containers": [{"name": None}]}, "containers[0]"),
        ({"containers": [{"name": {}}]}, "containers[0]"),
        ({"containers": [{"$patch": "delete"}]}, "containers[0]"),
        ({"$patch": 5}, "$patch"),
        ({"$patch": None}, "$patch"),
        ({"nodeSelector": {"$patch": ["replace"]}}, "nodeSelector.$patch"),
        ({"$retainKeys": "name"}, "$retainKeys"),
        ({"$retainKeys": [1]}, "$retainKeys"),
        ({"$retainKeys": ["volumes"], "containers": []}, "containers"),
        ({"$setElementOrder/containers": {}}, "[$setElementOrder/containers]"),
        ({"$setElementOrder/containers": ["a"]}, "[$setElementOrder/containers][0]"),
        ({"$setElementOrder/tolerations": [{"key": "k1"}]}, "[$setElementOrder/tolerations][0]"),
        ({"$setElementOrder/containers": [], "containers": {}}, "containers"),
        ({"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "b"}]}, "containers"),
        ({"$setElementOrder": []}, "$setElementOrder"),
        ({"$setElementOrder/": []}, "[$setElementOrder/]"),
        ({"$setElementOrders/x": []}, "[$setElementOrders/x]"),
        ({"$deleteFromPrimitiveList/tolerations": "x"}, "[$deleteFromPrimitiveList/tolerations]"),
        ({"$deleteFromPrimitiveList/tolerations": [{}]}, "[$deleteFromPrimitiveList/tolerations]"),
    ],
)
def test_an_invalid_patch_is_refused_with_its_field(change, field):
    with pytest.raises(BadPatch) as caught:
        patched(change)
    joint = "" if field.startswith("[") else "."
    assert caught.value.field == f"spec.template.spec{joint}{field}"


def test_a_set_takes_scalars_only():
    with pytest.raises(BadPatch, match=r"metadata\.finalizers is a set of scalars"):
        apply_strategic(finalizers("a"), finalizers({"name": "a"}), CONFIG_MAP)


@pytest.mark.parametrize("patch", [None, [], "x", 1])
def test_a_patch_must_be_an_object(patch):
    with pytest.raises(BadPatch):
        apply_strategic({}, patch, ANYTHING)


def test_a_document_must_be_an_object_and_an_ordered_list_a_list():
    with pytest.raises(PatchFailed):
        apply_strategic([], {}, ANYTHING)
    with pytest.raises(PatchFailed) as caught:
        patched({"$setElementOrder/containers": []}, {"containers": 5})
    assert caught.value.path == "/spec/template/spec/containers"


def test_a_result_shares_nothing_with_the_patch():
    patch: Any = {
        "containers": [{"name": "c", "args": ["x"]}],
        "affinity": {"x": {"y": [1]}},
        "tolerations": [{"key": "k"}],
    }
    before = copy_tree(patch)
    pod = patched(patch)
    next(one for one in pod["containers"] if one["name"] == "c")["args"].append("y")
    pod["affinity"]["x"]["y"].append(2)
    pod["tolerations"][0]["k"] = 2
    assert patch == before


def test_patches_too_deep_to_walk_are_refused():
    with pytest.raises(BadPatch, match="too deeply"):
        apply_strategic({}, deep(100_000, 1), ANYTHING)
    with pytest.raises(BadPatch, match="too deeply"):
        make_strategic(deep(100_000, 1), deep(100_000, 2), ANYTHING)


# -- created patches -------------------------------------------------------------------------------------------


def made(before: Any, after: Any) -> Any:
    """The patch between two pod specs."""
    return (
        make_strategic(deployment(before), deployment(after), DEPLOYMENT)
        .get("spec", {})
        .get("template", {})
        .get("spec")
    )


def test_a_patch_contains_only_the_changes():
    containers = [{**POD["containers"][1], "image": "b:2"}, {"name": "c"}]
    after = {**POD, "containers": containers, "nodeSelector": {"zone": "b"}, "tolerations": []}
    assert made(POD, POD) is None
    assert made(POD, after) == {
        "containers": [{"name": "b", "image": "b:2"}, {"name": "c"}, {"$patch": "delete", "name": "a"}],
        "$setElementOrder/containers": [{"name": "b"}, {"name": "c"}],
        "nodeSelector": {"zone": "b", "disk": None},
        "tolerations": [],
    }


def test_a_change_of_order_only_gives_a_patch_with_an_order_only():
    assert made(POD, {**POD, "containers": POD["containers"][::-1]}) == {
        "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]
    }


def test_a_patch_has_retain_keys_where_the_strategy_requires_it():
    after = {**POD, "volumes": [{"name": "v1", "configMap": {"name": "c"}}, POD["volumes"][1]]}
    assert made(POD, after)["volumes"] == [
        {"name": "v1", "configMap": {"name": "c"}, "emptyDir": None, "$retainKeys": ["configMap", "name"]}
    ]
    before = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    patch = make_strategic(before, {"spec": {"strategy": {"type": "Recreate"}}}, DEPLOYMENT)
    assert patch["spec"]["strategy"]["$retainKeys"] == ["type"]


def test_a_patch_of_a_set_adds_removes_and_orders():
    assert make_strategic(finalizers("a", "b"), finalizers("c", "b"), CONFIG_MAP) == {
        "metadata": {
            "finalizers": ["c"],
            "$deleteFromPrimitiveList/finalizers": ["a"],
            "$setElementOrder/finalizers": ["c", "b"],
        }
    }


def test_duplicates_in_a_set_are_removed_together_or_the_set_is_replaced():
    patch = make_strategic(finalizers("a", "b", "b"), finalizers("a"), CONFIG_MAP)
    assert patch["metadata"]["$deleteFromPrimitiveList/finalizers"] == ["b"]
    patch = make_strategic(finalizers("a", "a", "b"), finalizers("a"), CONFIG_MAP)
    assert patch == finalizers({"$patch": "replace"}, "a")


def test_lists_with_duplicate_keys_are_replaced():
    before = {"spec": {"ports": [{"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]}}
    after = {"spec": {"ports": [{"port": 53, "protocol": "UDP"}]}}
    patch = make_strategic(before, after, SERVICE)
    assert patch == {"spec": {"ports": [{"$patch": "replace"}, {"port": 53, "protocol": "UDP"}]}}
    assert apply_strategic(before, patch, SERVICE) == after


@pytest.mark.parametrize(
    ("after", "field"),
    [
        ({"data": None}, "data"),
        ({"data": {"x": {"y": None}}}, "data.x.y"),
        ({"data": [{"x": None}]}, "data[0].x"),
        ({"$patch": "delete"}, "$patch"),
        ({"data": {"$retainKeys": []}}, "data.$retainKeys"),
    ],
)
def test_a_change_that_no_patch_can_express_is_refused_with_its_field(after, field):
    with pytest.raises(BadPatch) as caught:
        make_strategic({"data": {"x": 1}}, after, CONFIG_MAP)
    assert caught.value.field == field


def test_a_patch_is_made_of_objects():
    with pytest.raises(BadPatch):
        make_strategic([], {}, ANYTHING)


def test_a_three_way_patch_keeps_fields_of_others_and_removes_applied_ones():
    original = {"data": {"mine": "1", "gone": "1", "void": "1"}, **finalizers("a", "b")}
    modified = {"data": {"mine": "2", "nothing": None}, **finalizers("a")}
    current = {"data": {"mine": "1", "gone": "1", "theirs": "1", "nothing": "x"}, **finalizers("z", "a", "b")}
    patch = make_strategic_three_way(original, modified, current, CONFIG_MAP)
    assert patch["data"] == {"mine": "2", "gone": None, "nothing": None}
    result = apply_strategic(current, patch, CONFIG_MAP)
    assert result == {"data": {"mine": "2", "theirs": "1"}, **finalizers("z", "a")}


def test_a_three_way_patch_keeps_injected_containers():
    def pods(*names: str) -> Any:
        return deployment({"containers": [{"name": name, "image": name} for name in names]})

    patch = make_strategic_three_way(pods("a", "b"), pods("c", "a"), pods("sidecar", "a", "b"), DEPLOYMENT)
    result = apply_strategic(pods("sidecar", "a", "b"), patch, DEPLOYMENT)
    assert column(result["spec"]["template"]["spec"]["containers"]) == ["sidecar", "c", "a"]


def test_a_three_way_patch_is_empty_without_changes():
    live = {**deployment(POD), "status": {"replicas": 1}}
    assert make_strategic_three_way(deployment(POD), deployment(POD), live, DEPLOYMENT) == {}
    assert make_strategic_three_way(None, deployment(POD), live, DEPLOYMENT) == {}


def test_a_three_way_patch_drops_nulls_in_added_values():
    modified = {"metadata": {"creationTimestamp": None, "labels": {"a": "1", "b": None}}, "spec": {"t": [{"x": None}]}}
    patch = make_strategic_three_way(None, modified, {}, CONFIG_MAP)
    assert patch == {"metadata": {"labels": {"a": "1"}}, "spec": {"t": [{}]}}


# -- laws ------------------------------------------------------------------------------------------------------------

SHAPE = shape_of(
    {
        "properties": {
            "a": {
                "items": {"$ref": "#/d/item"},
                "x-kubernetes-patch-merge-key": "a",
                "x-kubernetes-patch-strategy": "merge,retainKeys",
            },
            "b": {"x-kubernetes-patch-strategy": "merge"},
            "c": {"$ref": "#/d/item", "x-kubernetes-patch-strategy": "retainKeys"},
            "a/b": {"$ref": "#/d/item", "x-kubernetes-patch-strategy": "replace"},
            "~": {"$ref": "#/d/item"},
        }
    },
    {"item": {"properties": {"b": {"x-kubernetes-patch-strategy": "merge"}, "c": {"$ref": "#/d/item"}}}},
)
whole = some.booleans() | some.integers(0, 2) | some.sampled_from([1.0, "", "x"])
items = some.fixed_dictionaries({"a": some.sampled_from(["x", "y", "z", 1, True])}, optional={"b": trees(whole, 4)})
documents = some.fixed_dictionaries(
    {},
    optional={
        "a": some.lists(items, max_size=4) | trees(whole, 4),
        "b": some.lists(whole, max_size=4) | trees(whole, 4),
        "c": some.dictionaries(some.sampled_from(["b", "c", "d"]), trees(whole, 4), max_size=3),
        "a/b": some.dictionaries(some.sampled_from(["b", "c", "d"]), trees(whole, 4), max_size=3),
        "~": maps(whole, 6),
        "0": maps(whole, 6),
    },
)
directives = some.fixed_dictionaries(
    {},
    optional={
        "$patch": some.sampled_from(["merge", "replace", "delete", "explode", 1]),
        "$retainKeys": some.lists(some.sampled_from(["a", "b", "c", 1]), max_size=3),
        "$setElementOrder/a": some.lists(items, max_size=3) | trees(size=3),
        "$setElementOrder/b": some.lists(whole, max_size=3),
        "$deleteFromPrimitiveList/b": some.lists(scalars, max_size=3),
        "a": some.lists(some.builds(lambda one, two: {**one, **two}, items, maps(size=2)), max_size=3) | trees(size=4),
        "b": some.lists(scalars, max_size=3),
        "c": trees(size=4),
    },
)


@given(before=documents, after=documents)
def test_a_patch_leads_from_one_object_to_the_other(before, after):
    assert same(apply_strategic(before, make_strategic(before, after, SHAPE), SHAPE), after)


@given(original=documents, modified=documents, current=documents)
def test_a_three_way_patch_applies_all_changes_and_is_then_empty(original, modified, current):
    patch = make_strategic_three_way(original, modified, current, SHAPE)
    result = apply_strategic(current, patch, SHAPE)
    assert make_strategic_three_way(modified, modified, result, SHAPE) == {}


@given(document=documents, patch=directives | maps())
def test_any_patch_is_applied_or_refused_and_changes_neither_argument(document, patch):
    document_before, patch_before = copy_tree(document), copy_tree(patch)
    try:
        apply_strategic(document, patch, SHAPE)
    except (BadPatch, PatchFailed) as error:
        assert str(error)
    assert same(document, document_before)
    assert same(patch, patch_before)


@given(document=trees(), patch=trees())
def test_without_a_shape_it_is_a_merge_patch_that_prunes(document, patch):
    try:
        apply_strategic(document, patch, ANYTHING)
    except (BadPatch, PatchFailed) as error:
        assert str(error)


@given(document=documents)
def test_an_empty_patch_changes_nothing(document):
    assert apply_strategic(document, {}, SHAPE) == document
    assert make_strategic(document, document, SHAPE) == {}


def test_the_items_of_a_list_are_merged_before_the_key_of_the_next_one_is_missed() -> None:
    document = {"spec": {"template": {"spec": {"containers": [{"name": "a", "volumeMounts": [{"mountPath": "/a"}]}]}}}}
    mounts: list[Any] = [{"mountPath": "/a", "$retainKeys": []}, {}]
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "a", "volumeMounts": mounts}]}}}}
    with pytest.raises(BadPatch, match="does not retain it"):
        apply_strategic(document, patch, DEPLOYMENT)
    mounts[1] = "text"
    with pytest.raises(BadPatch, match="must be an object with mountPath"):
        apply_strategic(document, patch, DEPLOYMENT)


def test_a_value_of_any_type_can_be_removed_as_a_whole() -> None:
    patch = {"data": {"a": {}, "$patch": "delete"}}
    assert apply_strategic({"data": {"a": {}}}, patch, builtin("apps", "ControllerRevision")) == {"data": {}}
