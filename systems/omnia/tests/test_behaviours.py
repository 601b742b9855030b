"""BEHAVIOURS.md lists all behaviours, and each test that it names exists."""

import re
from pathlib import Path

__all__: list[str] = []

HERE = Path(__file__).parent
DOCUMENT = (HERE.parent / "BEHAVIOURS.md").read_text(encoding="utf-8")


def test_every_test_that_the_document_names_exists() -> None:
    texts = [path.read_text(encoding="utf-8") for path in HERE.rglob("test_*.py")]
    known = {name for text in texts for name in re.findall(r"def (test_\w+)\(", text)}
    assert sorted(set(re.findall(r"`(test_\w+)`", DOCUMENT)) - known) == []


def test_the_document_lists_all_fifty_six_behaviours() -> None:
    rows = re.findall(r"^\| ([0-9, ]+) \|", DOCUMENT, re.MULTILINE)
    assert sorted(int(number) for row in rows for number in row.split(",")) == list(range(1, 57))
