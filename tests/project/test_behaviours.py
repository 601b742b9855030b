"""Every test that docs/behaviours.md and docs/concepts/guarantees.md name exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "docs/behaviours.md", ROOT / "docs/concepts/guarantees.md")
NAMED = sorted({name for page in PAGES for name in re.findall(r"`(test_\w+)`", page.read_text())})


@pytest.fixture(scope="module")
def known() -> set[str]:
    texts = (path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    return {name for text in texts for name in re.findall(r"def (test_\w+)\(", text)}


@pytest.mark.parametrize("name", NAMED)
def test_a_test_that_the_page_names_exists(name: str, known: set[str]) -> None:
    assert name in known


def test_the_pages_name_tests() -> None:
    assert len(NAMED) > 100
