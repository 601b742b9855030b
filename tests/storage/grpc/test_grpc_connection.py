"""The client's end of a connection against an implementation of HTTP/2 of its own, the library h2, in memory."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelset.storage.grpc import http2_frames as http2
from levelset.storage.grpc.grpc_connection import (
    CallEnded,
    Closing,
    GrpcConnection,
    Keepalive,
    KeepaliveStep,
    MessageArrived,
    Ready,
)
from levelset.storage.grpc.header_blocks import encode_block
from levelset.storage.grpc.http2_frames import ErrorCode, ProtocolFailed, Setting
from tests.storage.grpc.h2_server import H2Server, exchange, framed

Answer = Callable[[int], bytes]
"""The bytes of the server for the call of a stream."""

HEAD = encode_block(
    [(":method", "POST"), (":scheme", "http"), (":path", "/a.B/C"), (":authority", "etcd:2379"), ("te", "trailers")]
)
WINDOW, TOTAL = 30_000, 100_000  # of a call and of all calls, for the server
OK = encode_block([(":status", "200"), ("content-type", "application/grpc")])
TRAILERS = encode_block([("grpc-status", "0")])


def connected(server: H2Server) -> GrpcConnection:
    connection = GrpcConnection(window=WINDOW, total_window=TOTAL)
    assert exchange(connection, server) == [Ready()]
    return connection


def ready(*pairs: tuple[int, int]) -> GrpcConnection:
    """A connection to a server that the test itself plays."""
    connection = GrpcConnection(window=WINDOW, total_window=TOTAL)
    connection.receive(http2.settings(pairs))
    connection.output()
    return connection


def call(connection: GrpcConnection, message: bytes = b"question") -> int:
    stream = connection.open(HEAD, timeout=5.0)
    connection.send(stream, message, is_last=True)
    return stream


def test_a_call_brings_its_headers_its_message_and_the_time_that_it_has():
    server = H2Server()
    connection = connected(server)
    stream = call(connection)
    assert exchange(connection, server) == []
    assert server.requests[stream] == {
        b":method": b"POST",
        b":scheme": b"http",
        b":path": b"/a.B/C",
        b":authority": b"etcd:2379",
        b"te": b"trailers",
        b"grpc-timeout": b"5000m",
    }
    assert server.bodies[stream] == framed(b"question")
    assert server.ended == [stream]
    server.answer(stream, b"answer")
    assert exchange(connection, server) == [MessageArrived(stream, b"answer"), CallEnded(stream, "OK", "")]
    assert connection.calls == 0
    assert server.resets == {}


def test_a_stream_sends_and_receives_messages_until_the_server_ends_it():
    server = H2Server()
    connection = connected(server)
    stream = connection.open(HEAD)
    for text in (b"a", b""):
        connection.send(stream, text, is_last=False)
    exchange(connection, server)
    assert server.bodies[stream] == framed(b"a") + framed(b"")
    assert b"grpc-timeout" not in server.requests[stream]
    server.begin(stream)
    server.send(stream, framed(b"one") + framed(b"") + framed(b"three"))
    assert exchange(connection, server) == [MessageArrived(stream, text) for text in (b"one", b"", b"three")]
    server.finish(stream, 11, "etcdserver: mvcc: required%20revision")
    expected = CallEnded(stream, "OUT_OF_RANGE", "etcdserver: mvcc: required revision")
    assert exchange(connection, server) == [expected]
    assert server.resets == {stream: ErrorCode.CANCEL}, "this end was still open"


sizes = st.lists(st.sampled_from([0, 1, 10, 1_000, 16_379, 16_380, 40_000, 90_000]), min_size=1, max_size=5)


@settings(max_examples=40)
@given(
    questions=sizes,
    window=st.sampled_from([0, 700, 65_535, 1_000_000]),
    frame=st.sampled_from([16_384, 20_000, 1_000_000]),
    cut=st.sampled_from([1, 1_000, 10_000_000]),
    seed=st.integers(0, 1000),
)
def test_all_calls_are_answered_whatever_windows_and_frames_the_server_allows(
    questions: list[int], window: int, frame: int, cut: int, seed: int
):
    server = H2Server(INITIAL_WINDOW_SIZE=window or 1, MAX_FRAME_SIZE=frame)
    dice = random.Random(seed)
    server.on_end = lambda stream: server.answer(stream, server.bodies[stream][5:][::-1])
    connection = connected(server)
    if window == 0:
        server.h2.update_settings({4: 0})
        exchange(connection, server)
    texts = {call(connection, text): text for text in (dice.randbytes(size) for size in questions)}
    if window == 0:
        assert exchange(connection, server) == []
        server.h2.update_settings({4: 500})
    answers: dict[int, bytes] = {}
    ended: list[CallEnded] = []
    cut = max(cut, sum(questions) // 1_000)
    to_client = bytes(server.h2.data_to_send())
    while to_client or connection.has_output():
        for start in range(0, len(to_client) or 1, cut):
            for event in connection.receive(to_client[start : start + cut]):
                if isinstance(event, MessageArrived):
                    assert event.stream not in answers
                    answers[event.stream] = event.content
                elif isinstance(event, CallEnded):
                    ended.append(event)
        to_client = server.receive(connection.output())
    assert answers == {stream: text[::-1] for stream, text in texts.items()}
    assert sorted(ended) == [CallEnded(stream, "OK", "") for stream in sorted(texts)]
    assert connection.calls == 0


@pytest.mark.parametrize(("calls", "window", "available"), [(1, 100, 100), (3, 65_535, 65_535)])
def test_what_does_not_fit_into_the_windows_of_the_server_waits_until_it_does(calls: int, window: int, available: int):
    server = H2Server(acknowledges=False, INITIAL_WINDOW_SIZE=window)
    connection = connected(server)
    streams = [connection.open(HEAD) for _ in range(calls)]
    messages = [bytes([number]) * (2 * available // calls // 5) for number in range(5)]
    for message in messages:
        for stream in streams:
            connection.send(stream, message, is_last=False)
            exchange(connection, server)  # h2 ends a connection whose windows are not respected
    assert sum(len(server.bodies[stream]) for stream in streams) == available
    server.acknowledges = True
    for stream in streams:
        server.h2.acknowledge_received_data(len(server.bodies[stream]), stream)
    exchange(connection, server)
    assert [server.bodies[stream] for stream in streams] == [b"".join(map(framed, messages))] * calls
    assert server.ended == []


def test_a_message_is_one_frame_where_the_server_allows_so_long_ones():
    connection = ready((Setting.MAX_FRAME_SIZE, 20_000))
    stream = call(connection, bytes(19_000))
    assert http2.frame(http2.DATA, http2.END_STREAM, stream, framed(bytes(19_000))) in connection.output()


@pytest.mark.parametrize(("size", "number"), [(1_000, 200), (20_000, 20)])
def test_a_server_is_slowed_down_by_a_reader_that_takes_nothing_and_goes_on_when_it_does(size: int, number: int):
    server = H2Server()
    connection = connected(server)
    stream = connection.open(HEAD)
    exchange(connection, server)
    server.begin(stream)
    message = bytes(size)
    for _ in range(number):
        server.send(stream, framed(message))
    arrived = exchange(connection, server)
    assert WINDOW <= len(arrived) * len(message) < 3 * WINDOW
    taken = 0
    while taken < len(arrived):
        connection.take(stream, message)
        taken += 1
        arrived += exchange(connection, server)
    assert arrived == [MessageArrived(stream, message)] * number


def test_a_message_may_be_longer_than_the_window():
    server = H2Server()
    connection = connected(server)
    stream = connection.open(HEAD)
    exchange(connection, server)
    message = random.Random(1).randbytes(3 * WINDOW)
    server.answer(stream, message)
    assert exchange(connection, server) == [MessageArrived(stream, message), CallEnded(stream, "OK", "")]


def test_the_window_of_the_connection_is_renewed_by_messages_of_calls_that_are_over():
    server = H2Server()
    connection = connected(server)
    for _ in range(10):
        stream = call(connection)
        exchange(connection, server)
        server.begin(stream)
        server.send(stream, framed(bytes(WINDOW // 2 - 10)))
        exchange(connection, server)
        connection.cancel(stream)
        exchange(connection, server)
    assert server.h2.outbound_flow_control_window > 0


def test_a_cancelled_call_is_reset_and_what_still_comes_for_it_is_dropped():
    server = H2Server()
    connection = connected(server)
    stream = call(connection)
    exchange(connection, server)
    server.answer(stream, b"late")
    late = bytes(server.h2.data_to_send())
    connection.cancel(stream)
    assert connection.receive(late) == []
    server.receive(connection.output())
    assert connection.calls == 0
    connection.cancel(stream)
    assert not connection.has_output(), "it is over already"


def test_calls_are_opened_up_to_what_the_server_allows_and_not_before_its_settings():
    connection = GrpcConnection()
    assert not connection.can_open()
    server = H2Server(MAX_CONCURRENT_STREAMS=2)
    assert exchange(connection, server) == [Ready()]
    first, _ = call(connection), call(connection)
    assert not connection.can_open()
    exchange(connection, server)
    server.answer(first, b"")
    exchange(connection, server)
    assert connection.can_open()


def test_pings_are_answered_with_what_is_sent_next():
    server = H2Server()
    connection = connected(server)
    server.h2.ping(b"12345678")
    connection.receive(bytes(server.h2.data_to_send()))
    assert (connection.has_output(), connection.has_acks()) == (False, True)
    exchange(connection, server)
    assert server.pongs == 1
    connection.ping()
    assert exchange(connection, server) == []
    assert (server.pings, server.pongs) == (1, 1)


def test_an_acknowledgement_is_not_acknowledged():
    connection = ready()
    connection.receive(http2.frame(http2.SETTINGS, http2.ACK, 0, b"") + http2.frame(http2.PING, http2.ACK, 0, bytes(8)))
    assert not connection.has_output()
    assert not connection.has_acks()


def test_a_server_that_closes_lets_calls_end_and_says_which_it_has_not_begun():
    connection = ready()
    first, second = call(connection), call(connection)
    events = connection.receive(http2.frame(http2.GOAWAY, 0, 0, first.to_bytes(4, "big") + bytes(4)))
    unprocessed = CallEnded(second, "UNAVAILABLE", "the server is closing", is_unprocessed=True)
    assert events == [Closing(), unprocessed]
    assert not connection.can_open()
    answer = http2.header_frames(first, OK, longest=100) + http2.frame(http2.DATA, 0, first, framed(b"x"))
    assert connection.receive(answer) == [MessageArrived(first, b"x")]


def test_a_refused_call_was_certainly_not_processed_and_one_that_was_reset_may_have_been():
    connection = ready()
    refused, cancelled, broken = (call(connection) for _ in range(3))
    events = connection.receive(
        http2.reset(refused, ErrorCode.REFUSED_STREAM)
        + http2.reset(cancelled, ErrorCode.CANCEL)
        + http2.reset(broken, ErrorCode.ENHANCE_YOUR_CALM)
    )
    assert events == [
        CallEnded(refused, "INTERNAL", "the server has reset the call (code 7)", is_unprocessed=True),
        CallEnded(cancelled, "CANCELLED", "the server has reset the call (code 8)"),
        CallEnded(broken, "INTERNAL", "the server has reset the call (code 11)"),
    ]
    assert connection.calls == 0


def block(stream: int, *headers: tuple[str, str], is_last: bool = False) -> bytes:
    content = encode_block(headers)
    return http2.frame(http2.HEADERS, http2.END_HEADERS | (http2.END_STREAM if is_last else 0), stream, content)


def begun(stream: int) -> bytes:
    return http2.header_frames(stream, OK, longest=1000)


NO_RESPONSES: list[tuple[Answer, str, str]] = [
    (lambda s: block(s, (":status", "200"), ("grpc-status", "14"), is_last=True), "UNAVAILABLE", ""),
    (lambda s: block(s, (":status", "200"), ("grpc-status", "99"), is_last=True), "UNKNOWN", ""),
    (lambda s: block(s, (":status", "200"), ("grpc-status", "x"), is_last=True), "UNKNOWN", ""),
    (lambda s: block(s, (":status", "503"), ("content-type", "text/html")), "UNAVAILABLE", "HTTP status 503, text"),
    (lambda s: block(s, (":status", "404"), ("content-type", "text/html")), "UNIMPLEMENTED", "HTTP status 404"),
    (lambda s: block(s, (":status", "418")), "UNKNOWN", "HTTP status 418"),
    (
        lambda s: block(s, (":status", "200"), ("content-type", "text/html")),
        "UNKNOWN",
        "HTTP status 200, text/html",
    ),
    (lambda s: block(s, (":status", "200"), is_last=True), "INTERNAL", "the response has no status"),
    (lambda s: begun(s) + http2.frame(http2.DATA, http2.END_STREAM, s, b""), "INTERNAL", "has no status"),
    (lambda s: begun(s) + http2.frame(http2.DATA, 0, s, b"\1\0\0\0\1x"), "INTERNAL", "is compressed"),
    (lambda s: begun(s) + http2.frame(http2.DATA, 0, s, b"\0\xff\0\0\1x"), "INTERNAL", "which is too long"),
    (
        lambda s: begun(s) + http2.frame(http2.DATA, 0, s, b"\0\0\0\0\2x") + block(s, ("grpc-status", "0")),
        "INTERNAL",
        "within a message",
    ),
]


@pytest.mark.parametrize(("answer", "code", "reason"), NO_RESPONSES)
def test_an_answer_that_is_no_whole_response_of_grpc_ends_the_call_with_the_reason(
    answer: Answer, code: str, reason: str
):
    connection = ready()
    stream = call(connection)
    (ended,) = connection.receive(answer(stream))
    assert isinstance(ended, CallEnded)
    assert (ended.stream, ended.code, ended.is_unprocessed) == (stream, code, False)
    assert reason in ended.reason


def test_an_informational_response_is_no_answer():
    connection = ready()
    stream = call(connection)
    assert connection.receive(block(stream, (":status", "103")) + begun(stream)) == []
    assert connection.receive(block(stream, ("grpc-status", "0"), is_last=True)) == [CallEnded(stream, "OK", "")]


def test_headers_in_several_frames_are_one_block():
    connection = ready()
    stream = call(connection)
    assert connection.receive(http2.header_frames(stream, OK, longest=3)) == []
    assert connection.receive(http2.header_frames(stream, TRAILERS, longest=5)) == [CallEnded(stream, "OK", "")]


def continued(stream: int) -> bytes:
    return http2.frame(http2.HEADERS, 0, stream, OK)


VIOLATIONS: list[tuple[Answer, str]] = [
    (lambda s: http2.frame(http2.DATA, 0, s, b"x"), "data before headers"),
    (lambda s: begun(s) + begun(s), "do not end it"),
    (lambda s: begun(s + 2), "which is not open"),
    (lambda s: begun(s + 1), "which is not open"),
    (lambda s: http2.reset(s + 2, 0), "which is not open"),
    (lambda s: http2.frame(http2.CONTINUATION, 0, s, b""), "no headers to continue"),
    (lambda s: continued(s) + http2.frame(http2.CONTINUATION, 0, s + 2, b""), "no headers to continue"),
    (lambda s: continued(s) + http2.frame(http2.PING, 0, 0, bytes(8)), "not continued"),
    (lambda s: continued(s) + 5 * http2.frame(http2.CONTINUATION, 0, s, bytes(16_384)), "too long"),
    (lambda s: http2.frame(http2.PUSH_PROMISE, 0, s, bytes(8)), "pushes"),
    (lambda s: http2.window_update(0, 0), "WINDOW_UPDATE"),
    (lambda s: http2.window_update(0, 2**31 - 1), "window is too large"),
    (lambda s: http2.window_update(s, 2**31 - 1), "window is too large"),
    (lambda s: http2.settings([(Setting.INITIAL_WINDOW_SIZE, 2**31)]), "window is too large"),
    (lambda s: http2.settings([(Setting.MAX_FRAME_SIZE, 16_383)]), "frame size"),
    (lambda s: http2.settings([(Setting.MAX_FRAME_SIZE, 1 << 24)]), "frame size"),
    (lambda s: http2.frame(http2.SETTINGS, http2.ACK, 0, bytes(6)), "SETTINGS"),
    (lambda s: http2.frame(http2.SETTINGS, 0, s, b""), "SETTINGS"),
    (lambda s: http2.frame(http2.PING, 0, 0, bytes(7)), "PING"),
    (lambda s: http2.frame(http2.GOAWAY, 0, 0, bytes(7)), "GOAWAY"),
    (lambda s: http2.frame(http2.RST_STREAM, 0, s, bytes(3)), "RST_STREAM"),
]


@pytest.mark.parametrize(("data", "reason"), VIOLATIONS)
def test_a_server_that_breaks_the_protocol_ends_the_connection(data: Answer, reason: str):
    connection = ready()
    stream = call(connection)
    with pytest.raises(ProtocolFailed, match=reason) as caught:
        connection.receive(data(stream))
    connection.give_up(caught.value)
    assert connection.output().endswith(caught.value.reason.encode())
    assert not connection.can_open()


@pytest.mark.parametrize(("calls", "frames", "reason"), [(1, 4, "window of a call"), (4, 2, "connection's window")])
def test_a_server_that_sends_more_than_its_windows_ends_the_connection(calls: int, frames: int, reason: str):
    connection = ready()
    streams = [call(connection) for _ in range(calls)]
    connection.receive(b"".join(begun(stream) for stream in streams))
    part = framed(bytes(14_995))
    sent = [http2.frame(http2.DATA, 0, stream, part) for stream in streams for _ in range(frames)]
    with pytest.raises(ProtocolFailed, match=reason) as caught:
        connection.receive(b"".join(sent))  # in one piece: the windows were not renewed meanwhile
    assert caught.value.code == ErrorCode.FLOW_CONTROL_ERROR


some_frames = st.lists(
    st.tuples(
        st.integers(0, 10),
        st.sampled_from([0, 1, 4, 5, 8, 9, 0x2D, 255]),
        st.sampled_from([0, 1, 2, 3, 5]),
        st.sampled_from([b"", OK, TRAILERS, framed(b"x"), bytes(4), bytes(5), bytes(8)]) | st.binary(max_size=12),
    ),
    max_size=12,
)


@given(sent=some_frames)
def test_whatever_a_server_sends_is_understood_or_ends_the_connection_with_a_reason(
    sent: list[tuple[int, int, int, bytes]],
):
    connection = ready()
    streams = [call(connection), connection.open(HEAD)]
    ended: list[int] = []
    try:
        for one in sent:
            ended += [event.stream for event in connection.receive(http2.frame(*one)) if isinstance(event, CallEnded)]
    except ProtocolFailed as failure:
        assert failure.reason
    assert len(ended) == len(set(ended)), "a call ends once"
    assert connection.calls >= len(streams) - len(ended)


def test_what_does_not_begin_with_settings_is_no_server_of_http2():
    for data in (http2.frame(http2.PING, 0, 0, bytes(8)), b"HTTP/1.1 400 Bad Request\r\n\r\n"):
        with pytest.raises(ProtocolFailed):
            GrpcConnection().receive(data)


def test_frames_of_extensions_and_priorities_are_ignored():
    connection = ready()
    assert connection.receive(http2.frame(0x2, 0, 1, bytes(5)) + http2.frame(0xBE, 0, 0, b"x")) == []
    assert not connection.has_output()


def test_a_silent_server_is_pinged_while_calls_are_open_and_given_up_if_it_stays_silent():
    keepalive = Keepalive(0.0, idle=10.0, patience=5.0)
    assert keepalive.step(10.0, has_calls=False) == (KeepaliveStep.WAIT, 10.0)
    assert keepalive.step(11.0, has_calls=True) == (KeepaliveStep.PING, 5.0)
    assert keepalive.step(12.0, has_calls=True) == (KeepaliveStep.WAIT, 4.0)
    keepalive.on_data(13.0)
    assert keepalive.step(16.0, has_calls=True) == (KeepaliveStep.WAIT, 7.0)
    assert keepalive.step(23.0, has_calls=True) == (KeepaliveStep.PING, 5.0)
    assert keepalive.step(28.0, has_calls=True) == (KeepaliveStep.GIVE_UP, 0.0)
