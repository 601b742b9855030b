"""Field paths of server-side apply: how one step into an object is written, compared and shown.

An element is a string in the form that FieldsV1 uses on the wire: `f:spec` steps into a field,
`k:{"name":"web"}` into the item of a list that has this key, `v:"blue"` into the item of a set, `i:0` into an
index of a list. A path is a tuple of elements. Elements are canonical (compact JSON, keys sorted, numbers and escapes
as Kubernetes writes them), so that two of them are the same step if and only if the strings are equal.
"""

import math
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, TypeAlias, cast

import msgspec

from levelset.errors import BadPatch
from levelset.objects.json_tree import Tree
from levelset.objects.lazy_pattern import Pattern
from levelset.patch.merge_schema import Shape

__all__ = [
    "Path",
    "canonical",
    "field",
    "index",
    "is_granular",
    "is_named",
    "item",
    "key",
    "list_elements",
    "ordered",
    "path",
    "show",
    "value",
]

Path: TypeAlias = tuple[str, ...]

# What JSON must escape, what Kubernetes escapes in addition (HTML and line separators), and lone surrogates.
_ESCAPES: Final[dict[int, str]] = {
    **{code: f"\\u{code:04x}" for code in (*range(0x20), *b"<>&", 0x2028, 0x2029)},
    **dict.fromkeys(range(0xD800, 0xE000), "\\ufffd"),
    **dict(zip(b'\n\r\t"\\', ("\\n", "\\r", "\\t", '\\"', "\\\\"), strict=True)),
}
_ESCAPED: Final = Pattern('[\x00-\x1f<>&\u2028\u2029\ud800-\udfff"\\\\]')
"""Characters to escape. Most strings have none, and searching is five times as fast as translating."""
_INTEGER: Final = Pattern(r"[+-]?[0-9]{1,18}", re.ASCII)
_CACHED_LENGTH: Final = 200


def field(name: str) -> str:
    """The step into the member `name` of a map."""
    return f"f:{name}"


def key(fields: Mapping[str, Tree]) -> str:
    """The step into the item of a keyed list whose key fields have these values."""
    inner = ",".join([f"{_quoted(name)}:{_text(fields[name])}" for name in sorted(fields)])
    return f"k:{{{inner}}}"


def value(member: Tree) -> str:
    """The step into the item of a set that has this value."""
    return f"v:{_text(member)}"


def index(position: int) -> str:
    """The step into a list by position."""
    return f"i:{position}"


def path(*steps: str | int | Mapping[str, Tree]) -> Path:
    """A path from plain steps: a string is a field, a mapping a list item's key, a number an index.

    `path("spec", "containers", {"name": "web"}, "image")`; the item of a set is written `value("blue")` and appended.
    """
    spelled: list[str] = []
    for step in steps:
        if isinstance(step, str):
            spelled.append(field(step))
        else:
            spelled.append(index(step) if isinstance(step, int) else key(step))
    return tuple(spelled)


def is_granular(shape: Shape) -> bool:
    """Whether the items of a list of this shape are owned one by one."""
    return shape.list_type == "set" or (shape.list_type == "map" and bool(shape.keys))


def is_named(name: str, shape: Shape) -> bool:
    """Whether the schema declares this member of a map by name, rather than through additionalProperties.

    Shapes of built-in kinds omit fields without merge keywords, so a map with known fields and no `items` declares
    every field by name.
    """
    return name in shape.fields or (bool(shape.fields) and shape.items is None)


def item(entry: Tree, shape: Shape) -> str:
    """The step into this item of a granular list; raises BadPatch if the item has no key."""
    if shape.list_type == "set":
        if entry is None:
            raise BadPatch("null cannot be an item of a set: leave it out")
        return value(entry)
    if not isinstance(entry, dict):
        raise BadPatch(f"an item must be a map with the key {_names(shape)}, not {_kind(entry)}")
    if len(shape.keys) == 1:
        name = shape.keys[0]
        if name in entry or name in shape.defaults:
            found = entry[name] if name in entry else shape.defaults[name]
            return f"{_key_begin(name)}{_quoted(found) if isinstance(found, str) else _text(found)}}}"
    else:
        given = {name: entry[name] for name in shape.keys if name in entry}
        fields: dict[str, Tree] = {name: shape.defaults[name] for name in shape.keys if name in shape.defaults} | given
        if fields:
            return key(fields)
    raise BadPatch(f"an item lacks its key {_names(shape)}: give it one")


@lru_cache(maxsize=256)
def _key_begin(name: str) -> str:
    return f"k:{{{_quoted(name)}:"


def list_elements(items: list[Tree], shape: Shape) -> list[str] | None:
    """The steps into the items of a list, in order; None if the list is atomic.

    It is also treated as atomic if some item has no key: a stored list may be older than its schema.
    """
    if not is_granular(shape):
        return None
    try:
        return [item(entry, shape) for entry in items]
    except BadPatch:
        return None


def canonical(text: str) -> str | None:
    """The canonical form of an element from the wire; None for an unknown kind of element.

    Raises BadPatch for a string that is not an element.
    """
    if text[:2] == "f:":
        return text
    return _canonical_cached(text) if len(text) <= _CACHED_LENGTH else _canonical(text)


def ordered(elements: Iterable[str]) -> list[str]:
    """The elements of one node as Kubernetes sorts them: the node itself, fields, keys, values, indexes."""
    plain = sorted(elements)
    if len(plain) < 2 or plain[-1] < "g":  # only fields, which sort as strings
        return plain
    is_short = max(map(len, plain), default=0) <= _CACHED_LENGTH
    return sorted(plain, key=_sort_key if is_short else _sort_key.__wrapped__)


def show(steps: Path) -> str:
    """The path as Kubernetes prints it in conflicts: `.spec.containers[name="web"].image`."""
    return "".join([_shown(step) for step in steps])


def _canonical(text: str) -> str | None:
    kind, rest = text[:2], text[2:]
    match kind:
        case "f:":
            return text
        case "k:":
            fields = _decoded(rest)
            if not isinstance(fields, dict):
                raise BadPatch(f"the key in {_cut(text)} must be a JSON object")
            return key(fields)
        case "v:":
            return value(_decoded(rest))
        case "i:":
            if not _INTEGER.fullmatch(rest):
                raise BadPatch(f"the index in {_cut(text)} must be a whole number")
            return index(int(rest))
        case _ if kind[1:] == ":":
            return None
        case _:
            raise BadPatch(f"{_cut(text)} is not an element of a field path: it must begin with f:, k:, v: or i:")


_canonical_cached = lru_cache(maxsize=4096)(_canonical)


def _decoded(text: str) -> Tree:
    try:
        return cast("Tree", msgspec.json.decode(text))
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise BadPatch(f"{_cut(text)} is not JSON: {error}") from None


def _fields(text: str) -> dict[str, Tree]:
    fields = _decoded(text)
    return fields if isinstance(fields, dict) else {}


def _text(member: Tree) -> str:
    if isinstance(member, str):
        return _quoted(member)
    if member is None:
        return "null"
    if isinstance(member, bool):
        return "true" if member else "false"
    if isinstance(member, int):
        return str(member)
    if isinstance(member, float):
        return _number(member)
    if isinstance(member, list):
        return f"[{','.join([_text(one) for one in member])}]"
    if isinstance(member, dict):
        return key(member)[2:]
    raise BadPatch(f"{_kind(member)} is not a JSON value")


def _quoted(text: str) -> str:
    if not isinstance(text, str):  # YAML allows keys that are not strings
        raise BadPatch(f"the key {_cut(str(text))} of a map must be a string: quote it")
    return f'"{text}"' if _ESCAPED.search(text) is None else f'"{text.translate(_ESCAPES)}"'


def _number(number: float) -> str:
    if not math.isfinite(number):
        raise BadPatch(f"{number} is not a JSON number")
    if number.is_integer() and abs(number) < 1e21:
        return str(int(number))
    text = repr(number)
    return format(Decimal(text), "f") if "e" in text and 1e-6 <= abs(number) < 1e21 else text


@lru_cache(maxsize=4096)
def _sort_key(element: str) -> tuple[Any, ...]:
    kind, rest = element[:2], element[2:]
    match kind:
        case "f:":
            return (1, rest)
        case "k:":
            return (2, tuple((name, *_rank(member)) for name, member in _fields(rest).items()))
        case "v:":
            return (3, *_rank(_decoded(rest)))
        case "i:":
            return (4, int(rest))
        case _:
            return (0,)


def _rank(member: Tree) -> tuple[Any, ...]:
    if isinstance(member, bool):
        return (2, member)
    if isinstance(member, int | float):
        return (0, member)
    if isinstance(member, str):
        return (1, member)
    return (5 if member is None else 4 if isinstance(member, dict) else 3, _text(member))


def _shown(element: str) -> str:
    kind, rest = element[:2], element[2:]
    match kind:
        case "f:":
            return f".{rest}"
        case "k:":
            return f"[{','.join([f'{name}={_plain(member)}' for name, member in _fields(rest).items()])}]"
        case "v:":
            return f"[={_plain(_decoded(rest))}]"
        case _:
            return f"[{rest}]"


def _plain(member: Tree) -> str:
    return msgspec.json.encode(member).decode() if isinstance(member, str) else _text(member)


def _names(shape: Shape) -> str:
    return " and ".join(shape.keys)


def _kind(entry: object) -> str:
    return "null" if entry is None else f"a {type(entry).__name__}"


def _cut(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
