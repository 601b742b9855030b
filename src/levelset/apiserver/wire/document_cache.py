"""Rarely changing documents such as discovery and OpenAPI: encoded once, cached with an ETag, 304 if unchanged."""

import hashlib
from collections.abc import Callable, Hashable

import msgspec

from levelset.apiserver.wire.body_encoding import BodyForm, encode
from levelset.apiserver.wire.status_errors import method_not_allowed
from levelset.http import Request, Response

__all__ = ["Document", "DocumentCache", "check_read_method", "make_document"]

JSON = "application/json"


class Document(msgspec.Struct, frozen=True):
    """An encoded document and the digest of its bytes."""

    body: bytes
    digest: str

    @property
    def etag(self) -> str:
        """The value of the ETag header: the quoted digest."""
        return f'"{self.digest}"'

    def respond(
        self,
        request: Request,
        *,
        content_type: str = JSON,
        vary: str | None = None,
        cache: str | None = None,
        more: tuple[tuple[str, str], ...] = (),
    ) -> Response:
        """The document, or 304 without a body if the request's `If-None-Match` names it."""
        headers = [("ETag", self.etag), *more]
        if vary is not None:
            headers.append(("Vary", vary))
        if cache is not None:
            headers.append(("Cache-Control", cache))
        if _matches_etag(request.headers.get("if-none-match"), self.etag):
            return Response(304, tuple(headers))
        return Response(200, (("Content-Type", content_type), *headers), self.body)


class DocumentCache:
    """Encoded documents by name; all are evicted when the generation changes, such as that of the catalog."""

    def __init__(self, generation: Callable[[], int]) -> None:
        self._generation = generation
        self._cached_generation = -1
        self._documents: dict[Hashable, Document] = {}

    def get(self, name: Hashable, make: Callable[[], object], form: BodyForm = "json") -> Document:
        """The cached document of this name in this form, or the encoded result of `make`."""
        generation = self._generation()
        if generation != self._cached_generation:
            self._cached_generation = generation
            self._documents.clear()
        found = self._documents.get((name, form))
        if found is None:
            found = self._documents[name, form] = make_document(encode(make(), form))
        return found


def make_document(body: bytes) -> Document:
    """A document with the digest of its content."""
    return Document(body, hashlib.sha256(body).hexdigest().upper())


def check_read_method(request: Request) -> None:
    """Raises 405 unless the method is GET or HEAD."""
    if request.method not in ("GET", "HEAD"):
        raise method_not_allowed()


def _matches_etag(header: str | None, etag: str) -> bool:
    if header is None:
        return False
    return any(one.strip().removeprefix("W/") in (etag, "*") for one in header.split(","))
