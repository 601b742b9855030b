"""Compares two ends: which places have too much or too little, and which fields differ."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import msgspec

from levelset.exploring.normalising import Normal
from levelset.objects.trees import is_list, is_map

__all__ = ["Difference", "Mask", "differences", "learn_mask"]

_NOTHING: Final = "nothing"
_LONGEST: Final = 200

_read: Final = msgspec.json.Decoder()
_write: Final = msgspec.json.Encoder(order="sorted")

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """One place, or one field of an object there, that is not as expected."""

    what: Literal["extra", "field", "missing"]
    place: str
    path: Path = ()
    expected: str = ""
    actual: str = ""

    @property
    def words(self) -> str:
        """The field as people write it: `spec.replicas`."""
        return ".".join(self.path)


@dataclass(frozen=True)
class Mask:
    """Fields that differ between two undisturbed runs with different seeds: chance makes them, nobody is to blame."""

    fields: frozenset[tuple[str, Path]] = field(default_factory=frozenset[tuple[str, Path]])
    """By place and path, or by kind and path."""

    def hides(self, one: Difference) -> bool:
        """Whether a difference means nothing."""
        kind = one.place.split("/", 1)[0]
        paths = [one.path[:length] for length in range(1, len(one.path) + 1)]
        return any((where, path) in self.fields for where in (one.place, kind) for path in paths)


def differences(actual: Normal, expected: Normal, mask: Mask = Mask()) -> list[Difference]:  # noqa: B008
    """How an end differs from another one, in the order of the places."""
    if actual == expected:
        return []
    found: list[Difference] = []
    for place in sorted(actual.keys() | expected.keys()):
        ours, theirs = actual.get(place, ()), expected.get(place, ())
        if ours != theirs:
            found += _compare(place, ours, theirs, mask)
    return found


def learn_mask(one: Normal, other: Normal, ignored: Sequence[str] = ()) -> Mask:
    """What differs between two undisturbed runs, and fields that somebody ignores: `Website.status.attempts`."""
    by_chance = {(diff.place, diff.path) for diff in differences(one, other) if diff.what == "field"}
    by_wish = {(kind, tuple(path.split("."))) for kind, dot, path in (text.partition(".") for text in ignored) if dot}
    return Mask(frozenset(by_chance | by_wish))


def _compare(place: str, ours: Sequence[str], theirs: Sequence[str], mask: Mask) -> Iterator[Difference]:
    if len(ours) > len(theirs):
        yield Difference("extra", place, expected=str(len(theirs)), actual=str(len(ours)))
        return
    if len(ours) < len(theirs):
        yield Difference("missing", place, expected=str(len(theirs)), actual=str(len(ours)))
        return
    # Objects whose names the server made up have no order of their own: those that are the same are set aside.
    left, wanted = list(ours), list(theirs)
    for text in ours:
        if text in wanted:
            wanted.remove(text)
            left.remove(text)
    for text, want in zip(left, wanted, strict=True):
        for one in _fields(place, _read.decode(text), _read.decode(want), ()):
            if not mask.hides(one):
                yield one


def _fields(place: str, actual: Any, expected: Any, path: Path) -> Iterator[Difference]:
    if actual == expected:
        return
    if is_map(actual) and is_map(expected):
        for name in sorted(actual.keys() | expected.keys()):
            yield from _fields(place, actual.get(name), expected.get(name), (*path, name))
        return
    if is_list(actual) and is_list(expected) and len(actual) == len(expected):
        for index, (one, other) in enumerate(zip(actual, expected, strict=True)):
            yield from _fields(place, one, other, (*path, str(index)))
        return
    yield Difference("field", place, path, expected=_said(expected), actual=_said(actual))


def _said(value: Any) -> str:
    text = _NOTHING if value is None else _write.encode(value).decode()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
