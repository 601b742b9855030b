"""The client proxy of a tunnel: runs inside a container, accepts connections there, and forwards them to the host.

`python3 client_proxy.py CONTROL-PORT DATA-PORT`, with LEVELSET_TUNNEL_TOKEN in the environment. The host connects to
the control port and authenticates with the token, which is answered by `{"ready": true}` or `{"refused": "..."}`:
without an answer it was not the proxy that accepted. Then it sends commands as lines of JSON: `{"open": 1, "port":
8080}` is answered by `{"opened": 1, "port": 8080}` or `{"failed": 1, "why": "..."}`; `{"close": 1}` has no answer.
Each accepted connection is announced to the host with `{"came": 7, "tunnel": 1}`; the host then connects to the data
port and sends the token and the number of the connection, and the two connections are joined.

It is copied into a container on its own, so it imports nothing but the standard library of any Python from 3.8 on.
"""

import asyncio
import hmac
import json
import os
import sys
from typing import Any, Dict, Optional, Tuple  # noqa: UP035 - the Python inside may be an old one

__all__ = ["Client", "main", "pipe"]

_CHUNK = 65536
_TIMEOUT = 30.0

Streams = Tuple[asyncio.StreamReader, asyncio.StreamWriter]  # noqa: UP006 - as above


class Client:
    """Listens for the host on the control and data ports, and for clients on the opened ports."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._control: Optional[asyncio.StreamWriter] = None  # noqa: UP045 - as above
        self._servers: Dict[int, asyncio.AbstractServer] = {}  # noqa: UP006 - as above
        self._pending: Dict[int, Streams] = {}  # noqa: UP006 - as above
        self._count = 0

    async def serve_control(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves a control connection until it ends; a newer control connection replaces it."""
        if not await self._is_host(reader):
            writer.write(b'{"refused": "the token"}\n')
            writer.close()
            return
        if self._control is not None:
            self._control.close()
        self._control = writer
        self._send({"ready": True})
        try:
            while True:
                line = await reader.readline()
                if not line:
                    break
                await self._execute(json.loads(line))
        except (OSError, ValueError):
            pass  # the connection is lost, or it breaks the protocol
        finally:
            if self._control is writer:
                self._control = None
                for number in list(self._servers):
                    self._close(number)
            writer.close()

    async def serve_data(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Joins a data connection of the host with the client connection that it names."""
        line = (await reader.readline()).decode("ascii", "replace").split()
        is_host = len(line) == 2 and hmac.compare_digest(line[0], self._token)
        other = self._pending.pop(int(line[1]), None) if is_host and line[1].isdigit() else None
        if other is None:
            writer.close()
            return
        await asyncio.gather(pipe(reader, other[1]), pipe(other[0], writer))
        writer.close()
        other[1].close()

    async def _is_host(self, reader: asyncio.StreamReader) -> bool:
        line = (await reader.readline()).decode("ascii", "replace").strip()
        return hmac.compare_digest(line, self._token)

    async def _execute(self, command: Dict[str, Any]) -> None:  # noqa: UP006 - as above
        if "close" in command:
            self._close(int(command["close"]))
            return
        number, port = int(command["open"]), int(command.get("port", 0))
        self._close(number)

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._accept(number, reader, writer)

        try:
            server = await asyncio.start_server(accept, "0.0.0.0", port)  # noqa: S104 - the containers of the network
        except OSError as error:
            self._send({"failed": number, "why": str(error)})
            return
        self._servers[number] = server
        self._send({"opened": number, "port": server.sockets[0].getsockname()[1]})

    async def _accept(self, tunnel: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._count += 1
        number = self._count
        self._pending[number] = (reader, writer)
        self._send({"came": number, "tunnel": tunnel})
        await asyncio.sleep(_TIMEOUT)
        if self._pending.pop(number, None) is not None:  # the host did not connect in time
            writer.close()

    def _send(self, message: Dict[str, Any]) -> None:  # noqa: UP006 - as above
        if self._control is not None:
            self._control.write(json.dumps(message).encode() + b"\n")

    def _close(self, number: int) -> None:
        server = self._servers.pop(number, None)
        if server is not None:
            server.close()


async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Forwards all bytes, and then the end of the stream; the other direction stays open."""
    try:
        while True:
            data = await reader.read(_CHUNK)
            if not data:
                break
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        writer.close()


async def main(control: int, data: int, token: str) -> None:
    """Listens until the process is stopped."""
    client = Client(token)
    await asyncio.start_server(client.serve_control, "0.0.0.0", control)  # noqa: S104 - published on loopback only
    await asyncio.start_server(client.serve_data, "0.0.0.0", data)  # noqa: S104 - as above
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), os.environ["LEVELSET_TUNNEL_TOKEN"]))
