"""Regression tests of the explorer that the zoo found."""

from levelset import Context, Controller, MergePatch, Ref, Resource, Spec, Status, watches
from levelset.testing import Cluster
from levelset.testing.explore import Exploration, Plan
from levelset.testing.explore.planning.recoveries import deeper_plans
from levelset.testing.explore.search import Explorer
from levelset.testing.explore.simulation.simulation import play
from tests.testing.explore.zoo import (
    injected_once,
    lock_left_behind,
    recovery_interrupted,
    resumed_leader,
    third_attempt,
    tug_of_war,
)
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


def test_a_paused_leader_calls_the_outside_when_another_one_leads() -> None:
    plan = Plan.parse("pause:outside.Router.push%28edge,%20old.example.dev%29#1:60")
    played = Explorer(resumed_leader.broken).play(plan)
    late = [one for one in played.trace if one.name == plan.disturbances[0].step]
    assert [one.outcome for one in late] == ["paused", "done"]
    assert late[1].at - late[0].at == 60
    assert [one.rule for one in played.findings] == ["end state"]


def test_in_an_outage_of_the_outside_all_its_calls_fail_until_it_is_over() -> None:
    played = Explorer(third_attempt.fixed).play(Plan.parse("outage:outside.Registry.push%28shop%29#1:outside:60"))
    calls = [one for one in played.trace if one.verb == "outside"]
    assert {one.outcome for one in calls if one.at < 60} == {"ConnectionError"}
    assert [one.outcome for one in calls if one.at >= 60] == ["done"]
    assert played.ok


def test_a_webhook_that_is_down_is_skipped_or_rejects_as_its_failure_policy_says() -> None:
    plan = Plan.parse("outage:apply.ConfigMap/test/shop#1:webhook%20ConfigMap:60")
    skipped, rejected = (Explorer(one).play(plan) for one in (injected_once.broken, injected_once.fixed))
    assert [one.outcome for one in skipped.trace.writes()][:1] == ["201"]
    assert [one.outcome for one in rejected.trace.writes()][:1] == ["500"]
    assert rejected.ok
    assert "data.sidecar is nothing" in skipped.findings[0].sentence


def test_a_recovery_with_known_steps_in_another_order_is_disturbed_again() -> None:
    exploration = recovery_interrupted.broken
    usual = play(exploration)
    run = play(exploration, Plan.parse("crash-after:delete.ConfigMap/test/orders#1"), baseline=usual)
    steps = [str(one.disturbances[-1].step) for one in deeper_plans(run, usual)]
    assert "delete ConfigMap/test/orders-journal#1" in steps
