"""The two servers: ours inside this process, kube-apiserver over HTTPS. Controllers run on neither of them.

What controllers do (garbage collection, emptying namespaces) happens at a time of its own; the conformance kit tests
it.
"""

import asyncio
import contextlib
import http.client
import json
import ssl
import time
from collections.abc import AsyncGenerator, Callable
from datetime import datetime
from random import Random
from typing import Any, Protocol
from urllib.parse import quote, urlencode

from levelset.apiserver.authn.authenticator import Authenticator
from levelset.apiserver.package_data import load_package_data
from levelset.apiserver.resources.server_state import utc_now
from levelset.apiserver.server import build_components
from levelset.http import Headers, Peer, Request, Response, iterate, read_all
from levelset.storage import MemoryStorage
from tests.differential.grammar import Step
from tests.differential.normal_form import Answer, Known, decoded, normal_form

__all__ = ["OurServer", "Server", "TheirServer", "install", "open_ours", "run_step"]

_TYPES = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
    "yaml": "application/yaml",
}
_ACCEPTS = {
    "table": "application/json;as=Table;v=v1;g=meta.k8s.io",
    "metadata": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "metadata-list": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
}
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_ADMIN = Peer("admin", ("system:masters",))  # as the user of the other server
_QUIET = 0.3  # seconds without an event, after which a watch is taken to be complete


class Server(Protocol):
    """Either of the two servers."""

    async def send(self, method: str, url: str, headers: dict[str, str], body: bytes) -> Answer: ...

    async def watch(self, url: str, headers: dict[str, str]) -> Answer: ...


async def run_step(server: Server, number: int, step: Step, known: Known) -> Any:
    """Sends the request of a step; returns the normal form of the answer."""
    headers: dict[str, str] = {"user-agent": "fuzz"}
    accept = known.fill(step.get("accept", ""))
    headers["accept"] = ",".join(_ACCEPTS.get(one, one) for one in accept.split(",")) or "application/json"
    body = b""
    if "body" in step or "raw" in step:
        chosen: str = step.get("type", "application/json")
        headers["content-type"] = _TYPES.get(chosen, chosen)
        body = known.fill(step["raw"]).encode() if "raw" in step else json.dumps(known.fill(step["body"])).encode()
    query = known.fill(step.get("query", {}))
    if "watch" in step:
        query = {name: "0" if value == "1" else value for name, value in query.items()}
        path = known.fill(step["watch"]) + "?" + urlencode({"watch": "true"} | query, quote_via=quote)
        answer = await server.watch(path, headers)
    else:
        method, _, path = known.fill(step["do"]).partition(" ")
        answer = await server.send(
            method, f"{path}?{urlencode(query, quote_via=quote)}" if query else path, headers, body
        )
    found = decoded(answer)
    if answer.status < 300 and (step.get("query") or {}).get("dryRun") != "All":
        known.learn(number, found)
    elif answer.status == 422:
        known.learn_refused(step.get("body"), found)
    return normal_form(answer, found, known, has_body=bool(body))


class OurServer:
    """Our server in this process, without a socket."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    async def _respond(self, method: str, url: str, headers: dict[str, str], body: bytes) -> Response:
        path, _, query = url.partition("?")
        made = self._handle(Request(method, path, query, Headers(headers), body, _ADMIN))
        return made if isinstance(made, Response) else await made

    async def send(self, method: str, url: str, headers: dict[str, str], body: bytes) -> Answer:
        response = await self._respond(method, url, headers, body)
        return Answer(response.status, _ours(response), b"" if method == "HEAD" else await read_all(response))

    async def watch(self, url: str, headers: dict[str, str]) -> Answer:
        response = await self._respond("GET", url, headers, b"")
        if response.status != 200:
            return Answer(response.status, _ours(response), await read_all(response))
        pieces: list[bytes] = []

        async def read() -> None:
            async with contextlib.aclosing(iterate(response.body)) as chunks:
                async for chunk in chunks:
                    pieces.append(chunk)  # noqa: PERF401 - what came before the timeout is needed

        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(read(), _QUIET)
        return Answer(200, _ours(response), b"", _events(b"".join(pieces)))


def _ours(response: Response) -> tuple[tuple[str, str], ...]:
    return tuple((name.lower(), value) for name, value in response.headers)


def _events(data: bytes) -> tuple[Any, ...]:
    events = [json.loads(line) for line in data.splitlines() if line]
    return tuple(one for one in events if one["type"] != "BOOKMARK")


@contextlib.asynccontextmanager
async def open_ours(now: Callable[[], datetime] = utc_now) -> AsyncGenerator[OurServer]:
    """Starts our server in memory, without its controllers."""
    load_package_data()
    components = build_components(
        MemoryStorage(), authenticator=Authenticator({}), now=now, random=Random(0), rbac=True
    )
    await components.start()
    controllers: tuple[Any, ...] = (
        *(components.garbage_collector, components.namespaces, components.policy_status),
        *(components.volume_protection, components.resource_quotas, components.role_aggregation),
    )
    for controller in controllers:
        controller.queue.pause()
    try:
        yield OurServer(components.app.handle)
    finally:
        await components.stop()


class TheirServer:
    """One connection to kube-apiserver; its requests are sent from a thread."""

    def __init__(self, url: str, token: str) -> None:
        self._host, _, port = url.removeprefix("https://").partition(":")
        self._port, self._token = int(port), token
        self._connection: http.client.HTTPSConnection | None = None

    async def send(self, method: str, url: str, headers: dict[str, str], body: bytes) -> Answer:
        return await asyncio.to_thread(self._send, method, url, headers, body)

    async def watch(self, url: str, headers: dict[str, str]) -> Answer:
        return await asyncio.to_thread(self._watch, url, headers)

    def _open(self) -> http.client.HTTPSConnection:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return http.client.HTTPSConnection(self._host, self._port, timeout=60, context=context)

    def _send(self, method: str, url: str, headers: dict[str, str], body: bytes) -> Answer:
        for attempt in (1, 2):
            if self._connection is None:
                self._connection = self._open()
            try:
                self._connection.request(method, url, body or None, self._headers(headers))
                answer = self._connection.getresponse()
                return Answer(answer.status, _theirs(answer), answer.read())
            except (OSError, http.client.HTTPException):
                self._connection.close()
                self._connection = None
                if attempt == 2:
                    return Answer(0, (), b"the server closed the connection")
        raise AssertionError

    def _watch(self, url: str, headers: dict[str, str]) -> Answer:
        connection = self._open()
        try:
            connection.request("GET", url, None, self._headers(headers))
            answer = connection.getresponse()
            if answer.status != 200:
                return Answer(answer.status, _theirs(answer), answer.read())
            pieces: list[bytes] = []
            assert connection.sock is not None
            connection.sock.settimeout(_QUIET)
            ends = time.monotonic() + 5
            with contextlib.suppress(TimeoutError):
                while time.monotonic() < ends and (piece := answer.read1(65536)):
                    pieces.append(piece)
            return Answer(200, _theirs(answer), b"", _events(b"".join(pieces)))
        finally:
            connection.close()

    def _headers(self, headers: dict[str, str]) -> dict[str, str]:
        return headers | {"authorization": f"Bearer {self._token}"}


def _theirs(answer: http.client.HTTPResponse) -> tuple[tuple[str, str], ...]:
    return tuple((name.lower(), value) for name, value in answer.getheaders())


async def install(server: Server, definitions: list[Any]) -> None:
    """Creates definitions, and waits until they are served and their controllers have settled."""
    for one in definitions:
        answer = await server.send("POST", _DEFINITIONS, {"content-type": "application/json"}, json.dumps(one).encode())
        assert answer.status in (201, 409), answer.body
    for one in definitions:
        for version in one["spec"]["versions"]:
            path = f"/apis/{one['spec']['group']}/{version['name']}/{one['spec']['names']['plural']}"
            while (await server.send("GET", path, {}, b"")).status != 200:  # noqa: ASYNC110 - of another process
                await asyncio.sleep(0.1)
