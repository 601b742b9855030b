"""Hostile definitions and objects: no request keeps the event loop, and each has a bounded number of steps."""

import asyncio
import json
from random import Random
from typing import Any

import pytest

from levelset.apiserver import ApiServer
from levelset.apiserver.registry.crd import validation
from levelset.apiserver.wire import step_limits
from levelset.http import Headers, Request, Response
from levelset.storage import MemoryStorage
from tests.apiserver.support.loop_watchdog import LIMIT, undisturbed, watch_loop

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/a.io/v1/namespaces/default/widgets"
SLOW = "(a?){1000}a{1000}"


def definition(spec: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"spec": spec}}
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.a.io"},
        "spec": {"group": "a.io", "scope": "Namespaced", "names": names, "versions": [version]},
    }


def widget(spec: Any) -> dict[str, Any]:
    return {"apiVersion": "a.io/v1", "kind": "Widget", "metadata": {"name": "x"}, "spec": spec}


def strings(pattern: str) -> dict[str, Any]:
    return {"type": "object", "properties": {"l": {"type": "array", "items": {"type": "string", "pattern": pattern}}}}


async def send(server: ApiServer, method: str, path: str, body: Any, media: str = "application/json") -> Response:
    headers = Headers({"Content-Type": media})
    path, _, query = path.partition("?")
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    result = server.handle(Request(method, path, query, headers, raw, server.owner))
    return result if isinstance(result, Response) else await asyncio.ensure_future(result)


def text_of(response: Response) -> bytes:
    assert isinstance(response.body, bytes)
    return response.body


@undisturbed
async def test_an_expensive_pattern_is_matched_off_the_loop_with_the_same_result():
    async with ApiServer(tls=False) as server:
        assert (await send(server, "POST", CRDS, definition(strings(SLOW)))).status == 201
        with watch_loop() as watchdog:
            await asyncio.sleep(0)
            good = await send(server, "POST", WIDGETS, widget({"l": ["a" * 1500]}))
            bad = await send(
                server, "PUT", f"{WIDGETS}/x", json.loads(text_of(good)) | {"spec": {"l": ["a" * 999 + "b"]}}
            )
        assert (good.status, bad.status) == (201, 422)
        assert watchdog.longest < LIMIT, watchdog.culprit


@undisturbed
async def test_the_rules_of_a_large_schema_are_compiled_off_the_loop_after_a_restart():
    spec = {"type": "object", "properties": {f"p{at}": {"type": "string"} for at in range(10_000)}}
    rule = {"x-kubernetes-validations": [{"rule": "!has(self.p1) || self.p1 != 'x'"}]}
    storage = MemoryStorage()
    async with ApiServer(storage, tls=False) as server:
        assert (await send(server, "POST", CRDS, definition({**spec, **rule}))).status == 201
    validation._compiled.cache_clear()
    async with ApiServer(storage, tls=False) as server:
        with watch_loop() as watchdog:
            await asyncio.sleep(0)
            good = await send(server, "POST", WIDGETS, widget({"p1": "a"}))
            bad = await send(server, "PUT", f"{WIDGETS}/x", json.loads(text_of(good)) | {"spec": {"p1": "x"}})
    assert (good.status, bad.status) == (201, 422)
    assert watchdog.longest < LIMIT, watchdog.culprit


@pytest.mark.parametrize("media", ["application/json", "application/apply-patch+yaml"])
async def test_a_request_beyond_its_steps_is_refused(media: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(step_limits, "REQUEST_STEPS", 300_000)
    is_apply = media != "application/json"
    async with ApiServer(tls=False) as server:
        # A pattern of its own: compiled patterns are shared by the process, and have cached the states of other tests.
        await send(server, "POST", CRDS, definition(strings(f"{SLOW}{'y' if is_apply else 'z'}")))
        method, path = ("PATCH", f"{WIDGETS}/x?fieldManager=m") if is_apply else ("POST", WIDGETS)
        refused = await send(server, method, path, widget({"l": ["a" * 1500]}), media)
        assert refused.status == 413
        assert b"take more than 300000 steps" in text_of(refused)


async def test_a_definition_with_a_pattern_that_is_too_expensive_is_refused():
    async with ApiServer(tls=False) as server:
        refused = await send(server, "POST", CRDS, definition(strings("a{1000}" * 5)))
        assert refused.status == 422
        assert b"estimated pattern cost exceeds budget" in text_of(refused)
        bounded = strings("a{1000}" * 5)
        bounded["properties"]["l"]["items"]["maxLength"] = 200
        assert (await send(server, "POST", CRDS, definition(bounded))).status == 201


@undisturbed
async def test_an_expensive_rule_is_evaluated_off_the_loop():
    items = {"type": "array", "maxItems": 400, "items": {"type": "integer"}}
    rule = {"rule": "self.l.all(a, self.l.exists(b, a + b == -1))", "message": "no"}
    spec = {"type": "object", "properties": {"l": items}, "x-kubernetes-validations": [rule]}
    async with ApiServer(tls=False) as server:
        assert (await send(server, "POST", CRDS, definition(spec))).status == 201
        with watch_loop() as watchdog:
            await asyncio.sleep(0)
            fine = await send(server, "POST", WIDGETS, widget({"l": [-1] * 399 + [0]}))
        assert fine.status == 201
        assert watchdog.longest < LIMIT, watchdog.culprit


@pytest.mark.parametrize(
    "rule", ["self.texts[0].find(self.patterns[0]) == ''", "self.patterns.all(p, !'ab'.matches(p))"]
)
@undisturbed
async def test_a_pattern_in_an_object_is_compiled_and_searched_off_the_loop(rule: str, monkeypatch: pytest.MonkeyPatch):
    texts = {"type": "array", "maxItems": 10, "items": {"type": "string", "maxLength": 2_000}}
    properties = {"texts": texts, "patterns": texts}
    spec = {"type": "object", "properties": properties, "x-kubernetes-validations": [{"rule": rule}]}
    patterns = [f"(a?){{990}}a{{{1 + at}}}" + "b" * 1_900 for at in range(10)]
    async with ApiServer(tls=False) as server:
        assert (await send(server, "POST", CRDS, definition(spec))).status == 201
        monkeypatch.setattr(step_limits, "REQUEST_STEPS", 1_000_000)
        with watch_loop() as watchdog:
            await asyncio.sleep(0)
            refused = await send(server, "POST", WIDGETS, widget({"texts": ["a" * 500], "patterns": patterns}))
        assert refused.status == 413
        assert watchdog.longest < LIMIT, watchdog.culprit


@pytest.mark.parametrize("seed", range(4))
@undisturbed
async def test_random_patterns_and_texts_never_keep_the_loop(seed: int):
    random = Random(seed)
    parts = ["a", "b?", "(a|b)*", "(a?){50}", ".{1,90}", "[^b]+", "(ab*)+", r"\b", "a{200}"]
    pattern = "".join(random.choices(parts, k=6)) + random.choice(["", "$", "c"])
    texts = ["".join(random.choices("ab \n", k=random.randint(1, 2_000))) for _ in range(20)]
    async with ApiServer(tls=False) as server:
        assert (await send(server, "POST", CRDS, definition(strings(pattern)))).status == 201
        with watch_loop() as watchdog:
            await asyncio.sleep(0)
            outcome = await send(server, "POST", WIDGETS, widget({"l": texts}))
        assert outcome.status in {201, 413, 422}
        assert watchdog.longest < LIMIT, (pattern, watchdog.culprit)


def rules_of(*rules: str) -> dict[str, Any]:
    properties = {f"a{at}": {"type": "integer"} for at in range(10)}
    return {"type": "object", "properties": properties, "x-kubernetes-validations": [{"rule": one} for one in rules]}


def long_rule(form: str, count: int) -> str:
    match form:
        case "terms":
            return " && ".join(f"self.a{at % 10} != {at}" for at in range(count))
        case "items":
            return f"[{', '.join(f'self.a{at % 10} + {at}' for at in range(count))}].size() > 0"
        case "entries":
            return f"{{{', '.join(f'{at}: self.a{at % 10}' for at in range(count))}}}.size() > 0"
        case _:
            terms = (f"(self.a1 == {at} && self.a2 != {at})" for at in range(count // 3))
            return f"({' || '.join(terms)}) == false"


@pytest.mark.parametrize("count", [1_500, pytest.param(5_000, marks=pytest.mark.robustness)])
@pytest.mark.parametrize("form", ["terms", "items", "entries", "nested"])
@undisturbed
async def test_a_rule_of_thousands_of_terms_is_compiled_piece_by_piece_off_the_loop(form: str, count: int):
    async with ApiServer(tls=False) as server:
        with watch_loop() as watchdog:
            await asyncio.sleep(0)
            made = await send(server, "POST", CRDS, definition(rules_of(long_rule(form, count))))
            assert made.status == 201, text_of(made)
            fine = await send(server, "POST", WIDGETS, widget({f"a{at}": -1 for at in range(10)}))
            assert fine.status == 201, text_of(fine)
        assert watchdog.longest < LIMIT, watchdog.culprit


@pytest.mark.parametrize("count", [4_000, pytest.param(20_000, marks=pytest.mark.robustness)])
@undisturbed
async def test_a_schema_of_thousands_of_properties_is_compiled_piece_by_piece_off_the_loop(count: int):
    names = [f"p{at}" for at in range(count)]
    spec = {"type": "object", "properties": {name: {"type": "string"} for name in names}}
    values = dict.fromkeys(names, "x")
    # Made before, since the client's work is not the server's.
    bodies = [json.dumps(one).encode() for one in (definition(spec), widget(values), widget({**values, "p7": 1}))]
    async with ApiServer(tls=False) as server:
        with watch_loop() as watchdog:
            await asyncio.sleep(0)
            assert (await send(server, "POST", CRDS, bodies[0])).status == 201
            await asyncio.sleep(0)
            fine = await send(server, "POST", WIDGETS, bodies[1])
            await asyncio.sleep(0)
            bad = await send(server, "POST", WIDGETS, bodies[2])
        assert (fine.status, bad.status) == (201, 422)
        assert watchdog.longest < LIMIT, watchdog.culprit


@pytest.mark.parametrize("count", [4_000, pytest.param(12_000, marks=pytest.mark.robustness)])
@pytest.mark.parametrize("form", ["date", "not-checked"])
@undisturbed
async def test_the_formats_of_thousands_of_properties_are_checked_off_the_loop(form: str, count: int):
    spec = {"type": "object", "properties": {f"p{at}": {"type": "string", "format": form} for at in range(count)}}
    body = json.dumps(definition(spec)).encode()
    async with ApiServer(tls=False) as server:
        with watch_loop() as created:
            await asyncio.sleep(0)
            made = await send(server, "POST", CRDS, body)
        assert made.status == 201, text_of(made)[:300]
        meta = {"name": "widgets.a.io", "resourceVersion": json.loads(text_of(made))["metadata"]["resourceVersion"]}
        body = json.dumps({**definition({**spec, "description": "changed"}), "metadata": meta}).encode()
        with watch_loop() as updated:
            await asyncio.sleep(0)
            changed = await send(server, "PUT", f"{CRDS}/widgets.a.io", body)
        assert changed.status == 200, text_of(changed)[:300]
    warnings = [value for name, value in made.headers if name == "Warning" and "unrecognized format" in value]
    assert bool(warnings) == (form == "not-checked")
    assert created.longest < LIMIT, created.culprit
    assert updated.longest < LIMIT, updated.culprit


@pytest.mark.parametrize("count", [1_000, pytest.param(20_000, marks=pytest.mark.robustness)])
@undisturbed
async def test_the_documents_of_a_schema_of_thousands_of_properties_are_made_off_the_loop(count: int):
    spec = {"type": "object", "properties": {f"p{at}": {"type": "string"} for at in range(count)}}
    protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    pages = [("/openapi/v2", protobuf), ("/openapi/v2", "*/*"), ("/openapi/v3", "*/*")]
    async with ApiServer(tls=False) as server:
        assert (await send(server, "POST", CRDS, definition(spec))).status == 201
        with watch_loop() as watchdog:
            for path, accept in [*pages, ("/openapi/v3/apis/a.io/v1", "*/*")]:
                await asyncio.sleep(0)
                result = server.handle(Request("GET", path, "", Headers({"Accept": accept}), b"", server.owner))
                assert (result if isinstance(result, Response) else await asyncio.ensure_future(result)).status == 200
            await asyncio.sleep(0)
            assert (await send(server, "DELETE", f"{CRDS}/widgets.a.io", b"")).status == 200
        assert watchdog.longest < LIMIT, watchdog.culprit
