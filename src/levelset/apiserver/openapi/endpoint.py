"""The `/openapi/v2` and `/openapi/v3` endpoints: documents are generated on first request and cached by hash.

The v3 index names each document with a hash of its inputs, so that neither the index nor a client with a cached
document causes the document to be generated.
"""

import hashlib
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from email.utils import format_datetime

from levelset.apiserver.discovery import VERSION, api_resources
from levelset.apiserver.openapi.openapi_v2 import PROTOBUF_TYPE, Form, MergedDocument
from levelset.apiserver.openapi.openapi_v3 import openapi_document
from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.resources.server_state import utc_now
from levelset.apiserver.wire.document_cache import Document, check_read_method, make_document, parse_accept
from levelset.http import Request, Response
from levelset.objects import encode_tree

__all__ = ["OpenApiEndpoint"]

JSON = "application/json"
PROTOBUF_SPELLINGS = (PROTOBUF_TYPE, "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
YEAR = timedelta(days=365)
FOR_EVER = "public, immutable"
_FORM = 2
"""Changes with what documents are made of, because clients keep them for ever; 2 has enums."""


class OpenApiEndpoint:
    """Serves `/openapi/v2` and `/openapi/v3` for the resources of a catalog."""

    def __init__(self, catalog: Catalog, *, now: Callable[[], datetime] = utc_now) -> None:
        self._catalog = catalog
        self._now = now
        self._documents: dict[str, Document] = {}
        self._hashes: dict[tuple[str, str], str] = {}
        self._made_for = -1
        self._whole = MergedDocument(lambda pair: openapi_document(catalog, *pair))

    def respond(self, request: Request) -> Response | Awaitable[Response] | None:
        """The response to a request for a document; None if the path is not a served OpenAPI path."""
        if request.segments[:1] == ("openapi",):
            check_read_method(request)
        match request.segments:
            case ("openapi", "v2"):
                return self._second(request)
            case ("openapi", "v3"):
                return make_document(encode_tree(self._index())).respond(request)
            case ("openapi", "v3", "api", version):
                return self._third(request, "", version)
            case ("openapi", "v3", "apis", group, version) if group:
                return self._third(request, group, version)
            case _:
                return None

    def _second(self, request: Request) -> Response | Awaitable[Response]:
        for media, _ in parse_accept(request.headers.get("accept")):
            if media in PROTOBUF_SPELLINGS:
                return self._answer_second(request, "protobuf", PROTOBUF_TYPE)
            if media in (JSON, "application/*", "*/*"):
                return self._answer_second(request, "json", JSON)
        return Response(406)

    def _answer_second(self, request: Request, form: Form, media: str) -> Response | Awaitable[Response]:
        hashes = {pair: self._hash(*pair) for pair in self._pairs()}
        found = self._whole.find(form, hashes)
        if found is not None:
            return found.respond(request, content_type=media, vary="Accept")
        return self._answer_later(request, form, media, hashes)

    async def _answer_later(
        self, request: Request, form: Form, media: str, hashes: dict[tuple[str, str], str]
    ) -> Response:
        made = await self._whole.make(form, hashes)
        return made.respond(request, content_type=media, vary="Accept")

    def _pairs(self) -> list[tuple[str, str]]:
        catalog = self._catalog
        return [(group, version) for group in catalog.groups() for version in catalog.versions(group)]

    def _index(self) -> object:
        return {"paths": {_path(*pair): {"serverRelativeURL": self._url(*pair)} for pair in self._pairs()}}

    def _third(self, request: Request, group: str, version: str) -> Response | None:
        if version not in self._catalog.versions(group):
            return None
        digest = self._hash(group, version)
        requested = request.parameter("hash")
        if requested and requested != digest:
            return Response(301, (("Location", self._url(group, version)),))
        document = self._document(group, version, digest)
        if not requested:
            return document.respond(request)
        expires = format_datetime(self._now() + YEAR, usegmt=True)
        return document.respond(request, cache=FOR_EVER, more=(("Expires", expires),))

    def _document(self, group: str, version: str, digest: str) -> Document:
        """The document with this hash; outdated documents are dropped when the next one is generated."""
        found = self._documents.get(digest)
        if found is None:
            current = set(self._hashes.values())
            self._documents = {name: one for name, one in self._documents.items() if name in current}
            found = Document(encode_tree(openapi_document(self._catalog, group, version)), digest)
            self._documents[digest] = found
        return found

    def _url(self, group: str, version: str) -> str:
        return f"/openapi/v3/{_path(group, version)}?hash={self._hash(group, version)}"

    def _hash(self, group: str, version: str) -> str:
        """A hash of all inputs of the document."""
        if self._made_for != self._catalog.generation:
            self._made_for = self._catalog.generation
            self._hashes.clear()
        key = (group, version)
        if key not in self._hashes:
            resources = self._catalog.resources(group, version)
            parts = [[*api_resources(one), one.selectable, one.schema_source] for one in resources]
            content = encode_tree([_FORM, VERSION["gitVersion"], group, version, parts])
            self._hashes[key] = hashlib.sha256(content).hexdigest().upper()
        return self._hashes[key]


def _path(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"
