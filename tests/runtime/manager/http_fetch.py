"""Fetches pages from a server on this machine, and parses metrics."""

import asyncio
from urllib.parse import urlsplit

__all__ = ["announce_body", "fetch", "numbers_of"]


async def fetch(url: str, path: str, *, whole: bool = False) -> tuple[int, str]:
    """The status and the body of a response, or the whole response."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n\r\n".encode())
        answer = (await reader.read()).decode()
    finally:
        writer.close()
        await writer.wait_closed()
    head, _, body = answer.partition("\r\n\r\n")
    return int(head.split()[1]), answer if whole else body


async def announce_body(url: str, path: str, size: int) -> int:
    """The status of the response to a POST that announces a body, and sends nothing of it."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        writer.write(f"POST {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Length: {size}\r\n\r\n".encode())
        async with asyncio.timeout(120):
            return int((await reader.readline()).split()[1])
    finally:
        writer.close()
        await writer.wait_closed()


def numbers_of(text: str) -> dict[str, float]:
    """The value of each sample, by its name and labels."""
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}
