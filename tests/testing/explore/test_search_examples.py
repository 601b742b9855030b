"""The website example and the fleet controllers under the explorer: no plan breaks them.

`LEVELSET_STORIES_BUDGET` is the number of plans for each; the default keeps the suite quick.
"""

import os
from dataclasses import replace
from typing import Any

import pytest

from levelset import Controller, MergePatch, Object, ObjectMeta
from levelset.testing import Cluster
from levelset.testing.explore import Exploration, State, explore
from tests.stories.examples import load
from tests.stories.fleets import Fleet, FleetSpec, Ship, named_ships, numbered_ships

BUDGET = int(os.environ.get("LEVELSET_STORIES_BUDGET", "8"))

example = load("03_website")


class Secret(Object, api="v1"):
    """A certificate."""


async def change_fleets(user: Cluster) -> None:
    north = await user.create(Fleet.new("north", FleetSpec(size=2)))
    await user.settled()
    await user.patch(north.ref, MergePatch({"spec": {"size": 3}}))
    await user.settled()
    await user.patch(north.ref, MergePatch({"spec": {"size": 1}}))
    south = await user.create(Fleet.new("south", FleetSpec(size=1)))
    await user.settled()
    await user.delete(south.ref)
    await user.until_gone(south.ref)


def no_fleet_has_more_ships_than_it_ever_wanted(state: State) -> None:
    assert len(state.list(Ship, labels="fleet=north")) <= 3
    assert len(state.list(Ship, labels="fleet=south")) <= 1


async def change_a_site(user: Cluster) -> None:
    spec = example.WebsiteSpec(image="blog:1", certificate="blog-tls")
    site = await user.create(example.Website.new("blog", spec))
    await user.advance(1)
    await user.create(Secret(metadata=ObjectMeta(name="blog-tls")))
    await user.settled()
    await user.patch(site.ref, MergePatch({"spec": {"replicas": 3}}))
    await user.settled()
    await user.delete(site.ref)
    await user.until_gone(site.ref)


def at_most_one_deployment(state: State) -> None:
    assert len(state.list(example.Deployment)) <= 1


def making(make: Any) -> list[Controller[Any]]:
    return [make()[0]]


rules = [no_fleet_has_more_ships_than_it_ever_wanted]
STORIES = {
    "website": Exploration(change_a_site, lambda: [example.websites], invariants=[at_most_one_deployment]),
    "named ships": Exploration(change_fleets, lambda: making(named_ships), invariants=rules),
    # Counting ships relies on caches that start with the newest state.
    "numbered ships": Exploration(
        change_fleets, lambda: making(numbered_ships), invariants=rules, stale_restarts=False
    ),
}


@pytest.mark.slow
def test_a_report_whose_failures_all_have_a_stale_restart_names_the_remedy() -> None:
    report = explore(replace(STORIES["numbered ships"], stale_restarts=True), budget=200)
    assert {word for word, (_, failed) in report.families.items() if failed} <= {"stale-restart", "pairs"}
    (note,) = report.notes
    assert "pass stale_restarts=False to the Exploration" in note
    assert f"note: {note}" in report.story()


@pytest.mark.slow
@pytest.mark.parametrize("name", STORIES)
def test_an_example_controller_survives_every_plan(name: str) -> None:
    report = explore(STORIES[name], budget=BUDGET)
    assert report.ok, report.story()
