"""The OpenAPI v2 document of everything served (`/openapi/v2`), converted from the v3 documents.

A v2 schema cannot express alternatives, nullable or union types. What it cannot express is left open, so that clients
that validate against it do not refuse what the server accepts.

The document is merged from one piece for each group and version. A piece is generated once for each state of its group
and version, in a thread: the whole takes a few hundred milliseconds the first time, and hardly any when a definition
changes.
"""

import hashlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Literal, NamedTuple

from levelset.apiserver.discovery import VERSION
from levelset.apiserver.openapi.openapi_protobuf import write_openapi, write_part
from levelset.apiserver.resources.expensive_work import ExpensiveWork
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object
from levelset.apiserver.wire.document_cache import Document
from levelset.objects import encode_tree
from levelset.objects.json_tree import is_list, is_map

__all__ = ["PROTOBUF_TYPE", "Form", "MergedDocument", "convert_to_v2"]

PROTOBUF_TYPE: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

_NEW: Final = "#/components/schemas/"
_OLD: Final = "#/definitions/"
_METHODS: Final = ("get", "put", "post", "delete", "patch")
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"
_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_V2_KEYWORDS: Final = frozenset(
    {
        *("type", "format", "title", "description", "default", "multipleOf", "maximum", "exclusiveMaximum", "minimum"),
        *("exclusiveMinimum", "maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems"),
        *("maxProperties", "minProperties", "required", "enum"),
        *("x-kubernetes-group-version-kind", "x-kubernetes-list-map-keys", "x-kubernetes-list-type"),
        *("x-kubernetes-map-type", "x-kubernetes-patch-merge-key", "x-kubernetes-patch-strategy", _PRESERVE),
        "x-kubernetes-embedded-resource",
        _INT_OR_STRING,
    }
)


def convert_to_v2(document: Object) -> Object:
    """The paths and the definitions of a v3 document, converted to v2."""
    schemas: Object = document["components"]["schemas"]
    definitions = {name: _definition(tree) for name, tree in schemas.items()}
    return {"paths": {path: _path(item) for path, item in document["paths"].items()}, "definitions": definitions}


def _definition(tree: Any) -> Object:
    """A schema at the root: one that takes unknown fields is an object about which nothing is known."""
    kinds = "x-kubernetes-group-version-kind"
    if is_map(tree) and tree.get(_PRESERVE):
        found = {name: tree[name] for name in ("description", kinds) if name in tree}
        return {"type": "object", **found}
    return _schema(tree)


def _schema(tree: Any) -> Object:
    if not is_map(tree):
        return {}
    only: Any = list_member(tree, "allOf")
    if len(only) == 1 and is_map(only[0]) and "$ref" in only[0]:
        tree = {**{name: value for name, value in tree.items() if name != "allOf"}, **only[0]}
    if "$ref" in tree:
        described = {"description": tree["description"]} if "description" in tree else {}
        return {"$ref": str(tree["$ref"]).replace(_NEW, _OLD), **described}
    made: Object = {name: value for name, value in tree.items() if name in _V2_KEYWORDS}
    if _is_open(tree):
        # With one type or a list of members, a client would refuse what the schema does not name.
        return {name: value for name, value in made.items() if name.startswith("x-") or name == "description"}
    if tree.get("properties"):
        made["properties"] = {name: _schema(member) for name, member in tree["properties"].items()}
    if "items" in tree:
        made["items"] = _schema(tree["items"])
    others = tree.get("additionalProperties")
    if others is not None:
        made["additionalProperties"] = others if isinstance(others, bool) else _schema(others)
    return made


def _is_open(tree: Mapping[str, Any]) -> bool:
    if tree.get(_INT_OR_STRING) or tree.get("nullable"):
        return True
    if tree.get(_PRESERVE):
        return True
    return "type" not in tree and bool(tree.get("oneOf") or tree.get("anyOf"))


def _path(item: Object) -> Object:
    made: Object = {name: _operation(item[name]) for name in _METHODS if name in item}
    parameters = [_parameter(one) for one in list_member(item, "parameters")]
    return {**made, "parameters": parameters} if parameters else made


def _operation(tree: Object) -> Object:
    made: Object = {name: tree[name] for name in ("tags", "description", "operationId") if name in tree}
    made |= {name: value for name, value in tree.items() if name.startswith("x-")}
    parameters = [_parameter(one) for one in list_member(tree, "parameters")]
    content = map_member(map_member(tree, "requestBody"), "content")
    if content:
        made["consumes"] = list(content)
        schema = _schema(next(iter(content.values())).get("schema"))
        parameters.insert(0, {"name": "body", "in": "body", "required": True, "schema": schema})
    if parameters:
        made["parameters"] = parameters
    responses = map_member(tree, "responses")
    media = next(
        (list(map_member(one, "content")) for one in responses.values() if map_member(one, "content")), list[str]()
    )
    if media:
        made["produces"] = media
    made["responses"] = {code: _response(one) for code, one in responses.items()}
    return made


def _parameter(tree: Object) -> Object:
    schema = map_member(tree, "schema")
    made: Object = {name: tree[name] for name in ("name", "in", "required", "description") if name in tree}
    return {**made, **{name: schema[name] for name in ("type", "format", "uniqueItems") if name in schema}}


def _response(tree: Object) -> Object:
    made: Object = {"description": tree.get("description", "")}
    content = list(map_member(tree, "content").values())
    schema: Any = content[0].get("schema") if is_list(content) and content else None
    return made if schema is None else {**made, "schema": _schema(schema)}


Form = Literal["json", "protobuf"]
"""The encoding of the document."""

_MAX_CACHED_PIECES: Final = 256
_HEAD: Final[Object] = {"swagger": "2.0", "info": {"title": "Kubernetes", "version": VERSION["gitVersion"]}}


class _Piece(NamedTuple):
    paths: bytes
    definitions: dict[str, bytes]


_PIECES: Final[dict[tuple[Form, str], _Piece]] = {}
"""The pieces of all servers in this process, by hash: equal hashes mean equal pieces."""


class MergedDocument:
    """Builds and caches the document; pieces are generated in the thread of `work`."""

    def __init__(self, work: ExpensiveWork) -> None:
        self._work = work
        self._made: dict[Form, Document] = {}

    async def read(self, form: Form, sources: Mapping[str, Callable[[], Object]]) -> Document:
        """The document of these parts of what is served: what makes the v3 document of each, by its hash."""
        digest = hashlib.sha256(f"{form} {' '.join(sources)}".encode()).hexdigest().upper()
        found = self._made.get(form)
        if found is None or found.digest != digest:
            pieces = [await self._piece(form, *source) for source in sources.items()]
            found = self._made[form] = Document(await self._work.run(partial(_joined, form, pieces)), digest)
        return found

    async def _piece(self, form: Form, digest: str, source: Callable[[], Object]) -> _Piece:
        found = _PIECES.get((form, digest))
        if found is None:
            found = await self._work.run(lambda: _encoded(form, convert_to_v2(source())))
            _cache_piece((form, digest), found)
        return found


def _cache_piece(key: tuple[Form, str], piece: _Piece) -> None:
    while len(_PIECES) >= _MAX_CACHED_PIECES:
        del _PIECES[next(iter(_PIECES))]
    _PIECES[key] = piece


def _encoded(form: Form, document: Object) -> _Piece:
    paths, definitions = document["paths"], document["definitions"]
    if form == "protobuf":
        made = {name: write_part("Definitions", {name: schema}) for name, schema in definitions.items()}
        return _Piece(write_part("Paths", paths), made)
    made = {name: encode_tree({name: schema})[1:-1] for name, schema in definitions.items()}
    return _Piece(encode_tree(paths)[1:-1], made)


def _joined(form: Form, pieces: list[_Piece]) -> bytes:
    # Many groups have the same schemas of metadata: each is included once.
    definitions = {name: data for piece in pieces for name, data in piece.definitions.items()}
    paths = [piece.paths for piece in pieces if piece.paths]
    if form == "protobuf":
        return write_openapi(_HEAD, b"".join(paths), b"".join(definitions.values()))
    return b'%b,"paths":{%b},"definitions":{%b}}' % (
        encode_tree(_HEAD)[:-1],
        b",".join(paths),
        b",".join(definitions.values()),
    )
