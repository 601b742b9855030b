"""Words for generated code: names of classes and attributes that Python takes, texts in quotes, docstrings."""

import keyword
import re
import textwrap
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from levelset.objects import python_name, wire_name

__all__ = ["LONGEST_CLASS", "class_name", "docstring", "export_order", "member_names", "quoted", "short_name"]

LONGEST_CLASS: Final = 64

# Attributes of these names would stand before what later lines of the same class mean by them.
_TAKEN: Final = frozenset(
    {"any", "bool", "bytes", "classmethod", "datetime", "dict", "field", "float", "int", "property", "str", "tuple"}
)


def member_names(wires: Iterable[str], taken: Collection[str] = ()) -> dict[str, tuple[str, bool]]:
    """For each name on the wire: the attribute, and whether it must be told its wire name."""
    used = set(taken) | _TAKEN
    found: dict[str, tuple[str, bool]] = {}
    for wire in wires:
        name = next(one for one in _variants(python_name(wire)) if one not in used)
        used.add(name)
        found[wire] = name, wire_name(name) != wire
    return found


def _variants(name: str) -> Iterator[str]:
    yield name
    bare = f"{name.rstrip('_')}_"
    yield bare
    yield from _numbered(bare)


def class_name(words: Iterable[str]) -> str:
    """The name in CamelCase that these words amount to; `Class` where nothing is left of them."""
    parts = [part for word in words for part in re.split(r"[^A-Za-z0-9]+", word) if part]
    name = "".join(part[:1].upper() + part[1:] for part in parts)
    if not name or name[0].isdigit():
        name = f"Class{name}"
    return f"{name}_" if keyword.iskeyword(name) else name


def short_name(words: tuple[str, ...], used: Collection[str]) -> str:
    """A class name that is free: all words if that is not too long, else the first and as many of the last as fit.

    Where all of those are taken, it ends in a number.
    """
    first, rest = words[:1], words[1:]
    names = [class_name((*first, *rest[-count:])) for count in range(1, len(rest) + 1)] or [class_name(words)]
    fitting = [name for name in names if len(name) <= LONGEST_CLASS] or [names[0][:LONGEST_CLASS]]
    free = [name for name in fitting if name not in used]
    return free[-1] if free else next(name for name in _numbered(fitting[-1]) if name not in used)


def _numbered(name: str) -> Iterator[str]:
    number = 2
    while True:
        yield f"{name}{number}"
        number += 1


def quoted(text: str) -> str:
    """The text as Python source, in the quotes that a formatter would choose."""
    inner = "".join(_escaped(one) for one in text)
    if text.count('"') > text.count("'"):
        return "'" + inner.replace("'", "\\'") + "'"
    return '"' + inner.replace('"', '\\"') + '"'


def _escaped(one: str) -> str:
    return one if one.isprintable() and one != "\\" else repr(one)[1:-1]


def docstring(text: str, indent: str, width: int) -> list[str]:
    """The lines of a docstring: a text's paragraphs, wrapped. Nothing in it can end the docstring or escape it."""
    plain = "".join(one for one in text if one.isprintable() or one in "\n\t").replace("\\", "\\\\")
    plain = plain.replace('"""', "'''")
    paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n", plain) if part.strip()]
    lines: list[str] = []
    for number, paragraph in enumerate(paragraphs):
        # The first line has the quotes before it, and perhaps behind.
        room = width - len(indent) - (6 if number == 0 else 0)
        lines += [*([""] if lines else []), *textwrap.wrap(paragraph, room, break_on_hyphens=False)]
    if not lines:
        return []
    if len(lines) == 1:
        last = f"{lines[0]} " if lines[0].endswith('"') else lines[0]
        return [f'{indent}"""{last}"""']
    return [f'{indent}"""{lines[0]}', *(f"{indent}{line}".rstrip() for line in lines[1:]), f'{indent}"""']


def export_order(name: str) -> tuple[int, list[tuple[int, int, str]]]:
    """The key by which `__all__` is sorted: CONSTANTS, Classes, the rest, numbers counted as numbers."""
    group = 0 if len(name) > 1 and name.isupper() else 1 if name[:1].isupper() else 2
    parts = [part for part in re.split(r"(\d+)", name) if part]
    return group, [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts]
