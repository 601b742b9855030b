"""The format library: named string formats (names, labels, URIs, dates) and their `validate` function."""

import base64
import binascii
from collections.abc import Callable, Mapping
from functools import partial

from levelset.cel.errors import EvaluationError
from levelset.cel.library.urls import parse_url
from levelset.cel.types import declare
from levelset.cel.values import NONE, Optional, parse_date, parse_timestamp
from levelset.objects.lazy_pattern import Pattern
from levelset.objects.names import (
    check_dns1035_label,
    check_dns1123_label,
    check_dns1123_subdomain,
    check_label_key,
    check_label_value,
)

__all__ = ["FORMATS", "OVERLOADS", "Format"]

_UUID = Pattern(r"[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}")


class Format:
    """A named format."""

    __slots__ = ("name", "problems")

    cel_type = "kubernetes.NamedFormat"

    def __init__(self, name: str, problems: Callable[[str], list[str]]) -> None:
        self.name, self.problems = name, problems

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Format) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def validate(self, text: str) -> Optional:
        """None if the string has this format, else what is wrong with it."""
        found = self.problems(text)
        return Optional(found) if found else NONE


def _prefix(check: Callable[[str], list[str]], text: str) -> list[str]:
    """The problems of the beginning of a name, which may end with a dash."""
    return check(f"{text[:-1]}a" if text.endswith("-") else text)


def _parsed(parse: Callable[[str], object], text: str) -> list[str]:
    try:
        parse(text)
    except EvaluationError as error:
        return [str(error)]
    return []


def _uuid(text: str) -> list[str]:
    return [] if _UUID.fullmatch(text) else ["does not match the UUID format"]


def _byte(text: str) -> list[str]:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return ["invalid base64"]
    return []


_PROBLEMS: Mapping[str, Callable[[str], list[str]]] = {
    "dns1123Label": check_dns1123_label,
    "dns1123Subdomain": check_dns1123_subdomain,
    "dns1035Label": check_dns1035_label,
    "qualifiedName": check_label_key,
    "dns1123LabelPrefix": partial(_prefix, check_dns1123_label),
    "dns1123SubdomainPrefix": partial(_prefix, check_dns1123_subdomain),
    "dns1035LabelPrefix": partial(_prefix, check_dns1035_label),
    "labelValue": check_label_value,
    "uri": partial(_parsed, parse_url),
    "uuid": _uuid,
    "byte": _byte,
    "date": partial(_parsed, parse_date),
    "datetime": partial(_parsed, parse_timestamp),
}

FORMATS: Mapping[str, Format] = {name: Format(name, problems) for name, problems in _PROBLEMS.items()}


def _named(name: str) -> Optional:
    return Optional(FORMATS[name]) if name in FORMATS else NONE


def _named_surely(name: str) -> Format:
    return FORMATS[name]


OVERLOADS = [
    *declare([("format.named: (string) optional(Format)", _named)]),
    *declare([(f"format.{name}: () Format", partial(_named_surely, name)) for name in FORMATS]),
    *declare([("validate: Format.(string) optional(list(string))", Format.validate)], charge="format"),
]
