"""What Unicode says of characters: categories, scripts, and which differ in case only; read when somebody asks.

The data is Go's (`scripts/generate_unicode.go` writes it), not Python's: every version of Python has another Unicode,
none has scripts, and looking at every character there is takes longer than reading fifty kilobytes.
"""

import functools
from collections.abc import Mapping
from pathlib import Path

import msgspec

__all__ = ["Data", "Ranges", "canonical", "cased", "families", "preload", "ranges_of"]

Ranges = list[tuple[int, int]]

_FILE = Path(__file__).parent / "data" / "unicode.json"


class Data(msgspec.Struct):
    """The file as it is: sets are texts such as "41-5a aa", and families of characters such as "4b,6b,212a"."""

    version: str
    categories: dict[str, str]
    scripts: dict[str, str]
    aliases: dict[str, str]
    folds: str


def canonical(name: str) -> str:
    """The form of a name that is looked up: case, blanks, hyphens and underscores make no difference."""
    return "".join(part for part in name if part not in "_- ").capitalize()


def ranges_of(name: str) -> Ranges | None:
    """The characters of a category (Lu, L, Letter) or script (Greek); None if there is none of that name."""
    wanted = canonical(name)
    texts = _sets().get(wanted) or _sets().get(_aliases().get(wanted, ""))
    return None if texts is None else [span for text in texts for span in _spans(text)]


@functools.cache
def families() -> Mapping[int, tuple[int, ...]]:
    """Every character that has several cases, with all characters that differ from it in case only."""
    found: dict[int, tuple[int, ...]] = {}
    for family in _data().folds.split():
        members = tuple(int(one, 16) for one in family.split(","))
        found.update(dict.fromkeys(members, members))
    return found


@functools.cache
def cased() -> list[int]:
    """The characters that have several cases, in their order."""
    return sorted(families())


def preload() -> None:
    """Reads the file, so that nobody has to touch the disk later; it is still decoded when somebody asks."""
    _bytes()


@functools.cache
def _bytes() -> bytes:
    return _FILE.read_bytes()


@functools.cache
def _data() -> Data:
    return msgspec.json.decode(_bytes(), type=Data)


@functools.cache
def _sets() -> Mapping[str, tuple[str, ...]]:
    """The texts of all sets by their canonical names; a category of one letter is made of those of two."""
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
