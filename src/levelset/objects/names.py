"""Validation of names: objects, namespaces, label keys and label values.

Each `check_` function returns the problems of a text in the words of Kubernetes, an empty list if it is valid; each
`is_` function returns whether it is valid. All of them accept any text and take linear time.
"""

from levelset.objects.lazy_pattern import Pattern

__all__ = [
    "check_dns1035_label",
    "check_dns1123_label",
    "check_dns1123_subdomain",
    "check_label_key",
    "check_label_value",
    "check_path_segment",
    "is_dns1123_label",
    "is_dns1123_subdomain",
    "is_label_key",
    "is_label_value",
    "is_qualified_name",
    "quote",
    "shorten",
]

MAX_LABEL = 63
MAX_SUBDOMAIN = 253

_DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_SUBDOMAIN = rf"{_DNS_LABEL}(\.{_DNS_LABEL})*"
_DNS_1035_LABEL = "[a-z]([-a-z0-9]*[a-z0-9])?"
_WORD = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_dns_label = Pattern(_DNS_LABEL)
_dns_subdomain = Pattern(_DNS_SUBDOMAIN)
_dns_1035_label = Pattern(_DNS_1035_LABEL)
_word = Pattern("[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")


def _rule(text: str, pattern: str, *examples: str) -> str:
    shown = "".join(f"'{example}', " if at == 0 else f" or '{example}', " for at, example in enumerate(examples))
    return f"{text} (e.g. {shown}regex used for validation is '{pattern}')"


_ENDS = "must start and end with an alphanumeric character"
_LABEL_RULE = _rule(
    f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and {_ENDS}",
    _DNS_LABEL,
    *("my-name", "123-abc"),
)
_SUBDOMAIN_RULE = _rule(
    f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and {_ENDS}",
    _DNS_SUBDOMAIN,
    "example.com",
)
_LABEL_1035_RULE = _rule(
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character",
    _DNS_1035_LABEL,
    *("my-name", "abc-123"),
)
_WORD_RULE = _rule(
    f"must consist of alphanumeric characters, '-', '_' or '.', and {_ENDS}", _WORD, "MyName", "my.name", "123-abc"
)
_VALUE_RULE = _rule(
    f"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and {_ENDS}",
    f"({_WORD})?",
    *("MyValue", "my_value", "12345"),
)


def is_dns1123_label(text: str) -> bool:
    """Whether this is a valid namespace name: at most 63 lower-case letters, digits and inner dashes."""
    return len(text) <= MAX_LABEL and _dns_label.fullmatch(text) is not None


def is_dns1123_subdomain(text: str) -> bool:
    """Whether this is a valid name of most objects: DNS labels joined by dots, at most 253 characters."""
    return len(text) <= MAX_SUBDOMAIN and _dns_subdomain.fullmatch(text) is not None


def is_qualified_name(text: str) -> bool:
    """Whether this is `name` or `prefix/name`, as in the keys of labels and annotations."""
    return not check_label_key(text)


def is_label_key(text: str) -> bool:
    """Whether this is a valid label key; the same rule as `is_qualified_name`."""
    if len(text) <= MAX_LABEL and _word.fullmatch(text):  # most have no prefix
        return True
    return not check_label_key(text)


def is_label_value(text: str) -> bool:
    """Whether this is a valid label value: empty, or at most 63 letters, digits and inner '-', '_' and '.'."""
    return not text or (len(text) <= MAX_LABEL and _word.fullmatch(text) is not None)


def check_dns1123_label(text: str) -> list[str]:
    """The problems of this text as a name without dots, such as a namespace's."""
    problems = _check_length(text, MAX_LABEL)
    if _dns_label.fullmatch(text):
        return problems
    return [*problems, "must not contain dots" if _dns_subdomain.fullmatch(text) else _LABEL_RULE]


def check_dns1123_subdomain(text: str) -> list[str]:
    """The problems of this text as a name with dots, such as most objects'."""
    if len(text) <= MAX_SUBDOMAIN and _dns_subdomain.fullmatch(text):
        return []
    problems = _check_length(text, MAX_SUBDOMAIN)
    return problems if _dns_subdomain.fullmatch(text) else [*problems, _SUBDOMAIN_RULE]


def check_dns1035_label(text: str) -> list[str]:
    """The problems of this text as a name without dots that begins with a letter, such as a Service's."""
    problems = _check_length(text, MAX_LABEL)
    return problems if _dns_1035_label.fullmatch(text) else [*problems, _LABEL_1035_RULE]


def check_label_key(text: str) -> list[str]:
    """The problems of this text as the key of a label or annotation, or as a finalizer."""
    match text.split("/"):
        case [name]:
            return _check_name(name)
        case [prefix, name]:
            return [*_check_prefix(prefix), *_check_name(name)]
        case _:
            optional = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            return [f"a valid label key {_WORD_RULE} {optional}"]


def check_label_value(text: str) -> list[str]:
    """The problems of this text as the value of a label; an empty value has none."""
    if not text:
        return []
    problems = _check_length(text, MAX_LABEL, "bytes")
    return problems if _word.fullmatch(text) else [*problems, _VALUE_RULE]


def check_path_segment(text: str) -> list[str]:
    """Why a string cannot be a path segment, as names of roles must be (`system:node` can); empty if it can."""
    if text in (".", ".."):
        return [f"may not be {text!r}"]
    return [f"may not contain {character!r}" for character in "/%" if character in text]


def quote(text: object) -> str:
    """The text in quotes for a message: escaped, and truncated after 80 characters."""
    if text is None:
        return "nothing"
    if not isinstance(text, str):
        return f"a value of type {type(text).__name__}"
    return repr(text) if len(text) <= 80 else f"{text[:80]!r}..."


def shorten(text: str) -> str:
    """The text for a message in the words of another program: as it is, unless it is very long."""
    return text if len(text) <= 300 else f"{text[:300]}..."


def _check_prefix(prefix: str) -> list[str]:
    if not prefix:
        return ["prefix part must be non-empty"]
    return [f"prefix part {problem}" for problem in check_dns1123_subdomain(prefix)]


def _check_name(name: str) -> list[str]:
    if not name:
        return ["name part must be non-empty", f"name part {_WORD_RULE}"]
    problems = _check_length(name, MAX_LABEL, "bytes")
    if not _word.fullmatch(name):
        problems.append(_WORD_RULE)
    return [f"name part {problem}" for problem in problems]


def _check_length(text: str, limit: int, unit: str = "characters") -> list[str]:
    return [f"must be no more than {limit} {unit}"] if len(text) > limit else []
