"""The runner of Kubernetes' e2e suite: what it makes of its output, and of its list of expectations."""

from scripts.e2e_suite import Expectations, outcome_of, read_expectations, report

SPEC = "[sig-apps] Job should run [Conformance]"
FAILED = """
  [FAILED] the pod
  never came
  In [It] at: a.go:1
Ran 1 of 7579 Specs in 1.3 seconds
FAIL! -- 0 Passed | 1 Failed | 0 Pending | 7578 Skipped
"""


def test_the_outcome_of_a_spec_is_read_from_the_last_line() -> None:
    passed = "SUCCESS! -- 1 Passed | 0 Failed | 0 Pending | 7578 Skipped"
    assert outcome_of(SPEC, passed, 2.0).result == "passed"
    assert outcome_of(SPEC, "SUCCESS! -- 0 Passed | 0 Failed | 0 Pending | 7579 Skipped", 2.0).result == "skipped"
    failed = outcome_of(SPEC, FAILED, 2.0)
    assert (failed.result, failed.why) == ("failed", "the pod never came")
    assert outcome_of(SPEC, "panic: no server", 2.0).why == "panic: no server"


def test_a_spec_that_was_ended_has_failed_even_if_it_passed_meanwhile() -> None:
    passed = "SUCCESS! -- 1 Passed | 0 Failed | 0 Pending | 7578 Skipped"
    outcome = outcome_of(SPEC, passed, 9.0, limit=5)
    assert (outcome.result, outcome.why.startswith("not done after 5 s")) == ("failed", True)


def test_a_spec_that_begins_to_pass_or_to_fail_is_reported() -> None:
    expected = Expectations(("Job",), fail={"known": (r"Job should",)})
    passed = outcome_of(SPEC, "1 Passed | 0 Failed | 0 Pending", 1.0)
    failed = outcome_of(SPEC, FAILED, 1.0)
    assert report("up", expected, [passed]) == [f"up: began to pass: {SPEC}"]
    assert report("up", expected, [failed]) == []
    assert report("up", Expectations(("Job",)), [failed]) == [f"up: began to fail: {SPEC}"]


def test_a_selected_spec_that_the_suite_skips_by_itself_is_reported() -> None:
    skipped = outcome_of(SPEC, "0 Passed | 0 Failed | 0 Pending", 1.0)
    assert report("up", Expectations(("Job",)), [skipped]) == [f"up: is skipped by the suite, and selected: {SPEC}"]


def test_a_spec_is_skipped_with_the_reason_of_the_list() -> None:
    expected = Expectations(("Job",), "needs a cluster", {"slow": (r"Job should run",)})
    assert expected.skipped(SPEC) == "slow"
    assert expected.skipped("[sig-apps] Job should end") == ""
    assert expected.skipped("[sig-node] Pods") == "needs a cluster"


def test_the_list_of_expectations_can_be_read() -> None:
    found = read_expectations()
    assert set(found) == {"serve", "up"}
    assert found["serve"].skipped("[sig-auth] ServiceAccounts should update a ServiceAccount [Conformance]") == ""
