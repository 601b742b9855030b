import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from levelset.apiserver.unfolding import is_long_yaml
from levelset.web import Headers, Request, Response
from tests.apiserver.box import CONFIGMAPS, Box, open_box

YAML = "application/yaml"
APPLY = "application/apply-patch+yaml"
LINES = 8_000


@pytest.fixture
async def box() -> AsyncIterator[Box]:
    async with open_box() as box:
        yield box


def manifest(name: str = "a", lines: int = LINES) -> bytes:
    head = f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n"
    return (head + "".join(f"  key-{number}: value {number}\n" for number in range(lines))).encode()


def request(method: str, path: str, body: bytes, media: str, query: str = "") -> Request:
    return Request(method, path, query, Headers({"Content-Type": media}), body)


async def send(box: Box, method: str, path: str, body: bytes, media: str, query: str = "") -> tuple[int, Any]:
    asked = Request(method, path, query, Headers({"Content-Type": media}), body, box.server.owner)
    made = box.server.handle(asked)
    assert not isinstance(made, Response)  # it is not read at once
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count())
    response = await made
    counting.cancel()
    assert turns > 1  # others had their turns meanwhile
    assert isinstance(response.body, bytes)
    return response.status, json.loads(response.body)


async def test_a_long_object_in_yaml_is_created_and_replaced_while_others_have_their_turns(box: Box) -> None:
    status, made = await send(box, "POST", CONFIGMAPS, manifest(), YAML)
    assert (status, made["data"]["key-7"], len(made["data"])) == (201, "value 7", LINES)
    status, made = await send(box, "PUT", f"{CONFIGMAPS}/a", manifest(lines=LINES - 1), f"{YAML}; charset=utf-8")
    assert (status, len(made["data"])) == (200, LINES - 1)


async def test_a_long_object_in_yaml_is_applied(box: Box) -> None:
    status, made = await send(box, "PATCH", f"{CONFIGMAPS}/a", manifest(), APPLY, "fieldManager=me")
    assert (status, len(made["data"])) == (201, LINES)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"- a\n" * 40_000, "must be an object"),
        (b"a: [\n" + b" " * 140_000, "cannot be read"),
        (b"a: 1\n---\n" * 20_000, "one YAML document"),
    ],
)
async def test_what_is_wrong_with_it_is_told(box: Box, body: bytes, problem: str) -> None:
    for method, path, media in (("POST", CONFIGMAPS, YAML), ("PATCH", f"{CONFIGMAPS}/a", APPLY)):
        status, told = await send(box, method, path, body, media, "fieldManager=me")
        assert status == 400
        assert problem in told["message"]


async def test_nobody_has_it_read_who_may_not_write(box: Box) -> None:
    made = box.server.handle(request("POST", CONFIGMAPS, manifest(), YAML))
    assert isinstance(made, Response)
    assert made.status == 401


def test_what_is_short_or_in_truth_json_is_read_at_once() -> None:
    applied = json.dumps({"data": {"k": "v" * 140_000}}).encode()
    assert not is_long_yaml(request("POST", CONFIGMAPS, manifest(lines=3), YAML))
    assert not is_long_yaml(request("PATCH", CONFIGMAPS, applied, APPLY))
    assert not is_long_yaml(request("POST", CONFIGMAPS, applied, "application/json"))
    assert is_long_yaml(request("PATCH", CONFIGMAPS, applied[:-1] + b", a: b}", APPLY))
    assert is_long_yaml(request("POST", CONFIGMAPS, applied, YAML))
