"""What others did in a recording, apart from what its controllers did themselves."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from levelset import Context, Controller, MergePatch, ObjectMeta, Ref, owns
from levelset.errors import ConfigError
from levelset.runtime.recording import read_recording
from levelset.runtime.recording.recorded_changes import Created, Deleted, Patched, Stretch, changes_of_others, time_of
from levelset.testing import Cluster
from tests.testing.replay.operators import Config, Website, WebsiteStatus, config, record, site


async def reconcile(found: Website, ctx: Context) -> None:
    """Writes a child and a status, and deletes a child that is named `old`."""
    await asyncio.sleep(0.2)
    await ctx.apply(config(found, image=found.spec.image), owner=found)
    await ctx.set_status(found, WebsiteStatus(ready=1))
    if found.spec.image == "last":
        await ctx.delete(Ref(Config, "old", found.namespace))


def websites() -> Controller[Website]:
    return Controller(Website, reconcile, owns(Config), name="websites")


async def use(cluster: Cluster) -> None:
    await cluster.create(Config(metadata=ObjectMeta(name="old"), data={"x": "1"}))
    await cluster.create(site("blog", "nginx"))
    await cluster.advance(1)
    await cluster.create(site("shop", "nginx"))
    await cluster.advance(1)
    await cluster.patch(
        Ref(Website, "blog"), MergePatch({"spec": {"image": "apache"}, "metadata": {"labels": {"a": "b"}}})
    )
    await cluster.patch(Ref(Config, "shop"), MergePatch({"data": {"edited": "yes"}}))
    await cluster.advance(1)
    await cluster.delete(Website, "shop")
    await cluster.advance(1)
    await cluster.patch(Ref(Website, "blog"), MergePatch({"spec": {"image": "last"}}))
    await cluster.advance(1)


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path: Path = tmp_path_factory.mktemp("recorded") / "run"
    record(path, websites(), use=use)
    return read_recording(path)


def lines(stretch: Stretch) -> list[str]:
    found: list[str] = []
    for one in stretch.steps:
        match one:
            case Created(key=key):
                found.append(f"{one.at:g} create {key}")
            case Patched(key=key, patch=patch, status=status):
                found.append(f"{one.at:g} patch {key} {patch} {status}")
            case Deleted(key=key):
                found.append(f"{one.at:g} delete {key}")
    return found


def test_the_changes_of_others_are_steps_and_those_of_the_controllers_are_not(entries: Any) -> None:
    found = changes_of_others(entries)
    assert [str(one.key) for one in found.objects] == ["Website/test/blog", "ConfigMap/test/old"]
    assert lines(found) == [
        "1 create Website/test/shop",
        "2 patch Website/test/blog {'spec': {'image': 'apache'}, 'metadata': {'labels': {'a': 'b'}}} None",
        "2 patch ConfigMap/test/shop {'data': {'edited': 'yes'}} None",
        "3 delete Website/test/shop",
        "4 patch Website/test/blog {'spec': {'image': 'last'}} None",
    ]


def test_what_was_there_at_the_start_of_a_stretch_is_its_initial_state_with_owners_first(entries: Any) -> None:
    found = changes_of_others(entries, since=1.5, until=2.5)
    assert {str(one.key) for one in found.objects} == {
        "ConfigMap/test/old",
        "Website/test/blog",
        "Website/test/shop",
        "ConfigMap/test/blog",
        "ConfigMap/test/shop",
    }
    keys = [str(one.key) for one in found.objects]
    assert keys.index("Website/test/blog") < keys.index("ConfigMap/test/blog")
    assert {str(one.key): one.manager for one in found.objects}["ConfigMap/test/blog"] == "websites"
    assert {str(one.key): one.manager for one in found.objects}["ConfigMap/test/old"] is None
    assert [one.at for one in found.steps] == [2.0, 2.0]
    assert found.objects[0].tree["metadata"]["uid"]


def test_a_single_object_is_explored_without_others_of_its_kind_and_what_they_own(entries: Any) -> None:
    found = changes_of_others(entries, since=1.5, only="website/blog")
    assert {str(one.key) for one in found.objects} == {
        "ConfigMap/test/old",
        "Website/test/blog",
        "ConfigMap/test/blog",
    }
    assert {str(one.key) for one in found.steps} == {"Website/test/blog"}
    with pytest.raises(ConfigError, match="the recording has no object website/nope; it has ConfigMap/test/blog"):
        changes_of_others(entries, only="website/nope")
    with pytest.raises(ConfigError, match="write KIND/NAME or KIND/NAMESPACE/NAME"):
        changes_of_others(entries, only="website")


def test_places_are_times_or_reconciles(entries: Any) -> None:
    assert time_of(entries, "1.5s", is_end=False) == 1.5
    assert time_of(entries, "1", is_end=False) == 0.0
    assert time_of(entries, "1", is_end=True) == pytest.approx(0.2)
    with pytest.raises(ConfigError, match="expected a time"):
        time_of(entries, "noon", is_end=False)
    with pytest.raises(ConfigError, match="the recording has no reconcile 0"):
        time_of(entries, "0", is_end=False)
