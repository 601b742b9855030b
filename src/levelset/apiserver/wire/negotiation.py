"""Which form of an answer the client can read, and how the body it sent is read."""

import json
import re
from dataclasses import dataclass
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
    "PLAIN",
    "YAML",
    "Body",
    "Chosen",
    "Purpose",
    "find_duplicates",
    "media_type",
    "negotiate",
    "read_object",
    "read_protobuf_body",
    "read_text",
]

JSON: Final = "application/json"
YAML: Final = "application/yaml"

Purpose = Literal["object", "list", "watch"]

_FORMS: Final[dict[str, tuple[str, ...]]] = {
    "object": ("Table", "PartialObjectMetadata"),
    "list": ("Table", "PartialObjectMetadataList"),
    "watch": ("Table", "PartialObjectMetadata"),
}
_VERSIONS: Final = ("v1", "v1beta1")
_encode: Final = msgspec.json.Encoder().encode
_NAME_ENDS: Final = re.compile(rb"\"[ \t\r\n]*:")


@dataclass(frozen=True, slots=True)
class Chosen:
    """What to answer with: a media type, and a kind of `meta.k8s.io` if the objects are to be shown as another."""

    media: str = JSON
    kind: str | None = None
    version: str = "v1"

    @property
    def is_plain(self) -> bool:
        """Whether stored bytes can be handed out as they are."""
        return self.kind is None and self.media == JSON


PLAIN: Final = Chosen()


class Body(msgspec.Struct, frozen=True):
    """An object that a client sent, and the paths of the fields that it gave twice (the last one counts)."""

    tree: Tree
    duplicates: tuple[str, ...] = ()


def negotiate(accept: str | None, purpose: Purpose) -> Chosen:
    """The form that the client likes best among those that there are; raises 406 if there is none."""
    if accept is None or accept == JSON or accept == "*/*":  # noqa: PLR1714 - the common cases, without a tuple
        return PLAIN
    return _negotiate(accept, purpose)


@lru_cache(maxsize=256)
def _negotiate(accept: str, purpose: Purpose) -> Chosen:
    for media, parameters in _clauses(accept):
        form = _form(media, parameters, purpose)
        if form is not None:
            return form
    raise not_acceptable(JSON if purpose == "watch" else f"{JSON}, {YAML}")


def _clauses(accept: str) -> list[tuple[str, dict[str, str]]]:
    """The clauses of an Accept header, the most wanted first; those of quality 0 are left out."""
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


def _form(media: str, parameters: dict[str, str], purpose: Purpose) -> Chosen | None:
    if media == "*/*":
        media = JSON
    if media != JSON and (media != YAML or purpose == "watch"):
        return None
    if parameters.get("stream", "watch") != "watch" or ("stream" in parameters and purpose != "watch"):
        return None
    kind = parameters.get("as")
    if kind is None:
        return Chosen(media)
    if kind not in _FORMS[purpose] or parameters.get("g") != "meta.k8s.io" or parameters.get("v") not in _VERSIONS:
        return None
    return Chosen(media, kind, parameters["v"])


def media_type(request: Request) -> str | None:
    """The Content-Type of a request without its parameters; None if it was not sent."""
    given = request.headers.find("content-type")
    if given == JSON:
        return JSON
    return _without_parameters(given) if given else None


@lru_cache(maxsize=256)
def _without_parameters(given: str) -> str:
    return given.partition(";")[0].strip().lower()


def read_object(request: Request, *, custom: bool = False) -> Body:
    """The object in the body of a create or replace; raises 415 for a media type that is none, 400 for nonsense.

    Custom resources have no protobuf: their fields have names only, and no numbers.
    """
    media = request.headers.find("content-type") or JSON
    media = JSON if media == JSON else media_type(request) or JSON
    if media == JSON:
        data = request.body
        try:
            tree = decode_tree(data)
        except BadObject as error:
            raise _unreadable(error) from error
        return Body(tree if tree.__class__ is dict else _object(tree), find_duplicates(data, tree))
    if media == YAML:
        return Body(_object(read_text(request.body, media)))
    if media == PROTOBUF and not custom:
        return Body(read_protobuf_body(request.body))
    raise unsupported_media_type(media, f"{JSON}, {YAML}" if custom else f"{JSON}, {YAML}, {PROTOBUF}")


def read_protobuf_body(data: bytes) -> Tree:
    """The object that a body in protobuf stands for; raises BadRequest."""
    try:
        return read_protobuf(data)
    except BadObject as error:
        raise BadRequest(f"the body of the request cannot be read: {error}") from error


def read_text(data: bytes, media: str) -> Any:
    """The tree that a JSON or YAML text stands for; BadRequest says where it goes wrong."""
    try:
        if media == YAML:
            from levelset.objects.yaml_codec import read_yaml  # noqa: PLC0415 - yaml is loaded by those who send YAML

            documents = read_yaml(data)
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
    """The paths of members that a JSON text gives twice.

    A text that reads the same when it is written again has none, white space aside. Neither has one without escapes and
    with as many colons as then: each member has one, and a member that does not count, because another has its name,
    has one too many. Nor has one with as many names in it as its tree has members. A quote and a colon are what a name
    ends with; a value that looks so only makes us look closer.
    """
    try:
        again = _encode(tree)
        if again == data:
            return ()
        # To take the colons out is three times as fast as to count them, as that searches many bytes at a time.
        if b"\\" not in data and len(data) - len(data.replace(b":", b"")) == len(again) - len(again.replace(b":", b"")):
            return ()
        if msgspec.json.format(data, indent=-1) == again:
            return ()
        if len(_NAME_ENDS.findall(data)) == _count_members(tree):
            return ()
        repeated: list[tuple[dict[str, Any], list[str]]] = []
        whole = json.loads(data, object_pairs_hook=lambda pairs: _noting(pairs, repeated))
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


def _noting(pairs: list[tuple[str, Any]], repeated: list[tuple[dict[str, Any], list[str]]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        twice = [name for name, _ in pairs if name in seen or seen.add(name)]  # type: ignore[func-returns-value]  # add gives None
        repeated.append((made, twice))
    return made


def _paths(whole: Any, repeated: list[tuple[dict[str, Any], list[str]]]) -> set[str]:
    names = {id(made): twice for made, twice in repeated}
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
