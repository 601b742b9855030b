"""ARCHITECTURE.md tells how the house is: every room and every file, no more and no less."""

import configparser
import re

import pytest

from tests.house.files import PACKAGE, ROOT, rooms

PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
ROOM = re.compile(r"^### `(\w+)`", re.MULTILINE)


def told(room: str) -> list[str]:
    """The files in the table below a room's heading."""
    section = re.split(r"^#{2,3} ", PAGE, flags=re.MULTILINE)
    (mine,) = [text for text in section if text.startswith(f"`{room}`")]
    return re.findall(r"^\| `(\w+\.py)` \|", mine, re.MULTILINE)


def floors() -> list[tuple[list[str], list[str]]]:
    """(there, planned) for each floor of the table, top first."""
    section = PAGE.split("\n## Floors\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| \d+ \|([^|]*)\|([^|]*)\|", section, re.MULTILINE)
    return [(re.findall(r"`(\w+)`", there), re.findall(r"`(\w+)`", planned)) for there, planned in rows]


def contract() -> list[tuple[list[str], list[str]]]:
    """The same, as import-linter checks it; a room in parentheses is not there yet."""
    config = configparser.ConfigParser()
    config.read(ROOT / ".importlinter", encoding="utf-8")
    layers = config["importlinter:contract:floors"]["layers"].split("\n")
    parts = [[part.strip() for part in layer.split("|")] for layer in layers if layer.strip()]
    return [
        ([part for part in row if "(" not in part], [part.strip("()") for part in row if "(" in part]) for row in parts
    ]


def test_every_room_that_is_there_is_told() -> None:
    assert sorted(ROOM.findall(PAGE)) == rooms()


@pytest.mark.parametrize("room", rooms())
def test_every_file_of_a_room_is_told(room: str) -> None:
    assert sorted(told(room)) == sorted(path.name for path in (PACKAGE / room).glob("*.py") if path.stem != "__init__")


def test_the_floors_that_are_told_are_the_floors_of_the_contract() -> None:
    assert [tuple(map(sorted, floor)) for floor in floors()] == [tuple(map(sorted, floor)) for floor in contract()]


def test_a_room_is_planned_until_it_is_there() -> None:
    there = {room for row, _ in contract() for room in row}
    assert there - {"errors"} == set(rooms())
