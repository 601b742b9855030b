"""Documents that change rarely: made when somebody asks, kept as bytes with a tag, not sent to who has them already."""

import hashlib
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass

from levelset.apiserver.wire.status_errors import method_not_allowed
from levelset.http import Request, Response
from levelset.objects import encode_tree

__all__ = ["Document", "DocumentCache", "accepts", "check_reading", "make_document"]

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Document:
    """Bytes, and the tag that stands for exactly these bytes."""

    body: bytes
    digest: str

    @property
    def etag(self) -> str:
        """The tag as it stands in a header, quoted."""
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
        """The document, or 304 without a body if the client says that it has it already."""
        headers = [("ETag", self.etag), *more]
        if vary is not None:
            headers.append(("Vary", vary))
        if cache is not None:
            headers.append(("Cache-Control", cache))
        if _is_known(request.headers.get("if-none-match"), self.etag):
            return Response(304, tuple(headers))
        return Response(200, (("Content-Type", content_type), *headers), self.body)


class DocumentCache:
    """Documents by name, all forgotten when the generation that they were made for is over."""

    def __init__(self, generation: Callable[[], int]) -> None:
        self._generation = generation
        self._made_for = -1
        self._documents: dict[Hashable, Document] = {}

    def get(self, name: Hashable, make: Callable[[], object]) -> Document:
        """The document of this name, made from a JSON tree if there is none yet."""
        generation = self._generation()
        if generation != self._made_for:
            self._made_for = generation
            self._documents.clear()
        found = self._documents.get(name)
        if found is None:
            found = self._documents[name] = make_document(encode_tree(make()))
        return found


def make_document(body: bytes) -> Document:
    """A document with a tag for its content."""
    return Document(body, hashlib.sha256(body).hexdigest().upper())


def check_reading(request: Request) -> None:
    """Documents are only read: raises 405 for any other method."""
    if request.method not in ("GET", "HEAD"):
        raise method_not_allowed(request.method, request.path)


def accepts(header: str | None) -> Iterator[tuple[str, dict[str, str]]]:
    """The clauses of an Accept header as media type and parameters, the most wanted first; none accepts anything."""
    clauses = [_clause(text) for text in (header or "*/*").split(",") if text.strip()]
    yield from sorted(clauses, key=lambda clause: -_quality(clause[1]))


def _clause(text: str) -> tuple[str, dict[str, str]]:
    media, *rest = [part.strip() for part in text.split(";")]
    pairs = (part.partition("=") for part in rest if part)
    return media.lower(), {name.strip().lower(): value.strip().strip('"') for name, _, value in pairs}


def _quality(parameters: dict[str, str]) -> float:
    try:
        return float(parameters.get("q", "1"))
    except ValueError:
        return 0.0


def _is_known(header: str | None, etag: str) -> bool:
    if header is None:
        return False
    return any(one.strip().removeprefix("W/") in (etag, "*") for one in header.split(","))
