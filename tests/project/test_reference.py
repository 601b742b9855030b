"""The generated pages of the reference are complete: settings, metrics, and what to do about each error."""

import re
from importlib import import_module
from typing import Any

import pytest
from scripts.docs_site import ENVIRONMENT, PACKAGES, SETTINGS, public_errors, remedy_of, served_families, settings_of

from levelset.runtime.controller import ControllerOptions
from tests.project.files import PACKAGE

ERRORS = [error for errors in public_errors().values() for error in errors]
LISTED = [name for names in SETTINGS.values() for name in names]
SETTINGS_NAME = re.compile(r"\w*(Settings|Options|Limits|Retries|Backoff|Config|Election)")
# The options of Controller are on the page under its name; the others are parts of the API's objects.
NOT_SETTINGS = {
    "levelset.objects.DeleteOptions",
    "levelset.runtime.controller.ControllerOptions",
    "levelset.runtime.webhook.ClientConfig",
}
VARIABLE = re.compile(r"LEVELSET_[A-Z_]+\b")
# Set by click, for the completion of the command in a shell.
OF_CLICK = {"LEVELSET_COMPLETE"}


def found(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_every_public_error_says_what_to_do_about_it(error: type[BaseException]) -> None:
    assert re.fullmatch(r".{15,}\.", remedy_of(error)), "add a paragraph 'What to do: ...' to its docstring"


@pytest.mark.parametrize("name", LISTED)
def test_every_setting_has_a_type_a_default_and_a_meaning(name: str) -> None:
    rows = list(settings_of(found(name)))
    assert rows
    assert all(all(row) for row in rows)


def test_the_page_has_every_option_of_a_controller() -> None:
    names = {row[0] for row in settings_of(found("levelset.Controller"))}
    assert names == set(ControllerOptions.__annotations__)


def test_every_settings_class_that_a_package_exports_is_on_the_page() -> None:
    listed = {found(name) for name in LISTED}
    exported = {f"{module}.{name}" for module in PACKAGES for name in import_module(module).__all__}
    named = {name for name in exported if SETTINGS_NAME.fullmatch(name.rpartition(".")[2])}
    assert {name for name in named - NOT_SETTINGS if found(name) not in listed} == set()


def test_every_environment_variable_of_the_source_is_on_the_page() -> None:
    texts = [path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")]
    read = {name for text in texts for name in VARIABLE.findall(text)}
    assert read - OF_CLICK == {name for name in ENVIRONMENT if name.startswith("LEVELSET_")}


def test_every_metric_of_a_manager_has_samples_with_labels_a_type_and_a_text() -> None:
    families = served_families()
    assert len(families) == len({one.name for one in families}) >= 30
    assert all(one.help.endswith(".") and one.samples and one.samples[0].labels for one in families)
