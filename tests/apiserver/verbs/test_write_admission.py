"""The server asks before it writes: those who change, the schema, those who refuse, in that order."""

import base64
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from levelset.apiserver import ApiServer
from levelset.apiserver.admission.chain import Asking, Chain
from levelset.apiserver.authn.authenticator import OWNER
from levelset.apiserver.verbs import create_and_update
from levelset.apiserver.wire.request_options import WriteOptions
from levelset.storage import MemoryStorage, SqliteStorage, Storage
from tests.apiserver.box import CONFIGMAPS, Box, configmap, open_box, widgets

WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"


class Asked:
    """Notes what it is asked, and answers as it is told."""

    def __init__(
        self,
        answer: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        *,
        mutates: bool = False,
        name: str = "asked.example.com",
        plural: str = "widgets",
        version: str = "v1",
        reinvokes: bool = False,
    ) -> None:
        self.name, self.mutates, self.reinvokes = name, mutates, reinvokes
        self.requests: list[dict[str, Any]] = []
        self.spaces: list[Any] = []
        self._plural, self._version = plural, version
        self._answer = answer

    def matches(self, operation: str, place: tuple[str, str, str], subresource: str, /) -> bool:
        return place[1:] == (self._version, self._plural)

    async def review(self, request: dict[str, Any], space: Any, /) -> dict[str, Any]:
        self.requests.append(json.loads(json.dumps(request)))
        self.spaces.append(space)
        more = self._answer(request) if self._answer else {}
        return {"uid": request["uid"], "allowed": True, **more}


def patching(*operations: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return lambda request: {} if request["object"] is None else {"patch": patch, "patchType": "JSONPatch"}


def adding(path: str, value: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return patching({"op": "add", "path": path, "value": value})


def refusing(**status: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda _: {"allowed": False, "status": status} if status else {"allowed": False}


@asynccontextmanager
async def opened(*admitters: Asked, storage: Storage | None = None) -> AsyncGenerator[Box, None]:
    kept = MemoryStorage() if storage is None else storage
    server = ApiServer(kept, admission=admitters)
    await server.start(listen=False)
    try:
        box = Box(server, kept)
        await box.make("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition())
        yield box
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


async def test_a_question_is_the_request_of_an_admission_review() -> None:
    asked = Asked()
    async with opened(asked) as box:
        made = await box.make(WIDGETS, widget(size=1))
    (request,) = asked.requests
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
    assert asked.spaces[0]["metadata"]["name"] == "default"


async def test_an_update_and_a_deletion_show_the_object_before() -> None:
    asked = Asked()
    async with opened(asked) as box:
        first = await box.make(WIDGETS, widget(size=1))
        status, second = await box.ask("PUT", f"{WIDGETS}/a", {**first, "spec": {"size": 2}})
        assert status == 200
        await box.ask("DELETE", f"{WIDGETS}/a", propagationPolicy="Foreground", gracePeriodSeconds="3", dryRun="All")
        await box.ask("DELETE", f"{WIDGETS}/a")
    _, update, dry, delete = asked.requests
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


async def test_every_way_to_write_is_asked_about() -> None:
    asked = Asked()
    async with opened(asked) as box:
        await box.ask("PATCH", f"{WIDGETS}/a", widget(size=1), kind=APPLY, fieldManager="me")
        await box.ask("PATCH", f"{WIDGETS}/a", widget(size=2), kind=APPLY, fieldManager="me", force="true")
        await box.ask("PATCH", f"{WIDGETS}/a", {"spec": {"size": 3}}, kind=MERGE)
        await box.ask("PATCH", f"{WIDGETS}/a/status", {"status": {"size": 3}}, kind=MERGE)
        await box.ask("PATCH", f"{WIDGETS}/a/scale", {"spec": {"replicas": 4}}, kind=MERGE)
        await box.ask("POST", WIDGETS, {**widget(size=1), "metadata": {"generateName": "b-"}})
        await box.ask("DELETE", WIDGETS)
    told = [(one["operation"], one.get("subResource", "")) for one in asked.requests]
    assert told == [
        ("CREATE", ""),
        ("UPDATE", ""),
        ("UPDATE", ""),
        ("UPDATE", "status"),
        ("UPDATE", "scale"),
        ("CREATE", ""),
        ("DELETE", ""),
        ("DELETE", ""),
    ]
    assert asked.requests[5]["name"].startswith("b-")
    assert asked.requests[0]["options"]["fieldManager"] == "me"


async def test_a_change_is_made_before_the_schema_judges_and_belongs_to_nobody() -> None:
    sized = Asked(adding("/spec/size", 5), mutates=True)
    late = Asked()
    async with opened(sized, late) as box:
        made = await box.make(f"{WIDGETS}", widget())
        assert made["spec"] == {"size": 5, "color": "red"}
        assert late.requests[0]["object"]["spec"]["size"] == 5
        assert sized.requests[0]["object"]["spec"] == {"color": "red"}
        (entry,) = made["metadata"]["managedFields"]
        assert "f:size" not in json.dumps(entry["fieldsV1"])
        status, changed = await box.ask("PATCH", f"{WIDGETS}/a", {"spec": {"color": "blue"}}, kind=MERGE)
        assert (status, changed["spec"], changed["metadata"]["generation"]) == (200, {"size": 5, "color": "blue"}, 2)
        assert (await box.ask("GET", f"{WIDGETS}/a"))[1]["spec"] == changed["spec"]


async def test_what_a_change_breaks_is_refused_by_the_schema() -> None:
    for value, told in ((99, "should be less than or equal to 9"), ("x", "must be of type integer")):
        async with opened(Asked(adding("/spec/size", value), mutates=True)) as box:
            status, answer = await box.ask("POST", WIDGETS, widget(size=1))
            assert (status, told in answer["message"]) == (422, True)
            assert (await box.ask("GET", f"{WIDGETS}/a"))[0] == 404


async def test_fields_that_a_change_adds_are_pruned_and_defaulted_as_those_of_a_client() -> None:
    more = patching(
        {"op": "add", "path": "/spec/stranger", "value": 1},
        {"op": "remove", "path": "/spec/color"},
        {"op": "add", "path": "/status", "value": {"a": 1}},
        {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}},
        {"op": "add", "path": "/metadata/generation", "value": 7},
    )
    async with opened(Asked(more, mutates=True)) as box:
        status, made = await box.ask("POST", WIDGETS, widget(size=1), fieldValidation="Strict")
        assert (status, made["spec"], "status" in made) == (201, {"size": 1, "color": "red"}, False)
        assert (made["metadata"]["labels"], made["metadata"]["generation"]) == ({"a": "b"}, 1)


async def test_those_who_change_are_asked_in_their_order_each_with_what_the_one_before_has_made() -> None:
    first = Asked(adding("/spec/size", 2), mutates=True)
    second = Asked(adding("/spec/color", "blue"), mutates=True)
    async with opened(first, second) as box:
        made = await box.make(WIDGETS, widget())
    assert made["spec"] == {"size": 2, "color": "blue"}
    assert second.requests[0]["object"]["spec"] == {"size": 2, "color": "red"}
    assert first.requests[0]["uid"] == second.requests[0]["uid"]


async def test_who_wants_to_is_asked_once_more_if_somebody_after_it_has_changed_the_object() -> None:
    first = Asked(mutates=True, reinvokes=True)
    second = Asked(
        lambda request: adding("/spec/size", request["object"]["spec"].get("size", 1) + 1)(request), mutates=True
    )
    third = Asked(adding("/spec/color", "blue"), mutates=True, reinvokes=True)
    async with opened(first, second, third) as box:
        made = await box.make(WIDGETS, widget())
    assert made["spec"] == {"size": 2, "color": "blue"}
    assert [len(one.requests) for one in (first, second, third)] == [2, 1, 1]
    assert first.requests[1]["object"]["spec"] == {"size": 2, "color": "blue"}


async def test_an_update_that_a_change_takes_back_writes_nothing() -> None:
    async with opened(Asked(adding("/spec/color", "red"), mutates=True)) as box:
        made = await box.make(WIDGETS, widget(size=1))
        _, same = await box.ask("PATCH", f"{WIDGETS}/a", {"spec": {"color": "red"}}, kind=MERGE)
        assert same["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


@pytest.mark.parametrize(
    ("status", "code", "told"),
    [
        ({"code": 403, "message": "no", "reason": "Forbidden"}, 403, "denied the request: no"),
        ({"message": "no"}, 400, "denied the request: no"),
        ({"code": 200, "reason": "Odd"}, 400, "denied the request: Odd"),
        ({}, 400, "denied the request without explanation"),
    ],
)
async def test_a_refusal_is_told_with_its_status_and_the_name_of_who_refused(
    status: dict[str, Any], code: int, told: str
) -> None:
    async with opened(Asked(refusing(**status))) as box:
        found, answer = await box.ask("POST", WIDGETS, widget(size=1))
        assert (found, answer["code"], answer["status"]) == (code, code, "Failure")
        assert answer["message"] == f'admission webhook "asked.example.com" {told}'
        assert answer.get("reason", "") == status.get("reason", "")


async def test_the_details_of_a_refusal_reach_the_client() -> None:
    details = {"name": "a", "causes": [{"reason": "R", "message": "m", "field": "spec.size"}]}
    async with opened(Asked(refusing(code=422, message="no", details=details))) as box:
        _, answer = await box.ask("POST", WIDGETS, widget(size=1))
        assert answer["details"] == details


async def test_a_refused_deletion_leaves_the_object() -> None:
    keep = Asked(lambda request: {"allowed": request["operation"] != "DELETE"})
    async with opened(keep) as box:
        await box.make(WIDGETS, widget(size=1))
        assert (await box.ask("DELETE", f"{WIDGETS}/a"))[0] == 400
        assert (await box.ask("DELETE", WIDGETS))[0] == 400
        assert (await box.ask("GET", f"{WIDGETS}/a"))[0] == 200


async def test_the_schema_judges_before_those_who_only_refuse_are_asked() -> None:
    asked = Asked()
    async with opened(asked) as box:
        assert (await box.ask("POST", WIDGETS, widget(size=99)))[0] == 422
        await box.make(WIDGETS, widget(size=1))
        assert (await box.ask("PATCH", f"{WIDGETS}/a", {"spec": {"size": 99}}, kind=MERGE))[0] == 422
    assert len(asked.requests) == 1


async def test_warnings_are_told_to_the_client_of_a_write_and_of_a_deletion() -> None:
    async with opened(Asked(lambda _: {"warnings": ["careful"]})) as box:
        for method, path, body in (("POST", WIDGETS, widget(size=1)), ("DELETE", f"{WIDGETS}/a", None)):
            response = await box.answer(method, path, body)
            assert ("Warning", '299 - "careful"') in response.headers


async def test_all_who_only_refuse_are_asked_and_the_first_refusal_counts() -> None:
    second = Asked(refusing(message="second"), name="b.example.com")
    async with opened(Asked(refusing(message="first"), name="a.example.com"), second) as box:
        _, answer = await box.ask("POST", WIDGETS, widget(size=1))
        assert answer["message"] == 'admission webhook "a.example.com" denied the request: first'
    assert len(second.requests) == 1


async def test_the_scale_of_an_object_is_shown_and_changed_as_a_scale() -> None:
    asked = Asked(
        lambda request: adding("/spec/replicas", 7)(request) if "subResource" in request else {}, mutates=True
    )
    async with opened(asked) as box:
        await box.make(WIDGETS, widget(size=1))
        status, scale = await box.ask("PATCH", f"{WIDGETS}/a/scale", {"spec": {"replicas": 4}}, kind=MERGE)
        assert (status, scale["spec"]) == (200, {"replicas": 7})
        assert (await box.ask("GET", f"{WIDGETS}/a"))[1]["spec"]["size"] == 7
    request = asked.requests[1]
    assert request["kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert (request["object"]["spec"], request["oldObject"]["spec"]) == ({"replicas": 4}, {"replicas": 1})


async def test_a_dry_run_is_asked_about_and_says_so() -> None:
    asked = Asked(refusing(message="no"))
    async with opened(asked) as box:
        assert (await box.ask("POST", WIDGETS, widget(size=1), dryRun="All"))[0] == 400
    assert asked.requests[0]["dryRun"] is True
    assert asked.requests[0]["options"]["dryRun"] == ["All"]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (lambda _: {"uid": "other"}, "expected response.uid="),
        (lambda _: {"patch": "!!", "patchType": "JSONPatch"}, "its patch cannot be applied"),
        (lambda _: {"patch": "e30=", "patchType": "Merge"}, "unknown patch type 'Merge'"),
        (patching({"op": "remove", "path": "/spec/none"}), "its patch cannot be applied"),
        (patching({"op": "replace", "path": "", "value": 3}), "its patch leaves no object"),
        (patching({"op": "remove", "path": "/metadata"}), "it took away the metadata"),
        (adding("/kind", "Gadget"), "it made another kind of the object"),
        (adding("/metadata/name", "b"), "name, namespace and uid of an object stay as they are"),
    ],
)
async def test_an_answer_that_cannot_be_used_is_500_and_names_who_gave_it(answer: Any, told: str) -> None:
    async with opened(Asked(answer, mutates=True)) as box:
        status, refused = await box.ask("POST", WIDGETS, widget(size=1))
        assert (status, told in refused["message"], '"asked.example.com"' in refused["message"]) == (500, True, True)


async def test_built_in_kinds_are_asked_about_and_completed_after_a_change() -> None:
    asked = Asked(adding("/data", {"a": "b"}), mutates=True, plural="configmaps")
    async with opened(asked) as box:
        made = await box.make(CONFIGMAPS, configmap("c"))
        assert made["data"] == {"a": "b"}
        status, changed = await box.ask("PUT", f"{CONFIGMAPS}/c", {**made, "data": {"x": "y"}})
        assert (status, changed["data"]) == (200, {"a": "b"})


async def test_a_namespace_counts_as_being_in_itself() -> None:
    asked = Asked(plural="namespaces")
    async with opened(asked) as box:
        await box.make("/api/v1/namespaces", {"metadata": {"name": "n", "labels": {"a": "b"}}})
    (request,) = asked.requests
    assert (request["name"], request["namespace"]) == ("n", "n")
    assert asked.spaces[0]["metadata"]["labels"]["a"] == "b"


async def test_a_storage_that_must_be_waited_for_is_no_different(tmp_path: Path) -> None:
    asked = Asked(adding("/spec/size", 5), mutates=True)
    async with await SqliteStorage.open(tmp_path / "data.db") as storage, opened(asked, storage=storage) as box:
        assert (await box.make(WIDGETS, widget()))["spec"]["size"] == 5
        assert (await box.ask("DELETE", f"{WIDGETS}/a"))[0] == 200


async def test_somebody_may_come_and_go_while_the_server_runs() -> None:
    asked, other = Asked(), Asked()
    async with opened() as box:
        end, end_other = box.server.admit(asked), box.server.admit(other)
        await box.make(WIDGETS, widget("a", size=1))
        end()
        await box.make(WIDGETS, widget("b", size=1))
        end_other()
        end()
        await box.make(WIDGETS, widget("c", size=1))
        assert box.server.world.admission is None
    assert (len(asked.requests), len(other.requests)) == (1, 2)


async def test_a_chain_without_anybody_for_a_resource_has_no_part_in_its_writes() -> None:
    assert Chain().or_none() is None
    async with opened() as box:
        catalog = box.server.world.catalog
        custom, built_in = catalog.find("example.com", "v1", "widgets"), catalog.find("", "v1", "configmaps")
        assert custom is not None
        assert built_in is not None
        chain = Chain([Asked()])
        assert chain.concerns(custom, "", catalog)
        assert not chain.concerns(built_in, "", catalog)


async def test_others_are_not_asked() -> None:
    asked = Asked(refusing(), plural="gadgets")
    async with opened(asked) as box:
        await box.make(WIDGETS, widget(size=1))
        await box.make(CONFIGMAPS, configmap("c"))
    assert asked.requests == []


async def test_the_server_itself_does_not_ask_before_it_collects_garbage() -> None:
    keep = Asked(lambda request: {"allowed": request["operation"] != "DELETE"}, plural="configmaps")
    async with opened(keep) as box:
        owner = await box.make(WIDGETS, widget(size=1))
        ref = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "a", "uid": owner["metadata"]["uid"]}
        await box.make(CONFIGMAPS, configmap("c", owners=[ref]))
        await box.ask("DELETE", f"{WIDGETS}/a")
        await box.server.idle()
        assert (await box.ask("GET", f"{CONFIGMAPS}/c"))[0] == 404


async def test_what_they_want_to_have_noted_is_collected_under_their_names() -> None:
    asked = Asked(lambda _: {"auditAnnotations": {"checked": "twice"}}, plural="configmaps")
    async with open_box() as box:
        world = box.server.world
        served = world.catalog.find("", "v1", "configmaps")
        assert served is not None
        asking = Asking(Chain([asked]), OWNER, [])
        await create_and_update.create(world, served, "default", configmap("a"), WriteOptions(asking=asking))
    assert asking.annotations == {"asked.example.com/checked": "twice"}
