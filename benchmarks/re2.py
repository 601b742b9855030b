"""Measures regular expressions: compiling a pattern, and matching texts of several lengths.

Run `PYTHONPATH=src python benchmarks/re2.py`; google-re2 is measured beside ours if it is installed. Each text is matched
again and again, as a server does with the names of its objects, so what an engine caches is cached; *first* is the first
match of a new pattern with the longest text, compiling included.
"""

import re
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

from best_time import best
from levelset.re2 import Regex

LENGTHS = (6, 60, 250, 1000, 3000)
LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
WORD = r"[a-z0-9]+([._-][a-z0-9]+)*"
IMAGE = rf"^([a-z0-9.-]+(:[0-9]+)?/)?{WORD}(/{WORD})*(:\w[\w.-]{{0,127}})?(@sha256:[a-f0-9]{{64}})?$"
# Each pattern with a text that is repeated up to the length, and the end of the text.
PATTERNS = {
    "DNS label": (f"^{LABEL}$", "web-frontend", "x"),
    "RFC 1123 subdomain": (rf"^{LABEL}(\.{LABEL})*$", "web.example-1.", "x"),
    "image reference": (IMAGE, "team/app_", "x:v1"),
    "alternation": ("(error|warning|fatal|panic)", "all is fine ", "panic"),
    "`(a?){20}a{20}`": ("(a?){20}a{20}", "a", ""),
}


def text_of(unit: str, end: str, length: int) -> str:
    """A text of this length."""
    return (unit * length)[: length - len(end)] + end


@cache
def peer() -> Any:
    """The module of google-re2; None if it is not installed."""
    here = str(Path(__file__).resolve().parent)
    sys.path[:] = [one for one in sys.path if one != here]  # this file has the same name
    try:
        import re2
    except ImportError:
        return None
    return re2


def ours(pattern: str) -> Callable[[str], Any]:
    """A new regex, as if the pattern was never compiled before."""
    re.purge()
    return Regex(pattern).matches


def theirs(pattern: str) -> Callable[[str], Any]:
    """The same with google-re2, in its quickest way: without groups, on bytes."""
    google = peer()
    google.purge()
    options = google.Options()
    options.never_capture = True
    search = google.compile(pattern, options).search
    return lambda text: search(text.encode())


def measure(make: Callable[[str], Callable[[str], Any]], pattern: str, texts: list[str]) -> str:
    """The cells of one row."""
    match = make(pattern)
    cells = [best(partial(match, text)) for text in texts]
    cells += [best(partial(make, pattern)), best(lambda: make(pattern)(texts[-1]))]
    return " | ".join(f"{cell:.2f}" if cell < 100 else f"{cell:,.0f}" for cell in cells)


def main() -> None:
    print(f"| us | | {' | '.join(f'{length:,} characters' for length in LENGTHS)} | compile | first |")
    print(f"|---|---|{'---|' * (len(LENGTHS) + 2)}")
    for title, (pattern, unit, end) in PATTERNS.items():
        texts = [text_of(unit, end, length) for length in LENGTHS]
        print(f"| {title} | levelset | {measure(ours, pattern, texts)} |")
        if peer() is not None:
            for text in texts:
                assert ours(pattern)(text) == bool(theirs(pattern)(text)), (title, text)
            print(f"| | google-re2 | {measure(theirs, pattern, texts)} |")


if __name__ == "__main__":
    main()
