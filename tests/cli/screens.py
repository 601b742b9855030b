"""Terminals that remember what was written to them."""

import io
import time

__all__ = ["Screen", "wait_for"]


class Screen(io.StringIO):
    """A terminal that remembers, or a file that does."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


def wait_for(screen: Screen, text: str) -> None:
    until = time.monotonic() + 10
    while text not in screen.getvalue() and time.monotonic() < until:
        time.sleep(0)
