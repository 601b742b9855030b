"""Content negotiation: the response format for an Accept header, and decoding of request bodies by Content-Type."""

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, Literal, cast

import msgspec

from levelset.apiserver.resources.server_state import Tree
from levelset.apiserver.wire.accept_header import parse_accept
from levelset.apiserver.wire.protobuf import PROTOBUF, read_protobuf
from levelset.apiserver.wire.request_options import OptionsKind, WriteOptions, write_options
from levelset.apiserver.wire.status_errors import no_representation, not_acceptable, unsupported_media_type
from levelset.errors import BadObject, BadRequest, Invalid
from levelset.http import Request
from levelset.objects import decode_tree
from levelset.objects.json_tree import format_path, is_list, is_map
from levelset.objects.lazy_pattern import Pattern

__all__ = [
    "JSON",
    "PLAIN_JSON",
    "YAML",
    "DecodedBody",
    "Purpose",
    "ResponseFormat",
    "check_body_type",
    "check_produced",
    "check_stream",
    "find_duplicates",
    "media_type",
    "negotiate",
    "negotiate_error",
    "options_of_body",
    "read_object",
    "read_posted",
    "read_protobuf_body",
    "read_text",
]

JSON: Final = "application/json"
YAML: Final = "application/yaml"

Purpose = Literal["object", "list", "part", "log", "document", "version"]
"""What a request is for: one object (or the objects that were deleted), a list or a watch of them, a part of an object
or a review, of which there are no tables, a container's log, a document about the API, or the server's version."""

_BUILTIN_TYPES: Final = (JSON, YAML, PROTOBUF)
_STREAM_TYPES: Final = (f"{JSON};stream=watch", f"{PROTOBUF};stream=watch")
_PRODUCED: Final[dict[str, tuple[str, ...]]] = {
    "object": _BUILTIN_TYPES,
    "list": (*_BUILTIN_TYPES, *_STREAM_TYPES),
    "part": _BUILTIN_TYPES,
    "log": ("text/plain", *_BUILTIN_TYPES),
    "document": _BUILTIN_TYPES,
    "version": (JSON,),
}
"""What upstream's router believes each route to produce. It ignores parameters, and knows no wildcard but `*/*`."""
_KINDS: Final = frozenset({"Table", "PartialObjectMetadata", "PartialObjectMetadataList"})
_WITHOUT_TABLE: Final = frozenset({"part", "log"})
_CONVERSION: Final = frozenset({"as", "g", "v"})
_META_VERSIONS: Final = frozenset({"v1", "v1beta1"})
_encode: Final = msgspec.json.Encoder().encode
_NAME_ENDS: Final = Pattern(rb"\"[ \t\r\n]*:")


class ResponseFormat(msgspec.Struct, frozen=True):
    """The format of a response: its media type, and the `meta.k8s.io` kind that objects are converted to, if any."""

    media: str = JSON
    kind: str | None = None
    version: str = "v1"
    pretty: bool = False
    """Whether the client requests indentation in the media type itself."""

    @property
    def is_plain(self) -> bool:
        """Whether stored bytes can be sent without conversion."""
        return self.kind is None and self.media == JSON and not self.pretty


PLAIN_JSON: Final = ResponseFormat()


class DecodedBody(msgspec.Struct, frozen=True):
    """A decoded request body, with the paths of the fields that occur twice (the last one wins)."""

    tree: Tree
    duplicates: tuple[str, ...] = ()
    source: bytes | None = None
    """The body itself, if it is JSON."""


def negotiate(accept: str | None, purpose: Purpose, *, custom: bool = False) -> ResponseFormat:
    """The supported format that the client prefers; raises 406 if there is none.

    Upstream a request for a built-in kind first has to pass a router, which has words of its own for a 406; all paths
    of custom resources have one handler instead, and so have `/apis` and the groups below it.
    """
    if accept is None or accept == JSON or accept == "*/*":  # noqa: PLR1714 - the common cases, without building a tuple
        return PLAIN_JSON
    return _negotiate(accept, purpose, custom)


@lru_cache(maxsize=256)
def _negotiate(accept: str, purpose: Purpose, custom: bool) -> ResponseFormat:
    if not custom and accept:
        check_produced(accept, _PRODUCED[purpose])
    found, is_protobuf_wanted = _select(accept, purpose, custom)
    if found is not None:
        return found
    # Responses are not sent as protobuf: the message names what is sent, and not what upstream accepts.
    raise not_acceptable((JSON, YAML) if is_protobuf_wanted else _BUILTIN_TYPES)


def check_produced(accept: str, produced: tuple[str, ...]) -> None:
    """Raises the 406 of upstream's router, unless a clause names one of these media types, or `*/*`."""
    for clause in accept.split(","):
        media = clause.partition(";")[0].strip(" ")
        if media == "*/*" or media in produced:
            return
    raise no_representation(produced)


def check_stream(chosen: ResponseFormat) -> None:
    """Raises 406 if a watch was requested in a format without a stream."""
    if chosen.media == YAML:
        raise not_acceptable(_STREAM_TYPES)


def negotiate_error(accept: str | None) -> ResponseFormat | None:
    """The format of a Status; None if the client accepts none, or requests another kind: it then gets indented JSON."""
    if accept is None or accept == JSON or accept == "*/*":  # noqa: PLR1714 - as in `negotiate`
        return PLAIN_JSON
    found, is_protobuf_wanted = _select(accept, "document", False)
    return PLAIN_JSON if found is None and is_protobuf_wanted else found


@lru_cache(maxsize=256)
def _select(accept: str, purpose: Purpose, custom: bool) -> tuple[ResponseFormat | None, bool]:
    """The preferred format of those that are sent, and whether the client would have taken protobuf."""
    if not accept:
        return PLAIN_JSON, False
    is_protobuf_wanted = False
    for clause in parse_accept(accept):
        for media in _BUILTIN_TYPES:
            if not clause.matches(media) or not _allows(clause.parameters, media, purpose, custom):
                continue
            if media == PROTOBUF:
                is_protobuf_wanted = True
                continue
            given = clause.parameters
            return ResponseFormat(media, given.get("as"), given.get("v", "v1"), given.get("pretty") == "1"), False
    return None, is_protobuf_wanted


def _allows(parameters: dict[str, str], media: str, purpose: Purpose, custom: bool) -> bool:
    """Whether an endpoint serves a media type with these parameters; those that it does not know change nothing."""
    stream, version = parameters.get("stream"), parameters.get("sv")
    if (stream and (media == YAML or stream != "watch")) or (version and (purpose == "document" or version != "v1")):
        return False
    if not parameters.keys() & _CONVERSION:
        return media != PROTOBUF or not custom or purpose == "document"
    kind = parameters.get("as")
    if purpose == "document" or parameters.get("g") != "meta.k8s.io" or parameters.get("v") not in _META_VERSIONS:
        return False
    if kind == "Table":
        return media != PROTOBUF and purpose not in _WITHOUT_TABLE
    return kind in _KINDS


def media_type(request: Request) -> str | None:
    """The Content-Type of a request without its parameters; None if there is none."""
    given = request.headers.find("content-type")
    if given == JSON:
        return JSON
    return _without_parameters(given) if given else None


@lru_cache(maxsize=256)
def _without_parameters(given: str) -> str:
    return given.partition(";")[0].strip().lower()


def check_body_type(request: Request, *, custom: bool) -> None:
    """Raises 415 if a body of this media type cannot be decoded."""
    media = media_type(request) or JSON
    if media not in (JSON, YAML) and (custom or media != PROTOBUF):
        raise unsupported_media_type(f"{JSON}, {YAML}" if custom else f"{JSON}, {YAML}, {PROTOBUF}")


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
        if tree.__class__ is not dict:
            return DecodedBody({} if tree is None and not custom else _object(tree))  # Go decodes null as nothing
        return DecodedBody(tree, find_duplicates(data, tree), data)
    if media == YAML:
        repeated: list[str] = []
        tree = _object(read_text(request.body, media, repeated))
        return DecodedBody(_in_order(tree), tuple(repeated))
    if media == PROTOBUF and not custom:
        return DecodedBody(read_protobuf_body(request.body))
    check_body_type(request, custom=custom)
    raise AssertionError(media)


def options_of_body(request: Request, kind: OptionsKind, *, subresource: str = "", custom: bool) -> WriteOptions:
    """As `write_options`; as upstream, a body of an unknown type is refused before options that are invalid."""
    try:
        return write_options(request, kind, subresource=subresource)
    except Invalid:
        check_body_type(request, custom=custom)
        raise


def read_posted(request: Request, subresource: str) -> tuple[DecodedBody, WriteOptions]:
    """The body that is posted to a subresource, and its options, which are checked before it."""
    options = options_of_body(request, "CreateOptions", subresource=subresource, custom=False)
    body = read_object(request)
    return body, msgspec.structs.replace(options, duplicates=body.duplicates)


def _in_order(tree: Any) -> Any:
    """The tree with its members sorted by name, as upstream converts YAML to JSON: so are its warnings."""
    if is_map(tree):
        return {name: _in_order(tree[name]) for name in sorted(tree, key=str)}
    return [_in_order(one) for one in tree] if is_list(tree) else tree


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
        return tuple(dict.fromkeys(_repeated_paths(json.loads(data, object_pairs_hook=_Members), ())))
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


class _Members(list[tuple[str, Any]]):
    """The members of a JSON object in the order of the text, with those that are repeated."""


def _repeated_paths(value: Any, path: tuple[str | int, ...]) -> Iterator[str]:
    """The paths of the members that are repeated, in the order of the text; also in values that are overwritten."""
    if isinstance(value, _Members):
        seen: set[str] = set()
        for name, member in value:
            if name in seen:
                yield format_path([*path, name])
            seen.add(name)
            yield from _repeated_paths(member, (*path, name))
    elif is_list(value):
        for index, item in enumerate(value):
            yield from _repeated_paths(item, (*path, index))
