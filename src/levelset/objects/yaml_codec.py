"""The YAML codec: reads documents into JSON trees as Kubernetes does, and writes trees as YAML.

Differences from PyYAML's loader: times and `1:30` stay strings, `1e3` is a number, keys become strings, a duplicate key
is an error, and so are aliases that expand a small text into a huge tree.
"""

import math
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import yaml

from levelset.errors import BadObject
from levelset.objects.json_tree import is_list, is_map

__all__ = ["read_yaml", "write_yaml"]

_MAX_NODES: Final = 1_000_000
_MAX_DEPTH: Final = 200
_MAX_REPEATED: Final = 100_000
"""How many nodes all aliases together may expand to: a few words could name millions, which take seconds to build."""

_TAG: Final = "tag:yaml.org,2002:"


def read_yaml(text: str | bytes, *, max_nodes: int = _MAX_NODES, repeated: list[str] | None = None) -> list[Any]:
    """The documents in a YAML (or JSON) text as trees; BadObject has the line and column of an error.

    A text with more than `max_nodes` values is rejected as soon as that is known: a million take some seconds. A key
    that is given twice is an error; with `repeated`, its last value counts, and a message is added there.
    """
    # Without this character there is no alias, and no need to measure.
    has_aliases = "*" in text if isinstance(text, str) else b"*" in text
    try:
        nodes = (node for node in _documents(text, max_nodes) if node is not None)
        return [_built(node, repeated, measure=has_aliases) for node in nodes]
    except yaml.MarkedYAMLError as error:
        raise _refusal(error.problem or "cannot be read", error.problem_mark or error.context_mark) from error
    except (yaml.YAMLError, UnicodeError, RecursionError) as error:
        raise BadObject(f"this is no YAML: {error}".splitlines()[0]) from error


def write_yaml(documents: Iterable[Any]) -> str:
    """One YAML text with all documents; keys keep their order."""
    dumper = _dumper()
    return "---\n".join(
        yaml.dump(one, Dumper=dumper, sort_keys=False, allow_unicode=True, default_flow_style=False)
        for one in documents
    )


_SPECIAL: Final = r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
_FLOAT: Final = r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*|[0-9][0-9_]*(?=[eE]))(?:[eE][-+]?[0-9]+)?"
_WORDS: Final = (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"y|Y|n|N|yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF", list("yYnNtTfFoO")),
    ("int", r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0o?[0-7_]+|0|[1-9][0-9_]*)", list("-+0123456789")),
    ("float", f"{_FLOAT}|{_SPECIAL}", list("-+.0123456789")),
    ("merge", r"<<", ["<"]),
)


def _loader() -> Any:
    """A loader that resolves numbers, booleans and nulls by our table: in C, or in Python without libyaml."""
    base: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    hooks = {"descend_resolver": _descend, "ascend_resolver": _ascend}
    loader: Any = type("Loader", (base,), {"yaml_implicit_resolvers": {}, "depth": 0, **hooks})
    for name, pattern, first in _WORDS:
        loader.add_implicit_resolver(_TAG + name, re.compile(f"(?:{pattern})$"), first)
    return loader


def _descend(loader: Any, parent: Any, _: Any) -> None:
    """Called for every node before it is read: libyaml's binding recurses in C, without a depth limit of its own."""
    loader.depth += 1
    loader.left -= 1
    if loader.depth > _MAX_DEPTH + 1:
        raise _refusal("is nested too deeply", parent.start_mark)
    if loader.left < 0:
        raise _refusal("becomes a tree that is too large", parent.start_mark)


def _ascend(loader: Any) -> None:
    loader.depth -= 1


_Loader: Final = _loader()


def _documents(text: str | bytes, max_nodes: int) -> Iterator[Any]:
    loader: Any = _Loader(text)
    loader.left = max_nodes
    try:
        while loader.check_node():
            yield loader.get_node()
    finally:
        dispose = getattr(loader, "dispose", None)
        if dispose is not None:
            dispose()


def _built(node: Any, repeated: list[str] | None, *, measure: bool) -> Any:
    if measure:
        _Measure().size(node)
    return _Builder(repeated).build(node, 0)


class _Measure:
    """Computes the size of a tree before it is built; a node with many aliases is visited once."""

    def __init__(self) -> None:
        self._sizes: dict[int, int] = {}
        self._repeated = 0

    def size(self, node: Any) -> int:
        known = self._sizes.get(id(node))
        if known is None:
            if isinstance(node, yaml.ScalarNode):
                # A long string counts for more: it is one in memory, but written once for each alias.
                self._sizes[id(node)] = made = 1 + len(node.value) // 100
                return made
            self._sizes[id(node)] = _MAX_NODES  # for a node that contains itself
            pairs = isinstance(node, yaml.MappingNode)
            children = (part for pair in node.value for part in pair) if pairs else iter(node.value)
            self._sizes[id(node)] = made = 1 + sum(map(self.size, children))
            return made
        self._repeated += known
        if self._repeated > _MAX_REPEATED:
            raise _refusal("unfolds into a tree that is too large", node.start_mark)
        return known


class _Builder:
    """Builds a tree from nodes and counts them; an alias counts each time it is used."""

    def __init__(self, repeated: list[str] | None) -> None:
        self._count = 0
        self._repeated = repeated

    def build(self, node: Any, depth: int) -> Any:
        self._count += 1
        if self._count > _MAX_NODES or depth > _MAX_DEPTH:
            raise _refusal("unfolds into a tree that is too large", node.start_mark)
        if isinstance(node, yaml.MappingNode):
            return self._members(node, depth)
        if isinstance(node, yaml.SequenceNode):
            _expect(node, "seq")
            return [self.build(item, depth + 1) for item in node.value]
        return _scalar(node)

    def _members(self, node: Any, depth: int) -> dict[str, Any]:
        _expect(node, "map")
        made: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == f"{_TAG}merge":
                merged = {**self._merged(value_node, depth), **merged}
                continue
            key = _key(key_node)
            if key in made and self._repeated is None:
                raise _refusal(f"the key {key!r} is given twice", key_node.start_mark)
            if key in made and self._repeated is not None:  # in the words of the parser of Kubernetes
                self._repeated.append(f'line {key_node.start_mark.line + 1}: key "{key}" already set in map')
            made[key] = self.build(value_node, depth + 1)
        return {**merged, **made} if merged else made

    def _merged(self, node: Any, depth: int) -> dict[str, Any]:
        tree = self.build(node, depth + 1)
        parts = tree if is_list(tree) else [tree]
        made: dict[str, Any] = {}
        for part in reversed(parts):
            if not is_map(part):
                raise _refusal("<< merges maps only", node.start_mark)
            made.update(part)
        return made


def _key(node: Any) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise _refusal("a key must be a plain value", node.start_mark)
    value = _scalar(node)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)


def _expect(node: Any, tag: str) -> None:
    if node.tag not in (_TAG + tag, None):
        raise _refusal(f"the tag {node.tag} is not known here", node.start_mark)


def _scalar(node: Any) -> Any:
    text: str = node.value
    match node.tag.removeprefix(_TAG):
        case "str":
            return text
        case "null":
            return None
        case "bool":
            return text.lower() in ("y", "yes", "true", "on")
        case "int" | "float":
            return _number(text, node)
        case _:
            raise _refusal(f"the tag {node.tag} is not known here", node.start_mark)


def _number(text: str, node: Any) -> int | float:
    plain = text.replace("_", "").lower()
    try:
        if node.tag == f"{_TAG}int":
            return _integer(plain)
        number = float(plain.replace(".inf", "inf").replace(".nan", "nan"))
    except ValueError as error:
        raise _refusal(f"{text[:40]!r} is no number", node.start_mark) from error
    if not math.isfinite(number):
        raise _refusal(f"{text[:40]!r} has no place in JSON", node.start_mark)
    # As in Go, which writes a whole number without a point.
    return int(number) if number.is_integer() and abs(number) < 1e21 else number


def _integer(text: str) -> int:
    digits = text.lstrip("+-")
    if len(digits) > 1 and digits[0] == "0" and digits[1].isdigit():
        return int(text.replace(digits, f"0o{digits[1:]}"), 8)
    return int(text, 0)


def _refusal(problem: str, mark: Any) -> BadObject:
    if mark is None:
        return BadObject(f"this is no YAML: {problem}")
    return BadObject(f"line {mark.line + 1}, column {mark.column + 1}: {problem}", position=mark.index)


def _dumper() -> Any:
    """A dumper that quotes strings which our loader, or another one, would not read back as strings."""
    base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    dumper: Any = type("Dumper", (base,), {"ignore_aliases": _ignore_aliases})
    dumper.add_representer(str, _write_text)
    return dumper


def _ignore_aliases(*_: object) -> bool:
    """Always True: repeated values are written in full."""
    return True


def _write_text(dumper: Any, text: str) -> Any:
    if "\n" in text and not re.search(r"[ \t]\n|[^\t\n\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd]", text):
        return dumper.represent_scalar(f"{_TAG}str", text, style="|")
    odd = any(re.fullmatch(pattern, text) for _, pattern, _ in _WORDS)
    return dumper.represent_scalar(f"{_TAG}str", text, style="'" if odd else None)
