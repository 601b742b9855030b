"""Webhook configurations, and webhooks behind real connections."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from levelset.apiserver.admission.webhooks import WebhookPlugin
from levelset.apiserver.audit_log import AuditLog
from levelset.apiserver.resources.expensive_work import ExpensiveWork
from levelset.apiserver.server import ApiServer
from levelset.apiserver.wire.webhook_client import WebhookClient
from levelset.errors import Forbidden, LevelsetError
from levelset.http import Response
from levelset.storage import MemoryStorage
from tests.apiserver.support.in_process_server import CONFIGMAPS, InProcessServer, open_server, widgets
from tests.apiserver.support.remote_webhook import configuration, hook, open_webhook, patch

MUTATING = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
VALIDATING = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
UNREACHABLE = {"clientConfig": {"url": "https://127.0.0.1:1/unreachable"}, "timeoutSeconds": 2}


def named(name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **more}}


def add(path: str, value: Any) -> Any:
    return lambda request: (
        patch({"op": "add", "path": path, "value": value}) if request["object"] else {"allowed": True}
    )


async def test_a_webhook_gets_a_review_and_its_denial_is_returned() -> None:
    denial = {"allowed": False, "status": {"code": 422, "reason": "Invalid", "message": "no"}}
    async with open_server() as api, open_webhook(lambda _: denial) as webhook:
        await api.create(VALIDATING, configuration(hook(webhook, timeoutSeconds=7)))
        status, error = await api.request("POST", CONFIGMAPS, named("a"))
    assert (status, error["reason"]) == (422, "Invalid")
    assert error["message"] == 'admission webhook "asked.example.com" denied the request: no'
    (request,) = webhook.requests
    assert webhook.queries == ["timeout=7s"]
    assert webhook.reviews[0]["apiVersion"] == "admission.k8s.io/v1"
    assert (request["operation"], request["name"], request["namespace"]) == ("CREATE", "a", "default")
    assert request["object"]["kind"] == "ConfigMap"
    assert request["userInfo"]["groups"]


async def test_a_webhook_can_mutate_and_warn() -> None:
    async with open_server() as api, open_webhook() as webhook:
        webhook.answer = lambda request: {**add("/data", {"k": "v"})(request), "warnings": ["mind the gap"]}
        await api.create(MUTATING, configuration(hook(webhook)))
        response = await api.send("POST", CONFIGMAPS, named("a"))
        assert ("Warning", '299 - "mind the gap"') in response.headers
        assert (await api.request("GET", f"{CONFIGMAPS}/a"))[1]["data"] == {"k": "v"}


async def test_stopping_the_server_closes_webhook_connections() -> None:
    async with open_webhook() as webhook:
        async with open_server() as api:
            await api.create(VALIDATING, configuration(hook(webhook)))
            await api.create(CONFIGMAPS, named("a"))
            await api.create(CONFIGMAPS, named("b"))
            assert webhook.connections == 1
        while webhook.connections:  # noqa: ASYNC110 - there is no event for the closed connection
            await asyncio.sleep(0)


async def test_webhooks_are_called_in_the_order_of_their_configurations() -> None:
    async with open_server() as api, open_webhook(add("/data", {"by": "z"})) as last, open_webhook() as first:
        first.answer = add("/data", {"by": "a"})
        await api.create(MUTATING, configuration(hook(last), name="z"))
        await api.create(MUTATING, configuration(hook(first), name="a"))
        assert (await api.create(CONFIGMAPS, named("a")))["data"] == {"by": "z"}
    assert last.requests[0]["object"]["data"] == {"by": "a"}


async def test_a_webhook_is_reinvoked_after_a_later_change_if_needed() -> None:
    async with open_server() as api, open_webhook() as first, open_webhook(add("/data", {"k": "v"})) as second:
        again = hook(first, name="first.example.com", reinvocationPolicy="IfNeeded")
        await api.create(MUTATING, configuration(again, hook(second)))
        await api.create(CONFIGMAPS, named("a"))
    assert [request["object"].get("data") for request in first.requests] == [None, {"k": "v"}]
    assert len(second.requests) == 1


async def test_an_unreachable_webhook_follows_its_failure_policy() -> None:
    async with open_server() as api, open_webhook() as webhook:
        await api.create(VALIDATING, configuration(hook(webhook, **UNREACHABLE)))
        status, error = await api.request("POST", CONFIGMAPS, named("a"))
        start = 'Internal error occurred: failed calling webhook "asked.example.com": failed to call webhook: Post '
        assert (status, error["reason"]) == (500, "InternalError")
        assert error["message"].startswith(f'{start}"https://127.0.0.1:1/unreachable?timeout=2s": ')
        await api.request("DELETE", f"{VALIDATING}/hooks")
        await api.create(VALIDATING, configuration(hook(webhook, **UNREACHABLE, failurePolicy="Ignore")))
        await api.create(CONFIGMAPS, named("a"))


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (Response(404, (), b"{}"), "the response has status 404"),
        (Response(302, (("Location", "https://example.com/"),), b""), "the response has status 302"),
        (Response(200, (), b"<html>"), "webhook response cannot be read"),
        (Response(200, (), b"[]"), "webhook response is not a JSON object"),
        (Response(200, (), b'{"kind":"Pod","apiVersion":"v1"}'), "expected webhook response of admission.k8s.io/v1"),
        ({"allowed": True, "uid": "other"}, "expected response.uid="),
        ({"allowed": True, "patch": "W10="}, "webhook returned response.patch but not response.patchType"),
        ({"allowed": True, "patchType": "Merge", "patch": "W10="}, "webhook returned invalid response.patchType"),
        ({"allowed": True, "patchType": "JSONPatch", "patch": "!"}, "its patch cannot be applied"),
        ({"allowed": True, "warnings": 5}, "response.warnings must be a list"),
    ],
)
async def test_an_invalid_response_is_a_failed_call(answer: Any, problem: str) -> None:
    async with open_server() as api, open_webhook(lambda _: answer) as webhook:
        await api.create(MUTATING, configuration(hook(webhook)))
        status, error = await api.request("POST", CONFIGMAPS, named("a"))
    assert status == 500
    assert 'failed calling webhook "asked.example.com"' in error["message"]
    assert problem in error["message"]


async def test_a_webhook_is_trusted_only_by_its_ca_bundle() -> None:
    async with open_server() as api, open_webhook() as webhook:
        await api.create(VALIDATING, configuration(hook(webhook, clientConfig={"url": webhook.url})))
        status, error = await api.request("POST", CONFIGMAPS, named("a"))
        assert status == 500
        assert "its certificate is not trusted" in error["message"]
    assert not webhook.requests


async def test_selectors_and_scopes_choose_the_reviewed_writes() -> None:
    async with open_server() as api, open_webhook() as webhook:
        picked = {"objectSelector": {"matchLabels": {"a": "b"}}}
        await api.create(VALIDATING, configuration(hook(webhook, **picked)))
        await api.create(CONFIGMAPS, named("plain"))
        await api.create(CONFIGMAPS, named("picked", labels={"a": "b"}))
        # An object matches if its old or its new version matches.
        await api.request("PUT", f"{CONFIGMAPS}/picked", named("picked"))
        assert [request["name"] for request in webhook.requests] == ["picked", "picked"]


async def test_a_namespace_selector_matches_the_labels_of_a_namespace_itself() -> None:
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["namespaces", "configmaps"],
    }
    chosen = {"rules": [rule], "namespaceSelector": {"matchLabels": {"team": "a"}}}
    async with open_server() as api, open_webhook() as webhook:
        await api.create(VALIDATING, configuration(hook(webhook, **chosen)))
        await api.create("/api/v1/namespaces", named("one", labels={"team": "a"}))
        await api.create("/api/v1/namespaces", named("two"))
        await api.create("/api/v1/namespaces/one/configmaps", named("in-one"))
        await api.create("/api/v1/namespaces/two/configmaps", named("in-two"))
        assert [request["name"] for request in webhook.requests] == ["one", "in-one"]


async def test_an_exact_webhook_gets_only_the_version_it_names() -> None:
    rule = {"apiGroups": ["example.com"], "apiVersions": ["v2"], "operations": ["*"], "resources": ["widgets"]}
    async with open_server() as api, open_webhook() as alike, open_webhook() as exact:
        await api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", two_versions())
        await api.create(VALIDATING, configuration(hook(alike, rules=[rule]), name="alike"))
        await api.create(VALIDATING, configuration(hook(exact, rules=[rule], matchPolicy="Exact"), name="exact"))
        body = {"apiVersion": "example.com/v1", "kind": "Widget", **named("a")}
        await api.create("/apis/example.com/v1/namespaces/default/widgets", body)
    (request,) = alike.requests
    assert (request["kind"]["version"], request["requestKind"]["version"]) == ("v2", "v1")
    assert request["object"]["apiVersion"] == "example.com/v2"
    assert not exact.requests


def two_versions() -> Any:
    tree = widgets()
    (first,) = [one for one in tree["spec"]["versions"] if one["name"] == "v1"]
    tree["spec"]["versions"] = [first, {**first, "name": "v2", "storage": False, "served": True}]
    return tree


async def test_a_webhook_for_one_kind_of_events_gets_both() -> None:
    rule = {"apiGroups": ["events.k8s.io"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["events"]}
    async with open_server() as api, open_webhook() as webhook:
        await api.create(VALIDATING, configuration(hook(webhook, rules=[rule])))
        about = {"kind": "ConfigMap", "name": "a", "namespace": "default"}
        body = {**named("e"), "involvedObject": about, "reason": "R", "message": "m", "type": "Normal"}
        await api.create("/api/v1/namespaces/default/events", body)
    (request,) = webhook.requests
    assert request["object"]["regarding"] == about
    assert request["object"]["apiVersion"] == "events.k8s.io/v1"


async def test_configurations_are_exempt_and_inactive_after_their_deletion() -> None:
    everything = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}
    async with open_server() as api, open_webhook(lambda _: {"allowed": False}) as webhook:
        await api.create(VALIDATING, configuration(hook(webhook, rules=[everything])))
        assert (await api.request("POST", CONFIGMAPS, named("a")))[1]["message"].endswith("without explanation")
        assert (await api.request("DELETE", f"{VALIDATING}/hooks"))[0] == 200
        await api.create(CONFIGMAPS, named("a"))
        assert api.server.state.admission is None


async def test_a_review_has_the_dry_run_flag_and_the_deleted_object() -> None:
    async with open_server() as api, open_webhook() as webhook:
        await api.create(VALIDATING, configuration(hook(webhook)))
        await api.request("POST", CONFIGMAPS, named("a"), dryRun="All")
        await api.create(CONFIGMAPS, named("a"))
        await api.request("DELETE", f"{CONFIGMAPS}/a")
    dry, _, gone = webhook.requests
    assert (dry["dryRun"], gone["dryRun"]) == (True, False)
    assert (gone["operation"], gone["object"], gone["oldObject"]["metadata"]["name"]) == ("DELETE", None, "a")


async def test_stored_configurations_are_active_after_a_restart() -> None:
    async with open_server() as api, open_webhook(lambda _: {"allowed": False}) as webhook:
        await api.create(VALIDATING, configuration(hook(webhook)))
        async with open_server(api.storage) as later:
            assert (await later.request("POST", CONFIGMAPS, named("a")))[0] == 400


async def test_a_v1beta1_review_is_sent_to_webhooks_that_support_no_other() -> None:
    async with open_server() as api, open_webhook(add("/data", {"k": "v"})) as webhook:
        await api.create(MUTATING, configuration(hook(webhook, admissionReviewVersions=["v9", "v1beta1"])))
        assert (await api.create(CONFIGMAPS, named("a")))["data"] == {"k": "v"}
    assert webhook.reviews[0]["apiVersion"] == "admission.k8s.io/v1beta1"


def condition(expression: str = "object.metadata.name != 'a'", **more: Any) -> WebhookPlugin:
    one = {"name": "c", "expression": expression}
    client = {"url": "https://127.0.0.1/"}
    tree = {"name": "x.example.com", "clientConfig": client, "matchConditions": [one], **more}
    return WebhookPlugin(tree, WebhookClient(reach="none"), lambda _: {}, ExpensiveWork(), mutates=False)


def review_request(name: str) -> dict[str, Any]:
    place = {"group": "", "version": "v1", "resource": "configmaps"}
    whole = {"uid": "u", "operation": "CREATE", "resource": place, "requestResource": place, "dryRun": False}
    return {**whole, "name": name, "namespace": "default", "object": named(name), "oldObject": None}


RULES = [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]


async def test_a_false_match_condition_skips_the_webhook() -> None:
    assert (await condition(rules=RULES).review(review_request("a"), None))["allowed"]
    with pytest.raises(LevelsetError, match="are not allowed"):
        await condition(rules=RULES).review(review_request("b"), None)


async def test_failing_match_conditions_follow_the_failure_policy() -> None:
    broken = "object.spec.n > 1"
    with pytest.raises(Forbidden) as caught:
        await condition(broken, rules=RULES).review(review_request("b"), None)
    assert str(caught.value) == (
        "configmaps \"b\" is forbidden: expression 'object.spec.n > 1' resulted in error: no such key: spec"
    )
    assert (await condition(broken, rules=RULES, failurePolicy="Ignore").review(review_request("b"), None))["allowed"]


async def test_match_conditions_can_use_the_authorizer() -> None:
    one = {"name": "c", "expression": "!authorizer.requestResource.check('bypass').allowed()"}
    async with open_server() as api, open_webhook(lambda _: {"allowed": False}) as webhook:
        await api.create(VALIDATING, configuration(hook(webhook, matchConditions=[one])))
        await api.create(CONFIGMAPS, named("a"))
    assert not webhook.requests


async def test_a_configuration_with_an_invalid_match_condition_is_rejected() -> None:
    one = {"name": "c", "expression": "object.metadata.name"}
    bad = {"name": "d", "expression": "variables.x == 1"}
    async with open_server() as api, open_webhook() as webhook:
        made = configuration(hook(webhook, matchConditions=[one, bad]))
        status, error = await api.request("POST", VALIDATING, made)
    assert status == 422
    first, second = error["details"]["causes"]
    assert first["field"] == "webhooks[0].matchConditions[0].expression"
    assert first["message"] == 'Invalid value: "object.metadata.name": must evaluate to bool but got dyn'
    assert "undeclared reference to 'variables' (in container '')\n | variables.x == 1\n | ^" in second["message"]


async def test_a_webhook_with_side_effects_is_not_called_in_a_dry_run() -> None:
    tree = {"name": "x.example.com", "rules": RULES, "sideEffects": "Some"}
    with pytest.raises(LevelsetError, match='admission webhook "x.example.com" does not support dry run'):
        await WebhookPlugin(tree, WebhookClient(), lambda _: {}, ExpensiveWork(), mutates=False).review(
            {**review_request("a"), "dryRun": True}, None
        )


async def test_audit_annotations_of_a_webhook_are_in_the_audit_log(tmp_path: Path) -> None:
    server = ApiServer(MemoryStorage(), audit_log=AuditLog(tmp_path / "log"))
    await server.start(listen=False)
    api = InProcessServer(server, MemoryStorage())
    answers = {"a": {"allowed": True, "auditAnnotations": {"seen": "yes"}}}
    no = {"allowed": False, "auditAnnotations": {"why": "because"}}
    async with open_webhook(lambda request: answers.get(request["name"], no)) as webhook:
        await api.create(VALIDATING, configuration(hook(webhook)))
        await api.create(CONFIGMAPS, named("a"))
        assert (await api.request("POST", CONFIGMAPS, named("b")))[0] == 400
    await server.stop()
    lines = (await asyncio.to_thread((tmp_path / "log").read_text)).splitlines()[-2:]
    assert [json.loads(line)["annotations"] for line in lines] == [
        {"asked.example.com/seen": "yes"},
        {"asked.example.com/why": "because"},
    ]
