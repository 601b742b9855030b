"""The sources of the documentation site are complete: every page has its place, and every link leads to a page."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from scripts.docs_site import LINK, PACKAGES, assemble, unrendered_fences

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


def test_fences_have_a_language_only_since_markdown_shows_others_as_text(sources: Path) -> None:
    opened = [line for path in sources.rglob("*.md") for line in path.read_text(encoding="utf-8").splitlines()]
    assert [line for line in opened if line.startswith("```") and " " in line] == []
    assert "```python\n" in (sources / "testing.md").read_text(encoding="utf-8")


def test_a_page_that_shows_a_fence_as_text_is_found(tmp_path: Path) -> None:
    (tmp_path / "good.html").write_text("<pre><code>x = 1</code></pre>", encoding="utf-8")
    assert unrendered_fences(tmp_path) == []
    (tmp_path / "guides").mkdir()
    (tmp_path / "guides/bad.html").write_text("<p>```python norun x = 1```</p>", encoding="utf-8")
    assert unrendered_fences(tmp_path) == ["guides/bad.html"]


def test_the_page_of_the_built_in_kinds_has_every_module_and_class(sources: Path) -> None:
    text = (sources / "reference/kinds.md").read_text(encoding="utf-8")
    modules = {path.stem for path in (ROOT / "src/levelset/kinds").glob("*_v[0-9].py")}
    assert {f"## levelset.kinds.{name}" for name in modules} <= set(text.splitlines())
    assert {"`Deployment`", "`PodTemplateSpec`", "`LabelSelector`"} <= set(re.findall(r"`\w+`", text))


def test_the_overview_for_programs_has_every_page_in_the_order_of_the_site(sources: Path) -> None:
    text = (sources / "llms.txt").read_text(encoding="utf-8")
    pages = re.findall(r"^- \[.+?\]\((.+?)\.html\)", text, re.MULTILINE)
    assert sorted(f"{page}.md" for page in pages) == sorted(
        path.relative_to(sources).as_posix() for path in sources.rglob("*.md")
    )
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == [name for section in SETTINGS["nav"] for name in section]
    assert pages.index("tutorial") < pages.index("kinds") < pages.index("reference/api/levelset")


def test_the_overview_for_programs_says_what_a_page_is_about(sources: Path) -> None:
    text = (sources / "llms.txt").read_text(encoding="utf-8")
    assert "](kinds.html): A kind is a class.\n" in text
    undescribed = [line for line in text.splitlines() if line.endswith(".html)")]
    assert [line for line in undescribed if "decisions/" not in line and "reference/" not in line] == []


def test_the_style_of_the_site_lets_commands_be_copied_without_their_prompts(sources: Path) -> None:
    assert [(sources / name).is_file() for name in SETTINGS["extra_css"]] == [True]
    assert "[data-md-copying] .gp" in (sources / "site.css").read_text(encoding="utf-8")
