"""The text of a label selector, read into requirements: `app=web,tier in (a,b),!canary`.

The grammar is Kubernetes' own, with its freedoms: blanks, tabs and line ends between any two words, `in` and `notin`
as keys and values, empty values (`a=`, `a in ()`, `a in (,x)`).
"""

import re
from dataclasses import dataclass

from levelset.errors import BadSelector
from levelset.objects.names import check_label_key, check_label_value, quote
from levelset.objects.requirements import Operator, Requirement, is_int64

__all__ = ["parse_requirements"]


def parse_requirements(text: str) -> list[Requirement]:
    """The requirements of a label selector in the order of the text; raises BadSelector with the position."""
    if not isinstance(text, str):
        raise BadSelector(f"a label selector must be a text, not {quote(text)}")
    return _Parser(text).read_selector()


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    position: int

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
_token = re.compile(r"==|!=|[=!(),<>]|[^ \t\r\n=!(),<>]+")


class _Parser:
    """Reads tokens from left to right, one ahead."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [_Token(found.group(), found.start()) for found in _token.finditer(text)]
        self._tokens.append(_Token("", len(text)))
        self._next = 0

    def read_selector(self) -> list[Requirement]:
        requirements: list[Requirement] = []
        if not self._peek().text:
            return requirements
        while True:
            requirements.append(self._read_requirement())
            token = self._take()
            if not token.text:
                return requirements
            if token.text != ",":
                raise self._expected("',' or the end", token)

    def _read_requirement(self) -> Requirement:
        if self._peek().text == "!":
            self._take()
            return Requirement(self._read_key(), Operator.DOES_NOT_EXIST)
        key = self._read_key()
        if self._peek().text in {"", ","}:
            return Requirement(key, Operator.EXISTS)
        token = self._take()
        match _BINARY.get(token.text):
            case None:
                raise self._expected("one of = == != in notin > <", token)
            case Operator.IN | Operator.NOT_IN as operator:
                return Requirement(key, operator, self._read_values())
            case Operator.GREATER_THAN | Operator.LESS_THAN as operator:
                return Requirement(key, operator, (self._read_integer(),))
            case operator:
                return Requirement(key, operator, (self._read_value(),))

    def _read_key(self) -> str:
        token = self._take()
        if not token.is_word:
            raise self._expected("a label key", token)
        if problems := check_label_key(token.text):
            raise self._error(f"{quote(token.text)} is no label key: {'; '.join(problems)}", token)
        return token.text

    def _read_value(self) -> str:
        if self._peek().text in {"", ","}:
            return ""
        return self._read_word("a label value")

    def _read_integer(self) -> str:
        token = self._peek()
        value = self._read_value()
        if not is_int64(value):
            raise self._expected("an integer", token)
        return value

    def _read_values(self) -> tuple[str, ...]:
        if (opening := self._take()).text != "(":
            raise self._expected("'('", opening)
        values: list[str] = []
        while True:
            # Between two separators there is one word or nothing, and nothing is the empty value.
            values.append("" if self._peek().text in {",", ")"} else self._read_word("a label value, ',' or ')'"))
            token = self._take()
            if token.text == ")":
                return tuple(values)
            if token.text != ",":
                raise self._expected("',' or ')'", token)

    def _read_word(self, wanted: str) -> str:
        token = self._take()
        if not token.is_word:
            raise self._expected(wanted, token)
        if problems := check_label_value(token.text):
            raise self._error(f"{quote(token.text)} is no label value: {'; '.join(problems)}", token)
        return token.text

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        # The end stays where it is: it may be looked at any number of times.
        self._next = min(self._next + 1, len(self._tokens) - 1)
        return token

    def _expected(self, wanted: str, token: _Token) -> BadSelector:
        found = quote(token.text) if token.text else "the end"
        return self._error(f"expected {wanted}, found {found}", token)

    def _error(self, problem: str, token: _Token) -> BadSelector:
        message = f"label selector {quote(self._text)}, position {token.position}: {problem}"
        return BadSelector(message, position=token.position)
