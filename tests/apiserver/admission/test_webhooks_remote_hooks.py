"""Configurations of webhooks, and webhooks behind real connections: asked as Kubernetes asks them."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from levelset.apiserver.admission.webhooks import RemoteHook, read_webhooks
from levelset.apiserver.audit_log import AuditLog
from levelset.apiserver.server import ApiServer
from levelset.apiserver.wire.webhook_targets import Targets
from levelset.errors import Forbidden, LevelsetError
from levelset.http import Response
from levelset.storage import MemoryStorage
from tests.apiserver.box import CONFIGMAPS, Box, open_box, widgets
from tests.apiserver.remote import configuration, hook, open_webhook, patch

MUTATING = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
VALIDATING = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
NOBODY = {"clientConfig": {"url": "https://127.0.0.1:1/nobody"}, "timeoutSeconds": 2}


def named(name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **more}}


def add(path: str, value: Any) -> Any:
    return lambda request: (
        patch({"op": "add", "path": path, "value": value}) if request["object"] else {"allowed": True}
    )


async def test_a_webhook_is_asked_with_a_review_and_its_refusal_is_told() -> None:
    denial = {"allowed": False, "status": {"code": 422, "reason": "Invalid", "message": "no"}}
    async with open_box() as box, open_webhook(lambda _: denial) as webhook:
        await box.make(VALIDATING, configuration(hook(webhook, timeoutSeconds=7)))
        status, told = await box.ask("POST", CONFIGMAPS, named("a"))
    assert (status, told["reason"]) == (422, "Invalid")
    assert told["message"] == 'admission webhook "asked.example.com" denied the request: no'
    (request,) = webhook.requests
    assert webhook.queries == ["timeout=7s"]
    assert webhook.reviews[0]["apiVersion"] == "admission.k8s.io/v1"
    assert (request["operation"], request["name"], request["namespace"]) == ("CREATE", "a", "default")
    assert request["object"]["kind"] == "ConfigMap"
    assert request["userInfo"]["groups"]


async def test_a_webhook_changes_what_is_stored_and_warns() -> None:
    async with open_box() as box, open_webhook() as webhook:
        webhook.answer = lambda request: {**add("/data", {"k": "v"})(request), "warnings": ["mind the gap"]}
        await box.make(MUTATING, configuration(hook(webhook)))
        response = await box.answer("POST", CONFIGMAPS, named("a"))
        assert ("Warning", '299 - "mind the gap"') in response.headers
        assert (await box.ask("GET", f"{CONFIGMAPS}/a"))[1]["data"] == {"k": "v"}


async def test_a_server_that_stops_ends_its_connections_to_webhooks() -> None:
    async with open_webhook() as webhook:
        async with open_box() as box:
            await box.make(VALIDATING, configuration(hook(webhook)))
            await box.make(CONFIGMAPS, named("a"))
            await box.make(CONFIGMAPS, named("b"))
            assert webhook.connections == 1
        while webhook.connections:  # noqa: ASYNC110 - nobody tells that the news of it has come
            await asyncio.sleep(0)


async def test_webhooks_are_asked_in_the_order_of_their_configurations() -> None:
    async with open_box() as box, open_webhook(add("/data", {"by": "z"})) as last, open_webhook() as first:
        first.answer = add("/data", {"by": "a"})
        await box.make(MUTATING, configuration(hook(last), name="z"))
        await box.make(MUTATING, configuration(hook(first), name="a"))
        assert (await box.make(CONFIGMAPS, named("a")))["data"] == {"by": "z"}
    assert last.requests[0]["object"]["data"] == {"by": "a"}


async def test_who_wants_to_is_asked_again_after_a_later_change() -> None:
    async with open_box() as box, open_webhook() as first, open_webhook(add("/data", {"k": "v"})) as second:
        again = hook(first, name="first.example.com", reinvocationPolicy="IfNeeded")
        await box.make(MUTATING, configuration(again, hook(second)))
        await box.make(CONFIGMAPS, named("a"))
    assert [request["object"].get("data") for request in first.requests] == [None, {"k": "v"}]
    assert len(second.requests) == 1


async def test_a_webhook_that_cannot_be_called_does_as_its_policy_says() -> None:
    async with open_box() as box, open_webhook() as webhook:
        await box.make(VALIDATING, configuration(hook(webhook, **NOBODY)))
        status, told = await box.ask("POST", CONFIGMAPS, named("a"))
        start = 'Internal error occurred: failed calling webhook "asked.example.com": failed to call webhook: Post '
        assert (status, told["reason"]) == (500, "InternalError")
        assert told["message"].startswith(f'{start}"https://127.0.0.1:1/nobody?timeout=2s": ')
        await box.ask("DELETE", f"{VALIDATING}/hooks")
        await box.make(VALIDATING, configuration(hook(webhook, **NOBODY, failurePolicy="Ignore")))
        await box.make(CONFIGMAPS, named("a"))


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (Response(404, (), b"{}"), "it answered with status 404"),
        (Response(302, (("Location", "https://example.com/"),), b""), "it answered with status 302"),
        (Response(200, (), b"<html>"), "webhook response cannot be read"),
        (Response(200, (), b"[]"), "webhook response is no object"),
        (Response(200, (), b'{"kind":"Pod","apiVersion":"v1"}'), "expected webhook response of admission.k8s.io/v1"),
        ({"allowed": True, "uid": "other"}, "expected response.uid="),
        ({"allowed": True, "patch": "W10="}, "webhook returned response.patch but not response.patchType"),
        ({"allowed": True, "patchType": "Merge", "patch": "W10="}, "webhook returned invalid response.patchType"),
        ({"allowed": True, "patchType": "JSONPatch", "patch": "!"}, "its patch cannot be applied"),
        ({"allowed": True, "warnings": 5}, "response.warnings must be a list"),
    ],
)
async def test_an_answer_that_is_none_is_a_failed_call(answer: Any, problem: str) -> None:
    async with open_box() as box, open_webhook(lambda _: answer) as webhook:
        await box.make(MUTATING, configuration(hook(webhook)))
        status, told = await box.ask("POST", CONFIGMAPS, named("a"))
    assert status == 500
    assert 'failed calling webhook "asked.example.com"' in told["message"]
    assert problem in told["message"]


async def test_a_webhook_is_trusted_by_its_bundle_only() -> None:
    async with open_box() as box, open_webhook() as webhook:
        await box.make(VALIDATING, configuration(hook(webhook, clientConfig={"url": webhook.url})))
        status, told = await box.ask("POST", CONFIGMAPS, named("a"))
        assert status == 500
        assert "its certificate is not trusted" in told["message"]
    assert not webhook.requests


async def test_selectors_and_scopes_pick_what_is_asked_about() -> None:
    async with open_box() as box, open_webhook() as webhook:
        picked = {"objectSelector": {"matchLabels": {"a": "b"}}}
        await box.make(VALIDATING, configuration(hook(webhook, **picked)))
        await box.make(CONFIGMAPS, named("plain"))
        await box.make(CONFIGMAPS, named("picked", labels={"a": "b"}))
        # The object counts as picked if it was so before, or is so after.
        await box.ask("PUT", f"{CONFIGMAPS}/picked", named("picked"))
        assert [request["name"] for request in webhook.requests] == ["picked", "picked"]


async def test_a_namespace_is_judged_by_its_own_labels() -> None:
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["namespaces", "configmaps"],
    }
    chosen = {"rules": [rule], "namespaceSelector": {"matchLabels": {"team": "a"}}}
    async with open_box() as box, open_webhook() as webhook:
        await box.make(VALIDATING, configuration(hook(webhook, **chosen)))
        await box.make("/api/v1/namespaces", named("one", labels={"team": "a"}))
        await box.make("/api/v1/namespaces", named("two"))
        await box.make("/api/v1/namespaces/one/configmaps", named("in-one"))
        await box.make("/api/v1/namespaces/two/configmaps", named("in-two"))
        assert [request["name"] for request in webhook.requests] == ["one", "in-one"]


async def test_an_exact_webhook_sees_only_the_version_it_names() -> None:
    rule = {"apiGroups": ["example.com"], "apiVersions": ["v2"], "operations": ["*"], "resources": ["widgets"]}
    async with open_box() as box, open_webhook() as alike, open_webhook() as exact:
        await box.make("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", two_versions())
        await box.make(VALIDATING, configuration(hook(alike, rules=[rule]), name="alike"))
        await box.make(VALIDATING, configuration(hook(exact, rules=[rule], matchPolicy="Exact"), name="exact"))
        body = {"apiVersion": "example.com/v1", "kind": "Widget", **named("a")}
        await box.make("/apis/example.com/v1/namespaces/default/widgets", body)
    (request,) = alike.requests
    assert (request["kind"]["version"], request["requestKind"]["version"]) == ("v2", "v1")
    assert request["object"]["apiVersion"] == "example.com/v2"
    assert not exact.requests


def two_versions() -> Any:
    tree = widgets()
    (first,) = [one for one in tree["spec"]["versions"] if one["name"] == "v1"]
    tree["spec"]["versions"] = [first, {**first, "name": "v2", "storage": False, "served": True}]
    return tree


async def test_both_kinds_of_events_are_the_same_to_a_webhook() -> None:
    rule = {"apiGroups": ["events.k8s.io"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["events"]}
    async with open_box() as box, open_webhook() as webhook:
        await box.make(VALIDATING, configuration(hook(webhook, rules=[rule])))
        about = {"kind": "ConfigMap", "name": "a", "namespace": "default"}
        body = {**named("e"), "involvedObject": about, "reason": "R", "message": "m", "type": "Normal"}
        await box.make("/api/v1/namespaces/default/events", body)
    (request,) = webhook.requests
    assert request["object"]["regarding"] == about
    assert request["object"]["apiVersion"] == "events.k8s.io/v1"


async def test_configurations_are_nobody_elses_business_and_end_with_their_removal() -> None:
    everything = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}
    async with open_box() as box, open_webhook(lambda _: {"allowed": False}) as webhook:
        await box.make(VALIDATING, configuration(hook(webhook, rules=[everything])))
        assert (await box.ask("POST", CONFIGMAPS, named("a")))[1]["message"].endswith("without explanation")
        assert (await box.ask("DELETE", f"{VALIDATING}/hooks"))[0] == 200
        await box.make(CONFIGMAPS, named("a"))
        assert box.server.world.admission is None


async def test_a_dry_run_is_told_and_a_deletion_shows_what_goes() -> None:
    async with open_box() as box, open_webhook() as webhook:
        await box.make(VALIDATING, configuration(hook(webhook)))
        await box.ask("POST", CONFIGMAPS, named("a"), dryRun="All")
        await box.make(CONFIGMAPS, named("a"))
        await box.ask("DELETE", f"{CONFIGMAPS}/a")
    dry, _, gone = webhook.requests
    assert (dry["dryRun"], gone["dryRun"]) == (True, False)
    assert (gone["operation"], gone["object"], gone["oldObject"]["metadata"]["name"]) == ("DELETE", None, "a")


async def test_configurations_that_are_stored_count_from_the_start() -> None:
    async with open_box() as box, open_webhook(lambda _: {"allowed": False}) as webhook:
        await box.make(VALIDATING, configuration(hook(webhook)))
        async with open_box(box.storage) as later:
            assert (await later.ask("POST", CONFIGMAPS, named("a")))[0] == 400


async def test_an_old_review_is_sent_to_those_who_know_no_other() -> None:
    async with open_box() as box, open_webhook(add("/data", {"k": "v"})) as webhook:
        await box.make(MUTATING, configuration(hook(webhook, admissionReviewVersions=["v9", "v1beta1"])))
        assert (await box.make(CONFIGMAPS, named("a")))["data"] == {"k": "v"}
    assert webhook.reviews[0]["apiVersion"] == "admission.k8s.io/v1beta1"


def condition(expression: str = "object.metadata.name != 'a'", **more: Any) -> RemoteHook:
    one = {"name": "c", "expression": expression}
    client = {"url": "https://127.0.0.1/"}
    tree = configuration({"name": "x.example.com", "clientConfig": client, "matchConditions": [one], **more})
    (read,) = read_webhooks(tree, mutates=False)
    return RemoteHook(read, Targets(reach="none"), lambda _: {})


def asked(name: str) -> dict[str, Any]:
    place = {"group": "", "version": "v1", "resource": "configmaps"}
    whole = {"uid": "u", "operation": "CREATE", "resource": place, "requestResource": place, "dryRun": False}
    return {**whole, "name": name, "namespace": "default", "object": named(name), "oldObject": None}


RULES = [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]


async def test_a_condition_that_is_false_spares_the_webhook() -> None:
    assert (await condition(rules=RULES).review(asked("a"), None))["allowed"]
    with pytest.raises(LevelsetError, match="may not be called"):
        await condition(rules=RULES).review(asked("b"), None)


async def test_conditions_that_have_no_value_do_as_the_policy_says() -> None:
    broken = "object.spec.n > 1"
    with pytest.raises(Forbidden) as caught:
        await condition(broken, rules=RULES).review(asked("b"), None)
    assert str(caught.value) == (
        "configmaps \"b\" is forbidden: expression 'object.spec.n > 1' resulted in error: no such key: spec"
    )
    assert (await condition(broken, rules=RULES, failurePolicy="Ignore").review(asked("b"), None))["allowed"]


async def test_conditions_may_ask_what_the_sender_may_do() -> None:
    one = {"name": "c", "expression": "!authorizer.requestResource.check('bypass').allowed()"}
    async with open_box() as box, open_webhook(lambda _: {"allowed": False}) as webhook:
        await box.make(VALIDATING, configuration(hook(webhook, matchConditions=[one])))
        await box.make(CONFIGMAPS, named("a"))
    assert not webhook.requests


async def test_a_condition_that_does_not_compile_is_refused_with_its_configuration() -> None:
    one = {"name": "c", "expression": "object.metadata.name"}
    bad = {"name": "d", "expression": "variables.x == 1"}
    async with open_box() as box, open_webhook() as webhook:
        made = configuration(hook(webhook, matchConditions=[one, bad]))
        status, told = await box.ask("POST", VALIDATING, made)
    assert status == 422
    first, second = told["details"]["causes"]
    assert first["field"] == "webhooks[0].matchConditions[0].expression"
    assert first["message"] == 'Invalid value: "object.metadata.name": must evaluate to bool'
    assert "undeclared reference to 'variables' (in container '')\n | variables.x == 1\n | ^" in second["message"]


async def test_a_webhook_that_does_more_than_answer_is_not_asked_in_a_dry_run() -> None:
    (read,) = read_webhooks(
        configuration({"name": "x.example.com", "rules": RULES, "sideEffects": "Some"}), mutates=False
    )
    with pytest.raises(LevelsetError, match='admission webhook "x.example.com" does not support dry run'):
        await RemoteHook(read, Targets(), lambda _: {}).review({**asked("a"), "dryRun": True}, None)


async def test_what_a_webhook_wants_noted_is_in_the_audit_log(tmp_path: Path) -> None:
    server = ApiServer(MemoryStorage(), audit=AuditLog(tmp_path / "log"))
    await server.start(listen=False)
    box = Box(server, MemoryStorage())
    answers = {"a": {"allowed": True, "auditAnnotations": {"seen": "yes"}}}
    no = {"allowed": False, "auditAnnotations": {"why": "because"}}
    async with open_webhook(lambda request: answers.get(request["name"], no)) as webhook:
        await box.make(VALIDATING, configuration(hook(webhook)))
        await box.make(CONFIGMAPS, named("a"))
        assert (await box.ask("POST", CONFIGMAPS, named("b")))[0] == 400
    await server.stop()
    lines = (await asyncio.to_thread((tmp_path / "log").read_text)).splitlines()[-2:]
    assert [json.loads(line)["annotations"] for line in lines] == [
        {"asked.example.com/seen": "yes"},
        {"asked.example.com/why": "because"},
    ]
