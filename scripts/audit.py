"""`make audit`: known vulnerabilities of the locked dependencies (pip-audit), and bandit over the sources.

Vulnerabilities need data from the internet. Where that cannot be reached, the check is skipped, and says so; with
`--strict`, as CI has it, that is a failure. A finding of bandit needs a reason: the `noqa` of ruff's rule of the same
number on its line, or a line in `[tool.levelset.bandit]` of pyproject.toml.
"""

import argparse
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Advisories", "Finding", "main", "read_advisories", "unexplained"]

ROOT = Path(__file__).resolve().parent.parent
_SERVICES = ("pypi", "osv")


@dataclass(frozen=True, slots=True)
class Advisories:
    """What pip-audit says about one lock file."""

    vulnerable: list[str]
    audited: int
    skipped: list[str]


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding of bandit."""

    path: str
    lines: tuple[int, ...]
    test: str
    text: str


def read_advisories(report: Mapping[str, Any]) -> Advisories:
    """The report of pip-audit, of its format json."""
    vulnerable, audited, skipped = list[str](), 0, list[str]()
    for one in report["dependencies"]:
        if "skip_reason" in one:
            skipped.append(one["name"])
            continue
        audited += 1
        for found in one["vulns"]:
            mended = ", ".join(found["fix_versions"]) or "no version"
            vulnerable.append(f"{one['name']} {one['version']}: {found['id']}, mended in {mended}")
    return Advisories(vulnerable, audited, skipped)


def unexplained(findings: Iterable[Finding], reasons: Mapping[str, str], root: Path = ROOT) -> list[str]:
    """The findings without a reason, and the reasons without a finding."""
    found, used = list[str](), set[str]()
    for one in findings:
        key = f"{one.path}: {one.test}"
        if key in reasons:
            used.add(key)
        elif not _is_explained(one, root):
            found.append(f"{one.path}:{one.lines[0]}: {one.test} {one.text}")
    return [*found, *(f"[tool.levelset.bandit] has {key!r}, which is no finding" for key in reasons.keys() - used)]


def _is_explained(finding: Finding, root: Path) -> bool:
    """Whether the lines have the `noqa` of ruff's rule, whose number is bandit's."""
    lines = (root / finding.path).read_text(encoding="utf-8").splitlines()
    rule = re.compile(rf"noqa:[^#]*\bS{finding.test[1:]}\b")
    return any(rule.search(lines[number - 1]) for number in finding.lines)


def _audit_lock(lock: Path) -> Advisories | None:
    """The advisories for a lock file; None if no service has the data."""
    for service in _SERVICES:
        command = ["-m", "pip_audit", "--requirement", str(lock), "--require-hashes", "--disable-pip"]
        result = _run(*command, "--vulnerability-service", service, "--format", "json", "--timeout", "10")
        try:
            found = read_advisories(json.loads(result.stdout))
        except ValueError:
            continue
        if found.audited:
            return found
    return None


def _audit_locks(*, is_strict: bool) -> bool:
    is_fine = True
    for lock in sorted((ROOT / "requirements").glob("*.txt")):
        found = _audit_lock(lock)
        if found is None:
            print(
                "pip-audit: SKIPPED: neither PyPI's nor OSV's vulnerability data can be reached from here; CI runs "
                "this check, or run make audit on a machine with the internet"
            )
            return is_fine and not is_strict
        print(f"{lock.name}: {found.audited} packages audited, {len(found.vulnerable)} known vulnerabilities")
        for text in [
            *found.vulnerable,
            *(f"{name}: not audited, the index does not know it" for name in found.skipped),
        ]:
            print(f"  {text}")
        is_fine = is_fine and not found.vulnerable and not (is_strict and found.skipped)
    return is_fine


def _audit_sources() -> bool:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    folders = ["src", *(str(one.relative_to(ROOT)) for one in sorted(ROOT.glob("systems/*/src")))]
    result = _run("-m", "bandit", "--configfile", "pyproject.toml", "--format", "json", "--quiet", "-r", *folders)
    try:
        report = json.loads(result.stdout)
    except ValueError:
        sys.exit(f"bandit failed: {result.stderr}")
    findings = [
        Finding(one["filename"].removeprefix("./"), tuple(one["line_range"]), one["test_id"], one["issue_text"])
        for one in report["results"]
    ]
    wrong = unexplained(findings, settings["levelset"]["bandit"])
    print(f"bandit: {len(findings)} findings, {len(wrong)} without a reason")
    for text in wrong:
        print(f"  {text}")
    return not wrong


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


def main() -> int:
    """Runs both checks; the exit status says whether all is well."""
    parser = argparse.ArgumentParser(prog="make audit", description="Audit the dependencies and the sources.")
    parser.add_argument("--strict", action="store_true", help="fail if the vulnerability data cannot be reached")
    given = parser.parse_args()
    results = [_audit_sources(), _audit_locks(is_strict=given.strict)]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
