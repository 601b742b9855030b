import asyncio
import json

import pytest

from levelset.apiserver.server import ApiServer
from levelset.apiserver.wire.large_bodies import HEAVY, Lightening, has_too_many, is_heavy
from levelset.errors import BadRequest
from levelset.http import Headers, Request, Response
from tests.apiserver.roles import open_town

MAPS = "/api/v1/namespaces/default/configmaps"
APPLY = "application/apply-patch+yaml"
LARGE = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n" + b"".join(
    b"  k%d: v\n" % number for number in range(2000)
)


def sent(body: bytes, media: str = "application/yaml", method: str = "POST", path: str = MAPS) -> Request:
    return Request(method, path, "fieldManager=m", Headers({"content-type": media}), body, ApiServer.owner)


@pytest.mark.parametrize(
    ("body", "media", "heavy"),
    [
        (LARGE, "application/yaml", True),
        (LARGE, APPLY, True),
        (LARGE, "application/json", False),
        (LARGE[:HEAVY], "application/yaml", False),
        (json.dumps({"a": "b" * HEAVY}).encode(), APPLY, False),
        (b"{a: " + b"b" * HEAVY + b"}", APPLY, True),
    ],
)
def test_only_large_yaml_is_heavy(body: bytes, media: str, heavy: bool) -> None:
    assert is_heavy(sent(body, media)) is heavy


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
async def test_large_yaml_means_what_small_yaml_means(method: str) -> None:
    async with open_town() as town:
        if method == "PUT":
            await town.own("POST", MAPS, {"metadata": {"name": "a"}})
        path, media = (MAPS if method == "POST" else f"{MAPS}/a"), (APPLY if method == "PATCH" else "application/yaml")
        made = town.server.handle(sent(LARGE, media, method, path))
        assert not isinstance(made, Response)  # others have their turn
        response = await made
        assert response.status in (200, 201), response.body
        assert len((await town.own("GET", f"{MAPS}/a"))["data"]) == 2000


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"a: b\n---\n" + LARGE, "one YAML document"),
        (LARGE + b"\t: [", "cannot be read"),
        (b"[" + b"a," * 20_000 + b"]", "too large"),
    ],
    ids=["two documents", "no yaml", "too many values"],
)
async def test_large_yaml_that_is_none_is_refused(body: bytes, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        await Lightening(most_nodes=10_000).lighten(sent(body))


async def test_who_has_no_right_has_nothing_read() -> None:
    async with open_town() as town:
        request = Request("POST", MAPS, "", Headers({"content-type": "application/yaml"}), b"[" * HEAVY * 2)
        made = town.server.handle(request)
        assert isinstance(made, Response)
        assert made.status == 403


async def test_heavy_bodies_are_read_one_at_a_time_and_others_go_on() -> None:
    lightening = Lightening()
    tasks = [asyncio.ensure_future(lightening.lighten(sent(LARGE))) for _ in range(3)]
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
def test_values_are_counted_and_texts_are_not(tree: object, many: bool) -> None:
    assert has_too_many(json.dumps(tree).encode(), 1000) is many


@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_a_body_of_nothing_but_values_is_refused_at_once(method: str) -> None:
    body = json.dumps({"metadata": {"name": "a"}, "l": [0] * 100_000}, separators=(",", ":")).encode()
    async with open_town() as town:
        made = town.server.handle(sent(body, "application/json", method, MAPS if method == "POST" else f"{MAPS}/a"))
    assert isinstance(made, Response)
    assert isinstance(made.body, bytes)
    told = json.loads(made.body)
    assert (made.status, told["reason"]) == (413, "RequestEntityTooLarge")
    assert told["message"] == "Request entity too large: an object may hold 50000 values at most"
