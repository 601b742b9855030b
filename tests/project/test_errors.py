"""The documented tree of errors equals the class hierarchy."""

import inspect
import re

import pytest

from levelset import errors
from tests.project.files import SOURCES, exceptions
from tests.project.sources import source

LINE = re.compile(r"(?P<indent>[│ ]*)(?:[├└]── )?(?P<name>[A-Z]\w+)")
CLASSES = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, errors.LevelsetError)]
ROOTLESS = ("LevelsetError", None)


def drawn() -> set[tuple[str, str | None]]:
    """(class, parent) for every line between the fences of the docstring."""
    lines = (errors.__doc__ or "").split("```")[1].strip("\n").splitlines()
    above: list[str] = []
    pairs: set[tuple[str, str | None]] = set()
    for line in lines:
        match = LINE.match(line)
        assert match, f"not a line of the tree: {line!r}"
        depth = 0 if line[0].isalpha() else len(match["indent"]) // 4 + 1
        above[depth:] = [match["name"]]
        pairs.add((match["name"], above[depth - 1] if depth else None))
    return pairs


def real() -> set[tuple[str, str | None]]:
    parents = {cls: next((base for base in cls.__bases__ if base in CLASSES), None) for cls in CLASSES}
    return {(cls.__name__, parent.__name__ if parent else None) for cls, parent in parents.items()}


def called() -> set[str]:
    """Names of errors that some function of levelset raises."""
    return {name for path in SOURCES for name in source(path).made}


def test_the_tree_in_the_docstring_is_the_real_tree() -> None:
    assert drawn() == real()


def test_the_root_of_the_tree_is_one() -> None:
    assert [pair for pair in real() if pair[1] is None] == [ROOTLESS]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_error_has_a_docstring(cls: type[errors.LevelsetError]) -> None:
    first = (cls.__doc__ or "").split("\n", 1)[0]
    assert re.fullmatch(r".{15,}\.", first)
    assert cls.__name__ in errors.__all__


def test_every_error_is_raised_or_listed_as_an_exception() -> None:
    parents = {parent for _, parent in real()}
    leaves = {name for name, _ in real() if name not in parents}
    assert sorted(leaves - called()) == sorted(exceptions()["error_not_raised_here"])
