"""OpenAPI: the schemas of everything served, one document for each group and version, made when somebody asks.

The index names each document with a hash of what it is made from, so that neither the index nor a client that has the
document already costs the making of it.
"""

import hashlib
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from email.utils import format_datetime

from levelset.apiserver.discovery import VERSION, resource_rows
from levelset.apiserver.openapi.openapi_v2 import PROTOBUF_TYPE, Form, WholeDocument
from levelset.apiserver.openapi.openapi_v3 import openapi_document
from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.resources.server_state import utc_now
from levelset.apiserver.wire.document_cache import Document, accepts, check_reading, make_document
from levelset.http import Request, Response
from levelset.objects import encode_tree

__all__ = ["OpenApiPages"]

JSON = "application/json"
PROTOBUF_SPELLINGS = (PROTOBUF_TYPE, "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
YEAR = timedelta(days=365)
FOR_EVER = "public, immutable"


class OpenApiPages:
    """Answers `/openapi/v2` and `/openapi/v3` from a catalog."""

    def __init__(self, catalog: Catalog, *, now: Callable[[], datetime] = utc_now) -> None:
        self._catalog = catalog
        self._now = now
        self._documents: dict[str, Document] = {}
        self._hashes: dict[tuple[str, str], str] = {}
        self._made_for = -1
        self._whole = WholeDocument(lambda pair: openapi_document(catalog, *pair))

    def respond(self, request: Request) -> Response | Awaitable[Response] | None:
        """The answer to a request for a document; None if the path is none of these, or of nothing that is served."""
        if request.segments[:1] == ("openapi",):
            check_reading(request)
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
        for media, _ in accepts(request.headers.get("accept")):
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
        asked = request.parameter("hash")
        if asked and asked != digest:
            return Response(301, (("Location", self._url(group, version)),))
        document = self._document(group, version, digest)
        if not asked:
            return document.respond(request)
        expires = format_datetime(self._now() + YEAR, usegmt=True)
        return document.respond(request, cache=FOR_EVER, more=(("Expires", expires),))

    def _document(self, group: str, version: str, digest: str) -> Document:
        """The document of this hash; one that no version has any more is forgotten with the next that is made."""
        found = self._documents.get(digest)
        if found is None:
            kept = set(self._hashes.values())
            self._documents = {name: one for name, one in self._documents.items() if name in kept}
            found = Document(encode_tree(openapi_document(self._catalog, group, version)), digest)
            self._documents[digest] = found
        return found

    def _url(self, group: str, version: str) -> str:
        return f"/openapi/v3/{_path(group, version)}?hash={self._hash(group, version)}"

    def _hash(self, group: str, version: str) -> str:
        """A hash of all that the document is made from."""
        if self._made_for != self._catalog.generation:
            self._made_for = self._catalog.generation
            self._hashes.clear()
        key = (group, version)
        if key not in self._hashes:
            resources = self._catalog.resources(group, version)
            parts = [[*resource_rows(one), one.selectable, one.schema_source] for one in resources]
            content = encode_tree([VERSION["gitVersion"], group, version, parts])
            self._hashes[key] = hashlib.sha256(content).hexdigest().upper()
        return self._hashes[key]


def _path(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"
