"""What a run counts: all requests, and those about built-in kinds."""

from typing import Any

from tests.differential.fuzzer import Report, Tally, Trial, count

_POD = {"do": "POST /api/v1/namespaces/${ns}/pods"}
_WIDGET = {"do": "POST /apis/fuzz.example.com/v1/namespaces/${ns}/widgets"}
_OK: dict[str, Any] = {"status": 200}


def test_requests_about_built_in_kinds_are_counted_apart():
    report = Report()
    count(report, "a", [_POD, _POD], Trial(2, (_OK, _OK)))
    count(report, "b", [_WIDGET], Trial(1, (_OK,), theirs=_OK, ours={"status": 500}))
    assert (report.all, report.builtin) == (Tally(3, 2, 1, 0, 2), Tally(2, 1, 0, 2, 2))
    assert str(report.all).endswith("1 differ (66.67% agree, 50.00% of the sequences), 2 in a row agree")


def test_an_intended_difference_counts_as_agreement():
    report = Report()
    count(report, "a", [_POD], Trial(1, (_OK,), theirs=_OK, ours={"status": 500}, intended="a reason"))
    assert (report.all.different, dict(report.intended)) == (0, {"a reason": 1})
