"""The JSON and YAML codec: bytes to typed objects and back, without losing unknown fields.

`decode` stores the bytes it read with the object, and `encode` restores the fields that the class does not know
(docs/decisions/0003). A null that the class does not allow counts as absent, as it does in Kubernetes.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, TypeVar, cast

import msgspec

from levelset.errors import BadObject
from levelset.objects import timestamps, unknown_fields
from levelset.objects.json_tree import is_list, is_map
from levelset.objects.quantity import MAX_SHARED, Quantity, shared_quantity
from levelset.objects.resource import Object, origin_of, set_origin, with_origin
from levelset.objects.scheme import Scheme
from levelset.objects.timestamps import MicroTime
from levelset.objects.unstructured import Unstructured

__all__ = [
    "UNREADABLE",
    "decode",
    "decode_tree",
    "encode",
    "encode_tree",
    "from_tree",
    "plain_reader",
    "read_manifests",
    "reader",
    "reread",
    "to_tree",
    "write_manifests",
]

T = TypeVar("T")

UNREADABLE: Final = (msgspec.MsgspecError, RecursionError, ValueError)
"""What a `plain_reader` raises."""

# Built once: creating a decoder costs a thousand times as much as using it.
_read_any: Final = msgspec.json.Decoder()


def decode(kind: type[T], data: bytes | str) -> T:
    """The object of class `kind` from its JSON; BadObject names the wrong field, or the position."""
    class_: Any = kind
    made: T = reader(class_)(data if isinstance(data, bytes) else _bytes(data))
    return made


@lru_cache(maxsize=1024)
def reader(kind: type[T]) -> Callable[[bytes], T]:
    """A function that does what `decode` does for one class and bytes, for reading many objects of a kind."""
    class_: Any = kind
    decode_raw: Callable[[bytes], Any] = plain_reader(class_)
    # The result of a class is known beforehand; that of a union of classes is not.
    is_object = isinstance(class_, type) and issubclass(class_, Object)

    def read(raw: bytes) -> Any:
        try:
            made = decode_raw(raw)
        except UNREADABLE as error:
            return cast("Any", reread(kind, raw, error))
        if is_object or isinstance(made, Object):
            set_origin(made, raw)
        return made

    return read


def plain_reader(kind: type[T]) -> Callable[[bytes], T]:
    """The decoder inside `reader`, for hot paths that do the rest inline and save a call.

    The object has no origin yet (see `with_origin`). If it raises UNREADABLE, call `reread`.
    """
    class_: Any = kind
    return _decoder(class_).decode


def reread(kind: type[T], raw: bytes, error: Exception) -> T:
    """The object that a plain reader could not decode, with its origin; BadObject if it cannot be decoded."""
    # An explicit null means an absent field: decode once more without the nulls.
    made = _convert(kind, _without_nulls(decode_tree(raw)), error)
    return with_origin(made, raw) if isinstance(made, Object) else made


def decode_tree(data: bytes | str) -> Any:
    """The plain JSON tree; BadObject says at which byte the text stops being JSON."""
    try:
        return _read_any.decode(_bytes(data) if isinstance(data, str) else data)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise _unreadable(error) from error


def from_tree(kind: type[T], tree: Any) -> T:
    """The object of class `kind` from a JSON tree, which becomes its origin as the bytes do with `decode`."""
    made = _convert(kind, _without_nulls(tree), None)
    if isinstance(made, Object):
        with_origin(made, encode_tree(tree))
    return made


def encode(obj: Any) -> bytes:
    """The JSON of an object, including the fields it was decoded with that its class does not know."""
    if not isinstance(obj, Object):
        return encode_tree(obj)
    written, origin = encode_tree(obj), origin_of(obj)
    if origin is None:
        return written
    before = encode_tree(_decode_again(obj, origin))
    # A response ends with a newline, which is no part of the object.
    return origin.rstrip() if written == before else encode_tree(_carried(origin, before, written))


def encode_tree(tree: Any) -> bytes:
    """The JSON of a plain tree; BadObject if it holds something that JSON does not."""
    try:
        return _encoder.encode(tree)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise BadObject(f"this cannot be written as JSON: {error}") from error


def to_tree(obj: Any) -> Any:
    """The JSON tree of an object, including the fields it was decoded with that its class does not know."""
    if isinstance(obj, Unstructured):
        return obj.tree
    return decode_tree(encode(obj) if isinstance(obj, Object) else encode_tree(obj))


def _carried(origin: bytes, before: bytes, after: bytes) -> Any:
    return unknown_fields.carry(_read_any.decode(origin), _read_any.decode(before), _read_any.decode(after))


def _decode_again(obj: Object, origin: bytes) -> Object:
    return decode(type(obj), origin)


def read_manifests(text: str | bytes, scheme: Scheme | None = None) -> list[Any]:
    """The objects in a YAML or JSON text: several documents, and the items of `List`s one by one.

    A kind that the scheme knows is decoded into its class, any other into an `Unstructured`. Empty documents are
    skipped.
    """
    from levelset.objects.yaml_codec import read_yaml  # noqa: PLC0415  # imported on first use: yaml loads slowly

    return [_to_object(tree, scheme) for document in read_yaml(text) for tree in _unfold(document)]


def write_manifests(objects: Iterable[Any]) -> str:
    """One YAML text with a document for each object."""
    from levelset.objects.yaml_codec import write_yaml  # noqa: PLC0415  # as above

    return write_yaml([to_tree(one) for one in objects])


def _unfold(document: Any) -> Iterable[Any]:
    if document is None:
        return []
    if is_map(document) and document.get("kind") == "List" and is_list(document.get("items")):
        return [item for one in document["items"] for item in _unfold(one)]
    return [document]


def _to_object(tree: Any, scheme: Scheme | None) -> Any:
    found = Unstructured(tree)
    gvk = found.gvk
    kind = scheme.find(gvk) if scheme else None
    return found if kind is None else from_tree(kind, tree)


def _bytes(data: bytes | str) -> bytes:
    return data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data


@lru_cache(maxsize=1024)
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind, dec_hook=_read_special)


def _read_special(kind: type, value: Any) -> Any:
    """Decodes the types that msgspec does not know; what it raises becomes the error of that field."""
    if kind is Quantity:
        # Nearly always, and six times for a Pod: a sixth of its decoding was spent on the way to this line.
        if value.__class__ is str and len(value) <= MAX_SHARED:
            return shared_quantity(value)
        return Quantity.from_tree(value)
    if kind is MicroTime:
        return MicroTime.of(timestamps.parse_time(value))
    raise TypeError(f"no way to read a {kind.__name__} from JSON")


def _write_special(value: Any) -> Any:
    if isinstance(value, datetime):
        return timestamps.format_time(value)
    if isinstance(value, Quantity):
        return str(value)
    if isinstance(value, Unstructured):
        return value.tree
    raise TypeError(f"a {type(value).__name__} cannot be written as JSON")


_encoder: Final = msgspec.json.Encoder(enc_hook=_write_special)


def _convert(kind: type[T], tree: Any, first: Exception | None) -> T:
    try:
        # Through bytes: a tree has nothing that could become a Raw, which the managed fields are.
        return cast("T", _decoder(cast("Any", kind)).decode(encode_tree(tree)))
    except (msgspec.MsgspecError, RecursionError, ValueError, TypeError) as error:
        raise _unfit(kind, error) from (first or error)


def _without_nulls(tree: Any) -> Any:
    """The tree without null members; a null inside a list stays, and is an error if the class does not allow it."""
    if is_map(tree):
        return {name: _without_nulls(value) for name, value in tree.items() if value is not None}
    if is_list(tree):
        return [_without_nulls(value) for value in tree]
    return tree


def _unfit(kind: type, error: Exception) -> BadObject:
    """The error for `Expected int, got str - at $.spec.replicas`, with the path as a user writes it."""
    what, _, where = str(error).partition(" - at ")
    path = where.strip("`").removeprefix("key in ").strip("`").removeprefix("$").removeprefix(".")
    place = f" at {path}" if path else ""
    return BadObject(f"this is no {kind.__name__}: {what}{place}", field=path)


def _unreadable(error: Exception) -> BadObject:
    if isinstance(error, RecursionError):
        return BadObject("this JSON is nested too deeply to be read")
    _, _, digits = str(error).rpartition("(byte ")
    position = int(digits.rstrip(")")) if digits.rstrip(")").isdigit() else None
    return BadObject(f"this is no JSON: {error}", position=position)
