"""What `make test-peers` reads: reports of pytest and cargo, its suites, and what counts as a surprise."""

from pathlib import Path

from scripts.e2e_suite import Expectations, Outcome
from scripts.peer_suites import read_cargo_report, read_expectations, read_pytest_report, read_suites, surprises

PYTEST = """<testsuites><testsuite>
<testcase classname="tests.test_api" name="test_get" time="1.5"/>
<testcase classname="tests.test_api" name="test_exec" time="2"><failure message="no such\n  Pod"/></testcase>
<testcase classname="tests.test_api" name="test_gpu" time="0"><skipped message="no GPU"/></testcase>
</testsuite></testsuites>"""


def test_a_report_of_pytest_has_a_result_and_a_reason_for_each_test() -> None:
    assert list(read_pytest_report(PYTEST)) == [
        Outcome("tests.test_api.test_get", "passed", "", 1.5),
        Outcome("tests.test_api.test_exec", "failed", "no such Pod", 2.0),
        Outcome("tests.test_api.test_gpu", "skipped", "no GPU", 0.0),
    ]


CARGO = """running 3 tests
test api::entry::tests::create ... ok
test client::exec ... FAILED
test client::should_fail - should panic ... ok

failures:

---- client::exec stdout ----

thread 'client::exec' panicked at src/lib.rs:12:
no such
  Pod

failures:
    client::exec

test result: FAILED. 2 passed; 1 failed; 0 ignored
"""


def test_a_report_of_cargo_has_a_result_and_a_reason_for_each_test() -> None:
    assert list(read_cargo_report("kube-client", CARGO)) == [
        Outcome("kube-client::api::entry::tests::create", "passed"),
        Outcome("kube-client::client::exec", "failed", "thread 'client::exec' panicked at src/lib.rs:12: no such Pod"),
        Outcome("kube-client::client::should_fail", "passed"),
    ]


def test_a_surprise_is_a_new_failure_a_known_one_that_passes_and_a_suite_without_tests() -> None:
    expected = Expectations((".",), fail={"needs an image": ("exec", "gone")})
    outcomes = [Outcome("exec", "passed"), Outcome("gone", "failed", "x"), Outcome("get", "failed", "why")]
    assert surprises("kr8s", expected, outcomes) == ["kr8s: began to pass: exec", "kr8s: began to fail: get why"]
    assert surprises("kr8s", expected, [Outcome("get", "skipped")]) == ["kr8s: no test was run"]


def test_a_test_that_varies_is_no_surprise() -> None:
    expected = Expectations((".",), varies={"a race of its own": ("timeout",)})
    assert surprises("kr8s", expected, [Outcome("timeout", "failed"), Outcome("get", "passed")]) == []
    assert surprises("kr8s", expected, [Outcome("timeout", "passed")]) == []


def test_every_expectation_is_of_a_suite_and_every_stand_in_exists() -> None:
    suites = read_suites()
    assert set(read_expectations()) <= set(suites)
    for one in suites.values():
        assert one.on in ("serve", "up")
        assert one.files or one.crates
        assert not one.objects or (Path(__file__).parents[1] / "peers" / one.objects).is_file()
        assert all((Path(__file__).parents[1] / "peers" / ours).is_file() for ours in one.stand_ins.values())
