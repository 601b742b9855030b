"""A file is one idea and a function does one thing: neither grows without a reason.

Lines are counted as an editor shows them, docstrings and comments included. A source file has at most 400, a function
60, and nine functions of ten have at most 25. A test file mirrors one source file and may be half as long again, 600; a
function in it has at most 40. Exceptions and their reasons are listed in exceptions.toml.
"""

import statistics
from pathlib import Path

import pytest

from tests.house.files import SOURCES, TESTS, exceptions, relative
from tests.house.sources import lengths

FILE, FUNCTION, MOST = 400, 60, 25
TEST_FILE, TEST = 600, 40


def lengths_of(paths: list[Path]) -> dict[str, int]:
    return {f"{relative(path)}:{name}": length for path in paths for name, length in lengths(path).items()}


def test_no_file_is_long_without_a_reason() -> None:
    limits = [*((path, FILE) for path in SOURCES), *((path, TEST_FILE) for path in TESTS)]
    counts = [(relative(path), len(path.read_text(encoding="utf-8").splitlines()), most) for path, most in limits]
    long = {name: count for name, count, most in counts if count > most}
    assert sorted(long) == sorted(exceptions()["file_length"]), long


def test_no_function_is_long_without_a_reason() -> None:
    long = {name: count for name, count in lengths_of(SOURCES).items() if count > FUNCTION}
    long |= {name: count for name, count in lengths_of(TESTS).items() if count > TEST}
    assert sorted(long) == sorted(exceptions()["function_length"]), long


def test_nine_functions_of_ten_are_short() -> None:
    counts = sorted(lengths_of(SOURCES).values())
    assert statistics.quantiles(counts, n=10, method="inclusive")[-1] <= MOST


@pytest.mark.parametrize("kind", sorted(exceptions()))
def test_every_exception_gives_a_reason(kind: str) -> None:
    assert [name for name, reason in exceptions()[kind].items() if len(reason.split()) < 4] == []
