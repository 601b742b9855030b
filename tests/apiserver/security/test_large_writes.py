"""Writes with many values: whatever they cost, no other request waits for more than 50 ms.

In full, near the largest body that the server takes, with `make test-robustness`.
"""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from levelset.apiserver import ApiServer
from levelset.http import Headers, Request, Response
from tests.apiserver.security.test_hostile_schemas import CRDS, WIDGETS, definition, send, text_of, widget
from tests.apiserver.support.loop_watchdog import LIMIT, undisturbed, watch_loop
from tests.apiserver.support.protobuf_messages import envelope, message, meta

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
SERVICES = "/api/v1/namespaces/default/services"
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
ITEMS = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}
SPEC = {"type": "object", "properties": {"l": {"type": "array", "items": ITEMS}}}


def config_map(count: int, value: str = "v", **metadata: Any) -> dict[str, Any]:
    data = {f"k{number}": value for number in range(count)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", **metadata}, "data": data}


def pod(count: int) -> dict[str, Any]:
    containers = [{"name": f"c{number}", "image": "x", "env": [{"name": "a", "value": "b"}]} for number in range(count)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": containers}}


def owned(count: int) -> dict[str, Any]:
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": f"p{at}", "uid": f"u{at}"} for at in range(count)]
    return config_map(1, ownerReferences=owners)


Write = tuple[str, str, str, Callable[[int], dict[str, Any]], int]

WRITES: dict[str, list[Write]] = {
    "an update": [
        ("POST", CONFIG_MAPS, "application/json", config_map, 201),
        ("PUT", f"{CONFIG_MAPS}/a", "application/json", lambda count: config_map(count, "w"), 200),
    ],
    "a patch": [
        ("POST", CONFIG_MAPS, "application/json", config_map, 201),
        ("PATCH", f"{CONFIG_MAPS}/a", MERGE, lambda _: {"data": {"k1": "w"}}, 200),
    ],
    "an apply": [
        ("PATCH", f"{CONFIG_MAPS}/a?fieldManager=m", APPLY, config_map, 201),
        ("PATCH", f"{CONFIG_MAPS}/a?fieldManager=n&force=true", APPLY, lambda count: config_map(count, "w"), 200),
    ],
    "containers": [
        ("POST", "/api/v1/namespaces/default/pods", "application/json", lambda count: pod(count // 11), 201)
    ],
    "owners": [("POST", CONFIG_MAPS, "application/json", lambda count: owned(count // 6), 201)],
    "errors": [
        ("POST", CRDS, "application/json", lambda _: definition(SPEC), 201),
        ("POST", WIDGETS, "application/json", lambda count: widget({"l": [{"a": 1, "b": "x"}] * (count // 3)}), 422),
    ],
    "unknown fields": [
        ("POST", CRDS, "application/json", lambda _: definition(SPEC), 201),
        ("POST", WIDGETS, "application/json", lambda count: widget({f"u{at}": 1 for at in range(count)}), 201),
    ],
    "a collection": [
        ("POST", CONFIG_MAPS, "application/json", config_map, 201),
        ("DELETE", CONFIG_MAPS, "application/json", lambda _: {}, 200),
    ],
}


@pytest.mark.parametrize("count", [9_000, pytest.param(48_000, marks=pytest.mark.robustness)])
@pytest.mark.parametrize("name", WRITES)
@undisturbed
async def test_a_write_of_many_values_keeps_no_other_request_waiting(name: str, count: int) -> None:
    bodies = [json.dumps(make(count)).encode() for _, _, _, make, _ in WRITES[name]]  # not the server's work
    async with ApiServer(tls=False) as server:
        with watch_loop() as watchdog:
            for (method, path, media, _, status), body in zip(WRITES[name], bodies, strict=True):
                await asyncio.sleep(0)
                response = await send(server, method, path, body, media)
                assert response.status == status, text_of(response)[:300]
                await server.idle()
        # On a busy machine everything takes longer, most of all near the limit, where one decoding alone takes 25 ms.
        assert watchdog.longest < LIMIT * (1 if count < 10_000 else 2), watchdog.culprit


async def test_the_warnings_of_a_response_are_bounded() -> None:
    async with ApiServer(tls=False) as server:
        await send(server, "POST", CRDS, definition(SPEC))
        response = await send(server, "POST", WIDGETS, widget({f"u{at}": 1 for at in range(3_000)}))
    warnings = [value for name, value in response.headers if name == "Warning"]
    assert warnings[0] == '299 - "unknown field \\"spec.u0\\""'
    assert sum(map(len, warnings)) < 8_192


def protobuf(count: int) -> bytes:
    """A ConfigMap with so many values; made without the encoder of the tests, which takes longer than the server."""
    entries = b"".join(b"\x12\x0d\x0a\x06k%05d\x12\x03abc" % number for number in range(count))
    return envelope("v1", "ConfigMap", message((1, meta("a"))) + entries)


async def post_protobuf(server: ApiServer, body: bytes) -> Response:
    headers = Headers({"Content-Type": "application/vnd.kubernetes.protobuf"})
    result = server.handle(Request("POST", CONFIG_MAPS, "", headers, body, server.owner))
    return result if isinstance(result, Response) else await asyncio.ensure_future(result)


@undisturbed
async def test_large_protobuf_is_read_off_the_loop_and_has_the_limit_of_values() -> None:
    bodies = protobuf(9_000), protobuf(51_000)
    async with ApiServer(tls=False) as server:
        with watch_loop() as watchdog:
            await asyncio.sleep(0)
            made, refused = [await post_protobuf(server, body) for body in bodies]
        assert watchdog.longest < LIMIT, watchdog.culprit
    assert (made.status, refused.status) == (201, 413)
    assert json.loads(text_of(made))["data"]["k08999"] == "abc"


async def test_a_service_which_only_the_loop_may_prepare_has_few_values() -> None:
    ports = [{"name": f"p{number}", "port": number + 1} for number in range(3_000)]
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"ports": ports}}
    async with ApiServer(tls=False) as server:
        refused = await send(server, "POST", SERVICES, service)
        service["metadata"] = {"name": "a", "annotations": {"note": "x" * 100_000}}
        service["spec"] = {"ports": ports[:3]}
        made = await send(server, "POST", SERVICES, service)
        assert (refused.status, made.status) == (413, 201)
        assert b"an object may hold 5000 values at most" in text_of(refused)
        grown = json.loads(text_of(made))
        grown["spec"]["ports"] = ports
        assert (await send(server, "PUT", f"{SERVICES}/a", grown)).status == 413
