"""Calls over sockets, to our own server and to raw ones: credentials, bytes sent, and errors."""

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
from tests.client.config.test_exec_plugin import Plugin
from tests.client.event_loops import skipping
from tests.client.transport.raw_server import (
    RawConnection,
    listen,
    loop_until,
    post,
    raw_server,
    read,
    send_call,
    transport_to,
)
from tests.client.transport.virtual_time import virtual


class Rotating(Anonymous):
    """Credentials that offer the next token after a 401, as long as there is one."""

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
    reported = {
        "method": request.method,
        "path": request.path,
        "query": request.query,
        "headers": list(request.headers),
    }
    return Response(200, (("X-Echo", "yes"),), json.dumps(reported).encode() + request.body)


def only_good(request: Request) -> Response:
    return Response(200 if request.headers.get("authorization") == "Bearer good" else 401, body=b"x")


async def test_a_call_arrives_with_its_path_headers_and_body():
    async with Server(echo) as server, transport_to(server.url) as transport:
        call = Call(method="PATCH", path="/a%20b", query="x=1", headers={"Content-Type": "text/x"}, body=b"hello")
        response = await transport.send(call)
    assert response.headers.get("x-echo") == "yes"
    reported, body = json.loads(response.body[:-5]), response.body[-5:]
    assert (reported["method"], reported["path"], reported["query"], body) == ("PATCH", "/a%20b", "x=1", b"hello")
    host = server.url.removeprefix("http://")
    assert {("host", host), ("user-agent", "levelset"), ("content-type", "text/x")} <= set(
        map(tuple, reported["headers"])
    )


async def test_the_path_of_the_server_url_is_preserved():
    async with Server(echo) as server, transport_to(f"{server.url}/k8s/c-1/") as transport:
        assert json.loads((await send_call(transport, "/api")).body)["path"] == "/k8s/c-1/api"


async def test_impersonation_headers_are_sent_with_every_call():
    jane = Impersonation(user="jane", uid="7", groups=("a", "b"), extra={"reason": ("audit",)})
    async with Server(echo) as server, transport_to(server.url, impersonate=jane) as transport:
        reported = json.loads((await send_call(transport)).body)["headers"]
    assert [pair for pair in reported if pair[0].startswith("impersonate")] == [
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


async def test_a_second_401_is_the_response():
    credentials = Rotating("old", "older", "good")
    async with Server(only_good) as server, transport_to(server.url, credentials=credentials) as transport:
        assert (await send_call(transport, is_stream=True)).status == 401
        assert credentials.rejected == 1


async def test_calls_refused_concurrently_do_not_drop_the_new_token():
    credentials = Rotating("old", "good", "bad")
    async with Server(only_good) as server, transport_to(server.url, credentials=credentials) as transport:
        responses = await asyncio.gather(*[send_call(transport) for _ in range(10)])
        assert [response.status for response in responses] == [200] * 10


async def test_a_token_file_is_read_only_when_necessary(tmp_path: Path):
    file = tmp_path / "token"
    await asyncio.to_thread(file.write_text, "old")
    credentials = TokenFile(file)
    async with Server(only_good) as server, transport_to(server.url, credentials=credentials) as transport:
        assert (await send_call(transport)).status == 401
        await asyncio.to_thread(file.write_text, "good")
        assert (await send_call(transport)).status == 200
        await asyncio.to_thread(file.write_text, "bad")
        assert [(await send_call(transport)).status for _ in range(3)] == [200] * 3


async def test_static_credentials_are_not_queried_again():
    async with Server(only_good) as server, transport_to(server.url, credentials=Token("bad")) as transport:
        assert (await send_call(transport)).status == 401


# --- slow credentials -------------------------------------------------------------------------------------------------


class Slow(Anonymous):
    """Credentials that take some seconds each time, and are replaced after a 401."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.requested = 0

    async def headers(self) -> Mapping[str, str]:
        self.requested += 1
        await asyncio.sleep(self.seconds)
        return {"Authorization": f"Bearer {self.requested}"}

    def reject(self, refused: Mapping[str, str] | None = None) -> bool:
        return True


async def refuse_first(connection: RawConnection) -> None:
    """Takes three seconds for each response, and rejects the first token."""
    while True:
        _, headers, _ = await connection.request()
        await asyncio.sleep(3)
        connection.respond(b"", "401 Unauthorized" if headers["Authorization"] == "Bearer 1" else "200 OK")


@virtual
async def test_the_timeout_of_a_call_begins_when_its_credentials_are_there():
    async with listen(lambda connection: connection.wait_gone(), credentials=Slow(100)) as transport:
        with pytest.raises(TimedOut, match="did not respond within 5 seconds") as caught:
            await send_call(transport, timeout=5)
        assert caught.value.is_sent
        assert asyncio.get_running_loop().time() == pytest.approx(105)


@virtual
async def test_a_timed_out_call_leaves_no_reference_cycle():
    async with listen(RawConnection.wait_gone) as transport:
        gc.disable()
        try:
            with pytest.raises(TimedOut) as caught:
                await send_call(transport, timeout=5)
            error = weakref.ref(caught.value)
            del caught
            await asyncio.sleep(0)  # the loop still has in hand what woke this task
            assert error() is None
        finally:
            gc.enable()


@virtual
async def test_the_timeout_is_paused_while_a_refused_token_is_replaced():
    async with listen(refuse_first, credentials=Slow(100)) as transport:
        assert (await send_call(transport, timeout=7)).status == 200


@virtual
async def test_the_time_before_a_token_was_refused_counts():
    async with listen(refuse_first, credentials=Slow(100)) as transport:
        with pytest.raises(TimedOut, match="within 5 seconds"):
            await send_call(transport, timeout=5)
        assert asyncio.get_running_loop().time() == pytest.approx(205)


@virtual
async def test_credentials_that_never_arrive_time_out_and_nothing_is_sent():
    limits = PoolLimits(login_within=60)
    async with listen(RawConnection.wait_gone, credentials=Slow(1000), limits=limits) as transport:
        with pytest.raises(TimedOut, match="no credentials for http.* within 60 seconds") as caught:
            await send_call(transport, timeout=5)
        assert not caught.value.is_sent
        assert asyncio.get_running_loop().time() == pytest.approx(60)


@virtual
async def test_a_call_that_waits_for_credentials_holds_no_permit_and_can_be_cancelled():
    credentials = Slow(100)
    async with listen(refuse_first, credentials=credentials, limits=PoolLimits(connections=1)) as transport:
        waiting = [asyncio.create_task(send_call(transport, timeout=50)) for _ in range(3)]
        await asyncio.sleep(1)
        waiting[0].cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting[0]
        credentials.seconds = 0
        assert (await send_call(transport, timeout=5)).status == 200
        assert [response.status for response in await asyncio.gather(*waiting[1:])] == [200, 200]


@virtual
async def test_closing_ends_calls_that_wait_for_credentials():
    async with listen(RawConnection.wait_gone, credentials=Slow(100)) as transport:
        waiting = asyncio.create_task(send_call(transport, timeout=5))
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
async def test_a_plugin_slower_than_the_call_timeout_runs_once_and_finishes(
    tmp_path: Path, skip: Callable[[float], None]
):
    os.mkfifo(tmp_path / "login")
    plugin = Plugin(tmp_path, LOGIN)
    async with Server(only_good) as server, transport_to(server.url, credentials=plugin.credentials) as transport:
        calls = [asyncio.create_task(send_call(transport, timeout=5)) for _ in range(3)]
        login = await asyncio.to_thread(open, tmp_path / "login", "w")  # opens when the program reads it
        skip(30)
        for _ in range(5):
            await asyncio.sleep(0)
        await asyncio.to_thread(login.write, "good")
        await asyncio.to_thread(login.close)
        assert [response.status for response in await asyncio.gather(*calls)] == [200] * 3
        assert await plugin.runs() == 1


@skipping
async def test_the_timeout_is_paused_while_a_certificate_is_fetched(tmp_path: Path, skip: Callable[[float], None]):
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
        assert (await send_call(transport, timeout=20)).status == 200


# --- unreachable ------------------------------------------------------------------------------------------------------


async def test_a_refused_connection_names_the_server_and_was_not_sent():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        async with transport_to(url) as transport:
            with pytest.raises(Unreachable, match=f"{url} refuses connections: is it running") as caught:
                await send_call(transport)
            assert not caught.value.is_sent
            assert isinstance(caught.value.__cause__, ConnectionRefusedError)


@pytest.mark.parametrize("host", ["no.such.host.invalid", f"{'x' * 70}.example", "a..b"])
async def test_a_host_that_cannot_be_resolved_is_reported(host: str):
    async with transport_to(f"http://{host}:6443") as transport:
        with pytest.raises(Unreachable, match="cannot be resolved") as caught:
            await send_call(transport)
        assert not caught.value.is_sent


@virtual
async def test_connecting_has_its_own_timeout():
    # The connection is open only after the response of the proxy, which never comes.
    async with raw_server(RawConnection.wait_gone) as server:
        proxy = f"http://127.0.0.1:{server.port}"
        limits = PoolLimits(connect_within=4)
        async with transport_to("http://kube:6443", proxy=proxy, limits=limits) as transport:
            start = asyncio.get_running_loop().time()
            with pytest.raises(TimedOut, match="http://kube:6443 was not reached in time through the proxy") as caught:
                await send_call(transport)
            assert asyncio.get_running_loop().time() - start == pytest.approx(4)
            assert not caught.value.is_sent


@virtual
async def test_the_timeout_of_the_call_may_be_shorter_than_that_of_the_connection():
    async with (
        raw_server(RawConnection.wait_gone) as server,
        transport_to("http://kube:6443", proxy=f"http://127.0.0.1:{server.port}") as transport,
    ):
        with pytest.raises(TimedOut, match="within 2 seconds") as caught:
            await send_call(transport, timeout=2)
        assert not caught.value.is_sent


async def test_a_path_that_cannot_be_sent_opens_no_connection():
    async with raw_server(RawConnection.wait_gone) as server, transport_to(server.url) as transport:
        with pytest.raises(ConfigError, match="percent-encoded"):
            await send_call(transport, "/a b")
        assert server.connections == 0


# --- our own servers --------------------------------------------------------------------------------------------------


async def test_a_stopping_server_ends_streams_regularly_and_is_then_unreachable():
    async with (
        Server(lambda request: Response(200, body=lambda sink: sink.write(b"x"))) as server,
        transport_to(server.url) as transport,
    ):
        response = await send_call(transport, is_stream=True)
        await server.stop()
        assert await read(response) == b"x"
        await loop_until(lambda: transport._pool.idle == 0)
        with pytest.raises(Unreachable, match="refuses connections"):
            await post(transport)


async def test_the_embedded_server_is_reached_over_tls_with_its_token():
    path = "/api/v1/namespaces/default/configmaps"
    async with ApiServer(port=0) as server:
        async with transport_to(server.url, ca=server.ca, credentials=Token(server.token)) as transport:
            watch = await send_call(transport, path, query="watch=1", is_stream=True)
            body = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one"}}'
            response = await post(transport, body, path=path, headers={"Content-Type": "application/json"})
            assert response.status == 201
            chunks = aiter(watch.stream)
            line = await anext(chunks)
            assert json.loads(line)["object"]["metadata"]["name"] == "one"
            assert len(json.loads((await send_call(transport, path)).body)["items"]) == 1
            await watch.stream.aclose()
        async with transport_to(server.url, ca=server.ca, credentials=Token("wrong")) as transport:
            assert (await send_call(transport, path)).status == 401
