"""`Quantity`: resource quantities such as 500m or 1Gi, parsed and printed as Kubernetes does.

A quantity is exact: a whole number of billionths, of any size. Finer fractions are rounded away from zero when they are
parsed, so a small request never becomes zero.
"""

import math
from decimal import Decimal
from enum import Enum
from functools import lru_cache, total_ordering
from typing import TYPE_CHECKING, Final

from levelset.errors import BadQuantity
from levelset.objects.lazy_pattern import Pattern
from levelset.objects.names import quote

if TYPE_CHECKING:
    from fractions import Fraction

__all__ = ["MAX_SHARED", "Notation", "Quantity", "shared_quantity"]


class Notation(Enum):
    """The family of suffixes that a quantity is written with."""

    DECIMAL = "12M"
    BINARY = "12Mi"
    EXPONENT = "12e6"


@total_ordering
class Quantity:
    """An exact amount and its notation: `Quantity("1.5Gi") + Quantity("512Mi") == Quantity("2Gi")`.

    Equal numbers are equal quantities and have the same hash, whatever their notation. `str` returns the canonical
    form: no fraction, and the largest suffix that leaves a whole number. Two differences from Kubernetes: texts that
    are almost canonical (`+1`, `1.500`) are printed in canonical form too, and above 999E, where Kubernetes prints a
    wrong number, this continues in E and Ei.
    """

    __slots__ = ("nanos", "notation")  # not a dataclass: the codec would encode its attributes as JSON members

    nanos: int
    notation: Notation

    def __init__(self, text: str) -> None:
        nanos, notation = _parse(text)
        object.__setattr__(self, "nanos", nanos)
        object.__setattr__(self, "notation", notation)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Quantity is immutable; create another one instead of setting {name}")

    def __reduce__(self) -> tuple[object, ...]:
        return _make, (self.nanos, self.notation)

    @classmethod
    def parse(cls, text: str) -> "Quantity":
        """Parses a text, the same as `Quantity(text)`; raises BadQuantity with the position."""
        return cls(text)

    @classmethod
    def of(cls, number: "float | Decimal | Fraction", notation: Notation = Notation.DECIMAL) -> "Quantity":
        """The quantity of this number; a float counts as the decimal it prints as, so 0.1 is 100m.

        Raises BadQuantity for infinity, NaN, and numbers of 1e300 and above.
        """
        if isinstance(number, float | Decimal):
            return cls(str(number)).written_in(notation)
        if abs(number) >= 10**_MAX_DIGITS:
            raise BadQuantity(f"a quantity must be below 1e{_MAX_DIGITS}")
        return _make(_divide(number.numerator * _NANOS, number.denominator), notation)

    @classmethod
    def from_tree(cls, tree: object) -> "Quantity":
        """The quantity in a JSON tree, a string or a number; raises BadQuantity for anything else."""
        if isinstance(tree, int | float) and not isinstance(tree, bool):
            return cls.of(tree)
        if not isinstance(tree, str):
            raise BadQuantity(f"a quantity must be a text or a number, not {quote(tree)}")
        return shared_quantity(tree) if len(tree) <= MAX_SHARED else cls(tree)

    def __str__(self) -> str:
        return _format(self.nanos, self.notation)

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return self.nanos == other.nanos if isinstance(other, Quantity) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __lt__(self, other: "Quantity") -> bool:
        if not isinstance(other, Quantity):
            return NotImplemented
        return self.nanos < other.nanos

    def __bool__(self) -> bool:
        return self.nanos != 0

    # A sum has the notation of its first operand that is not zero, so that a sum may start from Quantity("0").
    def __add__(self, other: "Quantity") -> "Quantity":
        if not isinstance(other, Quantity):
            return NotImplemented
        return _make(self.nanos + other.nanos, self.notation if self else other.notation)

    def __sub__(self, other: "Quantity") -> "Quantity":
        if not isinstance(other, Quantity):
            return NotImplemented
        return _make(self.nanos - other.nanos, self.notation if self else other.notation)

    def __neg__(self) -> "Quantity":
        return _make(-self.nanos, self.notation)

    def __abs__(self) -> "Quantity":
        return _make(abs(self.nanos), self.notation)

    def __mul__(self, times: int) -> "Quantity":
        if not isinstance(times, int):
            return NotImplemented
        return _make(self.nanos * times, self.notation)

    __rmul__ = __mul__

    def __int__(self) -> int:
        """The amount rounded away from zero to a whole number."""
        return _divide(self.nanos, _NANOS)

    def __float__(self) -> float:
        """The nearest float; infinite if it is out of range."""
        try:
            return self.nanos / _NANOS
        except OverflowError:
            return math.inf if self.nanos > 0 else -math.inf

    def to_milli(self) -> int:
        """The number of thousandths, rounded away from zero: 1500 for 1.5."""
        return _divide(self.nanos, 10**6)

    def to_fraction(self) -> "Fraction":
        """The exact number."""
        # Imported on first use: few programs need it, and it loads slowly.
        from fractions import Fraction  # noqa: PLC0415

        return Fraction(self.nanos, _NANOS)

    def written_in(self, notation: Notation) -> "Quantity":
        """The same amount in another notation."""
        return _make(self.nanos, notation)


_NANOS = 10**9
_MAX_TEXT = 1000  # characters
_MAX_DIGITS = 300  # before the point: the exponent of a few characters could otherwise fill the memory
_MAX_BINARY = (2**63 - 1) * _NANOS

_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX = {exponent: suffix for suffix, exponent in _BINARY.items()} | {0: ""}

_number = Pattern(r"([+-]?)([0-9]*)(?:\.([0-9]*))?")
_exponent = Pattern(r"[eE]([+-]?[0-9]{1,18})")


MAX_SHARED: Final = 32
"""The longest text whose quantity is shared: 2,048 of them take less than a megabyte."""


# Parsing took half of the time to decode a Pod. The objects of a cluster write few different quantities, and those are
# immutable, so all objects share them.
@lru_cache(maxsize=2048)
def shared_quantity(text: str) -> Quantity:
    """The quantity of a text of at most `MAX_SHARED` characters, which the caller has checked."""
    return Quantity(text)


def _parse(text: str) -> tuple[int, Notation]:
    if not isinstance(text, str):
        raise BadQuantity(f"a quantity must be a text, not {quote(text)}")
    if len(text) > _MAX_TEXT:
        raise _bad(text, _MAX_TEXT, f"expected at most {_MAX_TEXT} characters")
    number = _number.match(text)
    sign, whole, fraction = number.groups(default="") if number else ("", "", "")
    if number is None or not whole + fraction:
        raise _bad(text, len(sign), "expected a number")
    base, exponent, notation = _read_suffix(text, number.end())
    nanos = _scale(int(whole + fraction), base, exponent, len(fraction))
    if nanos is None:
        raise _bad(text, number.end(), f"expected a number below 1e{_MAX_DIGITS}")
    if notation is Notation.BINARY:
        nanos = min(nanos, _MAX_BINARY)
        if 0 < nanos < _NANOS:
            notation = Notation.DECIMAL
    return -nanos if sign == "-" else nanos, notation


def _read_suffix(text: str, start: int) -> tuple[int, int, Notation]:
    suffix = text[start:]
    if suffix in _DECIMAL:
        return 10, _DECIMAL[suffix], Notation.DECIMAL
    if suffix in _BINARY:
        return 2, _BINARY[suffix], Notation.BINARY
    if exponent := _exponent.fullmatch(suffix):
        return 10, int(exponent.group(1)), Notation.EXPONENT
    wanted = f"one of {' '.join([*filter(None, _DECIMAL), *_BINARY])}, an exponent such as e3, or the end"
    raise _bad(text, start, f"expected {wanted}, found {quote(suffix)}")


def _scale(digits: int, base: int, exponent: int, places: int) -> int | None:
    """The billionths in digits * base**exponent / 10**places, rounded up; None if there are too many digits."""
    if base == 2:
        return _divide(digits * 2**exponent * _NANOS, 10**places)
    shift = exponent - places + 9
    if not digits:
        return 0
    if shift < -_MAX_TEXT:
        return 1  # above zero and below a billionth: rounded up
    if shift - 9 + len(str(digits)) > _MAX_DIGITS:
        return None
    return digits * 10**shift if shift >= 0 else _divide(digits, 10**-shift)


def _format(nanos: int, notation: Notation) -> str:
    if not nanos:
        return "0"
    whole, rest = divmod(nanos, _NANOS)
    # Below 1024, and for fractions, Kubernetes uses no binary suffix.
    if notation is Notation.BINARY and not rest and abs(whole) >= 1024:
        mantissa, exponent = _strip(whole, 2**10, steps=6)
        return f"{mantissa}{_BINARY_SUFFIX[exponent * 10]}"
    if notation is Notation.EXPONENT:
        mantissa, exponent = _strip(nanos, 10**3)
        power = exponent * 3 - 9
        return f"{mantissa}e{power}" if power else str(mantissa)
    mantissa, exponent = _strip(nanos, 10**3, steps=9)
    return f"{mantissa}{_DECIMAL_SUFFIX[exponent * 3 - 9]}"


def _strip(number: int, base: int, steps: int | None = None) -> tuple[int, int]:
    """The number divided by `base` as often as possible, at most `steps` times, and how often that was."""
    taken = 0
    while taken != steps and number % base == 0:
        number //= base
        taken += 1
    return number, taken


def _divide(number: int, by: int) -> int:
    """The quotient, rounded away from zero."""
    return -(-number // by) if number > 0 else number // by


def _make(nanos: int, notation: Notation) -> Quantity:
    quantity = Quantity.__new__(Quantity)
    object.__setattr__(quantity, "nanos", nanos)
    object.__setattr__(quantity, "notation", notation)
    return quantity


def _bad(text: str, position: int, problem: str) -> BadQuantity:
    return BadQuantity(f"quantity {quote(text)}, position {position}: {problem}", position=position)
