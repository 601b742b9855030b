"""Formats generated source as `ruff format` does: names, string literals, docstrings, calls, lists and attributes."""

import keyword
import re
import textwrap
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from levelset.objects import python_name, wire_name

__all__ = [
    "LONGEST_CLASS",
    "STEP",
    "WIDTH",
    "attribute",
    "bracketed",
    "class_name",
    "docstring",
    "export_order",
    "listed",
    "member_names",
    "quoted",
    "short_name",
    "split_parts",
]

WIDTH: Final = 120
STEP: Final = "    "


def bracketed(
    head: str, parts: Sequence[str], tail: str, indent: str = "", *, width: int = WIDTH, after: int = 0
) -> list[str]:
    """A call or subscript: on one line, else its parts on one indented line, else one line for each part.

    A part may have several lines (`columns=[...]`); then every part gets its own. `width` is the maximum line length,
    and `after` the number of characters that follow on the last line.
    """
    flat = f"{indent}{head}{', '.join(parts)}{tail}"
    if len(flat) <= width - after and "\n" not in flat:
        return [flat]
    deeper = indent + STEP
    inner = f"{deeper}{', '.join(parts)}"
    if len(inner) <= width and "\n" not in inner:
        return [f"{indent}{head}", inner, f"{indent}{tail}"]
    lines = [f"{deeper}{line}" for part in parts for line in f"{part},".split("\n")]
    return [f"{indent}{head}", *lines, f"{indent}{tail}"]


def listed(head: str, parts: Sequence[str], tail: str, indent: str = "", *, width: int = WIDTH) -> list[str]:
    """A list or an import: on one line, else a line for each part."""
    flat = f"{indent}{head}{', '.join(parts)}{tail}"
    if len(flat) <= width and "\n" not in flat:
        return [flat]
    bare = tail.removeprefix(" ")
    lines = [f"{indent}{STEP}{line}" for part in parts for line in f"{part},".split("\n")]
    return [f"{indent}{head.rstrip(' ')}", *lines, f"{indent}{bare}"]


def attribute(name: str, annotation: str, default: str | None, indent: str = STEP) -> list[str]:
    """`name: annotation = default`, wrapped if it does not fit on a line."""
    end = f" = {default}" if default is not None else ""
    flat = f"{indent}{name}: {annotation}{end}"
    if len(flat) <= WIDTH:
        return [flat]
    head, call, inner = (default or "").partition("(")
    start = f"{indent}{name}: {annotation} = "
    if call and head and len(start) < WIDTH < len(f"{start}{head}("):
        return [f"{start}(", f"{indent}{STEP}{default}", f"{indent})"]
    if call and inner != ")" and (len(f"{start}{head}(") <= WIDTH or not _splits(annotation)):
        return bracketed(f"{start.strip()} {head}(", inner.removesuffix(")").split(", "), ")", indent)
    is_one = default == "None" or (head and inner == ")")
    if is_one and len(start) < WIDTH:
        return [f"{start}(", f"{indent}{STEP}{default}", f"{indent})"]
    if default is not None and (annotation.startswith('"') or (is_one and not _splits(annotation))):
        return [flat]
    opening = annotation.find("[")
    if opening < 0 or not annotation.endswith("]") or " | " in _outside(annotation):
        return [f"{indent}{name}: (", f"{indent}{STEP}{annotation}", f"{indent}){end}"]
    parts = split_parts(annotation[opening + 1 : -1])
    return bracketed(f"{name}: {annotation[: opening + 1]}", parts, f"]{end}", indent)


def split_parts(text: str) -> list[str]:
    """Splits at commas outside of brackets and quotes."""
    parts = [""]
    depth, quote, before = 0, "", ""
    for one in text:
        if quote:
            quote = "" if one == quote and before != "\\" else quote
        elif one in "\"'":
            quote = one
        depth += (one in "[(") - (one in "])") if not quote else 0
        if one == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += one
        before = one
    return [part.strip() for part in parts]


def _splits(annotation: str) -> bool:
    """Whether a formatter can wrap inside the annotation."""
    return "[" in annotation or " | " in annotation


def _outside(annotation: str) -> str:
    """The annotation without the content of its brackets."""
    outer, depth = "", 0
    for one in annotation:
        depth += one == "["
        outer += one if not depth else ""
        depth -= one == "]"
    return outer


LONGEST_CLASS: Final = 64

# Attributes with these names would shadow the names that later lines of the class use.
_TAKEN: Final = frozenset(
    {"any", "bool", "bytes", "classmethod", "datetime", "dict", "field", "float", "int", "property", "str", "tuple"}
)


def member_names(wires: Iterable[str], taken: Collection[str] = ()) -> dict[str, tuple[str, bool]]:
    """For each wire name: the attribute name, and whether it needs an explicit wire name."""
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
    """The CamelCase name of these words; `Class` if no letters are left."""
    parts = [part for word in words for part in re.split(r"[^A-Za-z0-9]+", word) if part]
    name = "".join(part[:1].upper() + part[1:] for part in parts)
    if not name or name[0].isdigit():
        name = f"Class{name}"
    return f"{name}_" if keyword.iskeyword(name) else name


def short_name(words: tuple[str, ...], used: Collection[str]) -> str:
    """An unused class name: all words if that is short enough, else the first and as many of the last as fit.

    If all of those are taken, a number is appended.
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
    """The text as a Python string literal, with the quotes that ruff chooses."""
    inner = "".join(_escaped(one) for one in text)
    if text.count('"') > text.count("'"):
        return "'" + inner.replace("'", "\\'") + "'"
    return '"' + inner.replace('"', '\\"') + '"'


def _escaped(one: str) -> str:
    return one if one.isprintable() and one != "\\" else repr(one)[1:-1]


def docstring(text: str, indent: str, width: int) -> list[str]:
    """The lines of a docstring with wrapped paragraphs; quotes and backslashes are escaped."""
    plain = "".join(one for one in text if one.isprintable() or one in "\n\t").replace("\\", "\\\\")
    plain = plain.replace('"""', "'''")
    paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n", plain) if part.strip()]
    lines: list[str] = []
    for number, paragraph in enumerate(paragraphs):
        # The first line also holds the quotes.
        available = width - len(indent) - (6 if number == 0 else 0)
        lines += [*([""] if lines else []), *textwrap.wrap(paragraph, available, break_on_hyphens=False)]
    if not lines:
        return []
    if len(lines) == 1:
        last = f"{lines[0]} " if lines[0].endswith('"') else lines[0]
        return [f'{indent}"""{last}"""']
    return [f'{indent}"""{lines[0]}', *(f"{indent}{line}".rstrip() for line in lines[1:]), f'{indent}"""']


def export_order(name: str) -> tuple[int, list[tuple[int, int, str]]]:
    """The sort key of `__all__`: CONSTANTS, Classes, the rest; numbers compare as numbers."""
    group = 0 if len(name) > 1 and name.isupper() else 1 if name[:1].isupper() else 2
    parts = [part for part in re.split(r"(\d+)", name) if part]
    return group, [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts]
