"""Unicode categories, scripts and case folding of characters, read from a data file on first use.

The data is Go's (`scripts/generate_unicode.go` writes it), not Python's: every version of Python has another Unicode,
none has scripts, and iterating over all characters takes longer than reading fifty kilobytes.
"""

import functools
from collections.abc import Mapping
from pathlib import Path

import msgspec

__all__ = ["Data", "Ranges", "canonical", "cased", "families", "preload", "ranges_of"]

Ranges = list[tuple[int, int]]

_FILE = Path(__file__).parent / "data" / "unicode.json"


class Data(msgspec.Struct):
    """The content of the file: sets are strings such as "41-5a aa", case families strings such as "4b,6b,212a"."""

    version: str
    categories: dict[str, str]
    scripts: dict[str, str]
    aliases: dict[str, str]
    folds: str


def canonical(name: str) -> str:
    """The canonical form of a name for lookups: case, blanks, hyphens and underscores are ignored."""
    return "".join(part for part in name if part not in "_- ").capitalize()


def ranges_of(name: str) -> Ranges | None:
    """The characters of a category (Lu, L, Letter) or script (Greek); None if the name is unknown."""
    wanted = canonical(name)
    texts = _sets().get(wanted) or _sets().get(_aliases().get(wanted, ""))
    return None if texts is None else [span for text in texts for span in _spans(text)]


@functools.cache
def families() -> Mapping[int, tuple[int, ...]]:
    """Every character with case variants, mapped to all characters that differ from it only in case."""
    found: dict[int, tuple[int, ...]] = {}
    for family in _data().folds.split():
        members = tuple(int(one, 16) for one in family.split(","))
        found.update(dict.fromkeys(members, members))
    return found


@functools.cache
def cased() -> list[int]:
    """The characters with case variants, sorted."""
    return sorted(families())


def preload() -> None:
    """Reads the file, so that no request reads the disk; it is still decoded on first use."""
    _bytes()


@functools.cache
def _bytes() -> bytes:
    return _FILE.read_bytes()


@functools.cache
def _data() -> Data:
    return msgspec.json.decode(_bytes(), type=Data)


@functools.cache
def _sets() -> Mapping[str, tuple[str, ...]]:
    """The strings of all sets by canonical name; a one-letter category is the union of its two-letter ones."""
    data = _data()
    found: dict[str, tuple[str, ...]] = {canonical(name): (text,) for name, text in data.scripts.items()}
    for name, text in data.categories.items():
        found[name] = (text,)
        found[name[0]] = (*found.get(name[0], ()), text)
    found["Lc"] = tuple(data.categories[name] for name in ("Lu", "Ll", "Lt"))
    return found


@functools.cache
def _aliases() -> Mapping[str, str]:
    return {canonical(alias): canonical(name) for alias, name in _data().aliases.items()}


def _spans(text: str) -> Ranges:
    pairs = (span.partition("-") for span in text.split())
    return [(int(first, 16), int(last or first, 16)) for first, _, last in pairs]
