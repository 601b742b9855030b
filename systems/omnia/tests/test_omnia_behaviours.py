"""The page of Omnia's behaviours names tests, and has all behaviours: each test exists."""

import re
from pathlib import Path

__all__: list[str] = []

HERE = Path(__file__).parent
PAGE = (HERE.parent / "BEHAVIOURS.md").read_text(encoding="utf-8")


def test_every_test_that_the_page_names_exists() -> None:
    texts = [path.read_text(encoding="utf-8") for path in HERE.glob("test_*.py")]
    known = {name for text in texts for name in re.findall(r"def (test_\w+)\(", text)}
    assert sorted(set(re.findall(r"`(test_\w+)`", PAGE)) - known) == []


def test_the_page_has_all_fifty_six() -> None:
    rows = re.findall(r"^\| ([0-9, ]+) \|", PAGE, re.MULTILINE)
    assert sorted(int(number) for row in rows for number in row.split(",")) == list(range(1, 57))
