"""Lays generated code out as `ruff format` would, so that formatting it changes nothing.

Only what generated modules hold is known: classes, attributes with annotations, calls, lists, imports.
"""

from collections.abc import Sequence
from typing import Final

__all__ = ["STEP", "WIDTH", "attribute", "bracketed", "listed", "split_parts"]

WIDTH: Final = 120
STEP: Final = "    "


def bracketed(
    head: str, parts: Sequence[str], tail: str, indent: str = "", *, room: int = WIDTH, after: int = 0
) -> list[str]:
    """A call or a subscript: on one line, else its parts on one line of their own, else a line for each.

    A part may be a `columns=[...]` that takes several lines; then every part has its own. `room` is how long a line
    may be, and `after` how much of it somebody else needs behind the last character.
    """
    flat = f"{indent}{head}{', '.join(parts)}{tail}"
    if len(flat) <= room - after and "\n" not in flat:
        return [flat]
    deeper = indent + STEP
    inner = f"{deeper}{', '.join(parts)}"
    if len(inner) <= room and "\n" not in inner:
        return [f"{indent}{head}", inner, f"{indent}{tail}"]
    lines = [f"{deeper}{line}" for part in parts for line in f"{part},".split("\n")]
    return [f"{indent}{head}", *lines, f"{indent}{tail}"]


def listed(head: str, parts: Sequence[str], tail: str, indent: str = "", *, room: int = WIDTH) -> list[str]:
    """A list or an import: on one line, else a line for each part."""
    flat = f"{indent}{head}{', '.join(parts)}{tail}"
    if len(flat) <= room and "\n" not in flat:
        return [flat]
    bare = tail.removeprefix(" ")
    lines = [f"{indent}{STEP}{line}" for part in parts for line in f"{part},".split("\n")]
    return [f"{indent}{head.rstrip(' ')}", *lines, f"{indent}{bare}"]


def attribute(name: str, annotation: str, default: str | None, indent: str = STEP) -> list[str]:
    """`name: annotation = default`, over several lines where one is too short."""
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
    """The parts between the commas that are in no brackets and no quotes."""
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
    """Whether a formatter finds a place inside the annotation to go on in the next line."""
    return "[" in annotation or " | " in annotation


def _outside(annotation: str) -> str:
    """The annotation without what is in its brackets."""
    kept, depth = "", 0
    for one in annotation:
        depth += one == "["
        kept += one if not depth else ""
        depth -= one == "]"
    return kept
