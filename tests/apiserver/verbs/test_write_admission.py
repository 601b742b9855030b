"""Admission of writes: mutating plugins, then the schema, then validating plugins."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from levelset.apiserver import ApiServer
from levelset.apiserver.admission.chain import AdmissionChain, AdmissionContext
from levelset.apiserver.authn.authenticator import ADMIN
from levelset.apiserver.verbs import create_and_update
from levelset.apiserver.wire.request_options import WriteOptions
from levelset.storage import MemoryStorage, SqliteStorage, Storage
from tests.apiserver.support.admission_plugins import RecordingPlugin, adding, patching, rejecting
from tests.apiserver.support.in_process_server import CONFIGMAPS, InProcessServer, configmap, open_server, widgets

WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"


@asynccontextmanager
async def opened(*plugins: RecordingPlugin, storage: Storage | None = None) -> AsyncGenerator[InProcessServer, None]:
    used = MemoryStorage() if storage is None else storage
    server = ApiServer(used, admission=plugins)
    await server.start(listen=False)
    try:
        api = InProcessServer(server, used)
        await api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition())
        yield api
    finally:
        await server.stop()


def definition() -> Any:
    made = widgets()
    version = made["spec"]["versions"][0]
    size = {"type": "integer", "minimum": 1, "maximum": 9}
    spec = {"type": "object", "properties": {"size": size, "color": {"type": "string", "default": "red"}}}
    status = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version["schema"]["openAPIV3Schema"] = {
        "type": "object",
        "properties": {"spec": {**spec, "required": ["size"]}, "status": status},
        "required": ["spec"],
    }
    paths = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
    version["subresources"] = {"status": {}, "scale": paths}
    return made


def widget(name: str = "a", **spec: Any) -> Any:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec}


async def test_a_plugin_gets_the_request_of_an_admission_review() -> None:
    plugin = RecordingPlugin()
    async with opened(plugin) as api:
        made = await api.create(WIDGETS, widget(size=1))
    (request,) = plugin.requests
    shown = request.pop("object")
    assert request.pop("uid")
    assert request == {
        "kind": {"group": "example.com", "version": "v1", "kind": "Widget"},
        "resource": {"group": "example.com", "version": "v1", "resource": "widgets"},
        "requestKind": {"group": "example.com", "version": "v1", "kind": "Widget"},
        "requestResource": {"group": "example.com", "version": "v1", "resource": "widgets"},
        "name": "a",
        "namespace": "default",
        "operation": "CREATE",
        "userInfo": {"username": "levelset-admin", "groups": ["system:masters", "system:authenticated"]},
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldValidation": "Warn"},
    }
    assert shown == {**made, "metadata": {k: v for k, v in made["metadata"].items() if k != "resourceVersion"}}
    assert plugin.namespaces[0]["metadata"]["name"] == "default"


async def test_update_and_delete_requests_have_the_old_object() -> None:
    plugin = RecordingPlugin()
    async with opened(plugin) as api:
        first = await api.create(WIDGETS, widget(size=1))
        status, second = await api.request("PUT", f"{WIDGETS}/a", {**first, "spec": {"size": 2}})
        assert status == 200
        await api.request(
            "DELETE", f"{WIDGETS}/a", propagationPolicy="Foreground", gracePeriodSeconds="3", dryRun="All"
        )
        await api.request("DELETE", f"{WIDGETS}/a")
    _, update, dry, delete = plugin.requests
    assert (update["operation"], update["oldObject"], update["object"]["spec"]["size"]) == ("UPDATE", first, 2)
    assert update["options"]["kind"] == "UpdateOptions"
    assert (delete["operation"], delete["object"], delete["oldObject"]) == ("DELETE", None, second)
    assert (dry["dryRun"], delete["dryRun"]) == (True, False)
    assert dry["options"] == {
        "kind": "DeleteOptions",
        "apiVersion": "meta.k8s.io/v1",
        "dryRun": ["All"],
        "gracePeriodSeconds": 3,
        "propagationPolicy": "Foreground",
    }


async def test_every_write_verb_is_reviewed() -> None:
    plugin = RecordingPlugin()
    async with opened(plugin) as api:
        await api.request("PATCH", f"{WIDGETS}/a", widget(size=1), kind=APPLY, fieldManager="me")
        await api.request("PATCH", f"{WIDGETS}/a", widget(size=2), kind=APPLY, fieldManager="me", force="true")
        await api.request("PATCH", f"{WIDGETS}/a", {"spec": {"size": 3}}, kind=MERGE)
        await api.request("PATCH", f"{WIDGETS}/a/status", {"status": {"size": 3}}, kind=MERGE)
        await api.request("PATCH", f"{WIDGETS}/a/scale", {"spec": {"replicas": 4}}, kind=MERGE)
        await api.request("POST", WIDGETS, {**widget(size=1), "metadata": {"generateName": "b-"}})
        await api.request("DELETE", WIDGETS)
    expected = [(one["operation"], one.get("subResource", "")) for one in plugin.requests]
    assert expected == [
        ("CREATE", ""),
        ("UPDATE", ""),
        ("UPDATE", ""),
        ("UPDATE", "status"),
        ("UPDATE", "scale"),
        ("CREATE", ""),
        ("DELETE", ""),
        ("DELETE", ""),
    ]
    assert plugin.requests[5]["name"].startswith("b-")
    assert plugin.requests[0]["options"]["fieldManager"] == "me"


async def test_a_mutation_precedes_schema_validation_and_has_no_field_owner() -> None:
    sized = RecordingPlugin(adding("/spec/size", 5), mutates=True)
    late = RecordingPlugin()
    async with opened(sized, late) as api:
        made = await api.create(f"{WIDGETS}", widget())
        assert made["spec"] == {"size": 5, "color": "red"}
        assert late.requests[0]["object"]["spec"]["size"] == 5
        assert sized.requests[0]["object"]["spec"] == {"color": "red"}
        (entry,) = made["metadata"]["managedFields"]
        assert "f:size" not in json.dumps(entry["fieldsV1"])
        status, changed = await api.request("PATCH", f"{WIDGETS}/a", {"spec": {"color": "blue"}}, kind=MERGE)
        assert (status, changed["spec"], changed["metadata"]["generation"]) == (200, {"size": 5, "color": "blue"}, 2)
        assert (await api.request("GET", f"{WIDGETS}/a"))[1]["spec"] == changed["spec"]


async def test_an_invalid_mutation_is_rejected_by_the_schema() -> None:
    for value, expected in ((99, "should be less than or equal to 9"), ("x", "must be of type integer")):
        async with opened(RecordingPlugin(adding("/spec/size", value), mutates=True)) as api:
            status, response = await api.request("POST", WIDGETS, widget(size=1))
            assert (status, expected in response["message"]) == (422, True)
            assert (await api.request("GET", f"{WIDGETS}/a"))[0] == 404


async def test_fields_added_by_a_mutation_are_pruned_and_defaulted() -> None:
    more = patching(
        {"op": "add", "path": "/spec/stranger", "value": 1},
        {"op": "remove", "path": "/spec/color"},
        {"op": "add", "path": "/status", "value": {"a": 1}},
        {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}},
        {"op": "add", "path": "/metadata/generation", "value": 7},
    )
    async with opened(RecordingPlugin(more, mutates=True)) as api:
        status, made = await api.request("POST", WIDGETS, widget(size=1), fieldValidation="Strict")
        assert (status, made["spec"], "status" in made) == (201, {"size": 1, "color": "red"}, False)
        assert (made["metadata"]["labels"], made["metadata"]["generation"]) == ({"a": "b"}, 1)


async def test_mutating_plugins_are_called_in_order_with_the_previous_result() -> None:
    first = RecordingPlugin(adding("/spec/size", 2), mutates=True)
    second = RecordingPlugin(adding("/spec/color", "blue"), mutates=True)
    async with opened(first, second) as api:
        made = await api.create(WIDGETS, widget())
    assert made["spec"] == {"size": 2, "color": "blue"}
    assert second.requests[0]["object"]["spec"] == {"size": 2, "color": "red"}
    assert first.requests[0]["uid"] == second.requests[0]["uid"]


async def test_a_plugin_is_reinvoked_if_a_later_one_changed_the_object() -> None:
    first = RecordingPlugin(mutates=True, reinvokes=True)
    second = RecordingPlugin(
        lambda request: adding("/spec/size", request["object"]["spec"].get("size", 1) + 1)(request), mutates=True
    )
    third = RecordingPlugin(adding("/spec/color", "blue"), mutates=True, reinvokes=True)
    async with opened(first, second, third) as api:
        made = await api.create(WIDGETS, widget())
    assert made["spec"] == {"size": 2, "color": "blue"}
    assert [len(one.requests) for one in (first, second, third)] == [2, 1, 1]
    assert first.requests[1]["object"]["spec"] == {"size": 2, "color": "blue"}


async def test_an_update_that_a_mutation_reverts_writes_nothing() -> None:
    async with opened(RecordingPlugin(adding("/spec/color", "red"), mutates=True)) as api:
        made = await api.create(WIDGETS, widget(size=1))
        _, same = await api.request("PATCH", f"{WIDGETS}/a", {"spec": {"color": "red"}}, kind=MERGE)
        assert same["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        ({"code": 403, "message": "no", "reason": "Forbidden"}, 403, "denied the request: no"),
        ({"message": "no"}, 400, "denied the request: no"),
        ({"code": 200, "reason": "Odd"}, 400, "denied the request: Odd"),
        ({}, 400, "denied the request without explanation"),
    ],
)
async def test_a_rejection_has_its_status_and_the_name_of_the_webhook(
    status: dict[str, Any], code: int, expected: str
) -> None:
    async with opened(RecordingPlugin(rejecting(**status))) as api:
        found, response = await api.request("POST", WIDGETS, widget(size=1))
        assert (found, response["code"], response["status"]) == (code, code, "Failure")
        assert response["message"] == f'admission webhook "plugin.example.com" {expected}'
        assert response.get("reason", "") == status.get("reason", "")


async def test_the_details_of_a_rejection_reach_the_client() -> None:
    details = {"name": "a", "causes": [{"reason": "R", "message": "m", "field": "spec.size"}]}
    async with opened(RecordingPlugin(rejecting(code=422, message="no", details=details))) as api:
        _, response = await api.request("POST", WIDGETS, widget(size=1))
        assert response["details"] == details


async def test_a_rejected_deletion_leaves_the_object() -> None:
    plugin = RecordingPlugin(lambda request: {"allowed": request["operation"] != "DELETE"})
    async with opened(plugin) as api:
        await api.create(WIDGETS, widget(size=1))
        assert (await api.request("DELETE", f"{WIDGETS}/a"))[0] == 400
        assert (await api.request("DELETE", WIDGETS))[0] == 400
        assert (await api.request("GET", f"{WIDGETS}/a"))[0] == 200


async def test_schema_validation_precedes_validating_plugins() -> None:
    plugin = RecordingPlugin()
    async with opened(plugin) as api:
        assert (await api.request("POST", WIDGETS, widget(size=99)))[0] == 422
        await api.create(WIDGETS, widget(size=1))
        assert (await api.request("PATCH", f"{WIDGETS}/a", {"spec": {"size": 99}}, kind=MERGE))[0] == 422
    assert len(plugin.requests) == 1


async def test_warnings_reach_the_client_of_a_write_and_of_a_deletion() -> None:
    async with opened(RecordingPlugin(lambda _: {"warnings": ["careful"]})) as api:
        for method, path, body in (("POST", WIDGETS, widget(size=1)), ("DELETE", f"{WIDGETS}/a", None)):
            response = await api.send(method, path, body)
            assert ("Warning", '299 - "careful"') in response.headers


async def test_all_validating_plugins_are_called_and_the_first_rejection_counts() -> None:
    second = RecordingPlugin(rejecting(message="second"), name="b.example.com")
    async with opened(RecordingPlugin(rejecting(message="first"), name="a.example.com"), second) as api:
        _, response = await api.request("POST", WIDGETS, widget(size=1))
        assert response["message"] == 'admission webhook "a.example.com" denied the request: first'
    assert len(second.requests) == 1


async def test_the_scale_subresource_is_reviewed_as_a_scale() -> None:
    plugin = RecordingPlugin(
        lambda request: adding("/spec/replicas", 7)(request) if "subResource" in request else {}, mutates=True
    )
    async with opened(plugin) as api:
        await api.create(WIDGETS, widget(size=1))
        status, scale = await api.request("PATCH", f"{WIDGETS}/a/scale", {"spec": {"replicas": 4}}, kind=MERGE)
        assert (status, scale["spec"]) == (200, {"replicas": 7})
        assert (await api.request("GET", f"{WIDGETS}/a"))[1]["spec"]["size"] == 7
    request = plugin.requests[1]
    assert request["kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert (request["object"]["spec"], request["oldObject"]["spec"]) == ({"replicas": 4}, {"replicas": 1})


async def test_a_dry_run_is_reviewed_as_a_dry_run() -> None:
    plugin = RecordingPlugin(rejecting(message="no"))
    async with opened(plugin) as api:
        assert (await api.request("POST", WIDGETS, widget(size=1), dryRun="All"))[0] == 400
    assert plugin.requests[0]["dryRun"] is True
    assert plugin.requests[0]["options"]["dryRun"] == ["All"]


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (lambda _: {"uid": "other"}, "expected response.uid="),
        (lambda _: {"patch": "!!", "patchType": "JSONPatch"}, "its patch cannot be applied"),
        (lambda _: {"patch": "e30=", "patchType": "Merge"}, "unknown patch type 'Merge'"),
        (patching({"op": "remove", "path": "/spec/none"}), "its patch cannot be applied"),
        (patching({"op": "replace", "path": "", "value": 3}), "its patch leaves no object"),
        (patching({"op": "remove", "path": "/metadata"}), "it removed the metadata"),
        (adding("/kind", "Gadget"), "it changed the kind of the object"),
        (adding("/metadata/name", "b"), "it changed the name, namespace or uid of the object"),
    ],
)
async def test_an_invalid_response_is_500_and_names_the_webhook(response: Any, expected: str) -> None:
    async with opened(RecordingPlugin(response, mutates=True)) as api:
        status, error = await api.request("POST", WIDGETS, widget(size=1))
        assert (status, expected in error["message"], '"plugin.example.com"' in error["message"]) == (500, True, True)


async def test_built_in_kinds_are_reviewed_and_defaulted_after_a_mutation() -> None:
    plugin = RecordingPlugin(adding("/data", {"a": "b"}), mutates=True, plural="configmaps")
    async with opened(plugin) as api:
        made = await api.create(CONFIGMAPS, configmap("c"))
        assert made["data"] == {"a": "b"}
        status, changed = await api.request("PUT", f"{CONFIGMAPS}/c", {**made, "data": {"x": "y"}})
        assert (status, changed["data"]) == (200, {"a": "b"})


async def test_the_namespace_of_a_namespace_is_itself() -> None:
    plugin = RecordingPlugin(plural="namespaces")
    async with opened(plugin) as api:
        await api.create("/api/v1/namespaces", {"metadata": {"name": "n", "labels": {"a": "b"}}})
    (request,) = plugin.requests
    assert (request["name"], request["namespace"]) == ("n", "n")
    assert plugin.namespaces[0]["metadata"]["labels"]["a"] == "b"


async def test_admission_works_the_same_on_an_asynchronous_storage(tmp_path: Path) -> None:
    plugin = RecordingPlugin(adding("/spec/size", 5), mutates=True)
    async with await SqliteStorage.open(tmp_path / "data.db") as storage, opened(plugin, storage=storage) as api:
        assert (await api.create(WIDGETS, widget()))["spec"]["size"] == 5
        assert (await api.request("DELETE", f"{WIDGETS}/a"))[0] == 200


async def test_plugins_can_be_added_and_removed_while_the_server_runs() -> None:
    plugin, other = RecordingPlugin(), RecordingPlugin()
    async with opened() as api:
        end, end_other = api.server.admit(plugin), api.server.admit(other)
        await api.create(WIDGETS, widget("a", size=1))
        end()
        await api.create(WIDGETS, widget("b", size=1))
        end_other()
        end()
        await api.create(WIDGETS, widget("c", size=1))
        assert api.server.state.admission is None
    assert (len(plugin.requests), len(other.requests)) == (1, 2)


async def test_a_chain_without_plugins_for_a_resource_is_skipped() -> None:
    assert AdmissionChain().or_none() is None
    async with opened() as api:
        catalog = api.server.state.catalog
        custom, built_in = catalog.find("example.com", "v1", "widgets"), catalog.find("", "v1", "configmaps")
        assert custom is not None
        assert built_in is not None
        chain = AdmissionChain([RecordingPlugin()])
        assert chain.handles(custom, "", catalog)
        assert not chain.handles(built_in, "", catalog)


async def test_plugins_that_do_not_match_are_not_called() -> None:
    plugin = RecordingPlugin(rejecting(), plural="gadgets")
    async with opened(plugin) as api:
        await api.create(WIDGETS, widget(size=1))
        await api.create(CONFIGMAPS, configmap("c"))
    assert plugin.requests == []


async def test_garbage_collection_is_not_reviewed() -> None:
    plugin = RecordingPlugin(lambda request: {"allowed": request["operation"] != "DELETE"}, plural="configmaps")
    async with opened(plugin) as api:
        owner = await api.create(WIDGETS, widget(size=1))
        ref = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "a", "uid": owner["metadata"]["uid"]}
        await api.create(CONFIGMAPS, configmap("c", owners=[ref]))
        await api.request("DELETE", f"{WIDGETS}/a")
        await api.server.idle()
        assert (await api.request("GET", f"{CONFIGMAPS}/c"))[0] == 404


async def test_audit_annotations_are_collected_under_the_plugin_names() -> None:
    plugin = RecordingPlugin(lambda _: {"auditAnnotations": {"checked": "twice"}}, plural="configmaps")
    async with open_server() as api:
        state = api.server.state
        served = state.catalog.find("", "v1", "configmaps")
        assert served is not None
        admission = AdmissionContext(AdmissionChain([plugin]), ADMIN, [])
        await create_and_update.create(state, served, "default", configmap("a"), WriteOptions(admission=admission))
    assert admission.annotations == {"plugin.example.com/checked": "twice"}
