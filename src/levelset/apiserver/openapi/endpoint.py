"""The `/openapi/v2` and `/openapi/v3` endpoints: documents are generated on first request and cached by hash.

The v3 index names each document with a hash of its inputs, so that neither the index nor a client with a cached
document causes the document to be generated.
"""

import hashlib
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from operator import is_
from typing import NamedTuple

from levelset.apiserver.discovery import VERSION, api_resources
from levelset.apiserver.openapi.openapi_v2 import PROTOBUF_TYPE, Form, MergedDocument
from levelset.apiserver.openapi.openapi_v3 import openapi_document
from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.resources.expensive_work import ExpensiveWork
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import utc_now
from levelset.apiserver.wire.accept_header import parse_accept
from levelset.apiserver.wire.document_cache import Document, check_read_method, make_document
from levelset.http import Request, Response
from levelset.objects import encode_tree

__all__ = ["OpenApiEndpoint"]

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"
PROTOBUF_SPELLINGS = (PROTOBUF_TYPE, "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
YEAR = timedelta(days=365)
FOR_EVER = "public, immutable"
Pair = tuple[str, str]
"""A group and a version."""

_FORM = 2
"""Changes with what documents are made of, because clients keep them for ever; 2 has enums."""


class _Part(NamedTuple):
    """What is served in one group and version, and the hash of everything that its document is made of."""

    resources: list[ServedResource]
    digest: str

    def is_of(self, resources: list[ServedResource]) -> bool:
        return len(resources) == len(self.resources) and all(map(is_, resources, self.resources))


class OpenApiEndpoint:
    """Serves `/openapi/v2` and `/openapi/v3` for the resources of a catalog.

    Hashes and documents are made in the thread of `work`: a definition may have thousands of properties.
    """

    def __init__(self, catalog: Catalog, work: ExpensiveWork, *, now: Callable[[], datetime] = utc_now) -> None:
        self._catalog = catalog
        self._work = work
        self._now = now
        self._documents: dict[str, Document] = {}
        self._parts: dict[Pair, _Part] = {}
        self._whole = MergedDocument(work)

    def respond(self, request: Request) -> Response | Awaitable[Response] | None:
        """The response to a request for a document; None if the path is not a served OpenAPI path."""
        is_index = request.segments == ("openapi", "v3")  # which upstream answers whatever the method
        if request.segments[:1] == ("openapi",) and not is_index:
            check_read_method(request)
        match request.segments:
            case ("openapi", "v2"):
                return self._second(request)
            case ("openapi", "v3"):
                return self._answer_index(request)
            case ("openapi", "v3", "api", version):
                return self._third(request, "", version)
            case ("openapi", "v3", "apis", group, version) if group:
                return self._third(request, group, version)
            case _:
                return None

    def _second(self, request: Request) -> Response | Awaitable[Response]:
        chosen = _preferred(request, (JSON, *PROTOBUF_SPELLINGS))
        if chosen is None:
            return Response(406)
        if chosen == JSON:
            return self._answer_second(request, "json", JSON)
        return self._answer_second(request, "protobuf", PROTOBUF_TYPE)

    async def _answer_second(self, request: Request, form: Form, media: str) -> Response:
        parts = await self._read_all()
        document = await self._whole.read(form, {one.digest: _maker(one) for one in parts.values()})
        return document.respond(request, content_type=media, vary="Accept")

    async def _answer_index(self, request: Request) -> Response:
        parts = await self._read_all()
        paths = {_path(*pair): {"serverRelativeURL": _url(*pair, part.digest)} for pair, part in parts.items()}
        # Upstream leaves the type to its HTTP library, which takes it for text.
        return make_document(encode_tree({"paths": paths})).respond(request, content_type=TEXT)

    def _third(self, request: Request, group: str, version: str) -> Awaitable[Response] | None:
        resources = self._catalog.resources(group, version)
        return self._answer_third(request, (group, version), resources) if resources else None

    async def _answer_third(self, request: Request, pair: Pair, resources: list[ServedResource]) -> Response:
        if _preferred(request, (JSON,)) is None:
            # Upstream says nothing at all to a header that it cannot read.
            return Response(406 if parse_accept(request.headers.get("accept") or "") else 200)
        part = (await self._read_parts({pair: resources}))[pair]
        requested = request.parameter("hash")
        if requested and requested != part.digest:
            return Response(301, (("Location", _url(*pair, part.digest)),))
        document = await self._document(part)
        if not requested:
            return document.respond(request)
        from email.utils import format_datetime  # noqa: PLC0415  # it brings parsers of mails along

        expires = format_datetime(self._now() + YEAR, usegmt=True)
        return document.respond(request, cache=FOR_EVER, more=(("Expires", expires),))

    async def _document(self, part: _Part) -> Document:
        """The document of a part; outdated documents are dropped when the next one is generated."""
        found = self._documents.get(part.digest)
        if found is None:
            found = Document(await self._work.run(lambda: encode_tree(_maker(part)())), part.digest)
            current = {one.digest for one in self._parts.values()}
            self._documents = {name: one for name, one in self._documents.items() if name in current}
            self._documents[part.digest] = found
        return found

    async def _read_all(self) -> dict[Pair, _Part]:
        catalog = self._catalog
        pairs = [(group, version) for group in catalog.groups() for version in catalog.versions(group)]
        return await self._read_parts({pair: catalog.resources(*pair) for pair in pairs})

    async def _read_parts(self, served: dict[Pair, list[ServedResource]]) -> dict[Pair, _Part]:
        """The parts of these resources; what has not changed since the last call keeps its hash."""
        known = {pair: self._parts.get(pair) for pair in served}
        parts = {pair: one for pair, one in known.items() if one is not None and one.is_of(served[pair])}
        new = {pair: one for pair, one in served.items() if pair not in parts}
        if new:
            made = await self._work.run(lambda: {pair: _Part(one, _hash(*pair, one)) for pair, one in new.items()})
            self._parts = {pair: one for pair, one in self._parts.items() if self._catalog.resources(*pair)} | made
            parts |= made
        return {pair: parts[pair] for pair in served}


def _preferred(request: Request, types: tuple[str, ...]) -> str | None:
    """The media type of a document that the client prefers; None if it accepts none."""
    clauses = parse_accept(request.headers.get("accept") or "*/*")
    return next((media for clause in clauses for media in types if clause.matches(media, any_type=True)), None)


def _maker(part: _Part) -> Callable[[], Object]:
    return lambda: openapi_document(part.resources)


def _hash(group: str, version: str, resources: list[ServedResource]) -> str:
    """A hash of all inputs of the document."""
    parts = [[*api_resources(one), one.selectable, one.schema_source] for one in resources]
    content = encode_tree([_FORM, VERSION["gitVersion"], group, version, parts])
    return hashlib.sha256(content).hexdigest().upper()


def _url(group: str, version: str, digest: str) -> str:
    return f"/openapi/v3/{_path(group, version)}?hash={digest}"


def _path(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"
