"""Loading of targets, and the errors for missing modules and attributes."""

import sys
from pathlib import Path

import pytest

from levelset import Controller
from levelset.cli.targets import load, load_module, split_target
from levelset.errors import ConfigError
from tests.cli.fixtures.operator import controllers, other_controllers, stranger

HERE = "tests.cli.fixtures.operator"


@pytest.mark.parametrize(
    ("text", "parts"),
    [("a.b:c", ("a.b", "c")), ("a.b", ("a.b", None)), ("dir/a.py:c.d", ("dir/a.py", "c.d")), ("a.py", ("a.py", None))],
)
def test_a_target_is_a_module_and_perhaps_an_attribute(text: str, parts: tuple[str, str | None]) -> None:
    assert split_target(text) == parts


@pytest.mark.parametrize("text", ["", ":a", "a:b c", "a:1"])
def test_an_invalid_target_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match="is not module:attribute; write for example website:controllers"):
        split_target(text)


def test_a_target_is_one_value_a_list_or_all_of_a_module() -> None:
    assert load(f"{HERE}:stranger", Controller, what="Controllers") == [stranger]
    assert load(f"{HERE}:controllers", Controller, what="Controllers") == controllers
    assert load(HERE, Controller, what="Controllers") == [*controllers, *other_controllers, stranger]


def test_a_function_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "from tests.cli.fixtures.operator import stranger\ndef make():\n    return [stranger]\ndef bad(one): ...\n"
    (tmp_path / "made_by.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert load("made_by.py:make", Controller, what="Controllers") == [stranger]
    with pytest.raises(ConfigError, match="cannot be called without arguments"):
        load("made_by.py:bad", Controller, what="Controllers")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{HERE}:nothing", f"{HERE} has no nothing; it has stranger"),
        (f"{HERE}:Site", "which is not of type Controller; name Controllers"),
        ("json", "json has no Controllers; name one, as in json:NAME"),
        ("json:nothing", "json has no nothing; it has no Controller at all"),
        ("no_such_module_at_all", "there is no module no_such_module_at_all in"),
        ("no_such_file.py", "there is no file no_such_file.py"),
    ],
)
def test_a_missing_attribute_is_reported_with_the_existing_ones(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(text, Controller, what="Controllers")


@pytest.mark.parametrize(
    ("code", "message"),
    [("x = (\n", "line 1: "), ("\nraise ValueError('no')\n", "line 2: ValueError: no"), ("import nope_x\n", "nope_x")],
)
def test_an_import_error_is_reported_with_file_and_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "failing_code.py").write_text(code)
    for name in ("failing_code.py", "failing_code"):
        with pytest.raises(ConfigError, match=message):
            load_module(name)


def test_the_src_folder_is_on_the_import_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "src" / "laid_out").mkdir(parents=True)
    (tmp_path / "src" / "laid_out" / "__init__.py").write_text("")
    (tmp_path / "src" / "laid_out" / "operator.py").write_text("from laid_out import __name__ as name\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert load_module("laid_out.operator").name == "laid_out"
    # Loaded by its file it is the same module, and not the stdlib module `operator`.
    assert load_module("src/laid_out/operator.py") is sys.modules["laid_out.operator"]
    assert not hasattr(sys.modules["operator"], "name")


def test_a_file_is_imported_once_and_never_replaces_another_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("word = 'mine'\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    first = load_module("json.py")
    assert (first.word, load_module("./json.py")) == ("mine", first)
    assert hasattr(sys.modules["json"], "loads")


def test_a_module_that_exits_is_reported_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ending.py").write_text("import sys\nsys.exit('bye')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    message = "ending.py exits while it is imported: .*ending.py, line 2: SystemExit: bye; put that below"
    with pytest.raises(ConfigError, match=message):
        load_module("ending.py")
