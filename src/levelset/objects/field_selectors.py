r"""Field selectors: select objects by a few of their fields.

The text is `metadata.name=web,status.phase!=Running`. In a value each `,`, `=` and `\` is escaped with a backslash.
Which fields can be used for selection is up to the API server; a missing field compares as the empty string.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec
from msgspec.structs import force_setattr

from levelset.errors import BadSelector
from levelset.objects.lazy_pattern import Pattern
from levelset.objects.names import quote, shorten

__all__ = ["FieldRequirement", "FieldSelector", "FieldTerm", "escape_field_value", "parse_field_terms"]


class FieldRequirement(msgspec.Struct, frozen=True, order=True):
    """One condition on one field: it equals the value, or, `negated`, it does not.

    Raises BadSelector for an empty field and for one with `,` `=` `!` or a backslash, which the syntax cannot express.
    """

    field: str
    value: str
    negated: bool = False

    def __post_init__(self) -> None:
        if not self.field:
            raise BadSelector(f"field selector: expected the path of a field before {self}", field="")
        if _reserved.search(self.field):
            raise BadSelector(rf"{quote(self.field)} is no field: it may have none of , = ! \ in it", field=self.field)

    def __str__(self) -> str:
        return f"{self.field}{'!=' if self.negated else '='}{escape_field_value(self.value)}"


class FieldTerm(NamedTuple):
    """A term of a field selector, as it is written: its field may be any text, also an empty one."""

    field: str
    value: str
    negated: bool
    text: str


class FieldSelector(msgspec.Struct, frozen=True, eq=False):
    """The objects whose fields meet all requirements; without any, all objects.

    Requirements are stored sorted and without duplicates, so their order makes no difference.
    """

    requirements: tuple[FieldRequirement, ...] = ()
    # Set from the requirements, whatever is given; two selectors are equal if their requirements are.
    fields: frozenset[str] = frozenset()
    """The fields that the requirements use."""
    _tests: tuple[tuple[str, frozenset[str], frozenset[str]], ...] = ()

    def __post_init__(self) -> None:
        requirements = tuple(sorted(set(self.requirements)))
        fields = frozenset([one.field for one in requirements])
        force_setattr(self, "requirements", requirements)
        force_setattr(self, "fields", fields)
        force_setattr(self, "_tests", tuple(_merge(requirements)))

    def __eq__(self, other: object) -> bool:
        return self.requirements == other.requirements if isinstance(other, FieldSelector) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.requirements)

    def __repr__(self) -> str:
        return f"FieldSelector(requirements={self.requirements!r})"

    @classmethod
    def parse(cls, text: str) -> "FieldSelector":
        """Parses a text such as `metadata.name=a`; raises BadSelector with the position."""
        if not isinstance(text, str):
            raise BadSelector(f"a field selector must be a text, not {quote(text)}")
        return cls(tuple(_requirement(text, term) for term in parse_field_terms(text)))

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> "FieldSelector":
        """The objects whose fields all have these values: `FieldSelector.of({"metadata.name": "web"})`."""
        return cls(tuple(FieldRequirement(field, value) for field, value in fields.items()))

    @classmethod
    def everything(cls) -> "FieldSelector":
        """The selector that matches every object."""
        return cls()

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))

    def __and__(self, other: "FieldSelector") -> "FieldSelector":
        return FieldSelector(self.requirements + other.requirements)

    @property
    def is_everything(self) -> bool:
        """Whether it has no requirement."""
        return not self.requirements

    def matches(self, lookup: "Mapping[str, str] | Callable[[str], str | None]") -> bool:
        """Whether an object matches, given its fields by path, or a function that returns them; None is missing."""
        find = lookup if callable(lookup) else lookup.get
        for path, equal, unequal in self._tests:
            value = find(path) or ""
            if value in unequal or (equal and (len(equal) > 1 or value not in equal)):
                return False
        return True

    def requires_exact(self, field: str) -> str | None:
        """The one value that this field must have, or None if several are possible."""
        return next((one.value for one in self.requirements if one.field == field and not one.negated), None)


def _merge(requirements: Iterable[FieldRequirement]) -> Iterator[tuple[str, frozenset[str], frozenset[str]]]:
    """Each field with the values that it must have and must not have: one test, whatever the number of requirements."""
    found: dict[str, tuple[set[str], set[str]]] = {}
    for one in requirements:
        found.setdefault(one.field, (set(), set()))[one.negated].add(one.value)
    for path, (equal, unequal) in found.items():
        yield path, frozenset(equal), frozenset(unequal)


def escape_field_value(text: str) -> str:
    r"""The text escaped as the value of a field selector: a backslash before each `,`, `=` and backslash."""
    return _special.sub(r"\\\g<0>", text)


_reserved = Pattern(r"[,=!\\]")
_special = Pattern(r"[,=\\]")
_comma = Pattern(r"\\.|(,)", re.DOTALL)
_operator = Pattern(r"!=|==|=")
_escaped_value = Pattern(r"(?:[^,=\\]|\\[,=\\])*")
_escape = Pattern(r"\\(.)", re.DOTALL)


def _split(text: str) -> Iterator[tuple[int, int]]:
    """The start and end of each term; terms are separated by unescaped commas."""
    start = 0
    for found in _comma.finditer(text):
        if found.group(1):
            yield start, found.start()
            start = found.end()
    yield start, len(text)


def parse_field_terms(text: str) -> list[FieldTerm]:
    """The terms of a field selector in the order in which kube-apiserver checks them: sorted by their texts.

    Raises BadSelector, with the position and with the words of kube-apiserver. Which fields there are is not checked.
    """
    terms = text.split(",") if "\\" not in text else [text[start:end] for start, end in _split(text)]
    terms.sort()
    return [_parse_term(text, term) for term in terms if term]


def _parse_term(text: str, term: str) -> FieldTerm:
    operator = _operator.search(term)
    if operator is None:
        words = f"invalid selector: '{shorten(text)}'; can't understand '{shorten(term)}'"
        raise _bad(text, _position(text, term) + len(term), f"expected = or != after {quote(term)}", words)
    value = term[operator.end() :]
    if "\\" in value or "=" in value:
        end = _escaped_value.match(value)
        at = 0 if end is None else end.end()
        if at < len(value):
            problem = r"expected a value in which \ stands before every , = and \ and before nothing else"
            raise _bad(text, _position(text, term) + operator.end() + at, problem, _unescaped(value[at : at + 2]))
        value = _escape.sub(r"\1", value)
    return FieldTerm(term[: operator.start()], value, operator.group() == "!=", term)


def _position(text: str, term: str) -> int:
    """Where a term begins, for an error."""
    return next(start for start, end in _split(text) if text[start:end] == term)


def _unescaped(found: str) -> str:
    """What kube-apiserver says of a character that should be escaped, or of a backslash that escapes nothing."""
    if found[0] == "\\":
        return f"invalid field selector: invalid escape sequence: {found}"
    return f"invalid field selector: unescaped character in value: {ord(found[0])}"


def _requirement(text: str, term: FieldTerm) -> FieldRequirement:
    try:
        return FieldRequirement(term.field, term.value, term.negated)
    except BadSelector:
        reserved = _reserved.search(term.field)
        if reserved is None:
            raise _bad(text, _position(text, term.text), "expected the path of a field before the operator") from None
        at = _position(text, term.text) + reserved.start()
        raise _bad(text, at, f"{quote(reserved.group())} cannot be part of a field's path") from None


def _bad(text: str, position: int, problem: str, words: str = "") -> BadSelector:
    message = f"field selector {quote(text)}, position {position}: {problem}"
    return BadSelector(message, position=position, api_message=words)
