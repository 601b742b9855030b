"""What the zoo taught the explorer: only caches may be behind, and who never stops is stopped soon."""

from levelset import Context, Controller, MergePatch, Ref, Resource, Spec, Status, watches
from levelset.testing import Cluster
from levelset.testing.explore import Exploration, Plan
from levelset.testing.explore.search import Explorer
from tests.testing.explore.zoo import lock_left_behind, tug_of_war
from tests.testing.explore.zoo.habitat import ConfigMap, config_map


class Probe(Resource[Spec, Status], api="zoo.example.dev/v1"):
    """Asks three ways what there is."""


def probing(counts: dict[str, list[int]]) -> Controller[Probe]:
    async def reconcile(probe: Probe, ctx: Context) -> None:
        for read in ("live", "stale"):
            found = await ctx.list(ConfigMap, namespace=probe.namespace, read=read)
            counts.setdefault(read, []).append(len(found))
        await ctx.apply(config_map(probe, probe.name, looks=len(counts["live"])))

    return Controller(Probe, reconcile, watches(ConfigMap, to=lambda one: []))


async def make_a_probe_and_three_more(people: Cluster) -> None:
    probe = await people.create(Probe.new("probe", Spec()))
    await people.until(Ref(ConfigMap, "probe", probe.namespace))
    for number in range(3):
        await people.create(config_map(probe, f"more-{number}"))
    await people.patch(probe.ref, MergePatch({"metadata": {"labels": {"again": "yes"}}}))
    await people.settled()


def test_after_a_restart_caches_may_be_behind_but_a_look_that_asks_the_server_hears_the_newest() -> None:
    counts: dict[str, list[int]] = {}
    exploration = Exploration(make_a_probe_and_three_more, lambda: [probing(counts)])
    explorer = Explorer(exploration)
    assert explorer.reference.played.ok
    counts.clear()
    explorer.play(Plan.parse("older:apply.ConfigMap/test/probe#2:4:4"))
    assert min(counts["live"][2:]) == 4
    assert min(counts["stale"][2:]) < 4


def test_two_that_undo_each_others_work_are_stopped_soon() -> None:
    played = Explorer(tug_of_war.broken).reference.played
    assert [one.rule for one in played.findings] == ["endless loop"]
    assert len(played.trace) < 2000


def test_what_is_missing_is_told_with_the_step_that_was_disturbed() -> None:
    plan = Plan.parse("crash-after:create.ConfigMap/test/schema-lock#1")
    played = Explorer(lock_left_behind.broken).play(plan)
    missing = next(one for one in played.findings if "is not there" in one.sentence)
    assert missing.step is not None
    assert str(missing.step.name) == "create ConfigMap/test/schema-lock#1"
