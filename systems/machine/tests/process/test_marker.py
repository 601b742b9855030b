"""The marker of a run: as an environment variable, and as a resource limit."""

import resource
import subprocess

import pytest

from levelset_machine.process.marker import (
    inherited_marker,
    limit_of_marker,
    new_token,
    read_limit_marker,
    run_marker,
)
from levelset_machine.process.table import read_entry

LOCKS = 10


def limit_in_child(marker: str) -> str:
    """The marker that a process has in its resource limit, if it is started with this one."""
    with inherited_marker(marker):
        child = subprocess.Popen(["/bin/sleep", "600"], env={})
    try:
        return read_limit_marker(child.pid)
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize("count", [1, 7, (1 << 22) - 1])
def test_a_process_inherits_the_marker_as_a_limit(count: int) -> None:
    marker = run_marker(new_token(), count)
    assert limit_in_child(marker) == marker


def test_a_token_that_begins_with_zeros_is_read_as_it_was_written() -> None:
    assert limit_in_child("0000000001.1") == "0000000001.1"


def test_the_limit_of_this_process_is_restored() -> None:
    before = resource.getrlimit(LOCKS)
    with inherited_marker(run_marker(new_token(), 1)):
        assert resource.getrlimit(LOCKS) != before
    assert resource.getrlimit(LOCKS) == before


@pytest.mark.parametrize("marker", ["", "token.1", "0123456789", "0123456789.x", "0123456789.0", "0123456789.4194304"])
def test_a_marker_that_does_not_fit_is_no_limit(marker: str) -> None:
    assert limit_of_marker(marker) is None
    assert limit_in_child(marker) == ""


def test_a_process_without_marker_has_none() -> None:
    child = subprocess.Popen(["/bin/sleep", "600"], env={})
    try:
        entry = read_entry(child.pid, marker=True)
        assert entry is not None
        assert (entry.marker, read_limit_marker(2**22 + 1)) == ("", "")
    finally:
        child.kill()
        child.wait()
