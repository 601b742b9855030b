"""Bindings: a scheduler assigns a pod to a node, once, with the permission and the admission for it."""

from typing import Any

import pytest

from tests.apiserver.support.admission_plugins import RecordingPlugin, adding
from tests.apiserver.support.admission_policies import enforce_policy, validating
from tests.apiserver.support.admission_policies import rule as covers
from tests.apiserver.support.in_process_server import InProcessServer, open_server
from tests.apiserver.support.rbac_server import open_rbac_server, rule

NAMESPACE = "/api/v1/namespaces/default"
PODS = f"{NAMESPACE}/pods"
SPEC = {"containers": [{"name": "c", "image": "i"}]}


def binding(name: str, node: str = "n1", **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, **metadata}, "target": {"name": node}}


async def pod(api: InProcessServer, name: str, **metadata: Any) -> None:
    await api.create(PODS, {"metadata": {"name": name, **metadata}, "spec": SPEC})


async def bind(api: InProcessServer, name: str, node: str = "n1", **metadata: Any) -> tuple[int, Any]:
    return await api.request("POST", f"{PODS}/{name}/binding", binding(name, node, **metadata))


@pytest.mark.parametrize("path", [f"{PODS}/a/binding", f"{NAMESPACE}/bindings"])
async def test_a_pod_is_assigned_once_with_the_labels_and_annotations_of_its_binding(path: str) -> None:
    async with open_server() as api:
        await pod(api, "a", labels={"team": "red"})
        given: dict[str, Any] = {"labels": {"team": "blue", "zone": "z"}, "annotations": {"x": "y"}}
        assert (await api.request("POST", path, binding("a", **given)))[0] == 201
        found = (await api.request("GET", f"{PODS}/a"))[1]
        assert found["spec"]["nodeName"] == "n1"
        assert {name: found["metadata"][name] for name in given} == given
        assert found["metadata"]["generation"] == 1  # as kube-apiserver, though the spec has changed
        status, again = await api.request("POST", path, binding("a", "n2"))
        assert (status, again["reason"]) == (409, "Conflict")
        assert 'pod a is already assigned to node "n1"' in again["message"]


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"metadata": {"name": "b"}}, 400),
        ({"metadata": {"name": "a", "namespace": "other"}}, 400),
        ({"metadata": {"name": "a", "uid": "another"}}, 409),
        ({"metadata": {"name": "a", "resourceVersion": "1"}}, 409),
        ({"target": {"kind": "Pod", "name": "n1"}}, 500),
        ({"target": {}}, 500),
        ({"kind": "Pod"}, 400),
    ],
)
async def test_a_binding_that_is_not_of_this_pod_or_names_no_node_changes_nothing(changed: Any, status: int) -> None:
    async with open_server() as api:
        await pod(api, "a")
        await pod(api, "b")
        assert (await api.request("POST", f"{PODS}/a/binding", {**binding("a"), **changed}))[0] == status
        for name in ("a", "b"):
            assert "nodeName" not in (await api.request("GET", f"{PODS}/{name}"))[1]["spec"]


async def test_a_dry_run_and_a_pod_that_is_being_deleted_are_not_assigned() -> None:
    async with open_server() as api:
        await pod(api, "a", finalizers=["example.dev/f"])
        assert (await api.request("POST", f"{PODS}/a/binding", binding("a"), dryRun="All"))[0] == 201
        await api.request("DELETE", f"{PODS}/a")
        assert (await bind(api, "a"))[0] == 409
        assert "nodeName" not in (await api.request("GET", f"{PODS}/a"))[1]["spec"]


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
async def test_bindings_can_only_be_posted(method: str) -> None:
    async with open_server() as api:
        await pod(api, "a")
        assert (await api.request(method, f"{PODS}/a/binding", binding("a")))[0] == 405
        assert (await api.request(method, f"{NAMESPACE}/bindings", binding("a")))[0] == 405


async def test_writing_pods_does_not_permit_binding_them_and_the_two_ways_are_two_permissions() -> None:
    async with open_rbac_server() as api:
        for name in ("a", "b"):
            await api.request_as_owner("POST", PODS, {"metadata": {"name": name}, "spec": SPEC})
        await api.grant("jane", rule("*", "pods"))
        ways = {"pods/binding": f"{PODS}/a/binding", "bindings": f"{NAMESPACE}/bindings"}
        for path in ways.values():
            assert (await api.request("jane", "POST", path, binding("a")))[0] == 403
        await api.grant("jane", rule("create", "pods/binding", names="b"))
        assert (await api.request("jane", "POST", ways["pods/binding"], binding("a")))[0] == 403
        assert (await api.request("jane", "POST", ways["bindings"], binding("b")))[0] == 403
        assert (await api.request("jane", "POST", f"{PODS}/b/binding", binding("a")))[0] == 400
        assert (await api.request("jane", "POST", f"{PODS}/b/binding", binding("b")))[0] == 201
        await api.grant("jane", rule("create", "bindings"))
        assert (await api.request("jane", "POST", ways["bindings"], binding("a")))[0] == 201


@pytest.mark.parametrize(
    ("resource", "path"), [("pods/binding", f"{PODS}/a/binding"), ("bindings", f"{NAMESPACE}/bindings")]
)
async def test_policies_decide_about_bindings(resource: str, path: str) -> None:
    match = {"resourceRules": [covers(resource, operations=["CREATE"])]}
    async with open_server() as api:
        await pod(api, "a")
        await enforce_policy(api, validating("object.kind == 'Binding' && object.target.name == 'n1'", match=match))
        assert (await api.request("POST", path, binding("a", "n2")))[0] == 422
        assert (await api.request("POST", path, binding("a", "n2"), dryRun="All"))[0] == 422
        assert (await api.request("POST", path, binding("a", "n1")))[0] == 201


async def test_webhooks_see_and_change_bindings_and_warn() -> None:
    seeing = RecordingPlugin(lambda _: {"warnings": ["think twice"]}, plural="pods")
    changing = RecordingPlugin(_to_node("n2"), plural="pods", mutates=True)
    async with open_server(admission=[seeing, changing]) as api:
        await pod(api, "a")
        response = await api.send("POST", f"{PODS}/a/binding", binding("a"))
        found = (await api.request("GET", f"{PODS}/a"))[1]
    assert (response.status, found["spec"]["nodeName"]) == (201, "n2")
    assert ("Warning", '299 - "think twice"') in response.headers
    request = seeing.requests[-1]
    assert (request["subResource"], request["name"], request["namespace"]) == ("binding", "a", "default")
    assert request["kind"] == {"group": "", "version": "v1", "kind": "Binding"}
    assert request["object"]["target"]["name"] == "n2"


@pytest.mark.parametrize(
    ("path", "value", "status"),
    [("/target/name", "", 500), ("/target", "n2", 400), ("/metadata/name", "b", 500), ("/kind", "Pod", 500)],
)
async def test_what_a_webhook_leaves_of_a_binding_is_checked_again(path: str, value: str, status: int) -> None:
    plugin = RecordingPlugin(_when_bound(adding(path, value)), plural="pods", mutates=True)
    async with open_server(admission=[plugin]) as api:
        await pod(api, "a")
        await pod(api, "b")
        assert (await bind(api, "a"))[0] == status
        for name in ("a", "b"):
            assert "nodeName" not in (await api.request("GET", f"{PODS}/{name}"))[1]["spec"]


def _to_node(name: str) -> Any:
    return _when_bound(adding("/target/name", name))


def _when_bound(respond: Any) -> Any:
    return lambda request: respond(request) if request.get("subResource") == "binding" else {}
