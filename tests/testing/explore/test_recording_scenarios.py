"""A stretch of a recording as the scenario of an exploration."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from levelset import Context, Controller, MergePatch, ObjectMeta, Ref, owns
from levelset.errors import ConfigError
from levelset.testing import Cluster
from levelset.testing.explore import Exploration, Plan, explore, recorded_scenario, replay
from tests.testing.replay.operators import Config, Website, config, record, site


async def hasty(found: Website, ctx: Context) -> None:
    """The planted bug: a change during the pause is lost, since the child is there at the next reconcile."""
    if await ctx.children(Config):
        return
    await asyncio.sleep(1)
    await ctx.apply(config(found, image=found.spec.image), owner=found)


async def careful(found: Website, ctx: Context) -> None:
    await asyncio.sleep(1)
    await ctx.apply(config(found, image=found.spec.image), owner=found)


def websites(function: Any = hasty) -> Controller[Website]:
    return Controller(Website, function, owns(Config), name="websites")


async def change_during_the_pause(cluster: Cluster) -> None:
    await cluster.advance(1)
    await cluster.create(site("blog", "nginx"))
    await cluster.create(site("shop", "nginx"))
    await cluster.advance(0.5)
    await cluster.patch(Ref(Website, "blog"), MergePatch({"spec": {"image": "apache"}}))
    await cluster.advance(5)


async def change_never(cluster: Cluster) -> None:
    await cluster.create(site("blog", "apache"))
    await cluster.advance(5)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    record(tmp_path / "run", websites(), use=change_during_the_pause)
    return tmp_path / "run"


def stored_image(path: Path, function: Any, **options: Any) -> str:
    """What the child has at the end of the undisturbed run."""
    images: list[str] = []

    def note(state: Any) -> None:
        found = state.find(Ref(Config, "blog"))
        images.append("" if found is None else found.data["image"])

    scenario = recorded_scenario(path, **options)
    replay(Exploration(scenario, lambda: [websites(function)], invariants=[note]), Plan())
    return images[-1]


def test_others_do_what_they_did_at_the_times_at_which_they_did_it(path: Path) -> None:
    assert stored_image(path, hasty) == "nginx"
    assert stored_image(path, careful) == "apache"


def test_a_bug_that_needs_the_recorded_order_of_events_is_found_and_its_repair_is_not_accused(path: Path) -> None:
    scenario = recorded_scenario(path, only="website/blog")
    report = explore(Exploration(scenario, lambda: [websites()]), budget=12)
    assert not report.ok
    assert "data.image is" in report.story()
    assert explore(Exploration(scenario, lambda: [websites(careful)]), budget=12).ok
    # Without that order of events there is nothing to find.
    assert explore(Exploration(change_never, lambda: [websites()]), budget=12).ok


def test_the_objects_at_the_start_of_a_stretch_are_there_before_a_controller_acts(path: Path) -> None:
    children: list[int] = []

    async def count(found: Website, ctx: Context) -> None:
        children.append(len(await ctx.children(Config)))

    stored_image(path, count, since="3s")
    assert set(children) == {1}


def test_a_stretch_begins_and_ends_at_times_and_reconciles(path: Path) -> None:
    assert stored_image(path, careful, until="1.2s") == "nginx"
    assert stored_image(path, careful, since="1.2s") == "apache"
    with pytest.raises(ConfigError, match="no object was there or changed in this stretch"):
        recorded_scenario(path, until="0.5s")


def test_a_status_that_others_write_is_a_step(tmp_path: Path) -> None:
    seen: list[str] = []

    async def watch(found: Website, ctx: Context) -> None:
        del ctx
        seen.append("" if found.status is None else found.status.seen)

    async def use(cluster: Cluster) -> None:
        await cluster.create(site("blog"))
        await cluster.advance(1)
        await cluster.patch(Ref(Website, "blog"), MergePatch({"status": {"seen": "by others"}}), subresource="status")
        await cluster.patch(Ref(Website, "blog"), MergePatch({"spec": {"image": "other"}}))
        await cluster.advance(1)
        await cluster.delete(Website, "blog")
        await cluster.advance(1)

    record(tmp_path / "run", websites(watch), use=use)
    recorded, expected = list(seen), ["", "by others"]
    assert recorded == expected
    seen.clear()
    replay(Exploration(recorded_scenario(tmp_path / "run"), lambda: [websites(watch)]), Plan())
    assert seen[:2] == expected


def test_children_have_the_uids_of_their_new_owners_and_the_controller_can_take_fields_away(path: Path) -> None:
    async def empty(found: Website, ctx: Context) -> None:
        await ctx.apply(Config(metadata=ObjectMeta(name=found.name, namespace=found.namespace)), owner=found)

    states: list[Any] = []

    def note(state: Any) -> None:
        states.append([(one.metadata.owner_references[0].uid, one.data) for one in state.list(Config)])
        states.append([one.metadata.uid for one in state.list(Website)])

    replay(Exploration(recorded_scenario(path, since="3s"), lambda: [websites(empty)], invariants=[note]), Plan())
    children, owners = states[-2:]
    assert [uid for uid, _ in children] == owners
    assert [data for _, data in children] == [{}, {}]
