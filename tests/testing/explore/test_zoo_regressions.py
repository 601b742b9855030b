"""Regression tests of the explorer that the zoo found."""

from levelset import Context, Controller, MergePatch, Ref, Resource, Spec, Status, watches
from levelset.testing import Cluster
from levelset.testing.explore import Exploration, Plan
from levelset.testing.explore.search import Explorer
from tests.testing.explore.zoo import lock_left_behind, tug_of_war
from tests.testing.explore.zoo.common import ConfigMap, config_map


class Probe(Resource[Spec, Status], api="zoo.example.dev/v1"):
    """Counts ConfigMaps, live and cached."""


def probing(counts: dict[str, list[int]]) -> Controller[Probe]:
    async def reconcile(probe: Probe, ctx: Context) -> None:
        for read in ("live", "stale"):
            found = await ctx.list(ConfigMap, namespace=probe.namespace, read=read)
            counts.setdefault(read, []).append(len(found))
        await ctx.apply(config_map(probe, probe.name, count=len(counts["live"])))

    return Controller(Probe, reconcile, watches(ConfigMap, to=lambda one: []))


async def make_a_probe_and_three_more(user: Cluster) -> None:
    probe = await user.create(Probe.new("probe", Spec()))
    await user.until(Ref(ConfigMap, "probe", probe.namespace))
    for number in range(3):
        await user.create(config_map(probe, f"more-{number}"))
    await user.patch(probe.ref, MergePatch({"metadata": {"labels": {"again": "yes"}}}))
    await user.settled()


def test_after_a_stale_restart_live_reads_are_current() -> None:
    counts: dict[str, list[int]] = {}
    exploration = Exploration(make_a_probe_and_three_more, lambda: [probing(counts)])
    explorer = Explorer(exploration)
    assert explorer.reference.played.ok
    counts.clear()
    explorer.play(Plan.parse("stale-restart:apply.ConfigMap/test/probe#2:4:4"))
    assert min(counts["live"][2:]) == 4
    assert min(counts["stale"][2:]) < 4


def test_an_endless_fight_of_two_controllers_is_stopped_early() -> None:
    played = Explorer(tug_of_war.broken).reference.played
    assert [one.rule for one in played.findings] == ["endless loop"]
    assert len(played.trace) < 2000


def test_a_missing_object_is_reported_with_the_disturbed_step() -> None:
    plan = Plan.parse("crash-after:create.ConfigMap/test/schema-lock#1")
    played = Explorer(lock_left_behind.broken).play(plan)
    missing = next(one for one in played.findings if "does not exist" in one.sentence)
    assert missing.step is not None
    assert str(missing.step.name) == "create ConfigMap/test/schema-lock#1"
