"""The `format` function of strings: `'%s has %d'.format(['a', 1])`."""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from levelset.cel.errors import EvaluationError
from levelset.cel.values import Duration, Timestamp, Uint, format_duration, format_timestamp, is_list, is_map, type_name
from levelset.objects.lazy_pattern import Pattern

__all__ = ["format_text"]

_CLAUSE = Pattern(r"%(?:(%)|(?:\.([0-9]{1,9}))?(.)?)", re.DOTALL)
_MAX_PRECISION = 1000
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def format_text(text: str, values: list[Any]) -> str:
    """The string with each verb replaced by the next value; raises EvaluationError for verbs that do not match."""
    pieces: list[str] = []
    last, used = 0, 0
    for match in _CLAUSE.finditer(text):
        pieces.append(text[last : match.start()])
        last = match.end()
        if match[1]:
            pieces.append("%")
            continue
        if used >= len(values):
            raise EvaluationError(f"index {used} out of range")
        pieces.append(_clause(match[3], match[2], values[used]))
        used += 1
    return "".join([*pieces, text[last:]])


def _clause(sign: str | None, precision: str | None, value: Any) -> str:
    if sign is None:
        raise EvaluationError("unexpected end of format string")
    if sign not in _SIGNS:
        raise EvaluationError(f'unrecognized formatting clause "{sign}"')
    digits = 6 if precision is None else int(precision)
    if digits > _MAX_PRECISION:
        raise EvaluationError(f"precision {digits} exceeds maximum allowed precision {_MAX_PRECISION}")
    return _SIGNS[sign](value, digits)


def _shown(value: Any, _: int = 0) -> str:
    """A value as %s prints it."""
    show = _PLAIN.get(value.__class__)
    if show is not None:
        return show(value)
    if is_list(value):
        items: list[Any] = value
        return f"[{', '.join(map(_shown, items))}]"
    if is_map(value):
        entries: Mapping[Any, Any] = value
        shown = sorted((_shown(key), _shown(one)) for key, one in entries.items())
        return f"{{{', '.join(f'{key}: {one}' for key, one in shown)}}}"
    if type_name(value) == "type":
        return str(value)
    raise _unfit(value, "string")


def _double(value: float) -> str:
    if math.isfinite(value):
        return f"{value:.6f}".rstrip("0").rstrip(".") if value == int(value) else repr(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _bytes(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _null(_: None) -> str:
    return "null"


def _uint(value: int) -> str:
    return str(int(value))


_PLAIN: Mapping[type, Callable[[Any], str]] = {
    str: str,
    bool: _bool,
    int: str,
    Uint: _uint,
    float: _double,
    bytes: _bytes,
    type(None): _null,
    Timestamp: format_timestamp,
    Duration: format_duration,
}


def _decimal(value: Any, _: int) -> str:
    if type(value) in (int, Uint):
        return str(int(value))
    if type(value) is float and not math.isfinite(value):
        return _double(value)
    raise _unfit(value, "int")


def _fixed(value: Any, digits: int) -> str:
    if type(value) in (int, Uint, float):
        return f"{value:.{digits}f}" if math.isfinite(value) else _double(value)
    raise _unfit(value, "double")


def _scientific(value: Any, digits: int) -> str:
    if type(value) in (int, Uint, float):
        return _powers(f"{value:.{digits}e}") if math.isfinite(value) else _double(value)
    raise _unfit(value, "double")


def _powers(shown: str) -> str:
    """A number with its exponent as a superscript, as upstream prints it in English."""
    digits, _, exponent = shown.partition("e")
    return f"{digits}\u00d710{exponent.removeprefix('+').translate(_RAISED)}"


def _binary(value: Any, _: int) -> str:
    if type(value) in (int, Uint, bool):
        return f"{int(value):b}"
    raise _unfit(value, "int")


def _octal(value: Any, _: int) -> str:
    if type(value) in (int, Uint):
        return f"{int(value):o}"
    raise _unfit(value, "int")


def _hex(value: Any, _: int) -> str:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").hex()
    if isinstance(value, bytes):
        return value.hex()
    if type(value) in (int, Uint):
        return f"{int(value):x}"
    raise _unfit(value, "int")


def _hex_upper(value: Any, _: int) -> str:
    return _hex(value, 0).upper()


_SIGNS: Mapping[str, Callable[[Any, int], str]] = {
    "s": _shown,
    "d": _decimal,
    "f": _fixed,
    "e": _scientific,
    "b": _binary,
    "o": _octal,
    "x": _hex,
    "X": _hex_upper,
}


def _unfit(value: Any, kind: str) -> EvaluationError:
    return EvaluationError(f"error during formatting: type conversion error from '{type_name(value)}' to '{kind}'")
