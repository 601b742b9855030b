"""The checks that the rule tables share: names, numbers, addresses, quantities, labels and selectors.

The messages are those of kube-apiserver 1.36, since tools and people compare them.
"""

import ipaddress
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, wraps
from typing import Any, Final

from levelset.apiserver.registry.builtin.rules.rule_tables import Test
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.schema import field_errors
from levelset.errors import BadQuantity, Cause
from levelset.objects.names import (
    check_dns1035_label,
    check_dns1123_label,
    check_dns1123_subdomain,
    check_label_key,
    check_label_value,
    check_path_segment,
)
from levelset.objects.quantity import Quantity

__all__ = [
    "absolute_path",
    "annotations",
    "at_least",
    "between",
    "bytes_at_most",
    "canonical_interface_address",
    "check_label_requirement",
    "cidr",
    "config_key",
    "config_key_problems",
    "dns1035_label",
    "dns_label",
    "dns_subdomain",
    "domain_path",
    "env_name",
    "fails",
    "file_mode",
    "int_or_percent",
    "ip_address",
    "is_config_key",
    "is_ip",
    "is_percent",
    "is_set_operator",
    "label_key",
    "label_key_problems",
    "label_problems",
    "label_selector",
    "label_value",
    "label_value_problems",
    "labels",
    "local_path",
    "no_backsteps",
    "non_negative",
    "non_reserved_path",
    "one_of",
    "path_segment_problems",
    "percent_value",
    "port_name",
    "port_name_problems",
    "port_number",
    "port_number_or_name",
    "positive",
    "positive_number",
    "quantity",
    "subdomain_problems",
    "unique",
    "user_id",
]

_PATH: Final = "[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+"


def _cached(function: Callable[[str], Any]) -> Callable[[str], Any]:
    """Caches the results for short texts: a cache of long ones, of refused requests even, would fill the memory."""
    cached = lru_cache(maxsize=2048)(function)

    @wraps(function)
    def run(text: str) -> Any:
        return cached(text) if len(text) <= MAX_CACHED else function(text)

    return run


MAX_CACHED: Final = 320  # characters: a label key with its prefix


def _pattern(expression: str) -> Callable[[str], object]:
    return re.compile(expression).fullmatch


def _quick(expression: str, longest: int) -> Callable[[str], object]:
    """Whether a short text matches; names occur again and again, so the results are cached."""
    matches = re.compile(expression).fullmatch

    @_cached
    def is_valid(text: str) -> bool:
        return len(text) <= longest and matches(text) is not None

    return is_valid


_is_label = _quick(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?", 63)
_is_subdomain = _quick(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*", 253)
_matches_config_key = _pattern("[-._a-zA-Z0-9]+")
_is_percent = _pattern("[0-9]+%")


def _regex(message: str, expression: str, *examples: str) -> str:
    shown = "(e.g. " + " or ".join(f"'{one}', " for one in examples) if examples else "("
    return f"{message} {shown}regex used for validation is '{expression}')"


def fails(problems: Callable[[Any], Sequence[str]]) -> Test:
    """A test by a function that returns the problems of a value as messages."""

    def report(value: Any, at: str, out: list[Cause]) -> None:
        out.extend([field_errors.invalid(at, value, one) for one in problems(value)])

    def is_valid(value: Any) -> bool:
        return not problems(value)

    return Test(is_valid, report)


def _faster(is_valid: Callable[[Any], object], problems: Callable[[Any], Sequence[str]]) -> Test:
    return Test(is_valid, fails(problems).report)


label_problems: Final = check_dns1123_label
subdomain_problems: Final = check_dns1123_subdomain
path_segment_problems: Final = check_path_segment


@_cached
def label_key_problems(text: str) -> tuple[str, ...]:
    """The problems of a text as the key of a label, which is a qualified name."""
    return tuple(check_label_key(text))


@_cached
def label_value_problems(text: str) -> tuple[str, ...]:
    """The problems of a text as the value of a label."""
    return tuple(check_label_value(text))


@_cached
def port_name_problems(text: str) -> list[str]:
    """The problems of a text as the name of a port; shared, so not to be changed."""
    problems = ["must be no more than 15 characters"] if len(text) > 15 else []
    if not re.fullmatch("[-a-z0-9]+", text):
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", text):
        problems.append("must contain at least one letter (a-z)")
    if "--" in text:
        problems.append("must not contain consecutive hyphens")
    if text.startswith("-") or text.endswith("-"):
        problems.append("must not begin or end with a hyphen")
    return problems


def config_key_problems(text: str) -> list[str]:
    """The problems of a text as a key of a ConfigMap or a Secret."""
    problems = ["must be no more than 253 characters"] if len(text) > 253 else []
    if not _matches_config_key(text):
        rule = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        problems.append(_regex(rule, "[-._a-zA-Z0-9]+", "key.name", "KEY_NAME", "key-name"))
    if text in (".", ".."):
        problems.append(f"must not be '{text}'")
    elif text.startswith(".."):
        problems.append("must not start with '..'")
    return problems


_matches_env_name = _pattern("[ -<>-~]*")


def _env_name_problems(text: str) -> list[str]:
    if _matches_env_name(text):
        return []
    return ["a valid environment variable name must consist only of printable ASCII characters other than '='"]


dns_label: Final = _faster(_is_label, label_problems)
dns_subdomain: Final = _faster(_is_subdomain, subdomain_problems)
dns1035_label: Final = fails(check_dns1035_label)
label_key: Final = fails(label_key_problems)
label_value: Final = fails(label_value_problems)
port_name: Final = fails(port_name_problems)
config_key: Final = fails(config_key_problems)
is_config_key: Final = _quick(r"(?!\.$|\.\.)[-._a-zA-Z0-9]+", 253)
env_name: Final = _faster(_matches_env_name, _env_name_problems)


def domain_path(value: str, at: str, out: list[Cause], _context: Any) -> None:
    """A path with a domain before it, such as acme.io/foo."""
    host, slash, path = value.partition("/")
    if not (host and slash and path):
        out.append(field_errors.invalid(at, value, 'must be a domain-prefixed path (such as "acme.io/foo")'))
        return
    out.extend([field_errors.invalid(at, host, one) for one in subdomain_problems(host)])
    if not re.fullmatch(_PATH, path):
        out.append(field_errors.invalid(at, path, _regex("Invalid path", _PATH)))


def one_of(*values: Any) -> Test:
    """One of these values; they are listed in this order."""
    known = frozenset(values)

    def report(value: Any, at: str, out: list[Cause]) -> None:
        out.append(field_errors.not_supported(at, value, values))

    return Test(known.__contains__, report)


def between(low: int, high: int, detail: str = "") -> Test:
    """A number in an inclusive range."""
    message = detail or f"must be between {low} and {high}, inclusive"

    def report(value: Any, at: str, out: list[Cause]) -> None:
        out.append(field_errors.invalid(at, value, message))

    def is_valid(value: Any) -> bool:
        return bool(low <= value <= high)

    return Test(is_valid, report)


def at_least(low: int, detail: str = "") -> Test:
    """A number that is not too small."""
    message = detail or f"must be greater than or equal to {low}"

    def report(value: Any, at: str, out: list[Cause]) -> None:
        out.append(field_errors.invalid(at, value, message))

    def is_valid(value: Any) -> bool:
        return bool(value >= low)

    return Test(is_valid, report)


non_negative: Final = at_least(0)
positive: Final = at_least(1, "must be greater than zero")
positive_number: Final = at_least(1, "must be greater than 0")
port_number: Final = between(1, 65535)
user_id: Final = between(0, 2**31 - 1)
file_mode: Final = between(0, 0o777, "must be a number between 0 and 0777 (octal), both inclusive")


def bytes_at_most(limit: int) -> Test:
    """A text of at most this length."""

    def report(_value: str, at: str, out: list[Cause]) -> None:
        out.append(field_errors.too_long(at, limit))

    def is_valid(value: str) -> bool:
        return len(value.encode()) <= limit

    return Test(is_valid, report)


def port_number_or_name(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    """The number of a port, or its name."""
    if isinstance(value, str):
        out.extend([field_errors.invalid(at, value, one) for one in port_name_problems(value)])
    elif not 1 <= (value or 0) <= 65535:
        out.append(field_errors.invalid(at, value or 0, "must be between 1 and 65535, inclusive"))


def is_percent(value: Any) -> bool:
    """Whether this is a percentage such as 25%."""
    return isinstance(value, str) and _is_percent(value) is not None


def percent_value(value: Any) -> int:
    """The number of an integer or a percentage; 0 for anything else."""
    if is_percent(value):
        return int(value[:-1])
    return value if isinstance(value, int) else 0


def int_or_percent(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    """A number that is not negative, or a percentage; nothing if it is absent."""
    if value is None:
        return
    if isinstance(value, str):
        if not is_percent(value):
            rule = "a valid percent string must be a numeric string followed by an ending '%'"
            out.append(field_errors.invalid(at, value, _regex(rule, "[0-9]+%", "1%", "93%")))
    elif value < 0:
        non_negative.report(value, at, out)


def is_ip(text: str) -> bool:
    """Whether this is an IP address, also one that is not in its canonical form."""
    return not _ip_problem(text)


def _ip_problem(text: str) -> str:
    plain = re.sub(r"(?<![0-9a-fA-F:])0+(?=[0-9])", "", text) if ":" not in text else text
    try:
        found = ipaddress.ip_address(plain)
    except ValueError:
        return "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
    if "%" in text:
        return "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
    if plain != text:
        return "must not have leading 0s"
    if found.version == 6 and found.ipv4_mapped is not None:
        return "must not be an IPv4-mapped IPv6 address"
    return ""


def _cidr_problem(text: str) -> str:
    address, slash, bits = text.partition("/")
    plain = re.sub(r"(?<![0-9a-fA-F:])0+(?=[0-9])", "", address) if ":" not in address else address
    try:
        network = ipaddress.ip_interface(f"{plain}/{int(bits)}") if slash and bits.isdigit() else None
    except ValueError:
        network = None
    if network is None or "%" in text:
        return "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
    if plain != address or (len(bits) > 1 and bits.startswith("0")):
        return "must not have leading 0s in IP or prefix length"
    if network.version == 6 and network.ip.ipv4_mapped is not None:
        return "must not have an IPv4-mapped IPv6 address"
    if network.ip != network.network.network_address:
        return "must not have bits set beyond the prefix length"
    return ""


def canonical_interface_address(text: str) -> str | None:
    """The canonical form of an address with the length of its network; None if it is none."""
    address, slash, bits = text.partition("/")
    plain = re.sub(r"(?<![0-9a-fA-F:])0+(?=[0-9])", "", address) if ":" not in address else address
    if not (slash and bits.isdigit()) or "%" in text:
        return None
    try:
        return str(ipaddress.ip_interface(f"{plain}/{int(bits)}"))
    except ValueError:
        return None


def _by_problem(problem: Callable[[str], str]) -> Test:
    def report(value: str, at: str, out: list[Cause]) -> None:
        out.append(field_errors.invalid(at, value, problem(value)))

    def is_valid(value: str) -> bool:
        return not problem(value)

    return Test(is_valid, report)


ip_address: Final = _by_problem(_ip_problem)
cidr: Final = _by_problem(_cidr_problem)


def absolute_path(value: str, at: str, out: list[Cause], _context: Any) -> None:
    """A path that begins with a slash."""
    if not value.startswith("/"):
        out.append(field_errors.invalid(at, value, "must be an absolute path"))


def no_backsteps(value: str, at: str, out: list[Cause], _context: Any) -> None:
    """A path without `..`."""
    if ".." in value.split("/"):
        out.append(field_errors.invalid(at, value, "must not contain '..'"))


def local_path(value: str, at: str, out: list[Cause], _context: Any) -> None:
    """A relative path without `..`."""
    if value.startswith("/"):
        out.append(field_errors.invalid(at, value, "must be a relative path"))
    no_backsteps(value, at, out, None)


def non_reserved_path(value: str, at: str, out: list[Cause], _context: Any) -> None:
    """A relative path that neither contains nor begins with `..`."""
    local_path(value, at, out, None)
    if value.startswith("..") and not value.startswith("../"):
        out.append(field_errors.invalid(at, value, "must not start with '..'"))


def quantity(value: Any) -> Quantity:
    """The quantity of a value; zero if it is none, which the schema has reported."""
    if value.__class__ is str and len(value) <= MAX_CACHED:
        return _cached_quantity(value)
    return _quantity(value)


def _quantity(value: Any) -> Quantity:
    try:
        return Quantity.from_tree(value)
    except BadQuantity:
        return Quantity("0")


_cached_quantity = lru_cache(maxsize=2048)(_quantity)


def labels(value: dict[str, str], at: str, out: list[Cause], _context: Any) -> None:
    """The keys and values of labels; all causes have the path of the map."""
    for key, text in value.items():
        if label_key_problems(key) or (text and label_value_problems(text)):
            break
    else:
        return
    for key in sorted(value):
        out.extend([field_errors.invalid(at, key, one) for one in label_key_problems(key)])
        text = value[key] or ""
        out.extend([field_errors.invalid(at, text, one) for one in label_value_problems(text)])


def annotations(value: dict[str, str], at: str, out: list[Cause], _context: Any) -> None:
    """The keys of annotations, and the size of all."""
    for key in sorted(value):
        out.extend([field_errors.invalid(at, key, one) for one in label_key_problems(key.lower())])
    if sum(len(key) + len(text or "") for key, text in value.items()) > 256 * 1024:
        out.append(field_errors.too_long(at, 256 * 1024))


def label_selector(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    """A label selector: its labels, operators, keys and values."""
    labels(map_member(value, "matchLabels"), f"{at}.matchLabels", out, None)
    for index, one in enumerate(list_member(value, "matchExpressions")):
        _selector_requirement(one, f"{at}.matchExpressions[{index}]", out)


def is_set_operator(operator: str, values: list[Any], at: str, out: list[Cause]) -> bool:
    """Whether the operator of a requirement is one of sets; reports values that it must or must not have."""
    if operator in ("In", "NotIn"):
        if not values:
            out.append(field_errors.required(f"{at}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
        return True
    if operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            out.append(field_errors.forbidden(f"{at}.values", detail))
        return True
    return False


def _selector_requirement(one: Any, at: str, out: list[Cause]) -> None:
    values, operator, key = list_member(one, "values"), one.get("operator") or "", one.get("key") or ""
    if not is_set_operator(operator, values, at, out):
        out.append(field_errors.invalid(f"{at}.operator", operator, "not a valid selector operator"))
    check_label_requirement(key, values, at, out)


def check_label_requirement(key: str, values: list[str], at: str, out: list[Cause]) -> None:
    """The key and the values of a requirement on labels."""
    out.extend([field_errors.invalid(f"{at}.key", key, one) for one in label_key_problems(key)])
    for index, text in enumerate(values):
        where = f"{at}.values[{index}]"
        out.extend([field_errors.invalid(where, text, one) for one in label_value_problems(text)])


def unique(items: Iterable[Any], at: str, out: list[Cause]) -> None:
    """Reports the items of a list that occur before."""
    seen: set[Any] = set()
    for index, one in enumerate(items):
        if one in seen:
            out.append(field_errors.duplicate(f"{at}[{index}]", one))
        seen.add(one)
