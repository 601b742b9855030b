"""What a project consists of: its own kinds, those of others that it follows, and what its webhooks need."""

import pytest

from levelset.cli.targets import gather, gather_controllers
from levelset.codegen.crd import crds_of
from levelset.errors import ConfigError
from tests.cli.operator import NewSite
from tests.cli.strangers import OldSign, Sign, controllers, webhooks

HERE = "tests.cli.strangers"


def test_a_kind_of_somebody_else_is_followed_but_is_not_ones_own() -> None:
    found = gather([HERE])
    assert set(found.own_kinds) == {Sign, OldSign}
    assert set(found.followed_kinds) == {Sign, OldSign, NewSite}


def test_all_versions_of_a_conversion_are_defined_and_the_hub_is_stored() -> None:
    found = gather([f"{HERE}:webhooks"])
    (made,) = crds_of(found.own_kinds, hubs=found.hubs)
    assert {one["name"]: one["storage"] for one in made["spec"]["versions"]} == {"v1": True, "v2alpha1": False}


def test_a_function_is_called_for_what_it_makes() -> None:
    assert gather([f"{HERE}:make_controllers"]).controllers == controllers


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (f"{HERE}:make_trouble", "make_trouble cannot be called: .*strangers.py, line .*: LookupError: no such luck"),
        (f"{HERE}:check", "check cannot be called without arguments: missing a required argument: 'sign'"),
        (f"{HERE}:reconcile", "reconcile is an async function, and nobody could wait for it here; name a plain one"),
        (f"{HERE}:nothing", "tests.cli.strangers has no nothing; it holds no Controller at all"),
    ],
)
def test_a_name_that_gives_nothing_is_told_with_the_reason(target: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        gather([target])


def test_what_is_run_takes_the_webhooks_along_and_needs_a_controller() -> None:
    assert gather_controllers([HERE]).webhooks == webhooks
    with pytest.raises(ConfigError, match=f"holds no Controllers; name one, as in {HERE}:NAME"):
        gather_controllers([f"{HERE}:webhooks"])
