from copy import deepcopy
from typing import Any

import pytest

from levelset.apiserver.registry.strategy import Settled, begin_create, finish_create, is_kept, settle_update
from levelset.apiserver.resources.served_resource import Rules
from levelset.apiserver.resources.server_state import Tree
from levelset.apiserver.wire.request_options import WriteOptions
from levelset.errors import Invalid
from tests.apiserver.writes import make_served, make_world, widget

OLD = widget(
    spec={"color": "red", "replicas": 1},
    namespace="x",
    uid="u",
    creationTimestamp="t",
    generation=1,
    resourceVersion="5",
)


def settle(change: dict[str, Any], *, rules: Rules | None = None, **options: Any) -> Settled:
    world, served = make_world(make_served(rules=rules or Rules()))
    new = {**deepcopy(OLD), **deepcopy(change)}
    return settle_update(world, served, deepcopy(OLD), new, WriteOptions("m", **options))


def new_object(tree: Tree, **changes: Any) -> Tree:
    world, served = make_world(make_served(**changes))
    decoded = begin_create(served, "x", tree, WriteOptions())
    finish_create(world, served, "x", tree, decoded, options=WriteOptions())
    return tree


def test_a_new_object_loses_its_status_if_that_is_apart() -> None:
    assert "status" not in new_object({**widget(), "status": {"ok": True}})
    assert new_object({**widget(), "status": {"ok": True}}, status=False)["status"] == {"ok": True}


def test_what_is_wrong_with_a_status_that_is_dropped_does_not_matter() -> None:
    new_object({**widget(), "status": "text"})


def test_the_rules_of_a_kind_may_fill_in_a_new_object() -> None:
    def prepare(tree: Tree) -> None:
        tree["spec"] = {"color": tree["metadata"]["name"]}

    assert new_object(widget(), rules=Rules(prepare_create=prepare))["spec"] == {"color": "a"}


def test_a_client_may_bring_managers_of_its_own_to_a_new_object() -> None:
    entry = {"manager": "x", "operation": "Apply", "apiVersion": "example.com/v1", "fieldsType": "FieldsV1"}
    tree = new_object(widget(spec={"color": "red"}, managedFields=[{**entry, "fieldsV1": {"f:spec": {"f:free": {}}}}]))
    assert {one["manager"] for one in tree["metadata"]["managedFields"]} == {"x", "unknown"}


def test_a_change_of_content_counts_a_generation() -> None:
    settled = settle({"spec": {"color": "blue", "replicas": 1}})
    assert (settled.changed, settled.tree["metadata"]["generation"]) == (True, 2)


def test_a_number_in_the_place_of_true_is_a_change() -> None:
    old = {**OLD, "spec": {"replicas": 1, "free": {"a": 1}}}
    world, served = make_world()
    settled = settle_update(world, served, old, {**deepcopy(old), "spec": {"free": {"a": True}}}, WriteOptions())
    assert settled.tree["metadata"]["generation"] == 2


def test_no_change_is_no_change_even_if_defaults_were_left_out() -> None:
    assert not settle({"spec": {"color": "red"}}).changed


def test_a_kind_without_generations_has_none() -> None:
    world, served = make_world(make_served(rules=Rules(generation=False)))
    old = {**OLD, "metadata": {key: value for key, value in OLD["metadata"].items() if key != "generation"}}
    settled = settle_update(world, served, old, {**deepcopy(old), "spec": {"color": "x"}}, WriteOptions())
    assert "generation" not in settled.tree["metadata"]


def test_a_deletion_cannot_be_begun_or_undone_by_an_update() -> None:
    with pytest.raises(Invalid) as caught:
        settle({"metadata": {**OLD["metadata"], "deletionTimestamp": "2001-01-01T00:00:00Z"}})
    assert [one.field for one in caught.value.causes] == ["metadata.deletionTimestamp"]


def test_each_endpoint_has_its_own_hook() -> None:
    called: list[str] = []
    rules = Rules(
        prepare_update=lambda new, old: called.append("main"), prepare_status=lambda new, old: called.append("status")
    )
    settle({}, rules=rules)
    settle({}, rules=rules, subresource="status")
    assert called == ["main", "status"]


def test_finalizers_grace_and_the_kind_keep_an_object() -> None:
    served = make_served()
    assert is_kept(served, {"metadata": {"finalizers": ["f"]}})
    assert is_kept(served, {"metadata": {"deletionGracePeriodSeconds": 5}})
    assert is_kept(make_served(rules=Rules(held=lambda tree: True)), {"metadata": {}})
    assert not is_kept(served, {"metadata": {"deletionGracePeriodSeconds": 0}})


def test_warnings_are_collected() -> None:
    options = WriteOptions()
    world, served = make_world()
    owner = {"apiVersion": "v1", "kind": "K", "name": "o", "uid": "u"}
    tree = widget(finalizers=["short"], ownerReferences=[owner, owner])
    finish_create(world, served, "x", tree, begin_create(served, "x", tree, options), options=options)
    assert len(options.warnings) == 2
    assert tree["metadata"]["ownerReferences"] == [owner]
