"""The report of explorations as one HTML file: cause and symptom of each failure, its steps beside the undisturbed run.

The file has no scripts and loads nothing, so it can be read without a network. All text is escaped.
"""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final
from urllib.parse import quote
from xml.etree.ElementTree import Element, SubElement, tostring

from levelset.testing.explore.records.call_sites import shown_path
from levelset.testing.explore.records.run_result import Finding, RunResult
from levelset.testing.explore.records.trace import Step, Trace
from levelset.testing.explore.reports.report import Failure, Report, describe_step, is_shown, printable

__all__ = ["write_html"]

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --bad: #c62828; --good: #2e7d32; --mark: #f9a82544 }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 90rem; padding: 0 1rem }
article { border: 1px solid var(--line); border-left: 4px solid var(--bad); border-radius: 4px; margin: 1.5rem 0;
  padding: 0 1.2rem 1rem }
table { border-collapse: collapse; width: 100% }
th, td { border-bottom: 1px solid var(--line); padding: .2rem .6rem; text-align: left; vertical-align: top;
  overflow-wrap: anywhere }
td.number, th.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; width: 1% }
tr.same { opacity: .65 }
tr.disturbed { background: var(--mark); font-weight: 600 }
tr.symptom td:first-child { border-left: 4px solid var(--bad) }
td.source { min-width: 9rem }
td.none, .never { color: var(--bad) }
.ok { color: var(--good) } .bad { color: var(--bad) }
code, pre { font-family: ui-monospace, monospace; font-size: .93em }
pre, p code { background: var(--soft); padding: .1rem .4rem; white-space: pre-wrap; overflow-wrap: anywhere }
"""
_MOST_STEPS: Final = 500
"""The maximum number of steps of a run that are shown."""


def write_html(reports: Sequence[Report]) -> str:
    """The reports as one HTML document."""
    page = Element("html", lang="en")
    head = SubElement(page, "head")
    SubElement(head, "meta", charset="utf-8")
    SubElement(head, "meta", {"http-equiv": "Content-Security-Policy", "content": _POLICY})
    SubElement(head, "meta", name="viewport", content="width=device-width, initial-scale=1")
    _add(head, "title", f"Exploration: {', '.join(one.name for one in reports)}")
    SubElement(head, "style").text = _STYLE
    body = SubElement(page, "body")
    for number, report in enumerate(reports, 1):
        _add_report(SubElement(body, "section"), report, f"r{number}")
    return f"<!doctype html>\n{tostring(page, encoding='unicode', method='html')}\n"


def _add(parent: Element, tag: str, text: str = "", **attributes: str) -> Element:
    """Adds an element with a text; `of` stands for the attribute `class`."""
    made = SubElement(parent, tag, {{"of": "class"}.get(name, name): value for name, value in attributes.items()})
    made.text = printable(text)
    return made


def _add_report(section: Element, report: Report, anchor: str) -> None:
    _add(section, "h1", report.name)
    first, *warnings = report.summary().splitlines()
    _add(section, "p", first, of="ok" if report.ok else "bad")
    for text in (*warnings, *(f"note: {one}" for one in report.notes)):
        _add(section, "p", text)
    if not report.undisturbed.ok:
        _add_failure(section, report, Failure(report.undisturbed, report.undisturbed.plan), f"{anchor}f0")
    for number, failure in enumerate(report.failures, 1):
        _add_failure(section, report, failure, f"{anchor}f{number}")
    _add_families(section, report)
    _add_coverage(section, report)


def _add_failure(section: Element, report: Report, failure: Failure, anchor: str) -> None:
    article = SubElement(section, "article", id=anchor)
    shown = failure.shown
    _add(article, "h2", str(shown.findings[0]))
    _add(article, "h3", "Cause")
    _add(article, "p", str(shown.plan))
    for step in shown.trace:
        if step.disturbance:
            _add_step(_add(article, "p"), step, anchor)
    _add(article, "h3", "Symptom")
    symptoms = SubElement(article, "ul")
    for finding in shown.findings:
        _add_finding(SubElement(symptoms, "li"), finding, anchor)
    _add(article, "h3", "Steps")
    _add_timeline(article, shown, report.undisturbed, anchor)
    replay = _add(article, "p", "Replay: ")
    _add(replay, "code", report.replay(shown.plan))
    if failure.others:
        _add(
            article, "p", f"{failure.others} more {'plan fails' if failure.others == 1 else 'plans fail'} in this mode."
        )


def _add_step(parent: Element, step: Step, anchor: str) -> None:
    """A step with a link to its row and to its line of the source."""
    _add(
        parent, "a", f"Step {step.number}", href=f"#{anchor}s{step.number}"
    ).tail = f": {printable(describe_step(step))} "
    _add_source(parent, step)


def _add_source(parent: Element, step: Step) -> None:
    if step.site:
        path, _, line = step.site.rpartition(":")
        shown = shown_path(path)
        _add(parent, "a", f"{shown}:{line}", href=f"{quote(shown)}#L{line}")


def _add_finding(item: Element, finding: Finding, anchor: str) -> None:
    _add(item, "strong", str(finding))
    for name, value in (("expected", finding.expected), ("actual", finding.actual)):
        if value:
            _add(item, "pre", f"{name}: {value}")
    if finding.step is not None:
        _add_step(_add(item, "div"), finding.step, anchor)


def _add_timeline(article: Element, failed: RunResult, undisturbed: RunResult, anchor: str) -> None:
    table = SubElement(article, "table")
    head = SubElement(table, "tr")
    for text, kind in (
        ("step", "number"),
        ("second", "number"),
        ("this run", ""),
        ("source", ""),
        ("undisturbed run", ""),
    ):
        _add(head, "th", text, of=kind)
    symptoms = {one.step.number for one in failed.findings if one.step is not None}
    is_same_run = failed.trace is undisturbed.trace
    for mine, theirs in _aligned(failed.trace, Trace() if is_same_run else undisturbed.trace):
        row = SubElement(table, "tr")
        row.set("class", _row_class(mine, theirs, symptoms))
        if mine is not None:
            row.set("id", f"{anchor}s{mine.number}")
        _add(row, "td", "" if mine is None else str(mine.number), of="number")
        _add(row, "td", "" if mine is None else f"{mine.at:.3f}", of="number")
        _add(row, "td", "" if mine is None else describe_step(mine))
        source = _add(row, "td", of="source")
        if mine is not None:
            _add_source(source, mine)
        _add(row, "td", "" if theirs is None else describe_step(theirs))
    left = sum(map(is_shown, failed.trace)) - _MOST_STEPS
    if left > 0:
        _add(article, "p", f"{left} more steps are not shown; the command below shows all.")


def _row_class(mine: Step | None, theirs: Step | None, symptoms: set[int]) -> str:
    if mine is not None and mine.disturbance:
        return "disturbed"
    if mine is not None and mine.number in symptoms:
        return "symptom"
    return "same" if mine is not None and theirs is not None else "other"


def _aligned(failed: Trace, undisturbed: Trace) -> Iterator[tuple[Step | None, Step | None]]:
    """The steps of both runs in pairs; None where one of them has no such step."""
    mine = list(filter(is_shown, failed))[:_MOST_STEPS]
    theirs = list(filter(is_shown, undisturbed))[:_MOST_STEPS]
    matcher = SequenceMatcher(None, [*map(_key, mine)], [*map(_key, theirs)], autojunk=False)
    for tag, first, last, other_first, other_last in matcher.get_opcodes():
        if tag == "equal":
            yield from zip(mine[first:last], theirs[other_first:other_last], strict=True)
            continue
        for step in mine[first:last]:
            yield step, None
        for step in theirs[other_first:other_last]:
            yield None, step


def _key(step: Step) -> tuple[str, ...]:
    return step.process, step.act, str(step.name), step.outcome


def _add_families(section: Element, report: Report) -> None:
    if report.families:
        _add(section, "h2", "Disturbances")
        rows = [(word, (played, failed)) for word, (played, failed) in sorted(report.families.items())]
        _add_table(section, ("disturbance", "plans", "failed"), rows)


def _add_coverage(section: Element, report: Report) -> None:
    if not report.coverage.sites:
        return
    _add(section, "h2", "Call sites")
    _add(section, "p", report.coverage.summary().splitlines()[0])
    rows = [
        (f"{one} {one.function}", (one.reached, one.crashed, one.failed, one.delayed)) for one in report.coverage.sites
    ]
    _add_table(section, ("call site", "reached", "crashed", "failed", "delayed"), rows)


def _add_table(section: Element, head: Sequence[str], rows: Sequence[tuple[str, Sequence[int]]]) -> None:
    table = SubElement(section, "table")
    titles = SubElement(table, "tr")
    for index, text in enumerate(head):
        _add(titles, "th", text, of="number" if index else "")
    for name, numbers in rows:
        row = SubElement(table, "tr")
        _add(row, "td", name, of="" if any(numbers) else "never")
        for number in numbers:
            _add(row, "td", str(number), of="number" if number else "number none")
