"""The subcommands print what they promise."""

from importlib.metadata import version

import pytest
from click.testing import CliRunner, Result

from levelset.cli import tour
from levelset.cli.commands import levelset


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(levelset, arguments, catch_exceptions=False)


@pytest.mark.parametrize("arguments", [["version"], ["--version"]])
def test_the_version_is_the_installed_one(arguments: list[str]) -> None:
    assert invoke(*arguments).output == f"levelset {version('levelset')}\n"


def test_the_help_names_every_command() -> None:
    shown = invoke("--help").output
    assert [name for name in levelset.commands if name not in shown] == []


def test_the_tour_makes_every_stop_and_says_what_to_type_next() -> None:
    shown = invoke("tour").output
    assert [stop.title for stop in tour.STOPS if stop.title not in shown] == []
    assert "make test" in shown.splitlines()[-1]
    assert "README.md" in shown.splitlines()[-1]


def test_without_a_terminal_the_tour_has_no_colours() -> None:
    assert "\x1b" not in invoke("tour").output
