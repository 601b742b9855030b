"""The tables of the guides name everything that there is: each member of Context, each option, each relation."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import levelset
from levelset import Context, Controller, Resource, Spec, Status
from levelset.runtime.controller import SELF_CHANGES, Relation, relations
from levelset.runtime.controller.controller import ControllerOptions
from levelset.runtime.controller.relations import WatchOptions
from levelset.runtime.queue import DEFAULT_BACKOFF
from levelset.testing import ProcessOptions
from tests.project.files import ROOT

DOCS = ROOT / "docs"
NAMES: dict[str, Any] = {"DEFAULT_BACKOFF": DEFAULT_BACKOFF, "SELF_CHANGES": SELF_CHANGES, "None": None, "True": True}


class Site(Resource[Spec, Status], api="shop.example.dev/v1"):
    """A site of the shop."""


async def reconcile(site: Site, ctx: Context) -> None:
    """Does nothing."""


def rows(page: Path, heading: str) -> Iterator[list[str]]:
    """The rows of the tables below a heading, without their first two lines."""
    lines = page.read_text(encoding="utf-8").splitlines()
    start = lines.index(heading) + 1
    end = next((number for number, line in enumerate(lines[start:], start) if line.startswith("## ")), len(lines))
    head = {number for number, line in enumerate(lines) if line.startswith("|---")}
    for number in range(start, end):
        if lines[number].startswith("|") and not {number, number + 1} & head:
            yield [cell.strip() for cell in re.split(r"(?<!\\)\|", lines[number])[1:-1]]


def first_words(page: Path, heading: str, pattern: str) -> list[str]:
    """What a pattern finds in the first cells of the tables below a heading; each row must have it."""
    found = [(cells[0], re.match(pattern, cells[0])) for cells in rows(page, heading)]
    return sorted(match[1] if match else cell for cell, match in found)


def test_the_tables_of_the_context_name_each_of_its_public_members_once() -> None:
    listed = first_words(DOCS / "context.md", "## Everything it has", r"`ctx\.(\w+)")
    assert listed == sorted(name for name in dir(Context) if not name.startswith("_"))


def test_the_table_of_controllers_has_each_option_with_its_default() -> None:
    table = list(rows(DOCS / "controllers.md", "## All options"))
    options = {cells[0].strip("`"): cells[1] for cells in table if len(cells) == 3}
    controller = Controller(Site, reconcile)
    assert options.pop("name") == "the plural of the kind"
    assert controller.name == "sites"
    assert sorted([*options, "name"]) == sorted(ControllerOptions.__annotations__)
    for name, default in options.items():
        word = default.strip("`")
        value = NAMES[word] if word in NAMES else float(word)
        assert value == getattr(controller, name), name


def test_the_tables_of_relations_name_each_relation_and_each_option() -> None:
    page = DOCS / "relations.md"
    listed = first_words(page, "## Which relation for what", r"`(\w+)")
    made = [
        name
        for name in levelset.__all__
        if (function := getattr(relations, name, None)) is not None
        and issubclass(function.__annotations__.get("return", object), Relation)
    ]
    own = {
        one.name
        for function in (relations.owns, relations.references)
        for one in inspect.signature(function).parameters.values()
        if one.kind is one.KEYWORD_ONLY
    }
    assert listed == sorted([*made, *WatchOptions.__annotations__, *own])


def test_the_table_of_processes_has_each_option_of_a_test_process() -> None:
    listed = first_words(DOCS / "testing.md", "## Several processes", r"`(\w+)`")
    assert listed == sorted(ProcessOptions.__annotations__)
