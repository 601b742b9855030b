"""Project metadata is consistent: version, packaging, licence, make targets, and no machine-specific paths."""

import importlib.metadata
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

import levelset
from tests.project.files import PACKAGE, ROOT, is_binary, relative, tracked

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")

# Written in pieces, so that this file passes its own test.
FORBIDDEN = {
    "a folder of one machine": r"(?<![\w.~<>{}$-])/(?:work|root|home|Users|mnt)" + r"/\w",
    "a package registry's host": "|".join(
        re.escape(".".join(name))
        for name in [("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("npmjs", "com"), ("crates", "io")]
    ),
    "unfinished work": r"\b(?:TO" + "DO|FIX" + r"ME|X" + r"XX)\b",
}


def test_the_installed_version_is_the_one_of_the_project() -> None:
    assert importlib.metadata.version("levelset") == PROJECT["project"]["version"] == levelset.__version__


def test_the_changelog_has_an_unreleased_section_and_released_ones() -> None:
    headings = re.findall(r"^## (.*)$", CHANGELOG, re.MULTILINE)
    assert headings[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d{2}-\d{2}", heading) for heading in headings[1:])
    version = PROJECT["project"]["version"]
    assert ".dev" in version or headings[1].startswith(f"[{version}]")


def test_the_changelog_uses_the_six_section_names() -> None:
    words = set(re.findall(r"^### (.*)$", CHANGELOG, re.MULTILINE))
    assert words <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_the_extra_for_everything_names_all_others() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    named = re.fullmatch(r"levelset\[([a-z,]+)\]", extras["all"][0])
    assert named
    assert set(named[1].split(",")) == set(extras) - {"all"}


def test_the_entry_point_of_the_command_exists() -> None:
    (command,) = importlib.metadata.entry_points(group="console_scripts", name="levelset")
    assert callable(command.load())


@pytest.mark.parametrize("path", [PACKAGE / "py.typed", ROOT / "LICENSE", ROOT / "SECURITY.md"], ids=relative)
def test_the_files_to_ship_are_tracked(path: Path) -> None:
    assert path in tracked()


def test_the_licence_is_the_one_that_is_named() -> None:
    assert PROJECT["project"]["license"] == "Apache-2.0"
    assert "Apache License" in (ROOT / "LICENSE").read_text(encoding="utf-8")


def test_the_readme_has_at_most_200_lines() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 200


def test_the_readme_names_only_make_targets_that_exist() -> None:
    named = set(re.findall(r"`make ([a-z-]+)`", (ROOT / "README.md").read_text(encoding="utf-8")))
    assert named
    assert named <= set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))


def test_every_make_target_has_a_description() -> None:
    match = re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    assert match
    assert set(match[1].split()) == set(re.findall(r"^([a-z0-9-]+):.*## \w", MAKEFILE, re.MULTILINE))


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_mentions(what: str) -> None:
    found: list[str] = []
    for path in tracked():
        data = path.read_bytes()
        text = "" if is_binary(data) else data.decode("utf-8", "replace")
        found += [f"{relative(path)}: {match[0]}" for match in re.finditer(FORBIDDEN[what], text)]
    assert found == []


def test_pictures_are_no_text_and_everything_that_is_written_is() -> None:
    binary = {path.suffix for path in tracked() if is_binary(path.read_bytes())}
    assert ".png" in binary
    assert not binary & {".py", ".md", ".js", ".css", ".html", ".toml", ".yaml", ".yml", ".json", ".svg", ".txt", ".sh"}


def scripts_venv(folder: Path, version: str | None) -> subprocess.CompletedProcess[str]:
    """A copy of scripts/venv in an empty project, on a machine whose every Python answers with `version`."""
    (folder / "scripts").mkdir()
    (folder / "bin").mkdir()
    shutil.copy(ROOT / "scripts/venv", folder / "scripts/venv")
    for tool in ("dirname", "rm", "cp"):
        (folder / "bin" / tool).symlink_to(shutil.which(tool) or "")
    for name in ["python3", "python3.11", "python3.12", "python3.13"] if version else []:
        fake = folder / "bin" / name
        fake.write_text(f'#!/bin/sh\ncase "$*" in *print*) echo {version} ;; *) exit 1 ;; esac\n')
        fake.chmod(0o755)
    command = ["/bin/sh", str(folder / "scripts/venv")]
    environment = {**os.environ, "PATH": str(folder / "bin")}
    return subprocess.run(command, cwd=folder, env=environment, check=False, capture_output=True, text=True)


@pytest.mark.parametrize(("version", "said"), [("3.9", "python3 is 3.9"), (None, "no python3 on PATH")])
def test_a_python_that_is_too_old_gets_a_sentence(tmp_path: Path, version: str | None, said: str) -> None:
    outcome = scripts_venv(tmp_path, version)
    assert outcome.returncode == 2
    assert outcome.stderr.startswith("levelset needs Python 3.11 or newer; found:")
    assert said in outcome.stderr
    assert not (tmp_path / ".venv").exists()
