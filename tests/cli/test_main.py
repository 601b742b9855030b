"""The `levelset` command starts, or names the missing library."""

import subprocess
import sys

import pytest

START = "import sys; sys.modules.update({hidden!r}); sys.argv = {argv!r}; import levelset.cli; levelset.cli.main()"


def run(*arguments: str, without: str | None = None) -> subprocess.CompletedProcess[str]:
    """The command in its own process, optionally without a module."""
    code = START.format(hidden={without: None} if without else {}, argv=["levelset", *arguments])
    return subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)


def test_without_click_it_names_the_package_to_install() -> None:
    outcome = run("tour", without="click")
    assert outcome.returncode == 2
    assert outcome.stdout == ""
    assert outcome.stderr == "The levelset command needs click. Install it: pip install 'levelset[cli]'\n"


def test_any_other_missing_module_is_not_hidden() -> None:
    outcome = run("tour", without="msgspec")
    assert outcome.returncode == 1
    assert "ModuleNotFoundError" in outcome.stderr
    assert "pip install" not in outcome.stderr


@pytest.mark.parametrize(("argument", "code"), [("version", 0), ("--help", 0), ("no-such-command", 2)])
def test_exit_codes_of_the_command(argument: str, code: int) -> None:
    assert run(argument).returncode == code
