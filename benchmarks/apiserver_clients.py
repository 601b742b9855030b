"""Clients that only send requests and count the responses, on bare sockets and one epoll.

An event loop would cost more per request than the server's response does, and both count as wall time. So all
clients of a run are served by one ordinary loop, which blocks until the run is over.
"""

import contextlib
import select
import socket
import ssl
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

TOKEN = "0123456789abcdef0123456789abcdef"
PATIENCE = 120.0
EVENT = b'{"type":"'
LAST_CHUNK = b"\r\n0\r\n\r\n"
BUFFER = bytearray(256 * 1024)


def to_bytes(
    method: str, path: str, body: bytes = b"", *, token: str = TOKEN, content: str = "application/json"
) -> bytes:
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\nAuthorization: Bearer {token}\r\n"
    )
    if body:
        head += f"Content-Type: {content}\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


class Client(ABC):
    """One connection; a subclass handles the received bytes."""

    def __init__(self, port: int, tls: ssl.SSLContext | None) -> None:
        plain = socket.create_connection(("127.0.0.1", port))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = plain if tls is None else tls.wrap_socket(plain, server_hostname="localhost")
        self.socket.setblocking(False)
        self.is_busy = True

    def ready(self) -> None:
        """Reads all available bytes."""
        try:
            while size := self.socket.recv_into(BUFFER):
                self.take(size)
                # epoll does not report what TLS has buffered already, and a read that finds nothing costs an exception.
                if not isinstance(self.socket, ssl.SSLSocket) or not self.socket.pending():
                    return
        except (BlockingIOError, ssl.SSLWantReadError):
            return
        raise ConnectionError("the server closed the connection")

    @abstractmethod
    def take(self, size: int) -> None:
        """Handles the received bytes of the buffer."""


class RequestSender(Client):
    """Sends the next request when the response is complete; parses only its status and its end."""

    def __init__(self, port: int, tls: ssl.SSLContext | None, requests: Iterator[bytes], expected: bytes) -> None:
        super().__init__(port, tls)
        self.requests, self.expected = requests, b"HTTP/1.1 " + expected
        self.head = b""
        self.missing = self.usual = 0
        self.is_chunked = False
        self.tail = b""
        self.times: list[float] = []
        self.sent = 0.0

    def send(self) -> None:
        request = next(self.requests, None)
        if request is None:
            self.is_busy = False
            return
        self.sent = time.perf_counter()
        sent = self.socket.send(request)
        assert sent == len(request)  # requests are small

    def take(self, size: int) -> None:
        if size == self.usual and not self.missing and BUFFER.startswith(self.expected):
            pass  # as long as the last answer, which came whole: so did this one
        elif self.is_chunked:
            self.follow(bytes(BUFFER[max(0, size - len(LAST_CHUNK)) : size]))
        elif self.missing:  # the body of a long answer is only counted
            self.missing -= size
        else:
            self.begin(size)
        if not self.missing and not self.head:
            self.times.append(time.perf_counter() - self.sent)
            self.send()

    def begin(self, size: int) -> None:
        self.head += bytes(BUFFER[:size])
        end = self.head.find(b"\r\n\r\n")
        if end < 0:
            return
        if not self.head.startswith(self.expected):
            raise RuntimeError(f"not {self.expected!r}: {self.head[:500]!r}")
        if b"\r\ntransfer-encoding: chunked" in self.head[:end].lower():
            self.is_chunked, rest, self.head = True, self.head[end + 2 :], b""
            self.follow(rest[-len(LAST_CHUNK) :])
            return
        self.missing = end + 4 + length_in(self.head[:end]) - len(self.head)
        self.usual = 0 if self.missing else size
        self.head = b""

    def follow(self, end: bytes) -> None:
        """Searches for the end of a chunked body in its last bytes."""
        self.tail = (self.tail + end)[-len(LAST_CHUNK) :]
        self.missing = int(self.tail != LAST_CHUNK)
        if not self.missing:
            self.is_chunked, self.tail = False, b""


def length_in(head: bytes) -> int:
    start = head.lower().find(b"content-length:") + 15
    end = head.find(b"\r\n", start)
    return int(head[start : end if end > 0 else None])


class Watcher(Client):
    """An open watch that counts its events."""

    counted: "Piece"

    def __init__(self, port: int, tls: ssl.SSLContext | None, path: str, *, token: str = TOKEN) -> None:
        super().__init__(port, tls)
        self.is_open = False
        self.events = 0
        self.tail = b""
        self.socket.send(to_bytes("GET", path, token=token))

    def take(self, size: int) -> None:
        self.is_open = True
        piece = Watcher.counted
        # Nearly all watchers get the same bytes one after the other. Comparing them with the last ones, each of them,
        # takes a tenth of the time that searching them again does, and the search was half of what a watcher costs.
        if size != len(piece.data) or not BUFFER.startswith(piece.data):
            piece = Watcher.counted = Piece(bytes(BUFFER[:size]))
        # One that is cut in two by the end of the buffer.
        self.events += piece.events + (self.tail + piece.head).count(EVENT)
        self.tail = piece.tail


class Piece:
    """Bytes that a watcher got, and how many events they hold."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.events = data.count(EVENT)
        self.head, self.tail = data[: len(EVENT) - 1], data[max(0, len(data) - len(EVENT) + 1) :]


Watcher.counted = Piece(b"")


class Crowd:
    """Open watches, which are read while `converse` runs."""

    def __init__(self, watchers: Sequence[Watcher]) -> None:
        self.watchers = watchers

    def has(self, events: int) -> bool:
        return all(watcher.events >= events for watcher in self.watchers)


def converse(senders: Sequence[RequestSender], crowd: Crowd | None = None, *, events: int = 0) -> None:
    """Sends all requests and reads their responses, until every watcher has received so many events."""
    watchers = [] if crowd is None else crowd.watchers
    clients: dict[int, Client] = {client.socket.fileno(): client for client in (*senders, *watchers)}
    end = time.monotonic() + PATIENCE
    with contextlib.closing(select.epoll()) as poll:
        for number in clients:
            poll.register(number, select.EPOLLIN)
        for sender in senders:
            sender.send()
        while any(sender.is_busy for sender in senders) or (crowd is not None and not crowd.has(events)):
            if time.monotonic() > end:
                raise TimeoutError("the server does not answer")
            for number, _ in poll.poll(1.0):
                clients[number].ready()
    for sender in senders:
        sender.socket.close()


@contextlib.contextmanager
def watching(
    port: int, tls: ssl.SSLContext | None, path: str, *, count: int = 1, token: str = TOKEN
) -> Iterator[Crowd]:
    """Opens so many watches, and closes them."""
    crowd = Crowd([Watcher(port, tls, path, token=token) for _ in range(count)])
    try:
        while not all(watcher.is_open for watcher in crowd.watchers):
            for watcher in crowd.watchers:
                watcher.ready()
        yield crowd
    finally:
        for watcher in crowd.watchers:
            watcher.socket.close()
