"""Label selectors: select objects by their labels; parsed, printed and matched as Kubernetes does.

A selector is an immutable, hashable value. It is made from a text (`LabelSelector.parse("app=web,tier in (a,b)")`),
from labels (`LabelSelector.of(app="web")`) or from the tree in a Deployment
(`LabelSelector.from_tree({"matchLabels": {"app": "web"}})`). It consists of requirements (key, operator, values), which
are validated when they are created.

The grammar is that of Kubernetes: whitespace between any two tokens, `in` and `notin` as keys and values,
empty values (`a=`, `a in ()`, `a in (,x)`).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import force_setattr

from levelset.errors import BadSelector
from levelset.objects.json_tree import Tree, format_path
from levelset.objects.lazy_pattern import Pattern
from levelset.objects.names import check_label_key, check_label_value, quote, shorten

__all__ = [
    "TESTS",
    "LabelSelector",
    "Operator",
    "Requirement",
    "Test",
    "cut_at_nulls",
    "is_int64",
    "parse_requirements",
]


class Operator(StrEnum):
    """The operator of a requirement; `==` is another spelling of EQUALS."""

    EQUALS = "="
    NOT_EQUALS = "!="
    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    DOES_NOT_EXIST = "!"
    GREATER_THAN = ">"
    LESS_THAN = "<"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label: `app in (web,api)`.

    The values are stored sorted and without duplicates, so that requirements are equal whatever their order. Raises
    BadSelector, naming the field, for an invalid label key or value and for too many or too few values.
    """

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(sorted(set(self.values))))
        if problems := check_label_key(self.key):
            raise BadSelector(f"{quote(self.key)} is no label key: {'; '.join(problems)}", field="key")
        for value in self.values:
            if problems := check_label_value(value):
                raise BadSelector(f"{quote(value)} is no label value: {'; '.join(problems)}", field="values")
        if problem := _check_count(self.operator, self.values):
            raise BadSelector(f"{self.key}: operator {self.operator} {problem}", field="values")

    def __str__(self) -> str:
        match self.operator:
            case Operator.EXISTS:
                return self.key
            case Operator.DOES_NOT_EXIST:
                return f"!{self.key}"
            case Operator.IN | Operator.NOT_IN:
                return f"{self.key} {self.operator} ({','.join(self.values)})"
            case _:
                return f"{self.key}{self.operator}{self.values[0]}"

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels meet the requirement."""
        return TESTS[self.operator](labels.get(self.key), self.values)


Values = tuple[str, ...] | frozenset[str]
Test = Callable[[str | None, Any], bool]
"""Whether a label's value (None: there is no such label) meets an operator's values."""


def is_int64(text: str) -> bool:
    """Whether this is a decimal integer between -2**63 and 2**63 - 1."""
    return _to_int64(text) is not None


def _check_count(operator: Operator, values: tuple[str, ...]) -> str | None:
    match operator:
        case Operator.IN | Operator.NOT_IN:
            return None if values else "needs at least one value"
        case Operator.EXISTS | Operator.DOES_NOT_EXIST:
            return "takes no values" if values else None
        case Operator.GREATER_THAN | Operator.LESS_THAN:
            return None if len(values) == 1 and is_int64(values[0]) else "needs one integer"
        case Operator.EQUALS | Operator.NOT_EQUALS:
            return None if len(values) == 1 else "needs exactly one value"


_integer = Pattern(r"[+-]?[0-9]{1,63}")


def _to_int64(text: str) -> int | None:
    # int() alone would also accept "1_0", " 1" and digits of other scripts, which the API server does not.
    if not _integer.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def _is_among(value: str | None, values: Values) -> bool:
    return value in values


def _is_not_among(value: str | None, values: Values) -> bool:
    return value not in values


def _is_there(value: str | None, _values: tuple[str, ...]) -> bool:
    return value is not None


def _is_missing(value: str | None, _values: tuple[str, ...]) -> bool:
    return value is None


def _is_greater(value: str | None, values: tuple[str, ...]) -> bool:
    number = None if value is None else _to_int64(value)
    return number is not None and number > int(values[0])


def _is_less(value: str | None, values: tuple[str, ...]) -> bool:
    number = None if value is None else _to_int64(value)
    return number is not None and number < int(values[0])


TESTS: Mapping[Operator, Test] = MappingProxyType(
    {
        Operator.EQUALS: _is_among,
        Operator.NOT_EQUALS: _is_not_among,
        Operator.IN: _is_among,
        Operator.NOT_IN: _is_not_among,
        Operator.EXISTS: _is_there,
        Operator.DOES_NOT_EXIST: _is_missing,
        Operator.GREATER_THAN: _is_greater,
        Operator.LESS_THAN: _is_less,
    }
)
"""The test behind each operator."""


def parse_requirements(text: str) -> list[Requirement]:
    """The requirements of a label selector in the order of the text; raises BadSelector with the position."""
    if not isinstance(text, str):
        raise BadSelector(f"a label selector must be a text, not {quote(text)}")
    return _Parser(text).read_selector()


def _checked(key: str, operator: Operator, values: Iterable[str] = ()) -> Requirement:
    """A requirement whose parts the parser has checked; to check them again would double its time."""
    made = object.__new__(Requirement)
    object.__setattr__(made, "key", key)
    object.__setattr__(made, "operator", operator)
    object.__setattr__(made, "values", tuple(sorted(set(values))))
    return made


class _Token(NamedTuple):
    text: str
    position: int
    end: int

    @property
    def is_word(self) -> bool:
        return self.text not in _SYMBOLS


_SYMBOLS = frozenset(["", "==", "!=", "=", "!", "(", ")", ",", "<", ">"])  # "" is the end of the text
_BINARY = {
    "=": Operator.EQUALS,
    "==": Operator.EQUALS,
    "!=": Operator.NOT_EQUALS,
    "in": Operator.IN,
    "notin": Operator.NOT_IN,
    ">": Operator.GREATER_THAN,
    "<": Operator.LESS_THAN,
}
_token = Pattern(r"==|!=|[=!(),<>]|[^ \t\r\n=!(),<>]+")
_plain_values = Pattern(r"[^=!()<>]*(?=\))")
_word_end = Pattern(r"(?<=[^ \t\r\n\0])\0")
_SPACES = " \t\r\n"
_MAX_SHOWN = 100
"""The most invalid values in one message: those of a long selector would make it a hundred times as long."""


class _Parser:
    """A recursive-descent parser with one token of lookahead, which reads no further than the first error.

    What it accepts, and the order of its checks, are those of kube-apiserver, whose words an error has beside ours. A
    requirement is read to its end before its values are checked.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._keys: set[str] = set()  # those that were checked: thousands of terms may have the same
        self._next = self._scan(0)

    def read_selector(self) -> list[Requirement]:
        requirements: list[Requirement] = []
        token = self._next
        if not token.text:
            return requirements
        if not token.is_word and token.text != "!":
            raise self._expected("a label key", token, "', expected: !, identifier, or 'end of string'", is_whole=True)
        while True:
            requirements.append(self._read_requirement())
            token = self._take()
            if not token.text:
                return requirements
            if token.text != ",":
                raise self._expected("',' or the end", token, "', expected: ',' or 'end of string'", is_whole=True)
            token = self._next
            if not token.is_word and token.text != "!":
                raise self._expected("a label key", token, "', expected: identifier after ','", is_whole=True)

    def _read_requirement(self) -> Requirement:
        if self._next.text == "!":
            self._take()
            return _checked(self._read_key(), Operator.DOES_NOT_EXIST)
        key = self._read_key()
        if self._next.text in _ENDS:
            return _checked(key, Operator.EXISTS)
        token = self._take()
        operator = _BINARY.get(token.text)
        if operator is None:
            raise self._expected("one of = == != in notin > <", token, f"', expected: {_BINARY_OPERATORS}")
        if operator is Operator.IN or operator is Operator.NOT_IN:
            return _checked(key, operator, self._read_values(key))
        return _checked(key, operator, (self._read_value(key, operator),))

    def _read_key(self) -> str:
        token = self._take()
        if not token.is_word:
            raise self._expected("a label key", token, "', expected: identifier")
        if token.text not in self._keys and (problems := check_label_key(token.text)):
            words = f"<nil>: {_invalid(token.text, '; '.join(problems))}"
            raise self._error(f"{quote(token.text)} is no label key: {'; '.join(problems)}", token, words)
        self._keys.add(token.text)
        return token.text

    def _read_value(self, key: str, operator: Operator) -> str:
        token = self._next
        if token.text in _ENDS:
            token = _Token("", token.position, token.end)
        else:
            self._take()
            if not token.is_word:
                raise self._expected("a label value", token, "', expected: identifier")
            if check_label_value(token.text):
                raise self._invalid_values(key, operator, [token])
        if operator in _NUMERIC and not is_int64(token.text):
            raise self._invalid_values(key, operator, [token])
        return token.text

    def _read_values(self, key: str) -> tuple[str, ...]:
        if (opening := self._take()).text != "(":
            raise self._expected("'('", opening, "' expected: '('")
        if (plain := self._read_plain_values(opening.end)) is not None:
            return plain
        values = self._read_tokens()
        if any(check_label_value(one.text) for one in values):
            raise self._invalid_values(key, Operator.IN, values)
        return tuple(one.text for one in values)

    def _read_plain_values(self, start: int) -> tuple[str, ...] | None:
        """The values up to `)` if they are all valid, in a few calls for thousands of them; None to read one by one."""
        found = _plain_values.match(self._text, start)
        values = [] if found is None else [one.strip(_SPACES) for one in found.group().split(",")]
        if found is None or any(map(check_label_value, values)):
            return None
        self._next = self._scan(found.end() + 1)
        return tuple(values)

    def _read_tokens(self) -> list[_Token]:
        """The values up to `)`: between two separators there is one word, or nothing for the empty value."""
        token = self._next
        if not token.is_word and token.text not in _SEPARATORS:
            raise self._expected("a label value, ',' or ')'", token, "', expected: ',', ')' or identifier")
        values: list[_Token] = []
        while True:
            token = self._next
            if token.text in _SEPARATORS:
                values.append(_Token("", token.position, token.position))
            else:
                self._take()
                if not token.is_word:
                    raise self._expected("a label value, ',' or ')'", token, "', expected: ',', or identifier")
                values.append(token)
            token = self._take()
            if token.text == ")":
                return values
            if token.text != ",":
                raise self._expected("',' or ')'", token, "', expected: ',' or ')'")

    def _take(self) -> _Token:
        token = self._next
        self._next = self._scan(token.end)
        return token

    def _scan(self, start: int) -> _Token:
        """The token at or after a position; the end of the text may be read any number of times."""
        found = _token.search(self._text, start)
        if found is None:
            return _Token("", len(self._text), len(self._text))
        return _Token(found.group(), found.start(), found.end())

    def _expected(self, wanted: str, token: _Token, words: str, *, is_whole: bool = False) -> BadSelector:
        found = quote(token.text) if token.text else "the end"
        return self._error(
            f"expected {wanted}, found {found}", token, f"found '{shorten(token.text)}{words}", is_whole=is_whole
        )

    def _invalid_values(self, key: str, operator: Operator, tokens: list[_Token]) -> BadSelector:
        words: list[str] = []
        for number, value in enumerate(sorted({one.text for one in tokens})):
            if operator in _NUMERIC and not is_int64(value):
                words.append(f"values[{number}]: {_invalid(value, _NOT_AN_INTEGER)}")
            if problems := check_label_value(value):
                words.append(f"values[{number}][{key}]: {_invalid(value, '; '.join(problems))}")
        shown = list(dict.fromkeys(words))[:_MAX_SHOWN]
        said = shown[0] if len(shown) == 1 else f"[{', '.join(shown)}]"
        for token in tokens:
            if problems := check_label_value(token.text):
                return self._error(f"{quote(token.text)} is no label value: {'; '.join(problems)}", token, said)
        found = quote(tokens[0].text) if tokens[0].text else "the end"
        return self._error(f"expected an integer, found {found}", tokens[0], said)

    def _error(self, problem: str, token: _Token, words: str, *, is_whole: bool = False) -> BadSelector:
        message = f"label selector {quote(self._text)}, position {token.position}: {problem}"
        said = words if is_whole else f"unable to parse requirement: {words}"
        return BadSelector(message, position=token.position, api_message=said)


_ENDS = frozenset(["", ","])
_SEPARATORS = frozenset([",", ")"])
_NUMERIC = frozenset([Operator.GREATER_THAN, Operator.LESS_THAN])
_BINARY_OPERATORS = "in, notin, =, ==, !=, gt, lt"
_NOT_AN_INTEGER = "for 'Gt', 'Lt' operators, the value must be an integer"


def _invalid(value: str, problem: str) -> str:
    import json  # noqa: PLC0415  # for a mistake only

    return f"Invalid value: {json.dumps(shorten(value), ensure_ascii=False)}: {problem}"


def cut_at_nulls(text: str) -> str:
    """A selector as kube-apiserver reads it: a null character ends the token before it, and otherwise the text."""
    return _word_end.sub(" ", text).partition("\0")[0]


class LabelSelector(msgspec.Struct, frozen=True, eq=False):
    """The objects whose labels meet all requirements; without any, all objects.

    Requirements are stored sorted and without duplicates: selectors are equal whatever the order of their requirements.
    `a=x` and `a in (x)` select the same objects but are not equal, because they print differently.
    """

    requirements: tuple[Requirement, ...] = ()
    # Set from the requirements, whatever is given; two selectors are equal if their requirements are.
    _tests: tuple[tuple[str, Values, Test], ...] = ()
    _merged: "_MergedTests | None" = None

    def __post_init__(self) -> None:
        requirements = tuple(sorted(set(self.requirements), key=_sort_key))
        force_setattr(self, "requirements", requirements)
        are_many = len(requirements) > _MAX_UNMERGED
        one_by_one = () if are_many else requirements
        tests = tuple((one.key, _quick(one.values), TESTS[one.operator]) for one in one_by_one)
        force_setattr(self, "_tests", tests)
        force_setattr(self, "_merged", _MergedTests(requirements) if are_many else None)

    def __eq__(self, other: object) -> bool:
        return self.requirements == other.requirements if isinstance(other, LabelSelector) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.requirements)

    def __repr__(self) -> str:
        return f"LabelSelector(requirements={self.requirements!r})"

    @classmethod
    def parse(cls, text: str) -> "LabelSelector":
        """Parses a text such as `app=web,!canary`; raises BadSelector with the position."""
        return cls(tuple(parse_requirements(text)))

    @classmethod
    def of(cls, labels: Mapping[str, str] | None = None, /, **more: str) -> "LabelSelector":
        """The objects that have all of these labels: `LabelSelector.of({"example.com/part": "a"}, app="web")`."""
        wanted = {**(labels or {}), **more}
        return cls(tuple(_equals(key, value, field=format_path([key])) for key, value in wanted.items()))

    @classmethod
    def from_tree(cls, tree: Tree) -> "LabelSelector":
        """The selector in a tree of `matchLabels` and `matchExpressions`; raises BadSelector with the field.

        None selects nothing and an empty tree everything, as in Kubernetes. An unknown field is an error: a misspelt
        `matchLabel` would otherwise select everything.
        """
        return cls.nothing() if tree is None else cls(tuple(_read_tree(tree)))

    @classmethod
    def everything(cls) -> "LabelSelector":
        """The selector that matches every object."""
        return _EVERYTHING

    @classmethod
    def nothing(cls) -> "LabelSelector":
        """The selector that matches no object.

        It is a contradiction (`nothing,!nothing`) and not a special value, so that its text works with any API server.
        """
        return _NOTHING

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))

    def __and__(self, other: "LabelSelector") -> "LabelSelector":
        return LabelSelector(self.requirements + other.requirements)

    @property
    def is_everything(self) -> bool:
        """Whether it has no requirement."""
        return not self.requirements

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Whether an object with these labels matches; None means no labels."""
        if labels is None:
            labels = {}
        for key, values, test in self._tests:
            if not test(labels.get(key), values):
                return False
        return self._merged is None or self._merged.match(labels)

    def requires_exact(self, key: str) -> str | None:
        """The one value that this label must have, or None if several are possible."""
        for one in self.requirements:
            if one.key == key and one.operator in {Operator.EQUALS, Operator.IN} and len(one.values) == 1:
                return one.values[0]
        return None

    def to_tree(self) -> dict[str, Tree] | None:
        """The tree of `matchLabels` and `matchExpressions` that selects the same objects.

        Raises BadSelector for `>` and `<`, which a tree cannot express.
        """
        return None if self == _NOTHING else _write_tree(self.requirements)


_MAX_UNMERGED = 8
"""Selectors with more requirements are merged, so that an object costs no more for thousands of them."""


def _quick(values: tuple[str, ...]) -> Values:
    """The values in the form that is quickest to search."""
    return values if len(values) <= _MAX_UNMERGED else frozenset(values)


class _MergedTests:
    """Many requirements as a few tests for each label: what an object costs depends on its labels only."""

    __slots__ = ("_missing", "_required", "_tests")

    def __init__(self, requirements: Iterable[Requirement]) -> None:
        by_key: dict[str, list[Requirement]] = {}
        for one in requirements:
            by_key.setdefault(one.key, []).append(one)
        self._required = frozenset(key for key, all_ in by_key.items() if any(one.operator in _PRESENT for one in all_))
        self._missing = frozenset(
            key for key, all_ in by_key.items() if any(one.operator is Operator.DOES_NOT_EXIST for one in all_)
        )
        tests = {key: tuple(_merge_values(all_)) for key, all_ in by_key.items()}
        self._tests = {key: those for key, those in tests.items() if those}

    def match(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels meet all requirements."""
        keys = labels.keys()
        if len(self._required) > len(labels) or not self._required <= keys or not self._missing.isdisjoint(keys):
            return False
        tests = self._tests
        for key in tests if len(tests) <= len(labels) else labels:
            for values, test in tests.get(key, ()):
                if not test(labels.get(key), values):
                    return False
        return True


_PRESENT = frozenset({Operator.EXISTS, Operator.EQUALS, Operator.IN, Operator.GREATER_THAN, Operator.LESS_THAN})
"""The operators that a missing label does not meet."""


def _merge_values(requirements: Iterable[Requirement]) -> Iterable[tuple[Values, Test]]:
    """The tests of one label's value that together equal these requirements: at most one of each kind."""
    values: dict[Test, list[tuple[str, ...]]] = {}
    for one in requirements:
        values.setdefault(TESTS[one.operator], []).append(one.values)
    if allowed := values.get(_is_among):
        yield frozenset(allowed[0]).intersection(*allowed[1:]), _is_among
    if refused := values.get(_is_not_among):
        yield frozenset().union(*refused), _is_not_among
    if lower := values.get(_is_greater):
        yield max(lower, key=lambda one: int(one[0])), _is_greater
    if upper := values.get(_is_less):
        yield min(upper, key=lambda one: int(one[0])), _is_less


_OPERATORS = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
}
_TREE_OPERATORS = {operator: name for name, operator in _OPERATORS.items()} | {
    Operator.EQUALS: "In",  # for a second value of the same key, which matchLabels cannot express
    Operator.NOT_EQUALS: "NotIn",
}
_ORDER = {operator: place for place, operator in enumerate(Operator)}


def _sort_key(one: Requirement) -> tuple[str, int, tuple[str, ...]]:
    return one.key, _ORDER[one.operator], one.values


def _read_tree(tree: Tree) -> Iterable[Requirement]:
    members = _read_members(tree, "", {"matchLabels", "matchExpressions"})
    labels = members.get("matchLabels")
    expressions = members.get("matchExpressions")
    for key, value in _read_members({} if labels is None else labels, "matchLabels").items():
        yield _equals(key, value, field=format_path(["matchLabels", key]))
    for index, expression in enumerate(_read_list(expressions, "matchExpressions")):
        yield _read_expression(expression, format_path(["matchExpressions", index]))


def _read_expression(tree: Tree, at: str) -> Requirement:
    members = _read_members(tree, at, {"key", "operator", "values"})
    key = _read_text(members.get("key"), f"{at}.key")
    name = _read_text(members.get("operator"), f"{at}.operator")
    operator = _OPERATORS.get(name)
    if operator is None:
        raise _bad(f"{at}.operator", f"must be one of {', '.join(_OPERATORS)}, not {quote(name)}")
    listed = _read_list(members.get("values"), f"{at}.values")
    values = tuple(_read_text(value, f"{at}.values[{index}]") for index, value in enumerate(listed))
    try:
        return Requirement(key, operator, values)
    except BadSelector as error:
        raise _bad(f"{at}.{error.field}", str(error)) from None


def _equals(key: str, value: Tree, *, field: str) -> Requirement:
    try:
        return Requirement(_read_text(key, field), Operator.EQUALS, (_read_text(value, field),))
    except BadSelector as error:
        raise error if error.field == field else _bad(field, str(error)) from None


def _read_members(tree: Tree, at: str, known: set[str] | None = None) -> dict[str, Tree]:
    if not isinstance(tree, dict):
        raise _bad(at, f"must be an object, not {quote(tree)}")
    for name in tree:
        if known is not None and name not in known:
            raise _bad(f"{at}.{name}".lstrip("."), f"is unknown here; known are {', '.join(sorted(known))}")
    return tree


def _read_list(tree: Tree, at: str) -> list[Tree]:
    if tree is None:
        return []
    if not isinstance(tree, list):
        raise _bad(at, f"must be a list, not {quote(tree)}")
    return tree


def _read_text(tree: Tree, at: str) -> str:
    if not isinstance(tree, str):
        raise _bad(at, f"must be a text, not {quote(tree)}")
    return tree


def _bad(at: str, problem: str) -> BadSelector:
    place = at if at.isprintable() and len(at) <= 80 else quote(at)  # a path may contain arbitrary keys
    return BadSelector(f"label selector{place and ', '}{place}: {problem}", field=at)


def _write_tree(requirements: Iterable[Requirement]) -> dict[str, Tree]:
    labels: dict[str, Tree] = {}
    expressions: list[Tree] = []
    for one in requirements:
        if one.operator is Operator.EQUALS and one.key not in labels:
            labels[one.key] = one.values[0]
        elif (name := _TREE_OPERATORS.get(one.operator)) is None:
            raise BadSelector(f"{one}: a tree has no operator {one.operator}; send the selector as a text instead")
        else:
            expression: dict[str, Tree] = {"key": one.key, "operator": name}
            if one.values:
                expression["values"] = list(one.values)
            expressions.append(expression)
    members: dict[str, Tree] = {"matchLabels": labels, "matchExpressions": expressions}
    return {name: member for name, member in members.items() if member}


_EVERYTHING = LabelSelector()
_NOTHING = LabelSelector((Requirement("nothing", Operator.EXISTS), Requirement("nothing", Operator.DOES_NOT_EXIST)))
