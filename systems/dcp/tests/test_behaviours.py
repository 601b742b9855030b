"""BEHAVIOURS.md lists all behaviours, and names only tests that exist."""

import re
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PAGE = (HERE.parent / "BEHAVIOURS.md").read_text(encoding="utf-8")


def test_every_test_that_the_page_names_exists() -> None:
    folders = [HERE, ROOT / "systems" / "machine" / "tests", ROOT / "tests" / "aio", ROOT / "tests" / "runtime"]
    texts = [path.read_text(encoding="utf-8") for folder in folders for path in folder.rglob("test_*.py")]
    existing = {name for text in texts for name in re.findall(r"def (test_\w+)\(", text)}
    assert sorted(set(re.findall(r"`(test_\w+)`", PAGE)) - existing) == []


def test_the_page_has_all_sixty_six() -> None:
    rows = re.findall(r"^\| ([0-9, ]+) \|", PAGE, re.MULTILINE)
    assert sorted(int(number) for row in rows for number in row.split(",")) == list(range(1, 67))
