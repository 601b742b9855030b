"""Selectors and continue tokens made to stop the server: each is answered quickly, with 400 or 410 and no traceback."""

import base64
import json
import logging
import time
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.apiserver.support.in_process_server import InProcessServer, configmap, open_server

MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"
OBJECTS = 40


@pytest.fixture
async def api() -> AsyncGenerator[InProcessServer, None]:
    async with open_server() as made:
        for number in range(OBJECTS):
            await made.create(MAPS, configmap(f"c{number}", labels={"a": f"v{number}", "n": str(number)}))
        await made.create(SECRETS, {"metadata": {"name": "s"}})
        yield made


def token(**fields: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")


SELECTORS: dict[str, tuple[dict[str, str], int]] = {
    "a set of 100,000 values": ({"labelSelector": f"a in ({','.join(f'x{n}' for n in range(100_000))})"}, 0),
    "all but 5,000 values": ({"labelSelector": f"a notin ({','.join(f'x{n}' for n in range(5_000))})"}, OBJECTS),
    "3,000 terms": ({"labelSelector": ",".join(f"a!=x{n}" for n in range(3_000))}, OBJECTS),
    "3,000 keys": ({"labelSelector": ",".join(f"k{n}!=x" for n in range(3_000))}, OBJECTS),
    "3,000 contradictions": ({"labelSelector": ",".join(f"a=x{n}" for n in range(3_000))}, 0),
    "1,500 fields": ({"fieldSelector": ",".join(f"metadata.name!=x{n}" for n in range(1_500))}, OBJECTS),
    "a name of 100 KB": ({"fieldSelector": f"metadata.name={'x' * 100_000}"}, 0),
}


async def test_a_large_selector_selects_what_it_says_in_a_moment(api: InProcessServer) -> None:
    for what, (query, count) in SELECTORS.items():
        began = time.process_time()
        status, answer = await api.request("GET", MAPS, **query)
        assert (status, len(answer["items"])) == (200, count), what
        assert time.process_time() - began < 2.0, what  # on an idle machine it is at most 0.1 s


BROKEN = {
    "a key of 1 MB": "a" * 1_000_000,
    "nothing but parentheses": "(" * 100_000,
    "nested sets": f"a in {'(' * 50_000}{')' * 50_000}",
    "nothing but negations": "!" * 100_000,
    "nothing but commas": "," * 100_000,
    "a set without an end": "a in (" + "x," * 10_000,
    "a NUL": "a=\x00",
    "other alphabets": "ａ=１",
    "a value of 100 KB": "a=" + "x" * 100_000,
    "a number of 10,000 digits": "a>" + "9" * 10_000,
}


@pytest.mark.parametrize("name", ["labelSelector", "fieldSelector"])
async def test_a_broken_selector_is_refused_with_a_short_message(api: InProcessServer, name: str) -> None:
    for what, text in BROKEN.items():
        began = time.process_time()
        status, answer = await api.request("GET", MAPS, **{name: text})
        assert time.process_time() - began < 2.0, what
        if name == "fieldSelector" and what == "nothing but commas":
            assert status == 200  # no field is required
        elif name == "labelSelector" and what == "a NUL":
            assert status == 200  # as upstream: it ends the text
        else:
            assert (status, answer["reason"]) == (400, "BadRequest"), what
            assert len(answer["message"]) < 800


@pytest.mark.parametrize(
    "query", ["labelSelector=a%", "labelSelector=a%zz", "labelSelector=%ff%fe", "fieldSelector=%0"]
)
async def test_an_invalid_percent_encoding_selects_nothing_instead_of_everything(
    api: InProcessServer, query: str
) -> None:
    """A server that drops what it cannot decode would list, or delete, all objects."""
    for method in ("GET", "DELETE"):
        response = await api.send_query(method, MAPS, query)
        assert response.status == 400
    assert len((await api.request("GET", MAPS))[1]["items"]) == OBJECTS


TOKENS: dict[str, tuple[str, int]] = {
    "forged": (token(v=1, rv=-1, after="../../secrets/default/"), 400),
    "with another way to say so": (token(v=1, rv=-1, after="a/./b"), 400),
    "empty": (token(v=1, rv=-1, after=""), 400),
    "absolute": (token(v=1, rv=-1, after="/registry/secrets"), 400),
    "of the future": (token(v=1, rv=10**12, after="c5"), 410),
    "of the last revision there can be": (token(v=1, rv=2**63 - 1, after="c5"), 410),
    "beyond": (token(v=1, rv=2**63, after="c5"), 400),
    "negative": (token(v=1, rv=-2, after="c5"), 400),
    "of no revision": (token(v=1, rv=0, after="c5"), 400),
    "of another version": (token(v=2, rv=-1, after="c5"), 400),
    "with a fraction": (base64.urlsafe_b64encode(b'{"v":1,"rv":1e300,"after":"a"}').decode(), 400),
    "truncated": (token(v=1, rv=5, after="c5")[:-5], 400),
    "of 1 MB": ("A" * 1_000_000, 400),
    "nested": (base64.urlsafe_b64encode(b"[" * 50_000).decode(), 400),
    "no base64": ("é" * 100, 400),
    "no text": (base64.urlsafe_b64encode(b'{"v":1,"rv":1,"after":"\xff"}').decode(), 400),
}


async def test_a_continue_token_that_no_list_has_given_is_refused(api: InProcessServer) -> None:
    for what, (given_token, expected) in TOKENS.items():
        status, answer = await api.request("GET", MAPS, **{"continue": given_token, "limit": "5"})
        assert (status, answer["kind"]) == (expected, "Status"), what
        if status == 410:  # clients start again, or go on with the token that is given
            again = answer["metadata"]["continue"]
            assert (await api.request("GET", MAPS, **{"continue": again, "limit": "5"}))[0] == 200


async def test_a_token_of_another_resource_shows_only_objects_of_the_one_that_is_listed(api: InProcessServer) -> None:
    page = (await api.request("GET", MAPS, limit="1"))[1]
    given_token = page["metadata"]["continue"]
    status, answer = await api.request("GET", SECRETS, **{"continue": given_token, "limit": "5"})
    assert (status, [one["metadata"]["name"] for one in answer["items"]]) == (200, ["s"])


PIECES = st.sampled_from(
    ["a", "n", "=", "==", "!=", "!", ",", " in ", " notin ", "(", ")", "<", ">", "5", "\\", "é", "%"]
)
TEXTS = st.text(max_size=60) | st.lists(PIECES, max_size=40).map("".join)
AFTER = st.text(max_size=20) | st.sampled_from(["c1", "../x", "a/b", "."])
FORGED = st.builds(lambda rv, after: token(v=1, rv=rv, after=after), st.integers(-3, 2**65), AFTER)


@given(labels=TEXTS | st.none(), fields=TEXTS | st.none(), resumed=FORGED | st.text(max_size=80) | st.none())
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
async def test_whatever_the_selectors_and_the_token_a_list_is_answered_with_200_400_or_410(
    caplog: pytest.LogCaptureFixture, labels: str | None, fields: str | None, resumed: str | None
) -> None:
    given_query = {"labelSelector": labels, "fieldSelector": fields, "continue": resumed}
    query = {name: value for name, value in given_query.items() if value is not None}
    try:
        "".join(query.values()).encode()
    except UnicodeEncodeError:
        return
    async with open_server() as api:
        await api.create(MAPS, configmap("c1", labels={"a": "5"}))
        began = time.process_time()
        status, answer = await api.request("GET", MAPS, **query)
        assert time.process_time() - began < 1.0
    assert status in {200, 400, 410}, answer
    assert [one for one in caplog.records if one.levelno >= logging.ERROR] == []
