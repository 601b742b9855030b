"""`make audit`: what counts as a finding, and that nothing is skipped silently."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from scripts import audit
from scripts.audit import Advisories, Finding, read_advisories, unexplained


def test_a_vulnerability_is_reported_with_the_version_that_mends_it() -> None:
    advisory = {"id": "PYSEC-1", "fix_versions": ["1.1"]}
    found = read_advisories(
        {
            "dependencies": [
                {"name": "one", "version": "1.0", "vulns": [advisory]},
                {"name": "two", "version": "2.0", "vulns": []},
                {"name": "three", "skip_reason": "not found"},
            ]
        }
    )
    assert found.vulnerable == ["one 1.0: PYSEC-1, mended in 1.1"]
    assert (found.audited, found.skipped) == (2, ["three"])


def test_a_finding_needs_a_reason_on_its_line_or_in_the_settings(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("exec(x)  # noqa: S102 - ours\nexec(y)\nexec(z)  # noqa: S608 - other\n")
    findings = [Finding("a.py", (number,), "B102", "exec") for number in (1, 2, 3)]
    assert unexplained(findings, {}, tmp_path) == ["a.py:2: B102 exec", "a.py:3: B102 exec"]
    assert unexplained(findings, {"a.py: B102": "ours"}, tmp_path) == []


def test_a_reason_without_a_finding_is_reported(tmp_path: Path) -> None:
    assert unexplained([], {"a.py: B102": "gone"}, tmp_path) == [
        "[tool.levelset.bandit] has 'a.py: B102', which is no finding"
    ]


@pytest.mark.parametrize(
    ("results", "is_fine", "is_fine_strictly"),
    [
        ([Advisories([], 3, [])], True, True),
        ([Advisories([], 3, ["ours"])], True, False),
        ([Advisories(["one"], 3, [])], False, False),
        ([None], True, False),
        ([Advisories(["one"], 3, []), None], False, False),
    ],
    ids=["fine", "a package is unknown", "vulnerable", "no data", "vulnerable, then no data"],
)
def test_what_cannot_be_audited_fails_strictly_and_hides_no_vulnerability(
    results: list[Advisories | None],
    is_fine: bool,
    is_fine_strictly: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def answers() -> Iterator[Advisories | None]:
        yield from results
        while True:
            yield Advisories([], 1, [])

    for is_strict, expected in ((False, is_fine), (True, is_fine_strictly)):
        given = answers()
        monkeypatch.setattr(audit, "_audit_lock", lambda _, given=given: next(given))
        assert audit._audit_locks(is_strict=is_strict) is expected
        assert ("SKIPPED" in capsys.readouterr().out) is (None in results)


def test_ci_audits_and_skips_nothing() -> None:
    workflow = Path(__file__).parents[2] / ".github" / "workflows" / "ci.yml"
    assert "make audit STRICT=1" in workflow.read_text(encoding="utf-8")
