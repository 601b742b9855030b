"""One condition that a label selector sets on the labels of an object.

A requirement is a key, an operator and values: `app in (web,api)`. It is checked when it is made, so whatever holds
one may print it, send it and match with it without asking again.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from levelset.errors import BadSelector
from levelset.objects.names import check_label_key, check_label_value, quote

__all__ = ["TESTS", "Operator", "Requirement", "Test", "is_int64"]


class Operator(StrEnum):
    """How a requirement compares; `==` is another spelling of EQUALS."""

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
    """One condition on one label.

    The values are kept sorted and without repetition, so that two requirements that say the same in another order are
    equal. Raises BadSelector, naming the field, for what is no label key or value and for too many or too few values.
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
        """Whether these labels meet the condition."""
        return TESTS[self.operator](labels.get(self.key), self.values)


Test = Callable[[str | None, tuple[str, ...]], bool]
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


_integer = re.compile(r"[+-]?[0-9]{1,63}")


def _to_int64(text: str) -> int | None:
    # int() alone would also take "1_0", " 1" and digits of other scripts, which the server does not.
    if not _integer.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def _is_among(value: str | None, values: tuple[str, ...]) -> bool:
    return value in values


def _is_not_among(value: str | None, values: tuple[str, ...]) -> bool:
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
