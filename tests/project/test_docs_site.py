"""The sources of the documentation site are complete: every page has its place, and every link leads to a page."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from scripts.docs_site import LINK, PACKAGES, assemble

from tests.project.files import ROOT

SETTINGS: dict[str, Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "docs"
    assemble(folder)
    return folder


def pages_of(entry: Any) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    parts = entry.values() if isinstance(entry, dict) else entry
    return [page for part in parts for page in pages_of(part)]


def test_every_page_is_in_the_navigation(sources: Path) -> None:
    made = {path.relative_to(sources).as_posix() for path in sources.rglob("*.md")}
    filled_in = {page for page in made if page.startswith(("decisions/", "reference/api/"))}
    assert sorted(made - filled_in) == sorted(pages_of(SETTINGS["nav"]))


def test_every_link_leads_to_a_page_or_a_picture(sources: Path) -> None:
    missing: list[str] = []
    for path in sources.rglob("*.md"):
        prose = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        for match in LINK.finditer(re.sub(r"`[^`\n]*`", "", prose)):
            target = match["target"].partition("#")[0]
            if target and not target.startswith(("http://", "https://", "mailto:")):
                missing += [f"{path.name}: {target}"] * (not (path.parent / target).resolve().is_file())
    assert missing == []


def test_every_package_of_the_reference_exists() -> None:
    places = {name: (ROOT / "src").joinpath(*name.split("."), "__init__.py") for name in PACKAGES}
    assert [name for name, place in places.items() if not place.is_file()] == []


def test_the_command_line_page_has_every_command(sources: Path) -> None:
    text = (sources / "reference/command-line.md").read_text(encoding="utf-8")
    assert {"## levelset up", "## levelset explore", "## levelset generate manifests"} <= set(text.splitlines())


def test_the_overview_for_programs_names_every_page(sources: Path) -> None:
    text = (sources / "llms.txt").read_text(encoding="utf-8")
    assert "(tutorial.html)" in text
    assert "(reference/api/levelset.client.html)" in text
