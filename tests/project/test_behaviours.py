"""Every test that docs/behaviours.md and docs/concepts/guarantees.md name exists."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "docs/behaviours.md", ROOT / "docs/concepts/guarantees.md")
NAMED = sorted({name for page in PAGES for name in re.findall(r"`(test_\w+)`", page.read_text())})


def test_every_test_that_the_pages_name_exists() -> None:
    texts = (path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    known = {name for text in texts for name in re.findall(r"def (test_\w+)\(", text)}
    assert [name for name in NAMED if name not in known] == []


def test_the_pages_name_tests() -> None:
    assert len(NAMED) > 100
