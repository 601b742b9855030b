"""The format library: named string formats (names, labels, URIs, dates) and their `validate` function."""

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from functools import partial

from levelset.cel.errors import EvaluationError
from levelset.cel.library.urls import parse_url
from levelset.cel.types import declare
from levelset.cel.values import NONE, Optional, parse_date, parse_timestamp

__all__ = ["FORMATS", "OVERLOADS", "Format"]

_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
_LABEL_1035 = re.compile(r"[a-z](?:[-a-z0-9]*[a-z0-9])?")
_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
_UUID = re.compile(r"[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}")
_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_1035_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_NAME_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


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


def _too_long(text: str, limit: int) -> list[str]:
    return [f"must be no more than {limit} characters"] if len(text) > limit else []


def _label(pattern: re.Pattern[str], rule: str, text: str, *, prefix: bool = False) -> list[str]:
    checked = f"{text[:-1]}a" if prefix and text.endswith("-") else text
    wrong = _too_long(text, 63)
    return wrong if pattern.fullmatch(checked) else [*wrong, rule]


def _is_subdomain(text: str) -> bool:
    return all(map(_LABEL.fullmatch, text.split(".")))


def _subdomain(text: str, *, prefix: bool = False) -> list[str]:
    checked = f"{text[:-1]}a" if prefix and text.endswith("-") else text
    wrong = _too_long(text, 253)
    return wrong if _is_subdomain(checked) else [*wrong, _SUBDOMAIN_RULE]


def _qualified_name(text: str) -> list[str]:
    prefix, slash, name = text.rpartition("/")
    if text.count("/") > 1:
        return [
            f"a qualified name {_NAME_RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    wrong: list[str] = []
    if slash:
        wrong += (
            ["prefix part must be non-empty"] if not prefix else [f"prefix part {each}" for each in _subdomain(prefix)]
        )
    if not name:
        return [*wrong, "name part must be non-empty"]
    wrong += [f"name part {each}" for each in _too_long(name, 63)]
    return wrong if _NAME.fullmatch(name) else [*wrong, f"name part {_NAME_RULE}"]


def _label_value(text: str) -> list[str]:
    wrong = _too_long(text, 63)
    return wrong if not text or _NAME.fullmatch(text) else [*wrong, f"a valid label {_NAME_RULE}"]


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
    "dns1123Label": partial(_label, _LABEL, _LABEL_RULE),
    "dns1123Subdomain": _subdomain,
    "dns1035Label": partial(_label, _LABEL_1035, _LABEL_1035_RULE),
    "qualifiedName": _qualified_name,
    "dns1123LabelPrefix": partial(_label, _LABEL, _LABEL_RULE, prefix=True),
    "dns1123SubdomainPrefix": partial(_subdomain, prefix=True),
    "dns1035LabelPrefix": partial(_label, _LABEL_1035, _LABEL_1035_RULE, prefix=True),
    "labelValue": _label_value,
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
