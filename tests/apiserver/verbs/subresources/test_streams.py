"""`exec`, `attach` and `portforward` from sources, over WebSockets and SPDY/3.1 on real connections."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from levelset.apiserver import (
    STDERR,
    STDOUT,
    ApiServer,
    PortConnection,
    RemoteStreams,
    RunCommand,
    StreamRequest,
    StreamSources,
    User,
)
from levelset.errors import BadRequest, ConfigError
from levelset.http import Headers, Request, Response
from tests.apiserver.support.rbac_server import RBAC, binding, role, rule
from tests.apiserver.verbs.subresources.stream_client import SpdyClient, open_socket, open_spdy, upgrade

PODS = "/api/v1/namespaces/default/pods"
EXEC = f"{PODS}/web/exec?command=a&command=b&stdin=true&stdout=true&stderr=true"
FORWARD = f"{PODS}/web/portforward"
POD = b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"containers":[{"name":"a","image":"b"}]}}'
V5, V4, V1 = "v5.channel.k8s.io", "v4.channel.k8s.io", "channel.k8s.io"


async def echo(request: StreamRequest) -> RunCommand:
    """A command that writes its words to stderr and its input to stdout; its exit code is the number of its words."""
    if request.parameter("container") == "none":
        raise BadRequest("container none is not valid for pod web")

    async def run(streams: RemoteStreams) -> int:
        words = request.query["command"]
        await streams.write(STDERR, " ".join(words).encode())
        if words[0] == "size":
            async for size in streams.sizes():
                await streams.write(STDOUT, f"{size.columns}x{size.rows}".encode())
                return 0
        if words[0] == "fail":
            raise BadRequest("it does not work")
        while streams.stdin is not None and (data := await streams.stdin.read()):
            await streams.write(STDOUT, data.upper())
        return len(words)

    return run


class Ports:
    """A source of connections to a server that answers in capitals."""

    def __init__(self) -> None:
        self.server: asyncio.Server | None = None

    async def start(self) -> None:
        self.server = await asyncio.start_server(self._answer, "127.0.0.1", 0)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1000):
            writer.write(data.upper())
        writer.close()

    async def source(self, _: StreamRequest) -> Any:
        async def connect(port: int) -> PortConnection:
            if port != 80 or self.server is None:
                raise OSError("nothing listens there")
            host, number = self.server.sockets[0].getsockname()
            return PortConnection(*await asyncio.open_connection(host, number))

        return connect


@asynccontextmanager
async def running(ports: Ports | None = None, **options: Any) -> AsyncGenerator[ApiServer, None]:
    server = ApiServer(token="owner", tls=False, **options)
    forward = None if ports is None else ports.source
    server.serve_streams("", "Pod", StreamSources(exec=echo, attach=echo, portforward=forward))
    async with server:
        await post(server, PODS, POD)
        yield server


async def post(server: ApiServer, path: str, body: bytes) -> None:
    headers = Headers({"content-type": "application/json"})
    response = server.handle(Request("POST", path, headers=headers, body=body, peer=ApiServer.owner))
    response = response if isinstance(response, Response) else await response
    assert response.status == 201, response.body


@pytest.fixture
async def url() -> AsyncIterator[str]:
    async with running() as server:
        yield server.url


async def test_streams_and_the_exit_code_over_a_websocket(url: str) -> None:
    async with open_socket(url, EXEC, V5, V4) as client:
        assert client.protocol == V5
        assert await client.read() == b"\x01"  # the channels are open
        client.send(b"\x00hello ")
        client.send(b"\x00world")
        client.send(b"\xff\x00")  # stdin is closed
        found = await client.read_channels()
    assert (found[1], found[2]) == (b"HELLO WORLD", b"a b")
    status = json.loads(found[3])
    assert (status["status"], status["reason"]) == ("Failure", "NonZeroExitCode")
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "2"}]


async def test_a_command_without_input_ends_with_success(url: str) -> None:
    path = f"{PODS}/web/attach?command=size&stdout=true&tty=true&stdin=true"
    async with open_socket(url, path, V4) as client:
        assert client.protocol == V4
        client.send(b"\x04not JSON")
        client.send(b'\x04{"Width":101,"Height":33}')
        found = await client.read_channels()
    assert found[1] == b"101x33"
    assert json.loads(found[3])["status"] == "Success"


async def test_the_oldest_protocol_has_the_text_of_an_error_only(url: str) -> None:
    async with open_socket(url, f"{PODS}/web/exec?command=fail&stdout=true", V1) as client:
        assert (await client.read_channels())[3] == b"it does not work"


async def test_a_command_ends_when_the_client_has_gone() -> None:
    ended = asyncio.Event()

    async def hang(_: StreamRequest) -> RunCommand:
        async def run(streams: RemoteStreams) -> int:
            try:
                await streams.write(STDOUT, b"begun")
                await asyncio.Event().wait()
            finally:
                ended.set()
            return 0

        return run

    server = ApiServer(token="owner", tls=False)
    server.serve_streams("", "Pod", StreamSources(exec=hang))
    async with server:
        await post(server, PODS, POD)
        async with open_socket(server.url, f"{PODS}/web/exec?command=a&stdout=true", V5) as client:
            assert await client.read() == b"\x01"
            assert await client.read() == b"\x01begun"
        async with asyncio.timeout(20):
            await ended.wait()


async def test_streams_and_the_exit_code_over_spdy(url: str) -> None:
    async with open_spdy(url, EXEC, V4) as client:
        error, stdin = client.open(streamtype="error"), client.open(streamtype="stdin")
        stdout, stderr = client.open(streamType="stdout"), client.open(streamtype="stderr")
        client.send(stdin, b"hello")
        client.send(stdin, b"", fin=True)
        found = await client.read_until_finished(error, stdout, stderr)
    assert (found[stdout], found[stderr]) == (b"HELLO", b"a b")
    assert json.loads(found[error])["details"]["causes"][0]["message"] == "2"


@pytest.mark.parametrize("carrier", ["spdy", "websocket"])
async def test_ports_are_forwarded(carrier: str) -> None:
    ports = Ports()
    await ports.start()
    async with running(ports) as server:
        if carrier == "spdy":
            opened: Any = open_spdy(server.url, FORWARD, "portforward.k8s.io")
        else:
            opened = open_socket(server.url, FORWARD, "SPDY/3.1+portforward.k8s.io")
        async with opened as made:
            client = made if isinstance(made, SpdyClient) else SpdyClient(socket=made)
            error = client.open(fin=True, streamtype="error", port="80", requestid="0")
            data = client.open(streamtype="data", port="80", requestid="0")
            refused = client.open(fin=True, streamtype="error", port="81", requestid="1")
            other = client.open(streamtype="data", port="81", requestid="1")
            client.send(data, b"hello", fin=True)
            found = await client.read_until_finished(error, data, refused, other)
    assert (found[data], found[error]) == (b"HELLO", b"")
    assert found[refused] == b"error forwarding port 81 to pod web_default: nothing listens there"
    assert ports.server is not None
    ports.server.close()


@pytest.mark.parametrize(
    ("path", "status", "problem"),
    [
        (f"{PODS}/web/exec?command=a", 400, "at least 1 of stdin, stdout, stderr"),
        (f"{PODS}/web/exec?command=a&stdout=1&stderr=1&tty=1", 400, "tty and stderr cannot both be true"),
        (f"{PODS}/web/exec?command=a&stdout=1&container=none", 400, "container none is not valid"),
        (f"{PODS}/none/exec?command=a&stdout=1", 404, 'pods \\"none\\" not found'),
        (f"{PODS}/web/exec?command=a&stdout=1", 400, "Upgrade request required"),
        (f"{PODS}/web/portforward", 400, "pod web does not have a host assigned"),
    ],
)
async def test_bad_requests_are_refused_before_the_upgrade(url: str, path: str, status: int, problem: str) -> None:
    async with upgrade(url, path, method="POST") as (found, connection):
        body = await connection.reader.readexactly(int(connection.head["content-length"]))
    assert found == status
    assert problem in body.decode()


async def test_a_websocket_needs_the_permission_to_create() -> None:
    async with running(rbac=True, tokens={"eve": User("eve")}) as server:
        await post(server, f"{RBAC}/namespaces/default/rolebindings", json.dumps(binding("b", "r", "eve")).encode())
        await post(server, f"{RBAC}/namespaces/default/roles", json.dumps(role("r", rule("get", "pods/exec"))).encode())
        headers = ["Connection: Upgrade", "Upgrade: websocket"]
        async with upgrade(server.url, EXEC, *headers, token="eve") as (status, connection):
            body = await connection.reader.readexactly(int(connection.head["content-length"]))
    assert status == 403
    assert b"cannot create resource" in body


def test_streams_of_a_custom_kind_are_refused() -> None:
    with pytest.raises(ConfigError, match="built-in kinds only"):
        ApiServer().serve_streams("example.com", "Widget", StreamSources(exec=echo))
