"""The side of a tunnel that runs inside of a container: listens there, and passes what comes on to the host.

`python3 client.py CONTROL-PORT DATA-PORT`, with LEVELSET_TUNNEL_TOKEN in the environment. The host connects to the
control port, proves itself with the token, and asks for ports to be listened on, one JSON object in a line each:
`{"open": 1, "port": 8080}` is answered by `{"opened": 1, "port": 8080}` or `{"failed": 1, "why": "..."}`;
`{"close": 1}` by nothing. Of each connection that comes the host is told, `{"came": 7, "tunnel": 1}`, and connects to
the data port, where it says the token and the number: from then on both are one.

It is copied into a container on its own, so it imports nothing but the standard library of any Python from 3.8 on.
"""

import asyncio
import hmac
import json
import os
import sys
from typing import Any, Dict, Optional, Tuple  # noqa: UP035 - the Python inside may be an old one

__all__ = ["Client", "main", "pipe"]

_LONGEST = 65536
_PATIENCE = 30.0

Streams = Tuple[asyncio.StreamReader, asyncio.StreamWriter]  # noqa: UP006 - as above


class Client:
    """Listens for the host, and for those that want to reach it."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._control: Optional[asyncio.StreamWriter] = None  # noqa: UP045 - as above
        self._servers: Dict[int, asyncio.AbstractServer] = {}  # noqa: UP006 - as above
        self._waiting: Dict[int, Streams] = {}  # noqa: UP006 - as above
        self._count = 0

    async def obey(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Does what the host says, until it is gone; the newest host is the one that counts."""
        if not await self._is_host(reader):
            writer.close()
            return
        if self._control is not None:
            self._control.close()
        self._control = writer
        try:
            while True:
                line = await reader.readline()
                if not line:
                    break
                await self._order(json.loads(line))
        except (OSError, ValueError):
            pass  # a host that cannot be understood is none
        finally:
            if self._control is writer:
                self._control = None
                for number in list(self._servers):
                    self._close(number)
            writer.close()

    async def join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Joins a connection of the host with the one that it was told of."""
        line = (await reader.readline()).decode("ascii", "replace").split()
        is_host = len(line) == 2 and hmac.compare_digest(line[0], self._token)
        other = self._waiting.pop(int(line[1]), None) if is_host and line[1].isdigit() else None
        if other is None:
            writer.close()
            return
        await asyncio.gather(pipe(reader, other[1]), pipe(other[0], writer))
        writer.close()
        other[1].close()

    async def _is_host(self, reader: asyncio.StreamReader) -> bool:
        line = (await reader.readline()).decode("ascii", "replace").strip()
        return hmac.compare_digest(line, self._token)

    async def _order(self, order: Dict[str, Any]) -> None:  # noqa: UP006 - as above
        if "close" in order:
            self._close(int(order["close"]))
            return
        number, port = int(order["open"]), int(order.get("port", 0))
        self._close(number)

        async def came(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._came(number, reader, writer)

        try:
            server = await asyncio.start_server(came, "0.0.0.0", port)  # noqa: S104 - the containers of the network
        except OSError as error:
            self._say({"failed": number, "why": str(error)})
            return
        self._servers[number] = server
        self._say({"opened": number, "port": server.sockets[0].getsockname()[1]})

    async def _came(self, tunnel: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._count += 1
        number = self._count
        self._waiting[number] = (reader, writer)
        self._say({"came": number, "tunnel": tunnel})
        await asyncio.sleep(_PATIENCE)
        if self._waiting.pop(number, None) is not None:  # the host did not fetch it
            writer.close()

    def _say(self, words: Dict[str, Any]) -> None:  # noqa: UP006 - as above
        if self._control is not None:
            self._control.write(json.dumps(words).encode() + b"\n")

    def _close(self, number: int) -> None:
        server = self._servers.pop(number, None)
        if server is not None:
            server.close()


async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Passes everything on, and the end of it too: the other side may still answer."""
    try:
        while True:
            data = await reader.read(_LONGEST)
            if not data:
                break
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        writer.close()


async def main(control: int, data: int, token: str) -> None:
    """Listens until it is stopped."""
    client = Client(token)
    await asyncio.start_server(client.obey, "0.0.0.0", control)  # noqa: S104 - published on loopback only
    await asyncio.start_server(client.join, "0.0.0.0", data)  # noqa: S104 - as above
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), os.environ["LEVELSET_TUNNEL_TOKEN"]))
