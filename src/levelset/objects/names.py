"""Validation of names: objects, namespaces, label keys and label values.

Each `check_` function returns the problems of a text as sentences that complete "the name ...", an empty list if it is
valid; each `is_` function returns whether it is valid. All of them accept any text and take linear time.
"""

from levelset.objects.lazy_pattern import Pattern

__all__ = [
    "check_dns1123_label",
    "check_dns1123_subdomain",
    "check_label_key",
    "check_label_value",
    "is_dns1123_label",
    "is_dns1123_subdomain",
    "is_label_key",
    "is_label_value",
    "is_qualified_name",
    "quote",
]

MAX_LABEL = 63
MAX_SUBDOMAIN = 253

_DNS_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_dns_label = Pattern(_DNS_LABEL)
_dns_subdomain = Pattern(rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*")
_word = Pattern(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")

_WORD_RULE = "must be letters, digits, '-', '_' or '.', beginning and ending with a letter or digit"


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
    return not check_label_key(text)


def is_label_value(text: str) -> bool:
    """Whether this is a valid label value: empty, or at most 63 letters, digits and inner '-', '_' and '.'."""
    return not text or (len(text) <= MAX_LABEL and _word.fullmatch(text) is not None)


def check_dns1123_label(text: str) -> list[str]:
    """The problems of this text as a name without dots, such as a namespace's."""
    problems = _check_length(text, MAX_LABEL)
    if _dns_label.fullmatch(text):
        return problems
    if _dns_subdomain.fullmatch(text):
        return [*problems, "must not contain dots"]
    rule = "must be lower-case letters, digits or '-', beginning and ending with a letter or digit"
    return [*problems, f"{rule} (such as 'my-name')"]


def check_dns1123_subdomain(text: str) -> list[str]:
    """The problems of this text as a name with dots, such as most objects'."""
    if len(text) <= MAX_SUBDOMAIN and _dns_subdomain.fullmatch(text):
        return []
    problems = _check_length(text, MAX_SUBDOMAIN)
    if _dns_subdomain.fullmatch(text):
        return problems
    rule = "must be lower-case letters, digits, '-' or '.', each part beginning and ending with a letter or digit"
    return [*problems, f"{rule} (such as 'example.com')"]


def check_label_key(text: str) -> list[str]:
    """The problems of this text as the key of a label or annotation, or as a finalizer."""
    match text.split("/"):
        case [name]:
            return _check_name(name)
        case [prefix, name]:
            return [*_check_prefix(prefix), *_check_name(name)]
        case _:
            return ["must have at most one '/', between a prefix and a name (such as 'example.com/my-name')"]


def check_label_value(text: str) -> list[str]:
    """The problems of this text as the value of a label; an empty value has none."""
    if not text:
        return []
    problems = _check_length(text, MAX_LABEL)
    return problems if _word.fullmatch(text) else [*problems, f"{_WORD_RULE}, or be empty"]


def quote(text: object) -> str:
    """The text in quotes for a message: escaped, and truncated after 80 characters."""
    if text is None:
        return "nothing"
    if not isinstance(text, str):
        return f"a value of type {type(text).__name__}"
    return repr(text) if len(text) <= 80 else f"{text[:80]!r}..."


def _check_prefix(prefix: str) -> list[str]:
    if not prefix:
        return ["prefix before '/' must not be empty"]
    return [f"prefix before '/' {problem}" for problem in check_dns1123_subdomain(prefix)]


def _check_name(name: str) -> list[str]:
    if not name:
        return ["name must not be empty"]
    problems = _check_length(name, MAX_LABEL)
    if not _word.fullmatch(name):
        problems.append(_WORD_RULE)
    return [f"name {problem}" for problem in problems]


def _check_length(text: str, limit: int) -> list[str]:
    return [f"must be at most {limit} characters long, not {len(text)}"] if len(text) > limit else []
