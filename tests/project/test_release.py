"""A release: the tag is the version, the workflow has no stored token, and the image runs without privileges."""

import re
from typing import Any

import pytest
import yaml
from scripts.check_release import problems_of_tag
from scripts.package_trials import PYTHONS
from scripts.sbom import constraints_of

from tests.project.files import ROOT

CHANGELOG = "## [Unreleased]\n\n## [0.2.0] - 2031-01-02\n"
RELEASE_TEXT = (ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8")
RELEASE: dict[str, Any] = yaml.safe_load(RELEASE_TEXT)
CI: dict[str, Any] = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
DOCKERFILE = (ROOT / "packaging/Dockerfile").read_text(encoding="utf-8")


def test_a_tag_that_is_the_version_and_in_the_changelog_is_released() -> None:
    assert problems_of_tag("v0.2.0", version="0.2.0", changelog=CHANGELOG) == []


@pytest.mark.parametrize(
    ("tag", "version", "problem"),
    [
        ("v0.3.0", "0.2.0", "the tag is v0.3.0, but pyproject.toml has 0.2.0"),
        ("v0.2.0.dev0", "0.2.0.dev0", "0.2.0.dev0 is a development version"),
        ("v0.3.0", "0.3.0", "CHANGELOG.md has no heading ## [0.3.0]"),
        ("v0x2.0", "0x2.0", "CHANGELOG.md has no heading ## [0x2.0]"),
    ],
)
def test_any_other_tag_is_refused(tag: str, version: str, problem: str) -> None:
    assert any(one.startswith(problem) for one in problems_of_tag(tag, version=version, changelog=CHANGELOG))


def test_the_constraints_of_a_lock_are_its_versions_without_hashes() -> None:
    lock = (
        "click==8.5.1 \\\n    --hash=sha256:00 \\\n    --hash=sha256:01\n"
        "uvloop==0.23.0 ; sys_platform != 'win32' \\\n    --hash=sha256:02\n"
    )
    assert constraints_of(lock) == "click==8.5.1\nuvloop==0.23.0 ; sys_platform != 'win32'\n"


def test_only_the_job_that_publishes_can_and_it_waits_for_an_approval() -> None:
    assert RELEASE["permissions"] == {}
    assert "secrets." not in RELEASE_TEXT
    publishing = RELEASE["jobs"]["publish"]
    assert publishing["environment"]
    assert publishing["permissions"] == {"id-token": "write"}
    writing = {name for name, job in RELEASE["jobs"].items() if "write" in job["permissions"].values()}
    assert writing == {"attest", "publish", "release"}


def test_packages_are_published_after_all_trials() -> None:
    assert set(RELEASE["jobs"]["attest"]["needs"]) == {"build", "check", "trials"}
    assert RELEASE["jobs"]["publish"]["needs"] == "attest"


@pytest.mark.parametrize("job", [RELEASE["jobs"]["trials"], CI["jobs"]["packages"]], ids=["release", "ci"])
def test_packages_are_tried_with_every_python(job: dict[str, Any]) -> None:
    assert tuple(job["strategy"]["matrix"]["python"]) == PYTHONS


def test_the_image_runs_without_root_and_reports_its_health() -> None:
    _, last = re.split(r"^FROM .* AS build$", DOCKERFILE, flags=re.MULTILINE)
    last = last[re.search(r"^FROM ", last, re.MULTILINE).start() :]  # type: ignore[union-attr]
    assert re.findall(r"^USER (.*)$", last, re.MULTILINE) == ["65532:65532"]
    assert "HEALTHCHECK " in last
    assert "RUN " not in last
