"""ARCHITECTURE.md is short, its layers equal the import contracts, and every path in it exists."""

import configparser
import re

import pytest

from tests.project.files import PACKAGE, ROOT, packages

PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
CONTRACTS = configparser.ConfigParser()
CONTRACTS.read(ROOT / ".importlinter", encoding="utf-8")


def contract(name: str) -> list[list[str]]:
    """The layers of an import-linter contract, top first."""
    rows = CONTRACTS[f"importlinter:contract:{name}"]["layers"].split("\n")
    return [sorted(part.strip() for part in row.split("|")) for row in rows if row.strip()]


def drawn(title: str) -> list[list[str]]:
    """The layers in the fenced block below a heading of the page, top first."""
    block = PAGE.split(f"\n## {title}\n")[1].split("```")[1]
    rows = [row for row in block.split("\n")[1:] if row.strip()]
    return [sorted(re.findall(r"[a-z0-9_.]+", row.split("#")[0])) for row in rows]


def test_the_page_can_be_read_in_ten_minutes() -> None:
    assert len(PAGE.splitlines()) <= 250


@pytest.mark.parametrize(("title", "name"), [("Layers", "layers"), ("Layers of the API server", "apiserver")])
def test_the_layers_of_the_page_are_those_of_the_contract(title: str, name: str) -> None:
    assert drawn(title) == contract(name)


def test_every_package_has_its_layer() -> None:
    assert sorted(name for row in contract("layers") for name in row) == sorted([*packages(), "errors"])


def test_every_part_of_the_api_server_has_its_layer() -> None:
    folder = PACKAGE / "apiserver"
    there = {path.stem for path in folder.glob("*.py")} | {path.parent.name for path in folder.glob("*/__init__.py")}
    assert sorted(name for row in contract("apiserver") for name in row) == sorted(there - {"__init__", "__main__"})


def test_every_path_that_the_page_names_exists() -> None:
    roots = ("src", "tests", "systems", "docs", "examples", "benchmarks", "scripts")
    paths = set(re.findall(r"`((?:\w+/)+[\w.-]*)`", PAGE))
    named = {path if path.startswith(roots) else f"src/levelset/{path}" for path in paths}
    assert len(named) > 20
    assert sorted(name for name in named if not (ROOT / name).exists()) == []
