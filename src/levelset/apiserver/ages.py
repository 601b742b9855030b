"""How long ago something was, in the few characters that kubectl prints: 37s, 5m12s, 4h, 3d."""

from datetime import datetime

from levelset.errors import BadTime
from levelset.objects import parse_time

__all__ = ["age", "human_duration"]

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400


def age(text: object, now: datetime) -> str:
    """The time since an RFC 3339 text: `<unknown>` if there is none, `<invalid>` if it is no time."""
    if text is None or text == "":
        return "<unknown>"
    try:
        then = parse_time(text) if isinstance(text, str) else None
    except BadTime:
        then = None
    return "<invalid>" if then is None else human_duration((now - then).total_seconds())


def human_duration(seconds: float) -> str:
    """A span of time with two or three digits that matter; `<invalid>` for a negative one."""
    whole = int(seconds)
    if whole < 0:
        return "0s" if whole == -1 else "<invalid>"  # clocks that differ by a blink do no harm
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    for end, size, unit, part, part_unit in _STEPS:
        if whole < end:
            return _two(whole, size, unit, part, part_unit)
    return f"{whole // _YEAR}y"


_STEPS = (
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", 0, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (2 * _DAY, _HOUR, "h", 0, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * _YEAR, _DAY, "d", 0, ""),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
)


def _two(whole: int, size: int, unit: str, part: int, part_unit: str) -> str:
    count, rest = divmod(whole, size)
    smaller = rest // part if part else 0
    return f"{count}{unit}{smaller}{part_unit}" if smaller else f"{count}{unit}"
