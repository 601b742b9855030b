"""The tree shows the architecture: small folders, whole concepts, short functions, names that occur once.

The rules are those of docs/decisions/0026. Exceptions are listed with their reason in exceptions.toml; an entry that
is no longer needed fails, too.
"""

import statistics
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests.project.files import PACKAGE, SOURCES, TESTS, exceptions, relative
from tests.project.sources import lengths

FOLDER, SMALL, FUNCTION, TEST, P90 = 22, 60, 60, 40, 20
SPECIAL = {"__init__.py", "__main__.py"}


def lengths_of(paths: list[Path]) -> dict[str, int]:
    return {f"{relative(path)}:{name}": length for path in paths for name, length in lengths(path).items()}


def test_no_folder_has_too_many_modules() -> None:
    counts = Counter(relative(path.parent) for path in [*SOURCES, *TESTS])
    full = {folder: count for folder, count in counts.items() if count > FOLDER}
    assert sorted(full) == sorted(exceptions()["folder_size"]), full


def test_a_small_file_has_a_reason() -> None:
    counts = {relative(path): len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    small = {name for name, count in counts.items() if count < SMALL and Path(name).name not in SPECIAL}
    assert sorted(small) == sorted(exceptions()["small_file"])


def test_a_base_name_occurs_once_unless_the_folder_makes_the_difference() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path in SOURCES:
        if path.is_relative_to(PACKAGE) and path.name not in SPECIAL:
            places[path.stem].append(relative(path))
    twice = {name: found for name, found in places.items() if len(found) > 1}
    assert sorted(twice) == sorted(exceptions()["base_name_twice"]), twice


def test_no_function_is_long_without_a_reason() -> None:
    long = {name: count for name, count in lengths_of(SOURCES).items() if count > FUNCTION}
    long |= {name: count for name, count in lengths_of(TESTS).items() if count > TEST}
    assert sorted(long) == sorted(exceptions()["function_length"]), long


def test_nine_functions_of_ten_are_short() -> None:
    counts = sorted(lengths_of(SOURCES).values())
    assert statistics.quantiles(counts, n=10, method="inclusive")[-1] <= P90


@pytest.mark.parametrize("kind", sorted(exceptions()))
def test_every_exception_gives_a_reason(kind: str) -> None:
    assert [name for name, reason in exceptions()[kind].items() if len(reason.split()) < 4] == []
