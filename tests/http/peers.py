"""TLS servers that send scripted bytes and record the requests they get."""

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache

from levelset.http import CertificateAuthority, Destination

__all__ = ["Peer", "authority", "contexts", "responding"]


@cache
def authority() -> CertificateAuthority:
    """The authority that clients trust; one for all tests, because keys are slow to generate."""
    return CertificateAuthority.create("tests")


@cache
def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """The contexts of a server for localhost and of a client that trusts it."""
    identity = authority().issue_server(["localhost"], ["127.0.0.1"])
    return authority().server_context(identity), authority().client_context()


class Peer:
    """Sends its responses in order, over any number of connections; closes the connection for an empty one."""

    def __init__(self, responses: tuple[bytes, ...], *, stays: bool) -> None:
        self._responses = deque(responses)
        self._stays = stays
        self.to = Destination("127.0.0.1", 0, "localhost", "/path?timeout=1s", "localhost")
        self.heads: list[bytes] = []
        self.connections = 0
        self.ended = asyncio.Semaphore(0)
        """Released once for each connection that has ended."""
        self.responded = asyncio.Semaphore(0)
        """Released once for each response that was sent."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                self.heads.append(await reader.readuntil(b"\r\n\r\n"))
                assert await reader.readexactly(2) == b"{}"
                response = self._responses.popleft()
                writer.write(response)
                await writer.drain()
                self.responded.release()
                if not response or not self._stays:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            self.ended.release()


@asynccontextmanager
async def responding(*responses: bytes, stays: bool = False) -> AsyncGenerator[Peer, None]:
    """A peer that listens; it closes after each response unless it `stays`."""
    server_side, _ = await asyncio.to_thread(contexts)
    peer = Peer(responses, stays=stays)
    server = await asyncio.start_server(peer.serve, "127.0.0.1", 0, ssl=server_side)
    port = server.sockets[0].getsockname()[1]
    peer.to = peer.to._replace(port=port, host=f"localhost:{port}")
    try:
        yield peer
    finally:
        server.close()
