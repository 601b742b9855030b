"""Other writers: what controllers have to restore, when they have to, and how it is named if they do not."""

from collections.abc import Sequence
from typing import Any

import pytest

from levelset import Context, Controller, Resource, Spec, Status, owns, requeue
from levelset.testing import Cluster
from levelset.testing.explore import Exploration, RunResult, replay
from tests.testing.explore.zoo.common import ConfigMap, config_map

DELETED = "child-deleted:end.scenario#1:ConfigMap/test/edge-config"


class Proxy(Resource[Spec, Status], api="example.dev/v1", plural="proxies"):
    """A proxy with its configuration."""


async def restore(proxy: Proxy, ctx: Context) -> None:
    await ctx.apply(config_map(proxy, f"{proxy.name}-config", port=80), owner=proxy)


async def restore_hourly(proxy: Proxy, ctx: Context) -> Any:
    await restore(proxy, ctx)
    return requeue(hours=1)


async def create_once(proxy: Proxy, ctx: Context) -> None:
    if ctx.reasons[0].kind != "related":
        await restore(proxy, ctx)


async def scenario(user: Cluster) -> None:
    await user.create(Proxy.new("edge", Spec()))
    await user.settled()


def delete_the_child(controller: Controller[Any], allowed: Sequence[str] = ()) -> RunResult:
    return replay(Exploration(scenario, lambda: [controller], kinds=[ConfigMap], allowed=allowed), DELETED)


def test_a_child_that_a_watching_controller_creates_again_is_healed() -> None:
    assert delete_the_child(Controller(Proxy, restore, owns(ConfigMap))).ok


def test_a_child_that_is_restored_by_a_periodic_reconcile_hours_later_is_healed() -> None:
    result = delete_the_child(Controller(Proxy, restore_hourly))
    assert result.ok
    assert result.seconds >= 3600


def test_a_child_that_no_controller_watches_is_reported_as_not_watched() -> None:
    (finding,) = delete_the_child(Controller(Proxy, restore)).findings
    assert finding.rule == "not watched"
    assert "no controller watches ConfigMap" in finding.sentence


@pytest.mark.parametrize("allowed", ["not watched", "not watched: ConfigMap"])
def test_that_children_are_not_watched_can_be_allowed(allowed: str) -> None:
    assert delete_the_child(Controller(Proxy, restore), [allowed]).ok


def test_a_watched_child_that_stays_deleted_is_reported_as_not_healed() -> None:
    (finding,) = delete_the_child(Controller(Proxy, create_once, owns(ConfigMap))).findings
    assert finding.rule == "not healed"
    assert "watches" not in finding.sentence
