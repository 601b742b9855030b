"""The subcommands: help, version and tour."""

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version

import click
import pytest
from click.testing import CliRunner, Result

from levelset.cli import tour
from levelset.cli.commands import COMMANDS, levelset
from tests.cli.fixtures.terminals import Screen


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(levelset, arguments, catch_exceptions=False)


@pytest.mark.parametrize("arguments", [["version"], ["--version"]])
def test_the_version_is_the_installed_one(arguments: list[str]) -> None:
    assert invoke(*arguments).output == f"levelset {version('levelset')}\n"


def test_the_help_names_every_command() -> None:
    shown = invoke("--help").output
    assert [name for name in (*COMMANDS, *levelset.commands) if f"  {name} " not in shown] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_exists_with_its_short_help(name: str) -> None:
    outcome = invoke(name, "--help")
    assert outcome.exit_code == 0
    assert COMMANDS[name][1].rstrip(".").split(":")[0][:40] in " ".join(outcome.output.split())


def every_command() -> Iterator[tuple[str, ...]]:
    """The words of every command that does something, those of groups included."""
    context = click.Context(levelset)
    for name in COMMANDS:
        found = levelset.get_command(context, name)
        yield from ((name, one) for one in found.commands) if isinstance(found, click.Group) else [(name,)]


def every_group() -> Iterator[tuple[str, ...]]:
    """The words of every command that has commands of its own."""
    context = click.Context(levelset)
    yield from ((name,) for name in COMMANDS if isinstance(levelset.get_command(context, name), click.Group))


@pytest.mark.parametrize("words", every_command(), ids=" ".join)
def test_the_help_of_every_command_has_an_example(words: tuple[str, ...]) -> None:
    assert f"Example: levelset {' '.join(words)}" in invoke(*words, "--help").output


@pytest.mark.parametrize("words", [(), *every_group()], ids=" ".join)
def test_the_help_of_a_group_has_an_example_and_each_first_sentence_whole(words: tuple[str, ...]) -> None:
    shown = invoke(*words, "--help").output
    assert f"Example: {' '.join(('levelset', *words))} " in shown
    assert "..." not in shown.partition("Commands:")[2]


@pytest.mark.parametrize(
    ("typed", "meant"), [(["serv"], "serve"), (["storage", "chek"], "check"), (["generate", "crd"], "crds")]
)
def test_a_mistyped_command_suggests_the_nearest(typed: list[str], meant: str) -> None:
    outcome = invoke(*typed)
    assert outcome.exit_code == 2
    assert f"No such command '{typed[-1]}'. Did you mean '{meant}'?" in outcome.output


def test_a_command_that_resembles_none_suggests_none() -> None:
    assert "Did you mean" not in invoke("xyzzy").output


def test_the_help_imports_no_command() -> None:
    code = "import sys, levelset.cli.commands as c; c.levelset(['--help'], standalone_mode=False); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert [
        one for one in ("levelset.apiserver", "levelset.runtime.manager", "levelset.cli.serve") if f" {one} " in loaded
    ] == []


def test_the_version_as_json() -> None:
    assert json.loads(invoke("version", "-o", "json").output) == {"version": version("levelset")}


def test_the_tour_shows_every_stop_and_the_next_step_without_colours_if_there_is_no_terminal() -> None:
    shown = invoke("tour").output
    assert [stop.title for stop in tour.STOPS if stop.title not in shown] == []
    assert shown.splitlines()[-1].endswith("levelset init shop --kind Order --api shop.example.dev/v1")
    assert "\x1b" not in shown


@pytest.mark.parametrize(("no_color", "is_bold"), [("", True), ("1", False)])
def test_a_terminal_has_bold_headings_unless_no_color_is_set(
    monkeypatch: pytest.MonkeyPatch, no_color: str, is_bold: bool
) -> None:
    screen = Screen(is_terminal=True)
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setattr(tour, "STOPS", tour.STOPS[:1])
    levelset.main(["tour"], standalone_mode=False)
    assert ("\x1b[1m1. " in screen.getvalue(), "\x1b" in screen.getvalue()) == (is_bold, is_bold)


def leaves(group: click.Group, *names: str) -> Iterator[tuple[str, click.Command]]:
    """All commands without subcommands, by name."""
    context = click.Context(group)
    for name in group.list_commands(context):
        one = group.get_command(context, name)
        assert one is not None
        if isinstance(one, click.Group):
            yield from leaves(one, *names, name)
        else:
            yield " ".join((*names, name)), one


def test_every_command_has_json_output_except_dev_and_completion() -> None:
    without = [name for name, one in leaves(levelset) if "output" not in {option.name for option in one.params}]
    assert without == ["dev", "completion"]


@pytest.mark.parametrize("name", [name for name, _ in leaves(levelset)])
def test_every_command_refuses_an_unknown_option(name: str) -> None:
    outcome = invoke(*name.split(), "--no-such-option")
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert "No such option" in outcome.stderr
    assert f"Try 'levelset {name} --help' for help." in outcome.stderr
