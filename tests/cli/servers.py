"""Servers that are none, or hardly one, for commands to be confused by."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

__all__ = ["NOWHERE", "strange"]

NOWHERE = """
apiVersion: v1
kind: Config
current-context: a
contexts: [{name: a, context: {cluster: a, user: a}}]
clusters: [{name: a, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: a, user: {}}]
"""


@asynccontextmanager
async def strange(folder: Path, answers: dict[str, bytes], date: str = "yesterday") -> AsyncGenerator[str, None]:
    """A server that answers these paths, and 404 to everything else."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        body = answers.get(head.split()[1].partition("?")[0])
        status = "404 Not Found" if body is None else "200 OK"
        words = f"HTTP/1.1 {status}\r\nDate: {date}\r\nContent-Length: {len(body or b'')}\r\nConnection: close\r\n\r\n"
        writer.write(words.encode() + (body or b""))
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        path = folder / "strange"
        port = server.sockets[0].getsockname()[1]
        await asyncio.to_thread(path.write_text, NOWHERE.replace(':1"', f':{port}"'))
        yield str(path)
