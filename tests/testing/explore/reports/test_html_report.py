"""The report as one HTML file: cause before symptom, both runs side by side, everything escaped, nothing loaded."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import msgspec
import pytest

from levelset.testing.explore import Report, explore
from levelset.testing.explore.reports.html_report import write_html
from tests.testing.explore.broken import forgetful, hopeless


@pytest.fixture(scope="module")
def report() -> Report:
    return explore(forgetful, budget=12, target="tests.testing.explore.broken:forgetful")


class Reader(HTMLParser):
    """The tags, attributes and texts of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_cause_comes_first_then_the_symptom_then_the_steps(report: Report) -> None:
    text = Reader(write_html([report])).text
    order = [text.index(one) for one in ("Cause", "crash after create ConfigMap/test/one-~#1", "Symptom", "Steps")]
    assert order == sorted(order)
    assert "an object is created twice: there are 2 of ConfigMap/test/one-~ instead of 1" in text
    assert "levelset explore tests.testing.explore.broken:forgetful --seed 1 --replay" in text


def test_steps_are_shown_beside_those_of_the_undisturbed_run(report: Report) -> None:
    rows = re.findall(r"<tr class=\"(\w+)\"[^>]*>(.*?)</tr>", write_html([report]))
    by_class = {kind: [re.sub(r"<[^>]*>", "|", one) for name, one in rows if name == kind] for kind, _ in rows}
    (disturbed,) = by_class["disturbed"]
    assert disturbed.count("a.1 creates ConfigMap/test/one-~ -&gt; 201") == 2
    assert any("a.1 starts" in one for one in by_class["same"])
    assert any("a.2 creates ConfigMap/test/one-~" in one for one in by_class["symptom"])


def test_steps_link_to_lines_of_the_source(report: Report) -> None:
    links = [value for name, value in Reader(write_html([report])).attributes if name == "href"]
    sources = {one for one in links if not one.startswith("#")}
    assert sources == {f"tests/testing/explore/broken.py#L{line}" for line in (34, 37)}


def test_nothing_is_loaded_or_run(report: Report) -> None:
    page = Reader(write_html([report]))
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert not [one for one in page.attributes if one[0] in {"src", "onclick"} or "//" in one[1]]


def test_all_text_is_escaped(report: Report) -> None:
    evil = "<script>alert(1)</script>\"'&\x00"
    (failure,) = report.failures
    finding = replace(failure.shown.findings[0], sentence=evil, expected=evil, actual=evil)
    steps = [msgspec.structs.replace(one, outcome=evil, site=f"{evil}:3") for one in failure.shown.trace]
    shown = replace(failure.shown, findings=(finding,), trace=replace(failure.shown.trace, steps=steps))
    page = write_html([replace(report, name=evil, notes=(evil,), failures=(replace(failure, shown=shown),))])
    assert "<script" not in page
    assert "\x00" not in page
    assert set(Reader(page).tags) == set(Reader(write_html([report])).tags)


def test_an_undisturbed_run_that_fails_is_shown_alone() -> None:
    text = Reader(write_html([explore(hopeless)])).text
    assert "the undisturbed run fails; no plan was run" in text
    assert "the scenario itself fails" in text


def test_call_sites_are_listed_with_what_happened_there(report: Report) -> None:
    text = Reader(write_html([report])).text
    assert "2 of 2 call sites reached" in text
    assert "tests/testing/explore/broken.py:34 reconcile" in text
