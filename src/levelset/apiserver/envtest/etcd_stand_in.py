"""The program `etcd` of `levelset envtest`: answers the health check that envtest waits for, and stores nothing.

The objects are in the process of the API server. It is run as a file, `python -I -S etcd_stand_in.py`, and imports only
what the interpreter has loaded already and sockets: every suite waits for its start.
"""

import os
import select
import signal
import socket
import sys
from itertools import pairwise

__all__ = ["HELP", "listen_address", "main", "respond"]

HELP = """The stand-in of levelset for etcd, for envtest: it answers /health. The objects are in the API server.

Flags:
      --listen-client-urls    where to answer, such as http://127.0.0.1:2379
      --unsafe-no-fsync       without effect, as all other flags: nothing is stored
"""
_DEFAULT = "http://127.0.0.1:2379"
_PATIENCE = 5.0
_PARENT_SECONDS = 1.0
_MAX_HEAD = 65536


def main(arguments: list[str]) -> int:
    """Answers until SIGTERM, SIGINT or the end of its parent; returns the exit code."""
    if "--help" in arguments:
        sys.stdout.write(HELP)
        return 0
    try:
        host, port = listen_address(arguments)
        listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"etcd: cannot listen: {error}\n")
        return 1
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGINT, _end)
    parent = os.getppid()
    with listener:
        # A test that is killed does not stop it: then it has another parent.
        while os.getppid() == parent:
            if select.select([listener], [], [], _PARENT_SECONDS)[0]:
                _answer(listener.accept()[0])
    return 0


def listen_address(arguments: list[str]) -> tuple[str, int]:
    """The host and the port of --listen-client-urls, the first one; raises ValueError."""
    name = "--listen-client-urls"
    found = [one.partition("=")[2] for one in arguments if one.startswith(f"{name}=")]
    found += [after for one, after in pairwise(arguments) if one == name]
    url = (found[-1] if found else _DEFAULT).partition(",")[0]
    host, _, port = url.partition("://")[2].rstrip("/").rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError(f"{name}={url}: give a URL with a port, such as {_DEFAULT}")
    host = host.strip("[]")
    return "127.0.0.1" if host == "localhost" else host, int(port)


def respond(head: bytes) -> bytes:
    """The response to a request with this head."""
    words = head.split(b" ", 2)
    path = words[1].partition(b"?")[0] if len(words) > 1 else b""
    is_health = words[0] == b"GET" and path in (b"/health", b"/livez", b"/readyz")
    body = b'{"health":"true","reason":""}' if is_health else b"levelset stores nothing in etcd\n"
    line = b"HTTP/1.1 200 OK" if is_health else b"HTTP/1.1 404 Not Found"
    length = b"Content-Length: %d" % len(body)
    return b"\r\n".join([line, b"Content-Type: application/json", length, b"Connection: close", b"", body])


def _answer(connection: socket.socket) -> None:
    """Reads one request and answers it; a client that goes away or is slow gets nothing."""
    with connection:
        connection.settimeout(_PATIENCE)
        try:
            head = b""
            while b"\r\n\r\n" not in head and len(head) < _MAX_HEAD:
                part = connection.recv(4096)
                if not part:
                    return
                head += part
            connection.sendall(respond(head))
        except OSError:
            return


def _end(_number: int, _frame: object) -> None:
    raise SystemExit(0)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
