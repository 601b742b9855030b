"""The one document of OpenAPI v2 that holds everything served, put together of a piece for each group and version.

A piece is made once for each state of its group and version, and others have their turn between two of them: the whole
takes a few hundred milliseconds the first time, and hardly any when a definition changes.
"""

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple

from levelset.apiserver.documents import Document
from levelset.apiserver.openapi_protobuf import write_openapi, write_part
from levelset.apiserver.openapi_v2 import older_document
from levelset.apiserver.served import Object
from levelset.apiserver.versioninfo import VERSION
from levelset.objects import encode_tree

__all__ = ["Form", "WholeDocument"]

Form = Literal["json", "protobuf"]
"""How the document is written."""

Pair = tuple[str, str]
"""A group and a version."""

_MOST_KEPT: Final = 256
_HEAD: Final[Object] = {"swagger": "2.0", "info": {"title": "Kubernetes", "version": VERSION["gitVersion"]}}


class _Piece(NamedTuple):
    paths: bytes
    definitions: dict[str, bytes]


_PIECES: Final[dict[tuple[Form, str], _Piece]] = {}
"""The pieces of all servers in this process: a hash stands for the same piece everywhere."""


class WholeDocument:
    """Makes the document; `read` gives the document of version 3 of a group and version."""

    def __init__(self, read: Callable[[Pair], Object]) -> None:
        self._read = read
        self._made: dict[Form, Document] = {}

    def find(self, form: Form, hashes: Mapping[Pair, str]) -> Document | None:
        """The document for what is served now, by the hashes of it; None if it must be made first."""
        found = self._made.get(form)
        return found if found is not None and found.digest == _digest(form, hashes) else None

    async def make(self, form: Form, hashes: Mapping[Pair, str]) -> Document:
        """The document for what was served when it was asked for."""
        known = {digest: _PIECES.get((form, digest)) for digest in hashes.values()}
        # All that is served at this moment is read at once; only the writing takes long.
        new = {digest: self._read(pair) for pair, digest in hashes.items() if known[digest] is None}
        for digest, document in new.items():
            known[digest] = _keep((form, digest), _piece(form, older_document(document)))
            await asyncio.sleep(0)
        pieces = [piece for piece in known.values() if piece is not None]
        made = self._made[form] = Document(_joined(form, pieces), _digest(form, hashes))
        return made


def _keep(key: tuple[Form, str], piece: _Piece) -> _Piece:
    while len(_PIECES) >= _MOST_KEPT:
        del _PIECES[next(iter(_PIECES))]
    _PIECES[key] = piece
    return piece


def _digest(form: Form, hashes: Mapping[Pair, str]) -> str:
    return hashlib.sha256(f"{form} {' '.join(hashes.values())}".encode()).hexdigest().upper()


def _piece(form: Form, document: Object) -> _Piece:
    paths, definitions = document["paths"], document["definitions"]
    if form == "protobuf":
        made = {name: write_part("Definitions", {name: schema}) for name, schema in definitions.items()}
        return _Piece(write_part("Paths", paths), made)
    made = {name: encode_tree({name: schema})[1:-1] for name, schema in definitions.items()}
    return _Piece(encode_tree(paths)[1:-1], made)


def _joined(form: Form, pieces: list[_Piece]) -> bytes:
    # Many groups have the same schemas of metadata: each stands there once.
    definitions = {name: data for piece in pieces for name, data in piece.definitions.items()}
    paths = [piece.paths for piece in pieces if piece.paths]
    if form == "protobuf":
        return write_openapi(_HEAD, b"".join(paths), b"".join(definitions.values()))
    return b'%b,"paths":{%b},"definitions":{%b}}' % (
        encode_tree(_HEAD)[:-1],
        b",".join(paths),
        b",".join(definitions.values()),
    )
