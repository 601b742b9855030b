import asyncio
import json

import pytest

from levelset.apiserver.server import ApiServer
from levelset.apiserver.wire.large_bodies import LARGE_YAML_BYTES, BodyConverter, has_too_many_values, is_large_yaml
from levelset.errors import BadRequest
from levelset.http import Headers, Request, Response
from tests.apiserver.support.rbac_server import open_rbac_server

MAPS = "/api/v1/namespaces/default/configmaps"
APPLY = "application/apply-patch+yaml"
LARGE = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n" + b"".join(
    b"  k%d: v\n" % number for number in range(2000)
)


def sent(body: bytes, media: str = "application/yaml", method: str = "POST", path: str = MAPS) -> Request:
    return Request(method, path, "fieldManager=m", Headers({"content-type": media}), body, ApiServer.owner)


@pytest.mark.parametrize(
    ("body", "media", "expected"),
    [
        (LARGE, "application/yaml", True),
        (LARGE, APPLY, True),
        (LARGE, "application/json", False),
        (LARGE[:LARGE_YAML_BYTES], "application/yaml", False),
        (json.dumps({"a": "b" * LARGE_YAML_BYTES}).encode(), APPLY, False),
        (b"{a: " + b"b" * LARGE_YAML_BYTES + b"}", APPLY, True),
    ],
)
def test_only_large_yaml_is_converted_in_a_thread(body: bytes, media: str, expected: bool) -> None:
    assert is_large_yaml(sent(body, media)) is expected


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
async def test_large_yaml_gives_the_same_result_as_small_yaml(method: str) -> None:
    async with open_rbac_server() as api:
        if method == "PUT":
            await api.request_as_owner("POST", MAPS, {"metadata": {"name": "a"}})
        path, media = (MAPS if method == "POST" else f"{MAPS}/a"), (APPLY if method == "PATCH" else "application/yaml")
        made = api.server.handle(sent(LARGE, media, method, path))
        assert not isinstance(made, Response)  # others have their turn
        response = await made
        assert response.status in (200, 201), response.body
        assert len((await api.request_as_owner("GET", f"{MAPS}/a"))["data"]) == 2000


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"a: b\n---\n" + LARGE, "one YAML document"),
        (LARGE + b"\t: [", "cannot be read"),
        (b"[" + b"a," * 20_000 + b"]", "too large"),
    ],
    ids=["two documents", "no yaml", "too many values"],
)
async def test_invalid_large_yaml_is_rejected(body: bytes, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        await BodyConverter(max_nodes=10_000).convert(sent(body))


async def test_the_body_of_a_forbidden_request_is_not_parsed() -> None:
    async with open_rbac_server() as api:
        request = Request("POST", MAPS, "", Headers({"content-type": "application/yaml"}), b"[" * LARGE_YAML_BYTES * 2)
        made = api.server.handle(request)
        assert isinstance(made, Response)
        assert made.status == 403


async def test_large_bodies_are_converted_one_at_a_time_while_other_requests_continue() -> None:
    converter = BodyConverter()
    tasks = [asyncio.ensure_future(converter.convert(sent(LARGE))) for _ in range(3)]
    turns = 0
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        turns += 1
    assert turns > 1
    assert [json.loads(task.result().body)["kind"] for task in tasks] == ["ConfigMap"] * 3


@pytest.mark.parametrize(
    ("tree", "many"),
    [
        ({"l": [0] * 2000}, True),
        ({"l": [0] * 900}, False),
        ({f"k{number}": "v" for number in range(1001)}, True),
        ([[[]] * 501, [{}] * 500], True),
        ({"csv": "1,2,[3],{4}" * 2000}, False),
        ({"csv": ',\\"[' * 2000}, False),
    ],
)
def test_values_are_counted_without_the_content_of_strings(tree: object, many: bool) -> None:
    assert has_too_many_values(json.dumps(tree).encode(), 1000) is many


@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_a_body_with_too_many_values_is_rejected_at_once(method: str) -> None:
    body = json.dumps({"metadata": {"name": "a"}, "l": [0] * 100_000}, separators=(",", ":")).encode()
    async with open_rbac_server() as api:
        made = api.server.handle(sent(body, "application/json", method, MAPS if method == "POST" else f"{MAPS}/a"))
    assert isinstance(made, Response)
    assert isinstance(made.body, bytes)
    error = json.loads(made.body)
    assert (made.status, error["reason"]) == (413, "RequestEntityTooLarge")
    assert error["message"] == "Request entity too large: an object may hold 50000 values at most"
