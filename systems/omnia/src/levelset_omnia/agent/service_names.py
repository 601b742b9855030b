"""Resolves the names of Services where there is no cluster DNS: a resolver of the data plane answers instead."""

import asyncio
import json
import urllib.request
from typing import Final
from urllib.parse import urlsplit, urlunsplit

__all__ = ["NO_PROXY", "resolve"]

_MAX_RESPONSE: Final = 64 * 1024

NO_PROXY: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Opens URLs of this machine, for which a proxy of the environment is not meant."""


async def resolve(url: str, resolver: str) -> str:
    """The URL with the name of a Service replaced by its address; unchanged without a resolver. Raises OSError."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if not resolver or not host.endswith(".svc.cluster.local"):
        return url
    address = await asyncio.to_thread(_query, f"{resolver}?name={host}")
    credentials, at, _ = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{credentials}{at}{address}" + (f":{parts.port}" if parts.port else "")))


def _query(url: str) -> str:
    with NO_PROXY.open(url, timeout=5.0) as answer:
        address: str = json.loads(answer.read(_MAX_RESPONSE))["address"]
    return address
