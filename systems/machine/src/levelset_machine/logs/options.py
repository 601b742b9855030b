"""LogOptions: which part of a log is read, and how; parsed from the query of a request."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec

from levelset.errors import BadRequest, BadTime, Cause
from levelset.objects import parse_time

__all__ = ["LogOptions"]

_MOST_TAIL: Final = 1_000_000
_LONGEST_NUMBER: Final = 18
_FAR_BACK: Final = 10**10


class LogOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which lines are read, and what is printed with each. The options combine in this order.

    The first `skip` lines are left out; of the lines that exist when the reading begins, only the last `tail` are
    taken; of these, the ones not older than `since`; of those, at most `limit_lines` lines and `limit_bytes` bytes.
    """

    follow: bool = False
    """Whether to wait for further lines until the log ends."""
    tail: int | None = None
    skip: int | None = None
    limit_lines: int | None = None
    limit_bytes: int | None = None
    timestamps: bool = False
    line_numbers: bool = False
    since: datetime | None = None

    @classmethod
    def of_query(cls, query: Mapping[str, str], *, now: datetime) -> "LogOptions":
        """The options of a request, by the parameters of kubectl (`tailLines`, ...) or of DCP (`tail`, ...).

        Raises BadRequest, which names the parameter, if one is invalid.
        """
        options = cls(
            follow=_flag(query, "follow"),
            tail=_number(query, "tailLines", least=0, most=None) if "tailLines" in query else _tail(query),
            skip=_number(query, "skip", least=0, most=None),
            limit_lines=_number(query, "limit", least=1, most=None),
            limit_bytes=_number(query, "limitBytes", least=1, most=None),
            timestamps=_flag(query, "timestamps"),
            line_numbers=_flag(query, "lineNumbers") or _flag(query, "line_numbers"),
            since=_since(query, now),
        )
        _check_combinations(query, options)
        return options


def _check_combinations(query: Mapping[str, str], options: LogOptions) -> None:
    if options.limit_lines is not None and options.follow:
        raise _invalid("limit", "cannot be combined with `follow`; leave one of them out")
    if "tail" in query and options.skip is not None:
        raise _invalid("tail", "cannot be combined with `skip`; leave one of them out")
    if "tail" in query and "tailLines" in query:
        raise _invalid("tail", "means the same as `tailLines`; leave one of them out")


def _tail(query: Mapping[str, str]) -> int | None:
    return _number(query, "tail", least=0, most=_MOST_TAIL)


def _since(query: Mapping[str, str], now: datetime) -> datetime | None:
    seconds = _number(query, "sinceSeconds", least=1, most=None)
    if "sinceTime" not in query:
        return None if seconds is None else _ago(now, seconds)
    if seconds is not None:
        raise _invalid("sinceTime", "cannot be combined with `sinceSeconds`; leave one of them out")
    try:
        return parse_time(query["sinceTime"])
    except BadTime as error:
        raise _invalid("sinceTime", str(error)) from error


def _ago(now: datetime, seconds: int) -> datetime | None:
    """The time this many seconds before `now`; None, for no limit, if a datetime cannot hold it."""
    return None if seconds > _FAR_BACK else now - timedelta(seconds=seconds)


def _number(query: Mapping[str, str], field: str, *, least: int, most: int | None) -> int | None:
    text = query.get(field)
    if text is None:
        return None
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _LONGEST_NUMBER):
        raise _invalid(field, f"must be a whole number of at most {_LONGEST_NUMBER} digits, and is {text[:40]!r}")
    number = int(text)
    if number < least:
        raise _invalid(field, f"must be at least {least}, and is {number}")
    if most is not None and number > most:
        raise _invalid(field, f"must be at most {most}, and is {number}")
    return number


def _flag(query: Mapping[str, str], field: str) -> bool:
    """A boolean parameter as API servers parse it: present means true, except for `false` and `0`."""
    return field in query and query[field].lower() not in {"false", "0"}


def _invalid(field: str, message: str) -> BadRequest:
    return BadRequest(f"{field}: {message}", causes=[Cause(field, "FieldValueInvalid", message)])
