from copy import deepcopy
from typing import Any

import pytest

from levelset.apiserver.registry.strategy import (
    PreparedUpdate,
    accept_new,
    complete_new,
    decode_new,
    must_stay,
    prepare_update,
    validate_new,
)
from levelset.apiserver.resources.served_resource import Rules
from levelset.apiserver.resources.server_state import Tree
from levelset.apiserver.wire.request_options import WriteOptions
from levelset.errors import Invalid
from tests.apiserver.support.server_state import make_served, make_state, widget

OLD = widget(
    spec={"color": "red", "replicas": 1},
    namespace="x",
    uid="u",
    creationTimestamp="2001-01-01T00:00:00Z",
    generation=1,
    resourceVersion="5",
)


def settle(change: dict[str, Any], *, rules: Rules | None = None, **options: Any) -> PreparedUpdate:
    state, served = make_state(make_served(rules=rules or Rules()))
    new = {**deepcopy(OLD), **deepcopy(change)}
    return prepare_update(state, served, deepcopy(OLD), new, WriteOptions("m", **options))


def new_object(tree: Tree, **changes: Any) -> Tree:
    state, served = make_state(make_served(**changes))
    decoded = decode_new(served, "x", tree, WriteOptions())
    complete_new(state, served, "x", tree, decoded, options=WriteOptions())
    validate_new(state, served, tree, decoded.causes, WriteOptions())
    return tree


def test_a_new_object_loses_its_status_if_it_is_a_subresource() -> None:
    assert "status" not in new_object({**widget(), "status": {"ok": True}})
    assert new_object({**widget(), "status": {"ok": True}}, status=False)["status"] == {"ok": True}


def test_an_invalid_status_that_is_dropped_is_ignored() -> None:
    new_object({**widget(), "status": "text"})


def test_the_rules_of_a_kind_can_default_and_prepare_a_new_object() -> None:
    def prepare(tree: Tree) -> None:
        tree["spec"] = {"color": tree["metadata"]["name"]}

    assert new_object(widget(), rules=Rules(prepare_create=prepare))["spec"] == {"color": "a"}


def test_a_client_can_send_managed_fields_with_a_new_object() -> None:
    entry = {"manager": "x", "operation": "Apply", "apiVersion": "example.com/v1", "fieldsType": "FieldsV1"}
    tree = new_object(widget(spec={"color": "red"}, managedFields=[{**entry, "fieldsV1": {"f:spec": {"f:free": {}}}}]))
    assert {one["manager"] for one in tree["metadata"]["managedFields"]} == {"x", "kube-apiserver"}


def test_a_change_of_content_increments_the_generation() -> None:
    settled = settle({"spec": {"color": "blue", "replicas": 1}})
    assert (settled.changed, settled.tree["metadata"]["generation"]) == (True, 2)


def test_replacing_true_by_a_number_is_a_change() -> None:
    old = {**OLD, "spec": {"replicas": 1, "free": {"a": 1}}}
    state, served = make_state()
    settled = prepare_update(state, served, old, {**deepcopy(old), "spec": {"free": {"a": True}}}, WriteOptions())
    assert settled.tree["metadata"]["generation"] == 2


def test_leaving_out_defaults_is_not_a_change() -> None:
    assert not settle({"spec": {"color": "red"}}).changed


def test_a_kind_without_generation_gets_none() -> None:
    state, served = make_state(make_served(rules=Rules(generation=False)))
    old = {**OLD, "metadata": {key: value for key, value in OLD["metadata"].items() if key != "generation"}}
    settled = prepare_update(state, served, old, {**deepcopy(old), "spec": {"color": "x"}}, WriteOptions())
    assert "generation" not in settled.tree["metadata"]


def test_an_update_can_neither_start_nor_undo_a_deletion() -> None:
    with pytest.raises(Invalid) as caught:
        settle({"metadata": {**OLD["metadata"], "deletionTimestamp": "2001-01-01T00:00:00Z"}})
    assert [one.field for one in caught.value.causes] == ["metadata.deletionTimestamp"] * 2  # as kube-apiserver
    assert caught.value.message.count("metadata.deletionTimestamp") == 1


def test_each_endpoint_has_its_own_hook() -> None:
    called: list[str] = []
    rules = Rules(
        prepare_update=lambda new, old: called.append("main"),
        prepare_part=lambda new, old, part, now: called.append(part),
    )
    settle({}, rules=rules)
    settle({}, rules=rules, subresource="status")
    assert called == ["main", "status"]


def test_finalizers_grace_period_and_the_kind_can_block_removal() -> None:
    served = make_served()
    assert must_stay(served, {"metadata": {"finalizers": ["f"]}})
    assert must_stay(served, {"metadata": {"deletionGracePeriodSeconds": 5}})
    assert must_stay(make_served(rules=Rules(held=lambda tree: True)), {"metadata": {}})
    assert not must_stay(served, {"metadata": {"deletionGracePeriodSeconds": 0}})


def test_warnings_are_collected() -> None:
    options = WriteOptions()
    state, served = make_state()
    owner = {"apiVersion": "v1", "kind": "K", "name": "o", "uid": "u"}
    tree = widget(finalizers=["short"], ownerReferences=[owner, owner])
    decoded = decode_new(served, "x", tree, options)
    complete_new(state, served, "x", tree, decoded, options=options)
    assert len(options.warnings) == 1
    assert tree["metadata"]["ownerReferences"] == [owner]
    accept_new(served, tree, decoded, options, is_applied=False)  # of an object that is valid
    assert len(options.warnings) == 2
