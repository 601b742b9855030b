"""What takes long is told to whoever sits at a terminal, and to nobody else."""

import io
import sys
import time

import pytest

from levelset.cli.progress import working


class Screen(io.StringIO):
    """A terminal that remembers, and tells the reader when something was written."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


def wait_for(screen: Screen, text: str) -> None:
    until = time.monotonic() + 10
    while text not in screen.getvalue() and time.monotonic() < until:
        time.sleep(0)


def test_a_wait_is_told_with_its_time_and_wiped_out_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen(is_terminal=True)
    monkeypatch.setattr(sys, "stderr", screen)
    with working("1 of 2: waits for the server", after=0.001):
        wait_for(screen, "(0s)")
    assert "\r\x1b[K1 of 2: waits for the server (0s)" in screen.getvalue()
    assert screen.getvalue().endswith("\r\x1b[K")


def test_what_is_quick_says_nothing_and_a_file_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for screen in (Screen(is_terminal=True), Screen(is_terminal=False)):
        monkeypatch.setattr(sys, "stderr", screen)
        with working("nothing", after=60 if screen.isatty() else 0):
            pass
        assert screen.getvalue() == ""
