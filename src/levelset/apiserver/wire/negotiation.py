"""Content negotiation: the response format for an Accept header, and decoding of request bodies by Content-Type."""

import json
import re
from functools import lru_cache
from typing import Any, Final, Literal, cast

import msgspec

from levelset.apiserver.resources.server_state import Tree
from levelset.apiserver.wire.protobuf import PROTOBUF, read_protobuf
from levelset.apiserver.wire.status_errors import not_acceptable, unsupported_media_type
from levelset.errors import BadObject, BadRequest
from levelset.http import Request
from levelset.objects import decode_tree
from levelset.objects.json_tree import format_path, is_list, is_map

__all__ = [
    "JSON",
    "PLAIN_JSON",
    "YAML",
    "DecodedBody",
    "Purpose",
    "ResponseFormat",
    "find_duplicates",
    "media_type",
    "negotiate",
    "read_object",
    "read_protobuf_body",
    "read_text",
]

JSON: Final = "application/json"
YAML: Final = "application/yaml"

Purpose = Literal["object", "list", "watch", "review"]

_KINDS: Final[dict[str, tuple[str, ...]]] = {
    "object": ("Table", "PartialObjectMetadata", "PartialObjectMetadataList"),
    "list": ("Table", "PartialObjectMetadata", "PartialObjectMetadataList"),
    "watch": ("Table", "PartialObjectMetadata"),
    "review": ("PartialObjectMetadata",),
}
_VERSIONS: Final = ("v1", "v1beta1")
_encode: Final = msgspec.json.Encoder().encode
_NAME_ENDS: Final = re.compile(rb"\"[ \t\r\n]*:")


class ResponseFormat(msgspec.Struct, frozen=True):
    """The format of a response: its media type, and the `meta.k8s.io` kind that objects are converted to, if any."""

    media: str = JSON
    kind: str | None = None
    version: str = "v1"

    @property
    def is_plain(self) -> bool:
        """Whether stored bytes can be sent without conversion."""
        return self.kind is None and self.media == JSON


PLAIN_JSON: Final = ResponseFormat()


class DecodedBody(msgspec.Struct, frozen=True):
    """A decoded request body, with the paths of the fields that occur twice (the last one wins)."""

    tree: Tree
    duplicates: tuple[str, ...] = ()
    source: bytes | None = None
    """The body itself, if it is JSON."""


def negotiate(accept: str | None, purpose: Purpose) -> ResponseFormat:
    """The supported format that the client prefers; raises 406 if there is none."""
    if accept is None or accept == JSON or accept == "*/*":  # noqa: PLR1714 - the common cases, without building a tuple
        return PLAIN_JSON
    return _negotiate(accept, purpose)


@lru_cache(maxsize=256)
def _negotiate(accept: str, purpose: Purpose) -> ResponseFormat:
    for media, parameters in _clauses(accept):
        found = _format(media, parameters, purpose)
        if found is not None:
            return found
    raise not_acceptable(JSON if purpose == "watch" else f"{JSON}, {YAML}")


def _clauses(accept: str) -> list[tuple[str, dict[str, str]]]:
    """The clauses of an Accept header by descending quality; those of quality 0 are left out."""
    found: list[tuple[float, str, dict[str, str]]] = []
    for clause in accept.split(","):
        media, *rest = (part.strip() for part in clause.split(";"))
        parameters = {name.strip().lower(): value.strip() for name, _, value in (part.partition("=") for part in rest)}
        quality = _quality(parameters.pop("q", "1"))
        if media and quality > 0:
            found.append((quality, media.lower(), parameters))
    found.sort(key=lambda one: -one[0])
    return [(media, parameters) for _, media, parameters in found]


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 1.0


def _format(media: str, parameters: dict[str, str], purpose: Purpose) -> ResponseFormat | None:
    if media == "*/*":
        media = JSON
    if media != JSON and (media != YAML or purpose == "watch"):
        return None
    if parameters.get("stream", "watch") != "watch":
        return None
    kind = parameters.get("as")
    if kind is None:
        return ResponseFormat(media)
    if kind not in _KINDS[purpose] or parameters.get("g") != "meta.k8s.io" or parameters.get("v") not in _VERSIONS:
        return None
    return ResponseFormat(media, kind, parameters["v"])


def media_type(request: Request) -> str | None:
    """The Content-Type of a request without its parameters; None if there is none."""
    given = request.headers.find("content-type")
    if given == JSON:
        return JSON
    return _without_parameters(given) if given else None


@lru_cache(maxsize=256)
def _without_parameters(given: str) -> str:
    return given.partition(";")[0].strip().lower()


def read_object(request: Request, *, custom: bool = False) -> DecodedBody:
    """Decodes the body of a create or update; raises 415 for an unsupported media type, 400 for an invalid body.

    Custom resources cannot be sent as protobuf: their fields have no numbers.
    """
    media = media_type(request) or JSON
    if media == JSON:
        data = request.body
        try:
            tree = decode_tree(data)
        except BadObject as error:
            raise _unreadable(error) from error
        return DecodedBody(tree if tree.__class__ is dict else _object(tree), find_duplicates(data, tree), data)
    if media == YAML:
        repeated: list[str] = []
        return DecodedBody(_object(read_text(request.body, media, repeated)), tuple(repeated))
    if media == PROTOBUF and not custom:
        return DecodedBody(read_protobuf_body(request.body))
    raise unsupported_media_type(f"{JSON}, {YAML}" if custom else f"{JSON}, {YAML}, {PROTOBUF}")


def read_protobuf_body(data: bytes) -> Tree:
    """Decodes a protobuf body; raises BadRequest."""
    try:
        return read_protobuf(data)
    except BadObject as error:
        raise BadRequest(f"the body of the request cannot be read: {error}") from error


def read_text(data: bytes, media: str, repeated: list[str] | None = None) -> Any:
    """Decodes a JSON or YAML body; raises BadRequest with the position of the error.

    Messages about repeated keys of a YAML body are added to `repeated`.
    """
    try:
        if media == YAML:
            from levelset.objects.yaml_codec import read_yaml  # noqa: PLC0415 - loads the YAML parser only when it is needed

            documents = read_yaml(data, repeated=repeated)
            if len(documents) != 1:
                raise BadRequest(f"the body must hold one YAML document, not {len(documents)}")
            return documents[0]
        return decode_tree(data)
    except BadObject as error:
        raise _unreadable(error) from error


def _unreadable(error: BadObject) -> BadRequest:
    return BadRequest(f"the body of the request cannot be read: {error}")


def _object(tree: Any) -> Tree:
    if not isinstance(tree, dict):
        raise BadRequest(f"the body must be an object, not {json.dumps(tree)[:40]}")
    return cast("Tree", tree)


def find_duplicates(data: bytes, tree: Any) -> tuple[str, ...]:
    """The paths of the members that occur twice in a JSON text, of which `tree` is the decoded form.

    Decoding a second time with a hook is slow, so cheaper tests come first; each proves that there are no duplicates:
    the text equals the re-encoded tree, or does so without the spaces in both; it has no escapes and as many colons as
    the re-encoded tree, since a duplicate member has a colon that re-encoding drops; it equals the re-encoded tree
    after removing all white space; it has as many name ends (a quote and a colon) as the tree has members. A string
    value that contains such a name end only leads to the slow test.
    """
    try:
        again = _encode(tree)
        if again == data or again.replace(b" ", b"") == data.replace(b" ", b""):
            return ()
        # Removing the colons is three times as fast as counting them: `replace` searches many bytes at a time.
        if b"\\" not in data and len(data) - len(data.replace(b":", b"")) == len(again) - len(again.replace(b":", b"")):
            return ()
        if msgspec.json.format(data, indent=-1) == again:
            return ()
        if len(_NAME_ENDS.findall(data)) == _count_members(tree):
            return ()
        repeated: list[tuple[dict[str, Any], list[str]]] = []
        whole = json.loads(data, object_pairs_hook=lambda pairs: _record_duplicates(pairs, repeated))
        return tuple(sorted(_paths(whole, repeated))) if repeated else ()
    except (ValueError, RecursionError, msgspec.MsgspecError):
        return ()


def _count_members(tree: Any) -> int:
    found = 0
    pending = [tree]
    while pending:
        node = pending.pop()
        if node.__class__ is dict:
            found += len(node)
            pending += node.values()
        elif node.__class__ is list:
            pending += node
    return found


def _record_duplicates(
    pairs: list[tuple[str, Any]], repeated: list[tuple[dict[str, Any], list[str]]]
) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        seen: set[str] = set()
        twice = [name for name, _ in pairs if name in seen or seen.add(name)]  # type: ignore[func-returns-value]  # add returns None
        repeated.append((members, twice))
    return members


def _paths(whole: Any, repeated: list[tuple[dict[str, Any], list[str]]]) -> set[str]:
    names = {id(members): twice for members, twice in repeated}
    found: set[str] = set()
    pending: list[tuple[tuple[str | int, ...], Any]] = [((), whole)]
    while pending:
        path, value = pending.pop()
        if is_map(value):
            found.update(format_path([*path, name]) for name in names.get(id(value), ()))
            pending.extend(((*path, name), member) for name, member in value.items())
        elif is_list(value):
            pending.extend(((*path, index), member) for index, member in enumerate(value))
    return found
