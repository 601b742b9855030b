"""Calls over sockets, to our own server and to raw ones: who asks, what is sent, what is told if nobody is there."""

import asyncio
import gc
import json
import os
import socket
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from levelset.apiserver import ApiServer
from levelset.client.config.config import Impersonation
from levelset.client.config.credentials import Anonymous, Token, TokenFile
from levelset.client.transport.interface import Call
from levelset.client.transport.pool import PoolLimits
from levelset.errors import ConfigError, TimedOut, Unreachable
from levelset.http import Request, Response, Server
from levelset.http.certificate_authority import Identity
from tests.client.clock import virtual
from tests.client.config.test_exec_plugin_execplugin import Plugin
from tests.client.patience import skipping
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


async def test_a_token_file_is_read_when_it_has_to_be_and_no_more(tmp_path: Path):
    file = tmp_path / "token"
    await asyncio.to_thread(file.write_text, "old")
    credentials = TokenFile(file)
    async with Server(only_good) as server, transport_to(server.url, credentials=credentials) as transport:
        assert (await ask(transport)).status == 401
        await asyncio.to_thread(file.write_text, "good")
        assert (await ask(transport)).status == 200
        await asyncio.to_thread(file.write_text, "bad")
        assert [(await ask(transport)).status for _ in range(3)] == [200] * 3


async def test_credentials_that_cannot_change_are_not_asked_again():
    async with Server(only_good) as server, transport_to(server.url, credentials=Token("bad")) as transport:
        assert (await ask(transport)).status == 401


# --- credentials that take their time ---------------------------------------------------------------------------------


class Slow(Anonymous):
    """Needs so many seconds each time, and has something better after a refusal."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.asked = 0

    async def headers(self) -> Mapping[str, str]:
        self.asked += 1
        await asyncio.sleep(self.seconds)
        return {"Authorization": f"Bearer {self.asked}"}

    def reject(self, refused: Mapping[str, str] | None = None) -> bool:
        return True


async def refuse_first(caller: Caller) -> None:
    """Takes three seconds for each answer, and refuses the first token."""
    while True:
        _, headers, _ = await caller.request()
        await asyncio.sleep(3)
        caller.answer(b"", "401 Unauthorized" if headers["Authorization"] == "Bearer 1" else "200 OK")


@virtual
async def test_the_timeout_of_a_call_begins_when_its_credentials_are_there():
    async with listen(lambda caller: caller.wait_gone(), credentials=Slow(100)) as transport:
        with pytest.raises(TimedOut, match="did not answer within 5 seconds") as caught:
            await ask(transport, timeout=5)
        assert caught.value.is_sent
        assert asyncio.get_running_loop().time() == pytest.approx(105)


@virtual
async def test_what_a_late_call_leads_to_is_part_of_no_circle():
    async with listen(Caller.wait_gone) as transport:
        gc.disable()
        try:
            with pytest.raises(TimedOut) as caught:
                await ask(transport, timeout=5)
            error = weakref.ref(caught.value)
            del caught
            await asyncio.sleep(0)  # the loop still has in hand what woke this task
            assert error() is None
        finally:
            gc.enable()


@virtual
async def test_the_timeout_stands_still_while_a_refused_token_is_replaced():
    async with listen(refuse_first, credentials=Slow(100)) as transport:
        assert (await ask(transport, timeout=7)).status == 200


@virtual
async def test_the_time_before_a_token_was_refused_counts():
    async with listen(refuse_first, credentials=Slow(100)) as transport:
        with pytest.raises(TimedOut, match="within 5 seconds"):
            await ask(transport, timeout=5)
        assert asyncio.get_running_loop().time() == pytest.approx(205)


@virtual
async def test_credentials_that_never_come_are_waited_for_so_long_and_nothing_is_sent():
    limits = PoolLimits(login_within=60)
    async with listen(Caller.wait_gone, credentials=Slow(1000), limits=limits) as transport:
        with pytest.raises(TimedOut, match="the credentials for http.* did not come within 60 seconds") as caught:
            await ask(transport, timeout=5)
        assert not caught.value.is_sent
        assert asyncio.get_running_loop().time() == pytest.approx(60)


@virtual
async def test_who_waits_for_credentials_has_no_turn_and_can_be_cancelled():
    credentials = Slow(100)
    async with listen(refuse_first, credentials=credentials, limits=PoolLimits(connections=1)) as transport:
        waiting = [asyncio.create_task(ask(transport, timeout=50)) for _ in range(3)]
        await asyncio.sleep(1)
        waiting[0].cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting[0]
        credentials.seconds = 0
        assert (await ask(transport, timeout=5)).status == 200
        assert [answer.status for answer in await asyncio.gather(*waiting[1:])] == [200, 200]


@virtual
async def test_closing_ends_calls_that_wait_for_credentials():
    async with listen(Caller.wait_gone, credentials=Slow(100)) as transport:
        waiting = asyncio.create_task(ask(transport, timeout=5))
        await asyncio.sleep(1)
        await transport.aclose()
        with pytest.raises(Unreachable, match="the client was closed"):
            await waiting
        assert asyncio.get_running_loop().time() < 10


LOGIN = """
import json, sys
with open(sys.argv[1] + "/runs", "a") as file:
    file.write("run\\n")
token = open(sys.argv[1] + "/login").read()
made = {"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "status": {"token": token}}
print(json.dumps(made))
"""


@skipping
async def test_a_plugin_that_is_slower_than_the_calls_is_run_once_and_left_to_finish(
    tmp_path: Path, skip: Callable[[float], None]
):
    os.mkfifo(tmp_path / "login")
    plugin = Plugin(tmp_path, LOGIN)
    async with Server(only_good) as server, transport_to(server.url, credentials=plugin.credentials) as transport:
        calls = [asyncio.create_task(ask(transport, timeout=5)) for _ in range(3)]
        login = await asyncio.to_thread(open, tmp_path / "login", "w")  # opens when the program reads it
        skip(30)
        for _ in range(5):
            await asyncio.sleep(0)
        await asyncio.to_thread(login.write, "good")
        await asyncio.to_thread(login.close)
        assert [answer.status for answer in await asyncio.gather(*calls)] == [200] * 3
        assert await plugin.runs() == 1


@skipping
async def test_the_timeout_stands_still_while_a_certificate_is_got(tmp_path: Path, skip: Callable[[float], None]):
    class Late(Token):
        async def certificate(self) -> Identity | None:
            skip(100)
            for _ in range(5):
                await asyncio.sleep(0)
            return None

    async with (
        ApiServer(port=0) as server,
        transport_to(server.url, ca=server.ca, credentials=Late(server.token)) as transport,
    ):
        assert (await ask(transport, timeout=20)).status == 200


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
