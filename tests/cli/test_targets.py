"""The parts of a project that targets load: controllers, webhooks, own and watched kinds."""

import pytest

from levelset.cli.targets import load_controllers, load_targets
from levelset.codegen.crd import crds_of
from levelset.errors import ConfigError
from tests.cli.fixtures.foreign_operator import OldSign, Sign, controllers, webhooks
from tests.cli.fixtures.operator import NewSite

HERE = "tests.cli.fixtures.foreign_operator"


def test_a_kind_of_another_project_is_watched_but_not_owned() -> None:
    found = load_targets([HERE])
    assert set(found.own_kinds) == {Sign, OldSign}
    assert set(found.watched_kinds) == {Sign, OldSign, NewSite}


def test_all_versions_of_a_conversion_are_defined_and_the_hub_is_stored() -> None:
    found = load_targets([f"{HERE}:webhooks"])
    (made,) = crds_of(found.own_kinds, hubs=found.hubs)
    assert {one["name"]: one["storage"] for one in made["spec"]["versions"]} == {"v1": True, "v2alpha1": False}


def test_a_function_is_called_for_its_controllers() -> None:
    assert load_targets([f"{HERE}:make_controllers"]).controllers == controllers


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (
            f"{HERE}:fail_to_load",
            "fail_to_load cannot be called: .*foreign_operator.py, line .*: LookupError: no such key",
        ),
        (f"{HERE}:check", "check cannot be called without arguments: missing a required argument: 'sign'"),
        (f"{HERE}:reconcile", "reconcile is an async function, which is not supported here; name a plain function"),
        (f"{HERE}:nothing", "tests.cli.fixtures.foreign_operator has no nothing; it has no Controller at all"),
    ],
)
def test_a_target_that_cannot_be_loaded_is_refused_with_the_reason(target: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_targets([target])


def test_load_controllers_includes_webhooks_and_needs_a_controller() -> None:
    assert load_controllers([HERE]).webhooks == webhooks
    with pytest.raises(ConfigError, match=f"has no Controllers; name one, as in {HERE}:NAME"):
        load_controllers([f"{HERE}:webhooks"])
