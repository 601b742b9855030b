"""Reads our own Markdown: fenced blocks, headings and links."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.project.files import relative, tracked

__all__ = ["Block", "Link", "anchors", "blocks", "links", "pages"]

FENCE = re.compile(r"^(?P<fence>`{3,})(?P<info>.*)$")
# The text may hold one pair of brackets, as an image inside of a link does.
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\((?P<target>[^()\s]+)\)")


@dataclass(frozen=True)
class Block:
    """One fenced block; `info` is what stands behind the opening fence, `line` the number of the first line inside."""

    path: Path
    line: int
    info: str
    text: str

    @property
    def where(self) -> str:
        """The position as `file:line`."""
        return f"{relative(self.path)}:{self.line}"


@dataclass(frozen=True)
class Link:
    """One link, with the line it stands in."""

    path: Path
    line: int
    target: str


def pages() -> list[Path]:
    """Every Markdown file of the project."""
    return [path for path in tracked() if path.suffix == ".md"]


def blocks(path: Path) -> list[Block]:
    """The fenced blocks of a page in their order."""
    found: list[Block] = []
    inside: list[str] = []
    opened: tuple[str, str, int] | None = None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = FENCE.match(line)
        if opened is None:
            if match:
                opened, inside = (match["fence"], match["info"].strip(), number + 1), []
        elif match and match["fence"] == opened[0] and not match["info"]:
            found.append(Block(path, opened[2], opened[1], "".join(f"{line}\n" for line in inside)))
            opened = None
        else:
            inside.append(line)
    assert opened is None, f"{relative(path)}: a fence is never closed"
    return found


def links(path: Path) -> Iterator[Link]:
    """The links of a page, those in code left out."""
    for number, line in _prose(path):
        for match in LINK.finditer(re.sub(r"`[^`]*`", "", line)):
            yield Link(path, number, match["target"])


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    found: set[str] = set()
    for _, line in _prose(path):
        if match := re.match(r"#{1,6} +(.*?) *#*$", line):
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match[1]).replace("`", "").replace("*", "")
            slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            taken = sum(1 for name in found if re.fullmatch(rf"{re.escape(slug)}(-\d+)?", name))
            found.add(f"{slug}-{taken}" if slug in found else slug)
    return found


def _prose(path: Path) -> Iterator[tuple[int, str]]:
    fenced = {block.line + offset for block in blocks(path) for offset in range(-1, block.text.count("\n") + 1)}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if number not in fenced:
            yield number, line
