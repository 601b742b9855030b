"""The runner of the default suite believes pytest's summary, and nothing else."""

from pathlib import Path

import pytest
from scripts.parallel_tests import Finished, parts

ROOT = Path(__file__).parent.parent.parent


def finished(output: str, code: int = 0) -> Finished:
    return Finished("tests/x", code, 1.0, output)


def test_the_summary_counts_even_if_the_process_complains_after_it() -> None:
    found = finished("=== 351 passed, 2 skipped in 19.84s ===\nException ignored in: <x>\n")
    assert found.counts == {"passed": 351, "skipped": 2}
    assert not found.has_failed
    assert not found.is_clean  # so that the complaint is shown


def test_a_process_that_ends_without_a_summary_has_failed() -> None:
    assert finished("tests/x ...").has_failed
    assert finished("=== 1 failed, 4 passed in 796.16s (0:13:16) ===\n", 1).has_failed


@pytest.mark.parametrize("line", ["=== no tests ran in 0.12s ===", "=== 12 deselected in 0.12s ==="])
def test_a_folder_without_tests_has_not_failed(line: str) -> None:
    found = finished(line, 5)
    assert (found.counts, found.has_failed, found.is_clean) == ({}, False, True)


def test_every_folder_of_tests_is_run_once() -> None:
    run = [folder for part in parts() for folder in part]
    there = {str(path.relative_to(ROOT)) for path in [*ROOT.glob("tests/*"), *ROOT.glob("systems/*/tests")]}
    packages = {one for one in there if any((ROOT / one).rglob("test_*.py"))}
    assert len(run) == len(set(run))
    assert packages <= set(run)
    assert [one for one in run if not (ROOT / one).is_dir()] == []
