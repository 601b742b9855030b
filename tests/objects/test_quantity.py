"""Quantities: exact, and written as Kubernetes writes them."""

import copy
import math
import pickle
import random
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelset.errors import BadQuantity
from levelset.objects.quantity import Notation, Quantity

SUFFIXES = [*"numkMGTPE", "", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-3", "e+6", "e0", "e-9"]
quantities = st.builds(
    lambda nanos, notation: Quantity.of(Fraction(nanos, 10**9), notation),
    st.integers(-(10**30), 10**30)
    | st.integers(-5000, 5000).map(lambda n: n * 10**9)
    | st.builds(lambda n, e: n * 1024**e * 10**9, st.integers(-2000, 2000), st.integers(0, 5)),
    st.sampled_from(Notation),
)


@pytest.mark.parametrize(
    ("text", "printed"),
    [("0", "0"), ("0n", "0"), ("0Ki", "0"), ("00", "0"), ("0e5", "0"), ("-0", "0"), ("500m", "500m"),
     ("1500m", "1500m"), ("1.953125Ki", "2000"), ("1025", "1025"),
     ("1.5", "1500m"), ("1.500", "1500m"), ("0.5", "500m"), (".5", "500m"), ("5.", "5"), ("+1", "1"), ("1.G", "1G"),
     ("1000", "1k"), ("1000m", "1"), ("1000M", "1G"), ("0.001T", "1G"), ("1234567M", "1234567M"), ("50k", "50k"),
     ("100.035k", "100035"), ("9.01", "9010m"), ("1.08", "1080m"), ("1080000000n", "1080m"), ("12E", "12E"),
     ("1000E", "1000E"), ("1000000E", "1000000E"), ("10000000000000000000", "10E"), ("9223372036854775808", None),
     ("999999999999999999.1", "999999999999999999100m"), ("1.0000000000000000001E", "1000000000000000000100m"),
     ("1Ki", "1Ki"), ("1024Ki", "1Mi"), ("1024Mi", "1Gi"), ("1.5Gi", "1536Mi"), ("0.5Gi", "512Mi"), ("0.5Mi", "512Ki"),
     ("1025024Mi", "1001Gi"), ("0.5Ki", "512"), ("0.9765625Ki", "1k"), ("0.1Ki", "102400m"), (".001Ki", "1024m"),
     (".000000000001Ki", "2n"), ("100.035Ki", "102435840m"), ("0.05Gi", "53687091200m"), ("8Ki", "8Ki"),
     ("1e3", "1e3"), ("1E3", "1e3"), ("12e6", "12e6"), ("1.5e3", "1500"), ("1E", "1E"), ("1E6", "1e6"), ("1e1", "10"),
     ("1e4", "10e3"), ("1e14", "100e12"), ("1e0", "1"), (".001e12", "1e9"), ("0.001e0", "1e-3"), ("1000e-12", "1e-9"),
     ("1e21", "1e21"), ("1e100", "10e99")],
)  # fmt: skip
def test_a_quantity_prints_in_canonical_form(text, printed):
    assert str(Quantity(text)) == (printed or text)
    negative = "0" if printed == "0" else "-" + (printed or text)
    assert str(Quantity("-" + text.lstrip("+-"))) == negative


@pytest.mark.parametrize(
    ("text", "nanos"),
    [("3.001n", 4), ("1.1E-9", 2), ("0.0000000001", 1), ("0.9n", 1), ("0.00000012345", 124), ("1e-1000", 1),
     ("1e-2000000000", 1), ("-0.1n", -1), ("1.0000000001Ki", 1024000000103), ("0." + "0" * 900 + "1", 1)],
)  # fmt: skip
def test_less_than_a_billionth_is_rounded_away_from_zero(text, nanos):
    assert Quantity(text).nanos == nanos


@pytest.mark.parametrize("text", ["9Ei", "8Ei", "9223372036854775807Ki", "1000000Ei"])
def test_binary_quantities_end_at_the_largest_integer_of_64_bits(text):
    assert int(Quantity(text)) == 2**63 - 1
    assert int(Quantity("-" + text)) == -(2**63 - 1)


@pytest.mark.parametrize(
    ("text", "notation"),
    [("1", Notation.DECIMAL), ("1m", Notation.DECIMAL), ("1E", Notation.DECIMAL), ("1Ki", Notation.BINARY),
     ("0Ki", Notation.BINARY), ("0.0001Ki", Notation.DECIMAL), ("1e3", Notation.EXPONENT), ("1E3", Notation.EXPONENT)],
)  # fmt: skip
def test_a_quantity_remembers_its_notation(text, notation):
    assert Quantity(text).notation is notation


@pytest.mark.parametrize(
    ("text", "position"),
    [("", 0), ("-", 1), (".", 0), ("-.", 1), ("Ki", 0), ("e3", 0), ("1.1.M", 3), ("1+1.0M", 1), ("0.1mi", 3),
     ("0.1am", 3), ("aoeu", 0), (".5i", 2), ("1i", 1), ("1ki", 1), ("-3.01i", 5), ("-3.01e-", 5), ("1e", 1), (" 1", 0),
     ("1 ", 1), ("1\n", 1), ("1e3.5", 1), ("1e+-3", 1), ("--1", 1), ("1_0", 1), ("\u0661", 0), ("1KI", 1), ("nan", 0),
     ("1e301", 1), ("9" * 301, 301), ("1e999999999999999999", 1), ("1e" + "9" * 30, 1), ("0" * 1001, 1000)],
)  # fmt: skip
def test_a_broken_quantity_is_refused_with_its_position(text, position):
    with pytest.raises(BadQuantity) as caught:
        Quantity.parse(text)
    assert caught.value.position == position


@given(quantities)
def test_a_printed_quantity_parses_to_an_equal_one_that_prints_the_same(quantity):
    text = str(quantity)
    if quantity.notation is Notation.BINARY and abs(int(quantity)) >= 2**63 and text.endswith("i"):
        return
    assert Quantity(text) == quantity
    assert hash(Quantity(text)) == hash(quantity)
    # A number without a suffix, such as the 2000 that 1.953125Ki is, has lost its notation; else this says nothing.
    assert str(Quantity(text).written_in(quantity.notation)) == text


@given(quantities)
def test_a_canonical_quantity_has_no_fraction_and_the_largest_suffix(quantity):
    text = str(quantity)
    digits = text.lstrip("-").rstrip("numkMGTPEKi").partition("e")[0]
    assert digits.isdecimal()
    is_binary = quantity.notation is Notation.BINARY and abs(quantity) >= Quantity("1Ki") and text[-1] in "i0123456789"
    base = 1024 if is_binary else 1000
    assert text.endswith(("E", "Ei")) or digits == "0" or int(digits) % base


@given(quantities, quantities)
def test_sums_and_differences_are_exact(one, other):
    assert (one + other).to_fraction() == one.to_fraction() + other.to_fraction()
    assert (one - other).to_fraction() == one.to_fraction() - other.to_fraction()
    assert one + other == other + one
    assert one + other - other == one
    assert (-one).to_fraction() == -one.to_fraction()
    assert (one * 3).to_fraction() == (3 * one).to_fraction() == one.to_fraction() * 3


@given(quantities, quantities, quantities)
def test_quantities_are_in_one_order_that_of_their_numbers(one, two, three):
    ordered = sorted([one, two, three])
    assert [each.to_fraction() for each in ordered] == sorted(each.to_fraction() for each in (one, two, three))
    assert (one <= two) == (one.to_fraction() <= two.to_fraction()) == (not one > two)
    assert (one < two) + (one == two) + (one > two) == 1


@given(st.from_regex(r"[+-]?([0-9]{1,12}\.?[0-9]{0,6}|\.[0-9]{1,6})", fullmatch=True), st.sampled_from(SUFFIXES))
def test_a_quantity_is_exact(number, suffix):
    scales = dict(zip("numkMGTPE", [10**-9, 10**-6, 10**-3, 10**3, 10**6, 10**9, 10**12, 10**15, 10**18], strict=True))
    quantity = Quantity(number + suffix)
    if suffix.endswith("i"):
        worth = Fraction(number) * 1024 ** (1 + "KMGTPE".index(suffix[0]))
    elif suffix in scales:
        worth = Fraction(number) * Fraction(scales[suffix]).limit_denominator(10**9)
    else:
        worth = Fraction(number) * Fraction("1" + suffix)
    if suffix.endswith("i") and abs(worth) > 2**63 - 1:
        assert abs(quantity.to_fraction()) == 2**63 - 1
    else:
        assert abs(quantity.to_fraction() - worth) < Fraction(1, 10**9)
        assert abs(quantity.to_fraction()) >= abs(worth)


@pytest.mark.parametrize(
    ("one", "other", "total"),
    [("0", "100m", "100m"), ("100m", "0", "100m"), ("0", "1Gi", "1Gi"), ("1Gi", "0", "1Gi"),
     ("1Gi", "1G", "2073741824"), ("1G", "1Gi", "2073741824"), ("512Mi", "512Mi", "1Gi"), ("1e3", "1k", "2e3"),
     ("1", "500m", "1500m")],
)  # fmt: skip
def test_a_sum_is_written_like_its_first_part_that_is_not_zero(one, other, total):
    assert str(Quantity(one) + Quantity(other)) == total


def test_the_same_number_is_the_same_quantity_in_any_notation():
    assert Quantity("1Ki") == Quantity("1024") == Quantity("1.024e3") == Quantity("1024000m")
    assert len({Quantity("1Ki"), Quantity("1024"), Quantity("1024000m")}) == 1
    assert Quantity("10000T") > Quantity("100Gi")
    assert Quantity("1") != 1
    assert str(Quantity("1024").written_in(Notation.BINARY)) == "1Ki"


@pytest.mark.parametrize(
    ("text", "whole", "milli"),
    [("1", 1, 1000), ("500m", 1, 500), ("1.5", 2, 1500), ("-1.5", -2, -1500), ("1u", 1, 1), ("0", 0, 0),
     ("1Ki", 1024, 1024000)],
)  # fmt: skip
def test_whole_numbers_and_thousandths_are_rounded_away_from_zero(text, whole, milli):
    assert int(Quantity(text)) == whole
    assert Quantity(text).to_milli() == milli


def test_a_quantity_becomes_the_nearest_float():
    assert float(Quantity("100m")) == 0.1
    assert float(Quantity("-1Gi")) == -(2.0**30)
    assert float(Quantity("1e299") * 10**20) == math.inf
    assert float(Quantity("-1e299") * 10**20) == -math.inf


def test_a_quantity_is_made_from_a_number():
    assert str(Quantity.of(2)) == "2"
    assert str(Quantity.of(0.1)) == "100m"
    assert str(Quantity.of(1e-7)) == "100n"
    assert str(Quantity.of(Decimal("1.25"))) == "1250m"
    assert str(Quantity.of(Fraction(1, 3))) == "333333334n"
    assert str(Quantity.of(2**30, Notation.BINARY)) == "1Gi"


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, 10**300, 1e308, Decimal("1e999999"), Decimal("NaN")])
def test_infinity_and_nan_are_not_quantities(number):
    with pytest.raises(BadQuantity):
        Quantity.of(number)


def test_a_tree_may_hold_a_quantity_as_text_or_number():
    assert Quantity.from_tree("1Gi") == Quantity("1Gi")
    assert Quantity.from_tree(2) == Quantity("2")
    assert Quantity.from_tree(0.5) == Quantity("500m")


@pytest.mark.parametrize("tree", [None, True, [], {}, ["1"], b"1", "x", math.nan])
def test_nothing_else_in_a_tree_is_a_quantity(tree):
    with pytest.raises(BadQuantity):
        Quantity.from_tree(tree)


@pytest.mark.parametrize("value", [None, 3, b"1", ["1"]])
def test_a_quantity_must_be_a_string(value):
    with pytest.raises(BadQuantity, match="must be a text"):
        Quantity.parse(value)


def test_a_quantity_is_a_value():
    quantity = Quantity("1Gi")
    assert repr(quantity) == "Quantity('1Gi')"
    assert str(pickle.loads(pickle.dumps(quantity))) == str(copy.copy(quantity)) == "1Gi"
    assert quantity
    assert not Quantity("0")
    with pytest.raises(AttributeError):
        quantity.nanos = 3


@pytest.mark.parametrize(
    "wrong", [lambda q: q + 1, lambda q: q - "1", lambda q: q < 1, lambda q: q * 1.5, lambda q: q >= "1"]
)
def test_a_quantity_and_something_else_do_not_mix(wrong):
    with pytest.raises(TypeError):
        wrong(Quantity("1"))


def test_any_text_is_a_quantity_or_a_bad_quantity():
    source = random.Random(3)
    for _ in range(8000):
        text = "".join(source.choices("0123456789..eE+-inumkKMGTP \x00\u0661\ud800", k=source.randrange(10)))
        try:
            quantity = Quantity(text)
        except BadQuantity as error:
            assert error.position in range(len(text) + 1)
            assert str(error).isprintable()
        else:
            assert Quantity(str(quantity)) == quantity


def test_objects_share_the_quantities_that_they_write_alike() -> None:
    assert Quantity.from_tree("250m") is Quantity.from_tree("250m")
    assert Quantity.from_tree("0.25") == Quantity.from_tree("250m")
    assert str(Quantity.from_tree("250m")) != str(Quantity.from_tree("0.25Ki"))


def test_a_long_text_is_parsed_and_not_shared() -> None:
    text = "1" * 40
    assert Quantity.from_tree(text) == Quantity.from_tree(text)
    assert Quantity.from_tree(text) is not Quantity.from_tree(text)
