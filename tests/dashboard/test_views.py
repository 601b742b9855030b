"""The views of the page: short, bounded and without secrets, for any input."""

import json
from typing import Any

import pytest

from levelset.client.discovery import ApiResource
from levelset.dashboard import views
from levelset.errors import BadRequest
from levelset.objects import GroupVersionKind, Ref
from levelset.objects.ref import GroupVersionResource
from levelset.runtime.controller.actions import Action, Outcome
from levelset.runtime.controller.request import CHANGED
from levelset.runtime.controller.running_controller import RunningStats

POD = GroupVersionKind("", "v1", "Pod")
SITE = GroupVersionKind("example.dev", "v1", "Website")
ODD: list[Any] = [
    *(None, 1, "x", [], [[]], {"metadata": 1}, {"metadata": {"name": [], "ownerReferences": [1, {}]}}),
    {"status": {"conditions": "x"}},
    {"status": {"conditions": [{"type": {}, "status": []}]}, "spec": 3},
    {"status": {"phase": {}, "readyReplicas": "2"}, "spec": {"replicas": []}},
    {"involvedObject": 3, "series": []},
    {"status": {"containerStatuses": [1, {"state": {"waiting": {"reason": 3}}}], "initContainerStatuses": {}}},
]


def condition(name: str, status: str, reason: str = "") -> dict[str, str]:
    return {"type": name, "status": status, "reason": reason}


def waiting(reason: str) -> dict[str, Any]:
    return {"name": "web", "state": {"waiting": {"reason": reason}}}


@pytest.mark.parametrize(
    ("tree", "state", "tone"),
    [
        ({}, "", "none"),
        ({"status": {"phase": "Running"}}, "Running", "good"),
        ({"status": {"phase": "Pending"}}, "Pending", "busy"),
        ({"status": {"state": "Failed"}}, "Failed", "bad"),
        ({"status": {"phase": "Running", "conditions": [condition("Ready", "False")]}}, "Running, not Ready", "busy"),
        ({"status": {"phase": "Succeeded", "conditions": [condition("Ready", "False")]}}, "Succeeded", "good"),
        ({"status": {"phase": "Pending", "conditions": [condition("Ready", "False")]}}, "Pending", "busy"),
        (
            {"status": {"phase": "Unpaid", "conditions": [condition("Ready", "False", "No")]}},
            "Unpaid, not Ready: No",
            "bad",
        ),
        ({"status": {"phase": "Unpaid", "conditions": [condition("Ready", "True")]}}, "Unpaid", "busy"),
        (
            {"status": {"phase": "Active", "conditions": [condition("Available", "False")]}},
            "Active, not Available",
            "busy",
        ),
        ({"status": {"phase": "Pending", "containerStatuses": [waiting("ErrImagePull")]}}, "ErrImagePull", "bad"),
        ({"status": {"phase": "Pending", "initContainerStatuses": [waiting("Pulling")]}}, "Pulling", "busy"),
        ({"status": {"phase": "Running"}, "metadata": {"deletionTimestamp": "now"}}, "being deleted", "busy"),
        ({"spec": {"replicas": 3}, "status": {"replicas": 3, "readyReplicas": 2}}, "2/3 ready", "busy"),
        ({"spec": {"replicas": 3}, "status": {"readyReplicas": 3}}, "3/3 ready", "good"),
        ({"status": {"conditions": [condition("Ready", "True")]}}, "Ready", "good"),
        ({"status": {"conditions": [condition("Ready", "False", "NoImage")]}}, "not Ready: NoImage", "bad"),
        ({"status": {"conditions": [condition("Ready", "Unknown")]}}, "not Ready", "busy"),
        ({"status": {"conditions": [condition("Failed", "True"), condition("Complete", "False")]}}, "Failed", "bad"),
        ({"status": {"conditions": [condition("Own", "True")]}}, "Own", "none"),
    ],
)
def test_a_row_has_the_state_of_an_object(tree: Any, state: str, tone: str) -> None:
    row = views.row_of(tree)
    assert (row["state"], row["tone"]) == (state, tone)


@pytest.mark.parametrize("tree", ODD)
def test_any_tree_becomes_a_row_and_an_object(tree: Any) -> None:
    assert json.dumps(views.row_of(tree))
    assert views.object_text(views.shown_tree(tree))["text"]


@pytest.mark.parametrize("tree", [one for one in ODD if isinstance(one, dict)])
def test_any_map_becomes_an_event(tree: Any) -> None:
    assert json.dumps(views.event_view(tree))
    assert json.dumps(views.container_states({**tree, "kind": "Pod"})) is not None


def test_the_containers_of_a_pod_say_how_they_run_and_how_their_last_run_ended() -> None:
    ended = {"exitCode": 1, "message": "no database\n"}
    states = [
        {"name": "web", "ready": True, "restartCount": 2, "state": {"running": {"startedAt": "now"}}},
        {"name": "slow", "ready": False, "state": {"running": {}}},
        {
            "name": "db",
            "restartCount": 3,
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 20s"}},
            "lastState": {"terminated": ended},
        },
    ]
    init = [{"name": "init", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]
    names = ("web", "slow", "db", "new")
    spec = {"initContainers": [{"name": "init"}], "containers": [{"name": name, "image": "i"} for name in names]}
    status = {"initContainerStatuses": init, "containerStatuses": states}
    found = views.container_states({"kind": "Pod", "spec": spec, "status": status})
    assert [(one["name"], one["state"], one["tone"], one["restarts"]) for one in found] == [
        ("init", "Completed", "good", 0),
        ("web", "running", "good", 2),
        ("slow", "running, not ready", "busy", 0),
        ("db", "CrashLoopBackOff", "bad", 3),
        ("new", "waiting", "busy", 0),
    ]
    assert found[3]["message"] == "back-off 20s; the last run ended with exit code 1: no database"
    assert views.container_states({"kind": "Website", "spec": spec}) == []


def test_a_row_names_the_controller_owner() -> None:
    first = {"apiVersion": "v1", "kind": "Node", "name": "n"}
    owners = [first, {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": True}]
    row = views.row_of({"metadata": {"name": "p", "namespace": "a", "ownerReferences": owners}})
    assert row["owner"] == {"kind": "apps/v1/ReplicaSet", "name": "web", "namespace": "a"}


def test_long_texts_and_many_conditions_are_truncated() -> None:
    row = views.row_of({"status": {"phase": "x" * 10_000, "conditions": [condition("A", "True")] * 100}})
    assert len(json.dumps(row)) < 5_000
    assert len(views.event_view({"message": "x" * 10_000})["message"]) == 2_000


def test_the_values_of_a_secret_are_never_shown() -> None:
    applied = {"kubectl.kubernetes.io/last-applied-configuration": '{"stringData":{"key":"hunter2"}}', "a": "b"}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "annotations": applied, "managedFields": [{"manager": "hunter2"}]},
        "data": {"key": "aHVudGVyMg==", "odd": 7},
        "stringData": {"key": "hunter2"},
        "type": "Opaque",
    }
    text = views.object_text(views.shown_tree(secret))["text"]
    assert "hunter2" not in text
    assert "aHVudGVyMg" not in text
    assert "key: (hidden, 12 characters)" in text
    assert "a: b" in text
    assert secret["stringData"] == {"key": "hunter2"}  # the input is not changed


@pytest.mark.parametrize("data", [None, 7, "hunter2", ["hunter2"]])
def test_malformed_secret_data_is_not_shown_either(data: Any) -> None:
    shown = views.shown_tree({"apiVersion": "v1", "kind": "Secret", "metadata": {}, "data": data})
    assert "hunter2" not in json.dumps(shown)


def test_other_kinds_show_their_data_without_managed_fields() -> None:
    tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"managedFields": []}, "data": {"a": "b"}}
    assert views.shown_tree(tree) == {**tree, "metadata": {}}


def test_the_text_of_an_object_begins_with_its_name_and_has_no_annotations_where_all_are_hidden() -> None:
    applied = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
    meta = {"resourceVersion": "7", "annotations": applied, "name": "blog", "namespace": "default"}
    tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
    shown = views.shown_tree(tree)["metadata"]
    assert shown == {"name": "blog", "namespace": "default", "resourceVersion": "7"}
    assert next(iter(shown)) == next(iter(views.shown_tree(tree, is_whole=True)["metadata"])) == "name"
    assert views.shown_tree(tree, is_whole=True)["metadata"] == meta


def test_a_long_object_is_json_and_a_very_long_one_is_truncated() -> None:
    assert views.object_text({"a": "b"}) == {"language": "yaml", "text": "a: b\n", "isCut": False}
    assert views.object_text({"a": "b" * 100_000})["language"] == "json"
    cut = views.object_text({"a": "b" * 1_000_000})
    assert cut["isCut"]
    assert len(cut["text"]) == 512 * 1024


def test_events_are_newest_first_and_limited() -> None:
    trees = [{"lastTimestamp": f"2026-01-0{day}T00:00:00Z", "count": day} for day in (2, 1, 3)]
    assert [one["count"] for one in views.newest_events(trees, 2)] == [3, 2]


def test_kinds_with_a_controller_come_first_in_any_version() -> None:
    served = [
        ApiResource(gvr=GroupVersionResource(gvk.group, gvk.version, "x"), gvk=gvk, namespaced=True)
        for gvk in (POD, SITE)
    ]
    found = views.kinds_view(served, {POD: 2}, [SITE._replace(version="v1beta1")])
    assert [(one["kind"], one["count"], one["hasController"]) for one in found] == [
        ("example.dev/v1/Website", None, True),
        ("v1/Pod", 2, False),
    ]


def test_a_controller_is_shown_with_its_last_error() -> None:
    ref = Ref(SITE, "blog", "default")
    bad = Outcome(ref, "failed", Action(1.0), ValueError("no <image>"), 0.1, (CHANGED,))
    good = Outcome(ref, "done", Action(), None, 0.1, (CHANGED,))
    stats = RunningStats("sites", True, 1, 2, 1, 4, 9, 9, 1)
    shown = views.controller_view(stats, SITE, [bad, good], [0.5, 2.0])
    assert (shown["waiting"], shown["delayed"], shown["running"], shown["longest"]) == (1, 2, 1, 2.0)
    assert shown["errors"] == 1
    assert shown["lastError"]["message"] == "ValueError: no <image>"


@pytest.mark.parametrize("text", [None, "", "Pod", "/", "v1/", "a/b/c/d", "<script>/x"])
def test_an_invalid_kind_is_refused_with_an_example(text: str | None) -> None:
    with pytest.raises(BadRequest, match="apps/v1/Deployment"):
        views.read_kind(text)


@pytest.mark.parametrize("gvk", [POD, SITE])
def test_a_kind_is_formatted_and_parsed(gvk: GroupVersionKind) -> None:
    assert views.read_kind(views.kind_text(gvk)) == gvk
