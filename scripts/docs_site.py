"""Assembles the sources of the documentation site in build/docs: docs/, pages of the repository, and the reference.

Run by `make docs-site` before the site is built (mkdocs.yml). A link to a file of the repository leads to its page in
the site; if it has none, as source code, the link becomes plain text, since the site is read without the repository.
"""

import posixpath
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

__all__ = ["assemble", "main"]

ROOT = Path(__file__).parent.parent
PAGES = {
    "index.md": "README.md",
    "architecture.md": "ARCHITECTURE.md",
    "benchmarks.md": "benchmarks/README.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "security.md": "SECURITY.md",
    "support.md": "SUPPORT.md",
    **{f"systems/{name}.md": f"systems/{name}/README.md" for name in ("local", "omnia", "dcp", "machine")},
}
"""The pages whose source is outside of docs/, by their place in the site."""
PACKAGES = (
    "levelset",
    "levelset.aio",
    "levelset.apiserver",
    "levelset.cel",
    "levelset.client",
    "levelset.codegen",
    "levelset.dashboard",
    "levelset.http",
    "levelset.objects",
    "levelset.patch",
    "levelset.runtime.cache",
    "levelset.runtime.controller",
    "levelset.runtime.manager",
    "levelset.runtime.queue",
    "levelset.runtime.state",
    "levelset.runtime.watch",
    "levelset.runtime.webhook",
    "levelset.storage",
    "levelset.testing",
    "levelset.testing.contracts",
    "levelset.testing.explore",
)
"""The packages with a page in the API reference."""
LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
FENCED = re.compile(r"(^ *```.*?^ *```$)", re.MULTILINE | re.DOTALL)
OUTSIDE = ("http://", "https://", "mailto:", "#")


def assemble(to: Path) -> None:
    """Writes the sources of the site to a folder, which is emptied first."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(ROOT / "docs", to, ignore=shutil.ignore_patterns("README.md", "*.py", "__pycache__"))
    pages = _pages()
    for place, text in pages.items():
        path = to / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(_relinked(text, place, pages)), encoding="utf-8")
    (to / "llms.txt").write_text("".join(_overview(pages)), encoding="utf-8")


def main() -> None:
    """Assembles the sources, and writes the settings of the site with its whole navigation beside them."""
    to = ROOT / "build/docs"
    assemble(to)
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    for section in settings["nav"]:
        if "Reference" in section:
            section["Reference"][0] = {"API": [{name: f"reference/api/{name}.md"} for name in PACKAGES]}
        if "Decisions" in section:
            section["Decisions"] = sorted(f"decisions/{path.name}" for path in (to / "decisions").glob("*.md"))
    settings |= {"docs_dir": "docs", "site_dir": "site"}
    settings["plugins"][1]["mkdocstrings"]["handlers"]["python"]["paths"] = ["../src"]
    (to.parent / "mkdocs.yml").write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")


def _pages() -> dict[str, str]:
    """All pages of the site, by their place in it."""
    pages = {place: (ROOT / source).read_text(encoding="utf-8") for place, source in PAGES.items()}
    for path in sorted((ROOT / "docs").rglob("*.md")):
        place = path.relative_to(ROOT / "docs").as_posix()
        if place != "README.md":
            pages[place] = path.read_text(encoding="utf-8")
    pages |= {f"reference/api/{name}.md": f"# {name}\n\n::: {name}\n" for name in PACKAGES}
    pages["reference/errors.md"] = "# Errors\n\n::: levelset.errors\n"
    pages["reference/command-line.md"] = "".join(_command_line())
    return pages


def _overview(pages: Mapping[str, str]) -> Iterator[str]:
    """llms.txt: what there is to read, for programs that read."""
    yield "# levelset\n\n> Kubernetes controllers in Python, with a control plane in a box.\n\n## Pages\n\n"
    for place, text in pages.items():
        yield f"- [{_title(text)}]({place.removesuffix('.md')}.html)\n"


def _title(text: str) -> str:
    return next(line for line in text.splitlines() if line.startswith("# "))[2:].replace("`", "")


def _relinked(text: str, place: str, pages: Mapping[str, str]) -> Iterator[str]:
    """The parts of a page, code and prose in turn, with links to the pages of the site."""
    replaced = _replacer(place, pages)
    for at, part in enumerate(FENCED.split(text)):
        yield part if at % 2 else LINK.sub(replaced, part)


def _replacer(place: str, pages: Mapping[str, str]) -> Callable[[re.Match[str]], str]:
    source = PAGES.get(place, f"docs/{place}")

    def replaced(match: re.Match[str]) -> str:
        target, _, anchor = match["target"].partition("#")
        if not target or match["target"].startswith(OUTSIDE):
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        found = _page_of(path)
        if found not in pages and not path.startswith("docs/images/"):
            return match["text"]
        if path == "docs/README.md":
            anchor = ""
        relative = posixpath.relpath(found, posixpath.dirname(place) or ".")
        return f"{match['image']}[{match['text']}]({relative}{'#' + anchor if anchor else ''})"

    return replaced


def _page_of(path: str) -> str:
    """The place in the site of a file of the repository."""
    for place, source in PAGES.items():
        if source == path:
            return place
    return "index.md" if path == "docs/README.md" else path.removeprefix("docs/")


def _command_line() -> Iterator[str]:
    """The help of every command, as the command prints it."""
    import click  # noqa: PLC0415 -- with levelset's extra `cli`

    from levelset.cli.commands import levelset  # noqa: PLC0415 -- as above

    yield "# Command line\n\nWhat `levelset COMMAND --help` prints.\n"
    context = click.Context(levelset, info_name="levelset")
    yield from _commands(levelset, context)


def _commands(command: Any, context: Any) -> Iterator[str]:
    for name in sorted(command.list_commands(context)):
        found = command.get_command(context, name)
        below = type(context)(found, info_name=name, parent=context)
        yield f"\n## {below.command_path}\n\n```text\n{found.get_help(below)}\n```\n"
        if hasattr(found, "list_commands"):
            yield from _commands(found, below)


if __name__ == "__main__":
    main()
