"""String formats: the checks behind the `format` keyword.

The names are those of Kubernetes, without regard to dashes (`date-time` is `datetime`); an unknown format accepts
everything. The formats of numbers (`int32`, `float`) are ranges: see `numbers.py`.
"""

import binascii
import datetime as dt
import ipaddress
import re
from collections.abc import Callable, Mapping

from levelset.objects.lazy_pattern import Pattern

__all__ = ["INT32", "INT64", "TIME_IN_SECONDS", "is_quantity", "text_format"]

TIME_IN_SECONDS = "seconds"
"""The format of times of built-in kinds, which are stored in UTC and without fractions of a second."""
INT32 = (-(2**31), 2**31 - 1)
INT64 = (-(2**63), 2**63 - 1)


def text_format(name: str) -> Callable[[str], bool] | None:
    """The check for a string format; None if the format is unknown or accepts everything."""
    return _FORMATS.get(name.replace("-", ""))


def is_quantity(text: str) -> bool:
    """Whether the string is a quantity such as 500m, 1.5Gi or 1e3."""
    return _QUANTITY.fullmatch(text) is not None


_QUANTITY = Pattern(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[KMGTPE]i|[numkMGTPE]?|[eE][+-]?[0-9]+)")
_DATE = Pattern(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = Pattern(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:[.,][0-9]+)?(?:[zZ]|[+-][0-9]{2}:[0-9]{2})")
_GO_DURATION = Pattern(r"[+-]?(?:0|(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+)")
_LONG_DURATION = Pattern(
    r"[0-9]+\s*(?:ns|us|µs|ms|s|m|h|d|w|nano|micro|milli|sec|min|hr|hour|day|wk|week)", re.IGNORECASE
)
_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,251}[a-z0-9])?"
_URI = Pattern(r"(?:/|[A-Za-z][A-Za-z0-9+.-]*:)[^\s\x00-\x1f\x7f]*")
_EMAIL = Pattern(r"(?:[^<>]*<)?[^\s<>@\"(),:;\[\]\\]+@[^\s<>@]+>?")


def _is_date(text: str) -> bool:
    if _DATE.fullmatch(text) is None:
        return False
    try:
        dt.date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_date_time(text: str) -> bool:
    date, _, time = text.replace("t", "T").partition("T")
    found = _TIME.fullmatch(time)
    return found is not None and _is_date(date) and found[1] <= "23" and found[2] <= "59" and found[3] <= "59"


def _is_duration(text: str) -> bool:
    return len(text) <= 200 and (_GO_DURATION.fullmatch(text) or _LONG_DURATION.search(text)) is not None


def _is_ip(version: int) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            found = ipaddress.ip_address(text)
        except ValueError:
            return False
        return found.version == version and "%" not in text

    return check


def _is_cidr(text: str) -> bool:
    address, slash, bits = text.partition("/")
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return bool(slash) and bits.isdigit() and "%" not in address


def _is_base64(text: str) -> bool:
    """Standard base64 with padding; the empty text is none in a custom resource, and harmless."""
    try:
        binascii.a2b_base64(text, strict_mode=True)
    except (ValueError, binascii.Error):
        return False
    return len(text) % 4 == 0


def _is_uri(text: str) -> bool:
    if text == "*":  # which Go's parser takes for a request of the whole server
        return True
    return _URI.fullmatch(text) is not None and re.search(r"%(?![0-9A-Fa-f]{2})", text) is None


def _is_hostname(text: str) -> bool:
    """As upstream: a name without a dot has at most one dash, its second character, and the last label is letters."""
    *labels, last = text.split(".")
    if len(text) > 255 or any(len(one) > 63 for one in (*labels, last)):
        return False
    if not labels:
        return bool(last) and all(map(_is_host_character, last[0] + last[1:].removeprefix("-")))
    return all(map(_is_host_label, labels)) and len(last) >= 2 and all(map(str.isalpha, last))


def _is_host_label(text: str) -> bool:
    is_plain = all(one == "-" or _is_host_character(one) for one in text)
    return bool(text) and is_plain and text.strip("-") == text


def _is_host_character(text: str) -> bool:
    return text.isalpha() or text in _HOST_CHARACTERS


_HOST_CHARACTERS = frozenset("0123456789$+<=>^`|~")  # and symbols: upstream's pattern has them


def _is_credit_card(text: str) -> bool:
    digits = [int(one) for one in re.sub(r"[^0-9]", "", text)]
    if not 12 <= len(digits) <= 19:
        return False
    doubled = [one if at % 2 == 0 else sum(divmod(2 * one, 10)) for at, one in enumerate(reversed(digits))]
    return sum(doubled) % 10 == 0


def _is_isbn10(text: str) -> bool:
    plain = re.sub(r"[\s-]+", "", text)
    if re.fullmatch(r"[0-9]{9}[0-9Xx]", plain) is None:
        return False
    return sum((10 - at) * (10 if one in "Xx" else int(one)) for at, one in enumerate(plain)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    plain = re.sub(r"[\s-]+", "", text)
    if re.fullmatch(r"[0-9]{13}", plain) is None:
        return False
    return sum(int(one) * (3 if at % 2 else 1) for at, one in enumerate(plain)) % 10 == 0


def _is_rgb(text: str) -> bool:
    found = re.fullmatch(r"rgb\(\s*([0-9]{1,3})\s*,\s*([0-9]{1,3})\s*,\s*([0-9]{1,3})\s*\)", text)
    return found is not None and all(int(one) <= 255 for one in found.groups())


def _matches(pattern: str) -> Callable[[str], bool]:
    compiled = Pattern(pattern)
    return lambda text: compiled.fullmatch(text) is not None


def _uuid(third: str, fourth: str) -> Callable[[str], bool]:
    return _matches(f"[0-9a-fA-F]{{8}}-?[0-9a-fA-F]{{4}}-?{third}-?{fourth}-?[0-9a-fA-F]{{12}}")


_HEX4, _HEX3, _VARIANT = "[0-9a-fA-F]{4}", "[0-9a-fA-F]{3}", "[89abAB][0-9a-fA-F]{3}"
_MAC = "[0-9a-fA-F]{2}([:-])[0-9a-fA-F]{2}(?:\\1[0-9a-fA-F]{2}){4}|[0-9a-fA-F]{4}(?:\\.[0-9a-fA-F]{4}){2}"

_FORMATS: Mapping[str, Callable[[str], bool]] = {
    "bsonobjectid": _matches("[0-9a-fA-F]{24}"),
    "byte": lambda text: bool(text) and _is_base64(text),
    "bytes": _is_base64,  # of built-in kinds, which may be empty
    TIME_IN_SECONDS: lambda text: len(text) == len("2000-01-01T00:00:00Z") and text[-1] == "Z" and _is_date_time(text),
    "cidr": _is_cidr,
    "creditcard": _is_credit_card,
    "date": _is_date,
    "datetime": _is_date_time,
    "duration": _is_duration,
    "email": lambda text: _EMAIL.fullmatch(text) is not None,
    "hexcolor": _matches("#?(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "hostname": _is_hostname,
    "ipv4": _is_ip(4),
    "ipv6": _is_ip(6),
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "k8slongname": lambda text: len(text) <= 253 and all(re.fullmatch(_LABEL, one) for one in text.split(".")),
    "k8sshortname": lambda text: len(text) <= 63 and re.fullmatch(_LABEL, text) is not None,
    "mac": _matches(_MAC),
    "rgbcolor": _is_rgb,
    "ssn": _matches("[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}"),
    "uri": _is_uri,
    "uuid": _uuid(_HEX4, _HEX4),
    "uuid3": _uuid("3" + _HEX3, _HEX4),
    "uuid4": _uuid("4" + _HEX3, _VARIANT),
    "uuid5": _uuid("5" + _HEX3, _VARIANT),
}
