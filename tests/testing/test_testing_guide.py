"""The snippets of docs/testing.md, put into one folder, are a test suite that passes."""

import re

import pytest

from tests.project.files import ROOT
from tests.project.markdown import blocks
from tests.testing.test_pytest_plugin import ALONE

pytest_plugins = ["pytester"]

NAME = re.compile(r"# (\w+\.py)\n")


def test_the_files_of_the_guide_are_a_test_suite_that_passes(pytester: pytest.Pytester) -> None:
    texts = [block.text for block in blocks(ROOT / "docs" / "testing.md") if block.info == "python norun"]
    for text in texts:
        named = NAME.match(text)
        assert named, f"a snippet of the guide does not name its file: {text[:40]}"
        (pytester.path / named[1]).write_text(text, encoding="utf-8")
    pytester.syspathinsert()
    tests = sum(text.count("async def test_") for text in texts)
    assert tests > 4
    pytester.runpytest_inprocess(*ALONE).assert_outcomes(passed=tests)
