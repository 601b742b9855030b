"""The other end of a connection, which says over TLS what it is told to say, and notes what it was asked."""

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache

from levelset.http import Authority, Destination

__all__ = ["Peer", "answering", "authority", "contexts"]


@cache
def authority() -> Authority:
    """Whom clients have to trust; one for all tests, as making keys takes a while."""
    return Authority.create("tests")


@cache
def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """The contexts of a server for localhost and of a client that trusts it."""
    identity = authority().issue_server(["localhost"], ["127.0.0.1"])
    return authority().server_context(identity), authority().client_context()


class Peer:
    """Gives its answers in their order, over as many connections as there are; hangs up instead of an empty one."""

    def __init__(self, answers: tuple[bytes, ...], *, stays: bool) -> None:
        self._answers = deque(answers)
        self._stays = stays
        self.to = Destination("127.0.0.1", 0, "localhost", "/path?timeout=1s", "localhost")
        self.heads: list[bytes] = []
        self.connections = 0
        self.ended = asyncio.Semaphore(0)
        """Released once for each connection that has ended."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                self.heads.append(await reader.readuntil(b"\r\n\r\n"))
                assert await reader.readexactly(2) == b"{}"
                answer = self._answers.popleft()
                writer.write(answer)
                await writer.drain()
                if not answer or not self._stays:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            self.ended.release()


@asynccontextmanager
async def answering(*answers: bytes, stays: bool = False) -> AsyncGenerator[Peer, None]:
    """A peer that listens; it hangs up after each answer unless it `stays`."""
    server_side, _ = await asyncio.to_thread(contexts)
    peer = Peer(answers, stays=stays)
    server = await asyncio.start_server(peer.serve, "127.0.0.1", 0, ssl=server_side)
    port = server.sockets[0].getsockname()[1]
    peer.to = peer.to._replace(port=port, host=f"localhost:{port}")
    try:
        yield peer
    finally:
        server.close()
