"""The framework's own stories under the explorer: the website example and fleets come through whatever is done to them.

`LEVELSET_STORIES_BUDGET` is how many plans are played of each; the default keeps the suite quick.
"""

import os
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
    """Somebody's certificate."""


async def change_fleets(people: Cluster) -> None:
    north = await people.create(Fleet.new("north", FleetSpec(size=2)))
    await people.settled()
    await people.patch(north.ref, MergePatch({"spec": {"size": 3}}))
    await people.settled()
    await people.patch(north.ref, MergePatch({"spec": {"size": 1}}))
    south = await people.create(Fleet.new("south", FleetSpec(size=1)))
    await people.settled()
    await people.delete(south.ref)
    await people.until_gone(south.ref)


def no_fleet_has_more_ships_than_it_ever_wanted(state: State) -> None:
    assert len(state.list(Ship, labels="fleet=north")) <= 3
    assert len(state.list(Ship, labels="fleet=south")) <= 1


async def change_a_site(people: Cluster) -> None:
    spec = example.WebsiteSpec(image="blog:1", certificate="blog-tls")
    site = await people.create(example.Website.new("blog", spec))
    await people.advance(1)
    await people.create(Secret(metadata=ObjectMeta(name="blog-tls")))
    await people.settled()
    await people.patch(site.ref, MergePatch({"spec": {"replicas": 3}}))
    await people.settled()
    await people.delete(site.ref)
    await people.until_gone(site.ref)


def at_most_one_deployment(state: State) -> None:
    assert len(state.list(example.Deployment)) <= 1


def making(make: Any) -> list[Controller[Any]]:
    return [make()[0]]


rules = [no_fleet_has_more_ships_than_it_ever_wanted]
STORIES = {
    "website": Exploration(change_a_site, lambda: [example.websites], invariants=[at_most_one_deployment]),
    "named ships": Exploration(change_fleets, lambda: making(named_ships), invariants=rules),
    # Ships that are only counted rely on caches that begin with the newest state.
    "numbered ships": Exploration(change_fleets, lambda: making(numbered_ships), invariants=rules, older=False),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", STORIES)
def test_a_story_of_the_house_comes_through_everything(name: str) -> None:
    report = explore(STORIES[name], budget=BUDGET)
    assert report.ok, report.story()
