"""Links between pages of the documentation resolve."""

from pathlib import Path
from urllib.parse import unquote

from tests.project.files import ROOT, relative
from tests.project.markdown import Link, anchors, links, pages

OUTSIDE = ("http://", "https://", "mailto:")
LINKS = [link for path in pages() for link in links(path) if not link.target.startswith(OUTSIDE)]


def place(link: Link) -> str:
    return f"{relative(link.path)}:{link.line}: {link.target}"


def leads_somewhere(link: Link) -> bool:
    name, _, anchor = unquote(link.target).partition("#")
    target = (link.path.parent / name).resolve() if name else link.path
    return target.is_relative_to(ROOT) and target.exists() and (not anchor or anchor in anchors(target))


def test_every_link_leads_to_a_file_and_a_heading_that_exist() -> None:
    assert [place(link) for link in LINKS if not leads_somewhere(link)] == []


def test_headings_are_linked_as_github_spells_them(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# What `it` *is*\n\n## Why, oh why?\n\n## Why, oh why?\n\n```text\n# no heading\n```\n")
    assert anchors(page) == {"what-it-is", "why-oh-why", "why-oh-why-1"}


def test_links_in_code_are_not_links(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("See [a](b.md#c) and `[x](y)`.\n\n```text\n[d](e)\n```\n")
    assert [link.target for link in links(page)] == ["b.md#c"]


def test_every_decision_is_in_the_index_and_has_a_unique_number() -> None:
    decisions = sorted((ROOT / "docs/decisions").glob("*.md"))
    listed = {(link.path.parent / link.target).resolve() for link in links(ROOT / "docs/README.md")}
    assert [path.name for path in decisions if path not in listed] == []
    assert [path.name[:4] for path in decisions] == [f"{number:04}" for number in range(1, len(decisions) + 1)]
    assert all(path.name[:4].isdecimal() for path in decisions)
