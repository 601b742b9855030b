"""Calls over sockets, to our own server and to raw ones: who asks, what is sent, what is told if nobody is there."""

import asyncio
import json
import socket
from collections.abc import Mapping

import pytest

from levelset.apiserver import ApiServer
from levelset.client.calls import Call
from levelset.client.config import Impersonation
from levelset.client.credentials import Anonymous, Token
from levelset.client.pool import PoolLimits
from levelset.errors import ConfigError, TimedOut, Unreachable
from levelset.web import Request, Response, Server
from tests.apiserver.clock import virtual
from tests.client.wires import Caller, ask, listen, post, raw_server, read, transport_to, turn_until


class Rotating(Anonymous):
    """A token that is worth another try after a 401, as often as there are more of them."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = list(tokens)
        self.rejected = 0

    async def headers(self) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {self.tokens[0]}"}

    def reject(self, refused: Mapping[str, str] | None = None) -> bool:
        self.rejected += 1
        if len(self.tokens) > 1 and refused == {"Authorization": f"Bearer {self.tokens[0]}"}:
            del self.tokens[0]
        return True


def echo(request: Request) -> Response:
    told = {"method": request.method, "path": request.path, "query": request.query, "headers": list(request.headers)}
    return Response(200, (("X-Told", "yes"),), json.dumps(told).encode() + request.body)


def only_good(request: Request) -> Response:
    return Response(200 if request.headers.get("authorization") == "Bearer good" else 401, body=b"x")


async def test_a_call_arrives_as_it_was_meant():
    async with Server(echo) as server, transport_to(server.url) as transport:
        call = Call(method="PATCH", path="/a%20b", query="x=1", headers={"Content-Type": "text/x"}, body=b"hello")
        answer = await transport.send(call)
    assert answer.headers.get("x-told") == "yes"
    told, body = json.loads(answer.body[:-5]), answer.body[-5:]
    assert (told["method"], told["path"], told["query"], body) == ("PATCH", "/a%20b", "x=1", b"hello")
    host = server.url.removeprefix("http://")
    assert {("host", host), ("user-agent", "levelset"), ("content-type", "text/x")} <= set(map(tuple, told["headers"]))


async def test_the_path_of_the_server_is_kept():
    async with Server(echo) as server, transport_to(f"{server.url}/k8s/c-1/") as transport:
        assert json.loads((await ask(transport, "/api")).body)["path"] == "/k8s/c-1/api"


async def test_impersonation_is_told_with_every_call():
    jane = Impersonation(user="jane", uid="7", groups=("a", "b"), extra={"reason": ("audit",)})
    async with Server(echo) as server, transport_to(server.url, impersonate=jane) as transport:
        told = json.loads((await ask(transport)).body)["headers"]
    assert [pair for pair in told if pair[0].startswith("impersonate")] == [
        ["impersonate-user", "jane"],
        ["impersonate-uid", "7"],
        ["impersonate-group", "a"],
        ["impersonate-group", "b"],
        ["impersonate-extra-reason", "audit"],
    ]


async def test_a_token_that_is_refused_is_replaced_once_and_the_call_repeated():
    credentials = Rotating("old", "good")
    async with Server(only_good) as server, transport_to(server.url, credentials=credentials) as transport:
        assert (await post(transport)).status == 200
        assert credentials.rejected == 1


async def test_a_second_refusal_is_the_answer():
    credentials = Rotating("old", "older", "good")
    async with Server(only_good) as server, transport_to(server.url, credentials=credentials) as transport:
        assert (await ask(transport, is_stream=True)).status == 401
        assert credentials.rejected == 1


async def test_many_calls_that_are_refused_together_do_not_throw_away_the_new_token():
    credentials = Rotating("old", "good", "bad")
    async with Server(only_good) as server, transport_to(server.url, credentials=credentials) as transport:
        answers = await asyncio.gather(*[ask(transport) for _ in range(10)])
        assert [answer.status for answer in answers] == [200] * 10


async def test_credentials_that_cannot_change_are_not_asked_again():
    async with Server(only_good) as server, transport_to(server.url, credentials=Token("bad")) as transport:
        assert (await ask(transport)).status == 401


@virtual
async def test_credentials_that_take_too_long_are_part_of_the_timeout():
    class Slow(Anonymous):
        async def headers(self) -> Mapping[str, str]:
            await asyncio.sleep(100)
            return {}

    async with listen(Caller.wait_gone, credentials=Slow()) as transport:
        with pytest.raises(TimedOut, match="was not reached within 5 seconds") as caught:
            await ask(transport, timeout=5)
        assert not caught.value.is_sent


# --- nobody there -----------------------------------------------------------------------------------------------------


async def test_a_refused_connection_names_the_server_and_was_not_sent():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        async with transport_to(url) as transport:
            with pytest.raises(Unreachable, match=f"{url} refuses connections: is it running") as caught:
                await ask(transport)
            assert not caught.value.is_sent
            assert isinstance(caught.value.__cause__, ConnectionRefusedError)


@pytest.mark.parametrize("host", ["no.such.host.invalid", f"{'x' * 70}.example", "a..b"])
async def test_a_name_that_nobody_knows_is_told(host: str):
    async with transport_to(f"http://{host}:6443") as transport:
        with pytest.raises(Unreachable, match="not known by that name") as caught:
            await ask(transport)
        assert not caught.value.is_sent


@virtual
async def test_connecting_has_a_time_limit_of_its_own():
    # The connection is only there after a word from the proxy, which keeps silent.
    async with raw_server(Caller.wait_gone) as server:
        proxy = f"http://127.0.0.1:{server.port}"
        limits = PoolLimits(connect_within=4)
        async with transport_to("http://kube:6443", proxy=proxy, limits=limits) as transport:
            start = asyncio.get_running_loop().time()
            with pytest.raises(TimedOut, match="http://kube:6443 was not reached in time through the proxy") as caught:
                await ask(transport)
            assert asyncio.get_running_loop().time() - start == pytest.approx(4)
            assert not caught.value.is_sent


@virtual
async def test_the_timeout_of_the_call_may_be_shorter_than_that_of_the_connection():
    async with (
        raw_server(Caller.wait_gone) as server,
        transport_to("http://kube:6443", proxy=f"http://127.0.0.1:{server.port}") as transport,
    ):
        with pytest.raises(TimedOut, match="within 2 seconds") as caught:
            await ask(transport, timeout=2)
        assert not caught.value.is_sent


async def test_a_path_that_cannot_be_sent_opens_no_connection():
    async with raw_server(Caller.wait_gone) as server, transport_to(server.url) as transport:
        with pytest.raises(ConfigError, match="percent-encoded"):
            await ask(transport, "/a b")
        assert server.connections == 0


# --- our own servers --------------------------------------------------------------------------------------------------


async def test_a_server_that_stops_ends_streams_properly_and_is_then_not_there():
    async with (
        Server(lambda request: Response(200, body=lambda sink: sink.write(b"x"))) as server,
        transport_to(server.url) as transport,
    ):
        answer = await ask(transport, is_stream=True)
        await server.stop()
        assert await read(answer) == b"x"
        await turn_until(lambda: transport._pool.idle == 0)
        with pytest.raises(Unreachable, match="refuses connections"):
            await post(transport)


async def test_the_embedded_server_is_spoken_to_over_tls_with_its_token():
    path = "/api/v1/namespaces/default/configmaps"
    async with ApiServer(port=0) as server:
        async with transport_to(server.url, ca=server.ca, credentials=Token(server.token)) as transport:
            watch = await ask(transport, path, query="watch=1", is_stream=True)
            body = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one"}}'
            answer = await post(transport, body, path=path, headers={"Content-Type": "application/json"})
            assert answer.status == 201
            pieces = aiter(watch.pieces)
            line = await anext(pieces)
            assert json.loads(line)["object"]["metadata"]["name"] == "one"
            assert len(json.loads((await ask(transport, path)).body)["items"]) == 1
            await watch.pieces.aclose()
        async with transport_to(server.url, ca=server.ca, credentials=Token("wrong")) as transport:
            assert (await ask(transport, path)).status == 401
