"""ValidatingAdmissionPolicies as a client meets them: what is refused, warned of and noted, and in which words."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from levelset.apiserver.admission.policies.validating import ValidatingPolicy
from levelset.apiserver.audit_log import AuditLog
from levelset.apiserver.package_data import read_data
from levelset.apiserver.server import ApiServer
from levelset.storage import MemoryStorage
from tests.apiserver.box import CONFIGMAPS, Box, configmap, open_box, widgets
from tests.apiserver.ruling import VALIDATING, binding, request, rule, rule_by, validating

NO_BAD = {"expression": "!has(object.data) || !('bad' in object.data)", "message": "no bad data"}
BAD = {**configmap("a"), "data": {"bad": "1"}}


async def refused(box: Box, body: Any = BAD) -> str:
    status, told = await box.ask("POST", CONFIGMAPS, body)
    assert status == 422, told
    assert told["message"].startswith("configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' ")
    return str(told["message"]).partition(" denied request: ")[2]


async def test_a_refusal_names_the_policy_the_binding_and_the_object() -> None:
    async with open_box() as box:
        await rule_by(box, validating(NO_BAD))
        status, told = await box.ask("POST", CONFIGMAPS, BAD)
        await box.make(CONFIGMAPS, {**configmap("b"), "data": {"good": "1"}})
    cause = "ValidatingAdmissionPolicy 'p' with binding 'p' denied request: no bad data"
    assert (status, told["reason"]) == (422, "Invalid")
    assert told["message"] == f'configmaps "a" is forbidden: {cause}'
    assert told["details"] == {"name": "a", "kind": "configmaps", "causes": [{"message": cause}]}


@pytest.mark.parametrize(("reason", "code"), [("Forbidden", 403), ("RequestEntityTooLarge", 413), ("Invalid", 422)])
async def test_a_refusal_has_the_reason_that_the_policy_gives_it(reason: str, code: int) -> None:
    async with open_box() as box:
        await rule_by(box, validating({"expression": "false", "reason": reason}))
        status, told = await box.ask("POST", CONFIGMAPS, configmap("a"))
    assert (status, told["reason"], told["code"]) == (code, reason, code)


@pytest.mark.parametrize(
    ("validation", "told"),
    [
        ({"expression": " false "}, "failed expression: false"),
        ({"expression": "false", "message": " said "}, "said"),
        ({"expression": "false", "message": "said", "messageExpression": "'no ' + object.metadata.name"}, "no a"),
        ({"expression": "false", "message": "said", "messageExpression": "object.metadata.nothing + ''"}, "said"),
        ({"expression": "false", "message": "said", "messageExpression": "' '"}, "said"),
        ({"expression": "false", "message": "said", "messageExpression": "'two\\nlines'"}, "said"),
        ({"expression": "object.spec.n > 1"}, "expression 'object.spec.n > 1' resulted in error: no such key: spec"),
    ],
)
async def test_what_is_said_is_the_best_that_can_be_said(validation: Any, told: str) -> None:
    async with open_box() as box:
        await rule_by(box, validating(validation))
        assert await refused(box) == told


async def test_all_that_an_expression_may_look_at_is_there() -> None:
    expressions = [
        "object.metadata.name == 'a' && oldObject == null",
        "request.operation == 'CREATE' && request.namespace == 'default' && request.resource.resource == 'configmaps'",
        "request.userInfo.username == 'levelset-admin' && 'system:masters' in request.userInfo.groups",
        "namespaceObject.metadata.labels['kubernetes.io/metadata.name'] == 'default'",
        "authorizer.group('apps').resource('deployments').namespace('x').check('create').allowed()",
        "authorizer.requestResource.check('create').allowed()",
        "params == null",
    ]
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    async with open_box() as box:
        await rule_by(box, validating(*expressions, paramKind=kind))
        await box.make(CONFIGMAPS, configmap("a"))


async def test_updates_and_deletions_show_what_was_there_before() -> None:
    match = {"resourceRules": [rule(operations=["UPDATE", "DELETE"])]}
    both = "request.operation == 'DELETE' ? oldObject.metadata.name != 'keep' : object.data == oldObject.data"
    async with open_box() as box:
        await rule_by(box, validating(both, match=match))
        await box.make(CONFIGMAPS, configmap("keep"))
        await box.make(CONFIGMAPS, {**configmap("go"), "data": {"k": "1"}})
        assert (await box.ask("DELETE", f"{CONFIGMAPS}/keep"))[0] == 422
        changed = {**configmap("go"), "data": {"k": "2"}}
        assert (await box.ask("PUT", f"{CONFIGMAPS}/go", changed))[0] == 422
        assert (await box.ask("DELETE", f"{CONFIGMAPS}/go"))[0] == 200


async def test_a_policy_for_namespaces_has_no_namespace_to_look_at() -> None:
    async with open_box() as box:
        match = {"resourceRules": [rule("namespaces")]}
        await rule_by(box, validating("namespaceObject == null", "request.namespace == 'x'", match=match))
        await box.make("/api/v1/namespaces", {"metadata": {"name": "x"}})


async def test_variables_are_evaluated_when_they_are_needed_and_may_use_those_before() -> None:
    variables = [
        {"name": "broken", "expression": "object.nothing.at.all"},
        {"name": "names", "expression": "object.data.map(k, k)"},
        {"name": "count", "expression": "variables.names.size()"},
    ]
    async with open_box() as box:
        await rule_by(box, validating("variables.count < 2 || variables.broken == 1", variables=variables))
        await box.make(CONFIGMAPS, {**configmap("b"), "data": {"k": "1"}})
        told = await refused(box, {**configmap("a"), "data": {"k": "1", "l": "2"}})
    assert told.endswith('composited variable "broken" fails to evaluate: no such key: nothing')


async def test_conditions_narrow_a_policy_and_see_no_variables() -> None:
    condition = {"name": "not-exempt", "expression": "!object.metadata.name.startsWith('exempt')"}
    async with open_box() as box:
        await rule_by(box, validating("false", matchConditions=[condition]))
        await box.make(CONFIGMAPS, configmap("exempt-1"))
        assert await refused(box) == "failed expression: false"


@pytest.mark.parametrize(
    ("failure", "ok"), [("Fail", False), ("Ignore", True)], ids=["which fails", "which is ignored"]
)
async def test_what_cannot_be_evaluated_is_as_the_failure_policy_says(failure: str, *, ok: bool) -> None:
    condition = {"name": "c", "expression": "object.spec.n == 1"}
    async with open_box() as box:
        await rule_by(box, validating("true", failurePolicy=failure, matchConditions=[condition]))
        await rule_by(box, validating("object.spec.n == 1", name="q", failurePolicy=failure))
        gone = {"apiVersion": "example.com/v1", "kind": "Gone"}
        await rule_by(box, validating("true", name="r", failurePolicy=failure, paramKind=gone))
        note = {"key": "k", "valueExpression": "string(object.spec.n)"}
        await rule_by(box, validating("true", name="s", failurePolicy=failure, auditAnnotations=[note]))
        for name in "pqrs":
            status, told = await box.ask("POST", CONFIGMAPS, BAD)
            assert (status == 201) == ok
            if ok:
                return
            assert f"ValidatingAdmissionPolicy '{name}'" in told["message"]
            await box.ask("DELETE", f"{VALIDATING}/{name}")
        await box.make(CONFIGMAPS, BAD)


async def test_a_kind_of_parameters_that_is_not_served_fails_the_whole_policy() -> None:
    async with open_box() as box:
        await rule_by(box, validating("true", paramKind={"apiVersion": "example.com/v1", "kind": "Gone"}))
        status, told = await box.ask("POST", CONFIGMAPS, BAD)
    tail = "failed to configure policy: failed to find resource referenced by paramKind: 'example.com/v1, Kind=Gone'"
    assert (status, told["message"]) == (
        422,
        f"configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' denied request: {tail}",
    )


async def test_expressions_that_take_too_long_are_stopped() -> None:
    loop = "object.data.all(a, object.data.all(b, object.data.all(c, object.data.all(d, a != 'x'))))"
    data = {f"k{number}": "" for number in range(60)}
    async with open_box() as box:
        await rule_by(box, validating(loop))
        told = await refused(box, {**configmap("a"), "data": data})
        assert told.endswith("resulted in error: operation cancelled: actual cost limit exceeded")


async def test_a_policy_can_warn_instead_of_refusing() -> None:
    async with open_box() as box:
        await rule_by(box, validating(NO_BAD), actions=("Warn",))
        response = await box.answer("POST", CONFIGMAPS, BAD)
    text = "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p': no bad data"
    assert response.status == 201
    assert ("Warning", f'299 - "{text}"') in response.headers


async def test_failures_and_annotations_are_noted_in_the_audit_log(tmp_path: Path) -> None:
    notes = [
        {"key": "name", "valueExpression": "'it is ' + object.metadata.name"},
        {"key": "nothing", "valueExpression": "null"},
    ]
    read_data()
    server = ApiServer(MemoryStorage(), audit=AuditLog(tmp_path / "log"))
    await server.start(listen=False)
    box = Box(server, MemoryStorage())
    await rule_by(box, validating(NO_BAD, auditAnnotations=notes), actions=("Audit",))
    await rule_by(box, validating("object.metadata.name != 'b'", name="q"))
    await box.make(CONFIGMAPS, BAD)
    await box.ask("POST", CONFIGMAPS, configmap("b"))
    await server.stop()
    lines = (await asyncio.to_thread((tmp_path / "log").read_text)).splitlines()
    first, second = [json.loads(line)["annotations"] for line in lines[-2:]]
    failure = json.loads(first.pop("validation.policy.admission.k8s.io/validation_failure"))
    assert first == {"p/name": "it is a"}
    told = {"message": "no bad data", "policy": "p", "binding": "p", "expressionIndex": 0}
    assert failure == [{**told, "validationActions": ["Audit"]}]
    assert second == {"p/name": "it is b"}


async def test_all_policies_are_asked_even_if_one_refuses() -> None:
    async with open_box() as box:
        await rule_by(box, validating("false", name="a"), actions=("Warn",))
        await rule_by(box, validating("false", name="p"))
        await rule_by(box, validating("false", name="z"))
        assert await refused(box) == "failed expression: false"


async def test_a_policy_for_one_version_sees_others_as_that_one() -> None:
    match = {"resourceRules": [rule("events", groups=("events.k8s.io",))]}
    exact = {**match, "matchPolicy": "Exact"}
    event = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "ConfigMap", "namespace": "default", "name": "a"},
        "reason": "r",
        "message": "m",
    }
    async with open_box() as box:
        await rule_by(box, validating("object.note != 'm'", match=match))
        status, told = await box.ask("POST", "/api/v1/namespaces/default/events", event)
        assert (status, "failed expression: object.note" in told["message"]) == (422, True)
        await box.ask("DELETE", f"{VALIDATING}/p")
        await box.make(VALIDATING, validating("object.note != 'm'", match=exact))
        await box.make("/api/v1/namespaces/default/events", event)


async def test_policies_judge_subresources_of_custom_resources() -> None:
    match = {"resourceRules": [rule("widgets/status", groups=("example.com",), versions=("*",))]}
    definition = widgets()
    definition["spec"]["versions"][0]["subresources"] = {"status": {}}
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"] = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    }
    path = "/apis/example.com/v1/namespaces/default/widgets"
    async with open_box() as box:
        await box.make("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        await rule_by(box, validating("request.subResource == 'status' && object.status.n < 3", match=match))
        made = await box.make(path, {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}})
        for number, status in ((2, 200), (3, 422)):
            body = {"status": {"n": number}}
            kind = "application/merge-patch+json"
            assert (await box.ask("PATCH", f"{path}/w/status", body, kind=kind))[0] == status
    assert made["kind"] == "Widget"


async def test_a_webhook_is_not_asked_about_what_a_policy_refuses() -> None:
    seen: list[str] = []

    class Nosy:
        name, mutates, reinvokes = "nosy.example.com", False, False

        def matches(self, *_: Any) -> bool:
            return True

        async def review(self, request: Any, _space: Any) -> Any:
            seen.append(request["name"])
            return {"uid": request["uid"], "allowed": True}

    async with open_box() as box:
        box.server.admit(Nosy())
        await rule_by(box, validating("object.metadata.name != 'a'"))
        seen.clear()
        await refused(box)
        await box.make(CONFIGMAPS, configmap("b"))
    assert seen == ["b"]


@pytest.mark.parametrize(("failure", "allowed"), [("Fail", False), ("Ignore", True)])
async def test_a_stored_policy_that_does_not_compile_here_is_not_passed_over(failure: str, *, allowed: bool) -> None:
    note = {"key": "k", "valueExpression": "magic()"}
    policy = validating("magic()", failurePolicy=failure, auditAnnotations=[note])
    asked = request(BAD)
    async with open_box() as box:
        made = ValidatingPolicy(box.server.world, policy, [binding()])
        response = await made.review(asked, None)
    assert response["allowed"] is allowed
    if not allowed:
        assert "denied request: compilation error: compilation failed: ERROR: <input>:1:6: undeclared reference" in str(
            made.refusal(asked, response)
        )
