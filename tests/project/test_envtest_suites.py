"""The runner of Go suites with envtest: what it makes of their reports, and of its list of expectations."""

import socket
import subprocess
import sys

import pytest
from scripts.e2e_suite import Expectations, Outcome
from scripts.envtest_suites import (
    Run,
    check_port,
    own_network,
    read_expectations,
    read_go_output,
    read_junit,
    surprises,
    table,
)
from scripts.kube_binaries import Missing

JUNIT = """<?xml version="1.0"?>
<testsuites><testsuite name="Client Suite">
  <testcase name="[BeforeSuite]" status="passed" time="1.5"></testcase>
  <testcase name="[It] Client should create" status="passed" time="0.25"></testcase>
  <testcase name="[It] Client should wait" status="skipped" time="0"><skipped message="later"/></testcase>
  <testcase name="[It] Client should fail" time="2"><failure message="Expected&#10; true">x</failure></testcase>
</testsuite></testsuites>"""


def test_the_specs_of_ginkgo_are_read_from_its_report() -> None:
    assert list(read_junit("client", JUNIT)) == [
        Outcome("client: Client should create", "passed", "", 0.25),
        Outcome("client: Client should wait", "skipped", "later"),
        Outcome("client: Client should fail", "failed", "Expected true", 2.0),
    ]


def test_a_suite_that_could_not_begin_is_a_failure() -> None:
    text = JUNIT.replace('name="[BeforeSuite]" status="passed" time="1.5">', 'name="[BeforeSuite]" time="1"><error/>')
    assert next(one.result for one in read_junit("client", text)) == "failed"


def test_the_tests_of_go_are_read_from_their_output() -> None:
    text = "=== RUN   TestA\n--- PASS: TestA (0.10s)\n--- FAIL: TestB (1.00s)\n    --- PASS: TestB/part (0.00s)\n"
    assert [(one.spec, one.result) for one in read_go_output("ours", text)] == [
        ("ours: TestA", "passed"),
        ("ours: TestB", "failed"),
    ]


def test_what_begins_to_pass_or_to_fail_or_says_nothing_is_reported() -> None:
    expected = {"levelset": Expectations(fail={"known": ("should fail",)}), "kube": Expectations()}
    found = tuple(read_junit("client", JUNIT))
    assert surprises(expected, [Run("client", "levelset", found, 1.0)]) == []
    assert surprises(expected, [Run("client", "kube", found, 1.0)]) == [
        "kube: began to fail: client: Client should fail Expected true"
    ]
    passed = (Outcome("client: Client should fail", "passed"),)
    assert surprises(expected, [Run("client", "levelset", passed, 1.0), Run("cache", "kube", (), 1.0)]) == [
        "kube: cache: no spec was run",
        "levelset: began to pass: client: Client should fail",
    ]


def test_the_table_says_how_many_times_faster() -> None:
    found = tuple(read_junit("client", JUNIT))
    shown = table([Run("client", "levelset", found, 2.0), Run("client", "kube", found, 9.0)])
    assert shown[1].split() == ["client", "1", "ok,", "1", "failed", "2.0", "1", "ok,", "1", "failed", "9.0", "4.5"]
    assert shown[2].split() == ["all", "2.0", "9.0", "4.5"]


def test_a_port_in_use_is_said_before_a_suite_waits_for_it() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(Missing, match="which is in use"):
            check_port(taken.getsockname()[1])


def test_the_list_of_expectations_can_be_read() -> None:
    assert set(read_expectations()) == {"levelset", "kube"}


def test_in_a_network_of_its_own_every_port_is_free() -> None:
    through = own_network()
    if not through:
        pytest.skip("a network of its own needs root, unshare and ip")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        script = f"import socket; socket.create_server(('', {taken.getsockname()[1]}))"
        assert subprocess.run([*through, sys.executable, "-c", script], check=False).returncode == 0
