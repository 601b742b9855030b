"""ValidatingAdmissionPolicies through the API: denials, warnings, audit annotations and their messages."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from levelset.apiserver.admission.policies.validating import ValidatingPolicy
from levelset.apiserver.audit_log import AuditLog
from levelset.apiserver.expressions import cel_programs, match_conditions
from levelset.apiserver.package_data import load_package_data
from levelset.apiserver.server import ApiServer
from levelset.apiserver.wire import step_limits
from levelset.storage import MemoryStorage
from tests.apiserver.support.admission_policies import VALIDATING, binding, enforce_policy, request, rule, validating
from tests.apiserver.support.in_process_server import CONFIGMAPS, InProcessServer, configmap, open_server, widgets
from tests.apiserver.support.loop_watchdog import LIMIT, undisturbed, watch_loop

NO_BAD = {"expression": "!has(object.data) || !('bad' in object.data)", "message": "no bad data"}
BAD = {**configmap("a"), "data": {"bad": "1"}}


async def refused(api: InProcessServer, body: Any = BAD) -> str:
    status, error = await api.request("POST", CONFIGMAPS, body)
    assert status == 422, error
    assert error["message"].startswith("configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' ")
    return str(error["message"]).partition(" denied request: ")[2]


async def test_a_denial_names_the_policy_the_binding_and_the_object() -> None:
    async with open_server() as api:
        await enforce_policy(api, validating(NO_BAD))
        status, error = await api.request("POST", CONFIGMAPS, BAD)
        await api.create(CONFIGMAPS, {**configmap("b"), "data": {"good": "1"}})
    cause = "ValidatingAdmissionPolicy 'p' with binding 'p' denied request: no bad data"
    assert (status, error["reason"]) == (422, "Invalid")
    assert error["message"] == f'configmaps "a" is forbidden: {cause}'
    assert error["details"] == {"name": "a", "kind": "configmaps", "causes": [{"message": cause}]}


@pytest.mark.parametrize(("reason", "code"), [("Forbidden", 403), ("RequestEntityTooLarge", 413), ("Invalid", 422)])
async def test_a_denial_has_the_reason_of_the_validation(reason: str, code: int) -> None:
    async with open_server() as api:
        await enforce_policy(api, validating({"expression": "false", "reason": reason}))
        status, error = await api.request("POST", CONFIGMAPS, configmap("a"))
    assert (status, error["reason"], error["code"]) == (code, reason, code)


@pytest.mark.parametrize(
    ("validation", "expected"),
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
async def test_the_message_falls_back_from_message_expression_to_message_to_expression(
    validation: Any, expected: str
) -> None:
    async with open_server() as api:
        await enforce_policy(api, validating(validation))
        assert await refused(api) == expected


async def test_all_variables_of_expressions_are_available() -> None:
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
    async with open_server() as api:
        await enforce_policy(api, validating(*expressions, paramKind=kind))
        await api.create(CONFIGMAPS, configmap("a"))


async def test_updates_and_deletions_have_the_old_object() -> None:
    match = {"resourceRules": [rule(operations=["UPDATE", "DELETE"])]}
    both = "request.operation == 'DELETE' ? oldObject.metadata.name != 'keep' : object.data == oldObject.data"
    async with open_server() as api:
        await enforce_policy(api, validating(both, match=match))
        await api.create(CONFIGMAPS, configmap("keep"))
        await api.create(CONFIGMAPS, {**configmap("go"), "data": {"k": "1"}})
        assert (await api.request("DELETE", f"{CONFIGMAPS}/keep"))[0] == 422
        changed = {**configmap("go"), "data": {"k": "2"}}
        assert (await api.request("PUT", f"{CONFIGMAPS}/go", changed))[0] == 422
        assert (await api.request("DELETE", f"{CONFIGMAPS}/go"))[0] == 200


async def test_a_policy_for_namespaces_has_no_namespace_object() -> None:
    async with open_server() as api:
        match = {"resourceRules": [rule("namespaces")]}
        await enforce_policy(api, validating("namespaceObject == null", "request.namespace == 'x'", match=match))
        await api.create("/api/v1/namespaces", {"metadata": {"name": "x"}})


async def test_variables_are_evaluated_lazily_and_can_use_earlier_ones() -> None:
    variables = [
        {"name": "broken", "expression": "object.nothing.at.all"},
        {"name": "names", "expression": "object.data.map(k, k)"},
        {"name": "count", "expression": "variables.names.size()"},
    ]
    async with open_server() as api:
        await enforce_policy(api, validating("variables.count < 2 || variables.broken == 1", variables=variables))
        await api.create(CONFIGMAPS, {**configmap("b"), "data": {"k": "1"}})
        message = await refused(api, {**configmap("a"), "data": {"k": "1", "l": "2"}})
    assert message.endswith('composited variable "broken" fails to evaluate: no such key: nothing')


async def test_match_conditions_narrow_a_policy_and_have_no_variables() -> None:
    condition = {"name": "not-exempt", "expression": "!object.metadata.name.startsWith('exempt')"}
    async with open_server() as api:
        await enforce_policy(api, validating("false", matchConditions=[condition]))
        await api.create(CONFIGMAPS, configmap("exempt-1"))
        assert await refused(api) == "failed expression: false"


@pytest.mark.parametrize(
    ("failure", "ok"), [("Fail", False), ("Ignore", True)], ids=["which fails", "which is ignored"]
)
async def test_evaluation_errors_follow_the_failure_policy(failure: str, *, ok: bool) -> None:
    condition = {"name": "c", "expression": "object.spec.n == 1"}
    async with open_server() as api:
        await enforce_policy(api, validating("true", failurePolicy=failure, matchConditions=[condition]))
        await enforce_policy(api, validating("object.spec.n == 1", name="q", failurePolicy=failure))
        gone = {"apiVersion": "example.com/v1", "kind": "Gone"}
        await enforce_policy(api, validating("true", name="r", failurePolicy=failure, paramKind=gone))
        note = {"key": "k", "valueExpression": "string(object.spec.n)"}
        await enforce_policy(api, validating("true", name="s", failurePolicy=failure, auditAnnotations=[note]))
        for name in "pqrs":
            status, error = await api.request("POST", CONFIGMAPS, BAD)
            assert (status == 201) == ok
            if ok:
                return
            assert f"ValidatingAdmissionPolicy '{name}'" in error["message"]
            await api.request("DELETE", f"{VALIDATING}/{name}")
        await api.create(CONFIGMAPS, BAD)


async def test_an_unserved_param_kind_fails_the_whole_policy() -> None:
    async with open_server() as api:
        await enforce_policy(api, validating("true", paramKind={"apiVersion": "example.com/v1", "kind": "Gone"}))
        status, error = await api.request("POST", CONFIGMAPS, BAD)
    tail = "failed to configure policy: failed to find resource referenced by paramKind: 'example.com/v1, Kind=Gone'"
    assert (status, error["message"]) == (
        422,
        f"configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' denied request: {tail}",
    )


async def test_expressions_that_exceed_the_cost_budget_are_stopped() -> None:
    loop = "object.data.all(a, object.data.all(b, object.data.all(c, object.data.all(d, a != 'x'))))"
    data = {f"k{number}": "" for number in range(60)}
    async with open_server() as api:
        await enforce_policy(api, validating(loop))
        message = await refused(api, {**configmap("a"), "data": data})
        assert message.endswith("resulted in error: operation cancelled: actual cost limit exceeded")


async def test_a_policy_can_warn_instead_of_denying() -> None:
    async with open_server() as api:
        await enforce_policy(api, validating(NO_BAD), actions=("Warn",))
        response = await api.send("POST", CONFIGMAPS, BAD)
    text = "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p': no bad data"
    assert response.status == 201
    assert ("Warning", f'299 - "{text}"') in response.headers


async def test_failures_and_annotations_are_in_the_audit_log(tmp_path: Path) -> None:
    notes = [
        {"key": "name", "valueExpression": "'it is ' + object.metadata.name"},
        {"key": "nothing", "valueExpression": "null"},
    ]
    load_package_data()
    server = ApiServer(MemoryStorage(), audit_log=AuditLog(tmp_path / "log"))
    await server.start(listen=False)
    api = InProcessServer(server, MemoryStorage())
    await enforce_policy(api, validating(NO_BAD, auditAnnotations=notes), actions=("Audit",))
    await enforce_policy(api, validating("object.metadata.name != 'b'", name="q"))
    await api.create(CONFIGMAPS, BAD)
    await api.request("POST", CONFIGMAPS, configmap("b"))
    await server.stop()
    lines = (await asyncio.to_thread((tmp_path / "log").read_text)).splitlines()
    first, second = [json.loads(line)["annotations"] for line in lines[-2:]]
    failure = json.loads(first.pop("validation.policy.admission.k8s.io/validation_failure"))
    assert first == {"p/name": "it is a"}
    expected = {"message": "no bad data", "policy": "p", "binding": "p", "expressionIndex": 0}
    assert failure == [{**expected, "validationActions": ["Audit"]}]
    assert second == {"p/name": "it is b"}


async def test_all_policies_are_evaluated_even_if_one_denies() -> None:
    async with open_server() as api:
        await enforce_policy(api, validating("false", name="a"), actions=("Warn",))
        await enforce_policy(api, validating("false", name="p"))
        await enforce_policy(api, validating("false", name="z"))
        assert await refused(api) == "failed expression: false"


async def test_a_policy_for_one_version_gets_others_converted() -> None:
    match = {"resourceRules": [rule("events", groups=("events.k8s.io",))]}
    exact = {**match, "matchPolicy": "Exact"}
    event = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "ConfigMap", "namespace": "default", "name": "a"},
        "reason": "r",
        "message": "m",
    }
    async with open_server() as api:
        await enforce_policy(api, validating("object.note != 'm'", match=match))
        status, error = await api.request("POST", "/api/v1/namespaces/default/events", event)
        assert (status, "failed expression: object.note" in error["message"]) == (422, True)
        await api.request("DELETE", f"{VALIDATING}/p")
        await api.create(VALIDATING, validating("object.note != 'm'", match=exact))
        await api.create("/api/v1/namespaces/default/events", event)


async def test_policies_apply_to_subresources_of_custom_resources() -> None:
    match = {"resourceRules": [rule("widgets/status", groups=("example.com",), versions=("*",))]}
    definition = widgets()
    definition["spec"]["versions"][0]["subresources"] = {"status": {}}
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"] = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    }
    path = "/apis/example.com/v1/namespaces/default/widgets"
    async with open_server() as api:
        await api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        await enforce_policy(api, validating("request.subResource == 'status' && object.status.n < 3", match=match))
        made = await api.create(path, {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}})
        for number, status in ((2, 200), (3, 422)):
            body = {"status": {"n": number}}
            kind = "application/merge-patch+json"
            assert (await api.request("PATCH", f"{path}/w/status", body, kind=kind))[0] == status
    assert made["kind"] == "Widget"


async def test_a_webhook_is_not_called_if_a_policy_denies() -> None:
    seen: list[str] = []

    class Nosy:
        name, mutates, reinvokes = "nosy.example.com", False, False

        def matches(self, *_: Any) -> bool:
            return True

        async def review(self, request: Any, _space: Any) -> Any:
            seen.append(request["name"])
            return {"uid": request["uid"], "allowed": True}

    async with open_server() as api:
        api.server.admit(Nosy())
        await enforce_policy(api, validating("object.metadata.name != 'a'"))
        seen.clear()
        await refused(api)
        await api.create(CONFIGMAPS, configmap("b"))
    assert seen == ["b"]


@pytest.mark.parametrize(("failure", "allowed"), [("Fail", False), ("Ignore", True)])
async def test_a_stored_policy_that_does_not_compile_follows_its_failure_policy(failure: str, *, allowed: bool) -> None:
    note = {"key": "k", "valueExpression": "magic()"}
    policy = validating("magic()", failurePolicy=failure, auditAnnotations=[note])
    review = request(BAD)
    async with open_server() as api:
        made = ValidatingPolicy(api.server.state, policy, [binding()])
        response = await made.review(review, None)
    assert response["allowed"] is allowed
    if not allowed:
        assert "denied request: compilation error: compilation failed: ERROR: <input>:1:6: undeclared reference" in str(
            made.denial(review, response)
        )


LONG_EXPRESSIONS = {
    "evaluated": "object.data.all(a, object.data.all(b, object.data.all(c, a != 'x')))",
    "authorized": (
        "object.data.all(a, object.data.all(b, object.data.all(c, a != 'x')))"
        " && authorizer.path('/x').check('get').allowed()"
    ),
    "compiled": " && ".join(f"object.data.size() != {at}" for at in range(100, 1_600)),
}


@pytest.mark.parametrize("name", LONG_EXPRESSIONS)
@pytest.mark.parametrize("place", ["validations", "matchConditions"])
@undisturbed
async def test_a_long_expression_keeps_no_other_request_waiting(name: str, place: str) -> None:
    policy = validating("true")
    policy["spec"][place] = [
        {"expression": LONG_EXPRESSIONS[name], **({} if place == "validations" else {"name": "n"})}
    ]
    data = {f"k{number}": "" for number in range(45)}
    async with open_server() as api:
        await enforce_policy(api, validating("true", name="other"))  # loads the compiler
        with watch_loop() as watchdog:
            await enforce_policy(api, policy)
            status, _ = await api.request("POST", CONFIGMAPS, {**configmap("a"), "data": data})
        assert status == 201
        assert watchdog.longest < LIMIT, watchdog.culprit


@pytest.mark.parametrize("place", ["validations", "matchConditions"])
@undisturbed
async def test_the_first_request_after_a_restart_keeps_no_other_request_waiting(place: str) -> None:
    terms = " && ".join(f"object.data.size() != {at}" for at in range(100, 3_400))
    policy = validating("true")
    policy["spec"][place] = [{"expression": terms, **({} if place == "validations" else {"name": "n"})}]
    async with open_server() as api:
        await enforce_policy(api, policy)
        cel_programs._compiled.cache_clear()
        match_conditions._compiled.cache_clear()
        async with open_server(api.storage) as later:
            with watch_loop() as watchdog:
                status, _ = await later.request("POST", CONFIGMAPS, {**configmap("a"), "data": {"a": "b"}})
    assert status == 201
    assert watchdog.longest < LIMIT, watchdog.culprit


async def test_an_expression_that_asks_the_authorizer_has_the_steps_of_a_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(step_limits, "REQUEST_STEPS", 200_000)
    slow = "object.data.a.find('(a?){990}a{7}' + 'b{2}') == '' && authorizer.path('/x').check('get').allowed()"
    async with open_server() as api:
        await enforce_policy(api, validating(slow))
        status, body = await api.request("POST", CONFIGMAPS, {**configmap("a"), "data": {"a": "a" * 300}})
    assert status == 413
    assert "more than 200000 steps" in body["message"]


async def test_an_evaluation_that_is_repeated_in_a_thread_warns_once() -> None:
    slow = "object.data.all(a, object.data.all(b, object.data.all(c, a != 'x'))) ? 'x' : 'y'"
    policy = validating({"expression": "false", "message": "no"})
    policy["spec"]["auditAnnotations"] = [{"key": "k", "valueExpression": slow}]
    data = {f"k{at}": "" for at in range(60)}
    async with open_server() as api:
        made = ValidatingPolicy(api.server.state, policy, [binding(actions=("Warn",))])
        response = await made.review(request({**configmap("a"), "data": data}), None)
    assert len(response["warnings"]) == 1
    assert response["auditAnnotations"] == {"p/k": "x"}
