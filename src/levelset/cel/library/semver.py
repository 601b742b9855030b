"""The semver library: semantic versions."""

from functools import total_ordering

from levelset.cel.errors import EvaluationError
from levelset.cel.types import declare
from levelset.objects.lazy_pattern import Pattern

__all__ = ["OVERLOADS", "Semver", "parse_semver"]

_NUMBER = r"(0|[1-9][0-9]{0,19})"
_VERSION = Pattern(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
)
_MAX_LENGTH = 1000


@total_ordering
class Semver:
    """A semantic version; build metadata (after a plus) is ignored in comparisons."""

    __slots__ = ("build", "numbers", "pre")

    cel_type = "kubernetes.Semver"

    def __init__(self, numbers: tuple[int, int, int], pre: tuple[str, ...], build: str) -> None:
        self.numbers, self.pre, self.build = numbers, pre, build

    def _key(self) -> tuple[object, ...]:
        parts = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in self.pre)
        return (self.numbers, not self.pre, parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __lt__(self, other: "Semver") -> bool:
        return self._key() < other._key()

    def __str__(self) -> str:
        pre = f"-{'.'.join(self.pre)}" if self.pre else ""
        return f"{'.'.join(map(str, self.numbers))}{pre}{f'+{self.build}' if self.build else ''}"


def parse_semver(text: str, normalize: bool = False) -> Semver:
    """Parses a version; `normalize` also accepts forms such as v1.2. Raises EvaluationError."""
    match = _VERSION.fullmatch(_normal(text) if normalize else text) if len(text) <= _MAX_LENGTH else None
    pre = tuple((match[4] or "").split(".")) if match and match[4] else ()
    if match is None or any(len(part) > 1 and part.isdigit() and part[0] == "0" for part in pre):
        raise EvaluationError(f"semver parse error during conversion from string: {text[:80]!r}")
    return Semver((int(match[1]), int(match[2]), int(match[3])), pre, match[5] or "")


def _normal(text: str) -> str:
    body = text.removeprefix("v")
    end = next((at for at, sign in enumerate(body) if sign in "+-"), len(body))
    numbers = [number.lstrip("0") or "0" if number.isdigit() else number for number in body[:end].split(".")]
    if len(numbers) < 3 and end < len(body):
        return text
    return ".".join([*numbers, *["0"] * (3 - len(numbers))]) + body[end:]


def _is_semver(text: str, normalize: bool = False) -> bool:
    try:
        parse_semver(text, normalize)
    except EvaluationError:
        return False
    return True


def _compare(one: Semver, two: Semver) -> int:
    return (one > two) - (one < two)


OVERLOADS = [
    *declare(
        [
            ("semver: (string) Semver", parse_semver),
            ("semver: (string, bool) Semver", parse_semver),
            ("isSemver: (string) bool", _is_semver),
            ("isSemver: (string, bool) bool", _is_semver),
        ],
        charge="traverse",
    ),
    *declare(
        [
            ("major: Semver.() int", lambda version: version.numbers[0]),
            ("minor: Semver.() int", lambda version: version.numbers[1]),
            ("patch: Semver.() int", lambda version: version.numbers[2]),
            ("isGreaterThan: Semver.(Semver) bool", lambda one, two: one > two),
            ("isLessThan: Semver.(Semver) bool", lambda one, two: one < two),
            ("compareTo: Semver.(Semver) int", _compare),
        ]
    ),
]
