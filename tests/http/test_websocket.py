import asyncio
import struct
from contextlib import suppress

import pytest

from levelset.http import Headers, Request, Response
from levelset.http.websocket import WebSocket, accept_websocket, encode_frame, is_websocket

KEY = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
HANDSHAKE = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", KEY)


class Talk:
    """A handler that accepts WebSockets."""

    def __init__(self) -> None:
        self.sockets: list[WebSocket] = []

    def handle(self, request: Request) -> Response:
        return accept_websocket(request, self.sockets.append) if is_websocket(request) else Response(200, body=b"plain")


def masked(opcode: int, data: bytes) -> bytes:
    mask = b"\x01\x02\x03\x04"
    size = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + struct.pack(">H", len(data))
    return bytes([0x80 | opcode]) + size + mask + bytes(byte ^ mask[i % 4] for i, byte in enumerate(data))


@pytest.fixture
async def open_socket(serve, connect):
    talk = Talk()
    server = await serve(talk.handle)
    client = await connect(server)
    client.send_request("GET", "/watch", *HANDSHAKE)
    status, headers = await client.read_head()
    assert (status, headers["upgrade"], headers["connection"]) == (101, "websocket", "Upgrade")
    # The example of RFC 6455, section 1.3.
    assert headers["sec-websocket-accept"] == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    return client, talk.sockets[0], server


async def test_each_event_is_one_text_frame(open_socket):
    client, socket, _ = open_socket
    for size in (5, 200, 70_000):
        socket.send_text(b"x" * size)
    assert await client.reader.readexactly(7) == b"\x81\x05" + b"x" * 5
    assert await client.reader.readexactly(204) == b"\x81\x7e\x00\xc8" + b"x" * 200
    assert await client.reader.readexactly(70_010) == b"\x81\x7f" + (70_000).to_bytes(8, "big") + b"x" * 70_000
    socket.send_bytes(b"y")
    assert await client.reader.readexactly(3) == b"\x82\x01y"


async def test_a_ping_gets_a_pong_even_if_it_arrives_in_pieces(open_socket):
    client, _, _ = open_socket
    ping = masked(9, b"hello") + masked(1, b"ignored") + masked(9, b"x" * 125)
    for index in range(len(ping)):
        client.send(ping[index : index + 1])
        await asyncio.sleep(0)
    assert await client.reader.readexactly(7) == b"\x8a\x05hello"
    assert await client.reader.readexactly(127) == b"\x8a\x7d" + b"x" * 125


async def test_pings_of_a_client_that_reads_nothing_do_not_fill_the_memory(open_socket):
    client, socket, _ = open_socket
    received = asyncio.Event()
    socket.on_message(lambda _: received.set())
    pings = masked(9, b"x" * 125) * 2_000
    for _ in range(40):
        client.send(pings)
        await client.writer.drain()
    # Frames arrive in order: after this message no ping is on the way, whose arrival after the end would reset it.
    client.send(masked(1, b"the last"))
    await received.wait()
    assert socket.sink.backlog < 1_000_000
    socket.close()
    assert (await client.read_to_end()).endswith(b"\x88\x02\x03\xe8")


@pytest.mark.parametrize("code", [0, 999, 1004, 1005, 1006, 1015, 2999, 5000])
async def test_a_close_code_that_must_not_be_sent_is_a_violation(code: int, open_socket):
    client, _, _ = open_socket
    client.send(masked(8, code.to_bytes(2, "big")))
    assert await client.read_to_end() == b"\x88\x02\x03\xea"


async def test_a_close_frame_is_echoed_and_the_connection_closed(open_socket):
    client, socket, _ = open_socket
    client.send(masked(8, (1001).to_bytes(2, "big")) + masked(9, b"late"))
    assert await client.read_to_end() == b"\x88\x02\x03\xe9"
    assert socket.sink.is_closed


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\x81\x01x", 1002),
        (b"\x81\xff" + b"\xff" * 12, 1009),
        (b"\xc1\x80" + b"\0" * 4, 1002),  # a reserved bit
        (b"\x83\x80" + b"\0" * 4, 1002),  # an unknown opcode
        (b"\x8b\x80" + b"\0" * 4, 1002),
        (b"\x09\x80" + b"\0" * 4, 1002),  # a part of a ping
        (b"\x89\xfe\x00\x7e" + b"\0" * 130, 1002),  # a long ping
        (b"\x88\x81" + b"\0" * 5, 1002),  # half a close code
    ],
)
async def test_an_invalid_frame_closes_the_connection(data: bytes, code: int, open_socket):
    client, _, _ = open_socket
    client.send(data)
    assert await client.read_to_end() == b"\x88\x02" + code.to_bytes(2, "big")


def part(opcode: int, data: bytes) -> bytes:
    """A frame after which more of the same message comes."""
    whole = masked(opcode, data)
    return bytes([whole[0] & 0x7F]) + whole[1:]


async def test_complete_messages_reach_the_listener(open_socket):
    client, socket, _ = open_socket
    received: list[str | bytes] = []
    socket.on_message(received.append)
    client.send(
        masked(1, "grüß".encode()) + part(1, b"in ") + masked(9, b"ping") + part(0, b"three ") + masked(0, b"parts")
    )
    client.send(masked(2, b"\xff") + masked(9, b"end"))
    assert await client.reader.readexactly(11) == b"\x8a\x04ping\x8a\x03end"
    assert received == ["grüß", "in three parts", b"\xff"]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (masked(0, b"the end of nothing"), 1002),
        (part(1, b"a") + masked(1, b"b"), 1002),
        (masked(1, b"\xff"), 1007),
        (part(1, b"x" * 60_000) + masked(0, b"x" * 60_000), 1009),
    ],
)
async def test_an_invalid_sequence_of_frames_closes_the_connection(data: bytes, code: int, open_socket):
    client, socket, _ = open_socket
    socket.on_message(lambda _: None)
    client.send(data)
    assert await client.read_to_end() == b"\x88\x02" + code.to_bytes(2, "big")


async def test_stopping_ends_websockets(open_socket):
    client, socket, server = open_socket
    socket.send_text(b"last")
    await server.stop()
    assert await client.read_to_end() == b"\x81\x04last"


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (426, ("Connection: Upgrade", "Upgrade: websocket", KEY)),
        (400, ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")),
        (200, ("Connection: Upgrade", "Upgrade: other")),
        (200, HANDSHAKE[1:]),
    ],
)
async def test_an_invalid_handshake_gets_an_error_response(status: int, headers, serve, connect):
    client = await connect(await serve(Talk().handle))
    for _ in range(2):
        client.send_request("GET", "/", *headers)
        assert (await client.read())[0] == status


async def test_frames_behind_the_handshake_are_not_lost(serve, connect):
    client = await connect(await serve(Talk().handle))
    client.send("\r\n".join(["GET / HTTP/1.1", "Host: a", *HANDSHAKE, "", ""]).encode() + masked(9, b"early"))
    await client.read_head()
    assert await client.reader.readexactly(7) == b"\x8a\x05early"


def test_a_subprotocol_that_was_chosen_is_named():
    request = Request("GET", "/", headers=Headers(line.split(": ", 1) for line in HANDSHAKE))
    response = accept_websocket(request, lambda socket: None, protocol="v4.channel.k8s.io")
    assert ("Sec-WebSocket-Protocol", "v4.channel.k8s.io") in response.headers


async def test_a_failing_listener_aborts_the_connection(serve, connect, caplog):
    def fail(data: bytes) -> None:
        raise RuntimeError("broken")

    response = Response(
        101, (("Upgrade", "x"), ("Connection", "Upgrade")), upgrade=lambda tunnel: tunnel.when_received(fail)
    )
    client = await connect(await serve(lambda request: response))
    client.send_request("GET", "/", "Connection: Upgrade", "Upgrade: x")
    await client.read_head()
    client.send(b"anything")
    with suppress(ConnectionError):
        assert await client.read_to_end() == b""
    assert len(caplog.records) == 1


def test_a_frame_encodes_its_length():
    assert encode_frame(1, b"") == b"\x81\x00"
