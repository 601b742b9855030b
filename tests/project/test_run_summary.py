"""The last lines of the suites that run the programs of others."""

import time

from scripts.run_summary import run_summary


def test_it_counts_what_was_skipped_by_reason_and_says_how_long_all_took() -> None:
    lines = run_summary(time.monotonic() - 100, ["no GPU", "needs two nodes", "no GPU"])
    assert lines == ["skipped 2: no GPU", "skipped 1: needs two nodes", "took 1 min 40 s"]


def test_it_says_that_nothing_was_skipped() -> None:
    assert run_summary(time.monotonic(), []) == ["skipped nothing", "took 0 min 0 s"]
