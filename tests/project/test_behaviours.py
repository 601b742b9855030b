"""Every test that docs/behaviours.md names exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/behaviours.md"
NAMED = sorted(set(re.findall(r"`(test_\w+)`", PAGE.read_text())))


@pytest.fixture(scope="module")
def known() -> set[str]:
    texts = (path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    return {name for text in texts for name in re.findall(r"def (test_\w+)\(", text)}


@pytest.mark.parametrize("name", NAMED)
def test_a_test_that_the_page_names_exists(name: str, known: set[str]) -> None:
    assert name in known


def test_the_page_names_tests() -> None:
    assert len(NAMED) > 100
