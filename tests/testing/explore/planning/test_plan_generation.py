"""Derived plans cover every step of the undisturbed run, the most significant first, without duplicates."""

from collections import Counter
from itertools import islice

from levelset.testing.explore.faults.environment_faults import ObjectTouched, Outage, Pause
from levelset.testing.explore.faults.plan import (
    Conflict,
    CrashAfter,
    CrashBefore,
    CrashDuring,
    Disturbance,
    ErrorResponse,
    Hold,
    LostResponse,
    Relist,
    Reorder,
    Slow,
    StaleRestart,
    StepName,
    Takeover,
)
from levelset.testing.explore.planning.plan_generation import derive, derive_pairs, derive_singles
from levelset.testing.explore.records.run_result import Run
from levelset.testing.explore.simulation.simulation import play
from tests.testing.explore.mistakes import MISTAKES
from tests.testing.explore.zoo import finalizers_cleared, injected_once, resumed_leader

run: Run = play(MISTAKES["conflict"][0])
WRITES = [
    StepName("create ConfigMap/test/first"),
    StepName("update ConfigMap/test/first", 1),
    StepName("update ConfigMap/test/first", 2),
    StepName("create ConfigMap/test/second"),
]


def of(kind: type[Disturbance], singles: list[Disturbance]) -> list[Disturbance]:
    return [one for one in singles if isinstance(one, kind)]


def test_every_write_gets_every_kind_of_disturbance() -> None:
    singles = derive_singles(run)
    for kind in (CrashAfter, LostResponse):
        assert {one.step for one in of(kind, singles)} == set(WRITES)


def test_reads_fail_and_are_slow_as_writes_are() -> None:
    singles = derive_singles(run)
    reads = {StepName("get ConfigMap/test/first", number) for number in (1, 2, 3)}
    for kind in (ErrorResponse, Slow):
        assert {one.step for one in of(kind, singles)} == {*WRITES, *reads, StepName("get ConfigMap/test/second")}
    assert reads <= {one.step for one in of(CrashBefore, singles)}


def test_only_updates_get_conflicts() -> None:
    assert {one.step for one in of(Conflict, derive_singles(run))} == set(WRITES[1:3])


def test_each_change_of_a_watched_kind_is_held_and_relisted() -> None:
    singles = derive_singles(run)
    for kind in (Hold, Relist):
        found: list[Hold | Relist] = [one for one in singles if isinstance(one, kind)]
        assert sorted((one.kind, one.change) for one in found) == [("Order", number) for number in (1, 2, 3, 4)]


def test_stale_restarts_follow_each_write_and_are_always_older() -> None:
    found = [one for one in derive_singles(run) if isinstance(one, StaleRestart)]
    assert {one.at for one in found} == set(WRITES)
    assert min(one.back for one in found) == 2
    assert derive_singles(run, stale_restarts=False) == [one for one in derive_singles(run) if one not in found]


def test_takeovers_need_leader_election() -> None:
    assert not of(Takeover, derive_singles(run))
    assert {one.step for one in of(Takeover, derive_singles(run, leader=True))} == set(WRITES)


def test_a_crash_before_a_later_write_of_a_reconcile_needs_an_outside() -> None:
    both = play(MISTAKES["crash after"][0])
    status = StepName("patch Order/test/first/status")
    assert CrashBefore(status) not in derive_singles(both)
    assert CrashBefore(status) in derive_singles(both, has_outside=True)


def test_a_reconcile_crashes_at_each_await() -> None:
    waiting = play(MISTAKES["inside an await"][0])
    reconcile = StepName("reconcile orders/Order/test/first")
    assert CrashDuring(reconcile, 1) in derive_singles(waiting)
    assert CrashDuring(reconcile, 0) in derive_singles(waiting, has_outside=True)


def test_kinds_are_reordered_only_if_there_are_several() -> None:
    assert {one.what for one in derive_singles(run) if isinstance(one, Reorder)} == {"workers"}
    several = play(MISTAKES["order of events"][0])
    found = {one.what for one in derive_singles(several) if isinstance(one, Reorder)}
    assert found == {"ConfigMap", "Order", "workers"}


def test_the_first_plans_are_of_different_kinds() -> None:
    assert len({type(one) for one in derive_singles(run)[:8]}) >= 7


def test_no_plan_is_derived_twice() -> None:
    ids = Counter(plan.id for plan in islice(derive(run, leader=True, has_outside=True), 2000))
    assert ids.most_common(1)[0][1] == 1


def test_pairs_come_last_and_never_share_a_step() -> None:
    plans = list(islice(derive(run), 500))
    sizes = [len(plan) for plan in plans]
    assert sizes == sorted(sizes)
    assert sizes[-1] == 2
    for plan in derive_pairs(derive_singles(run)):
        one, other = plan
        assert one != other
        assert one.step is None or one.step != other.step


def test_calls_to_the_outside_are_paused_and_begin_its_outages() -> None:
    singles = derive_singles(play(resumed_leader.fixed), leader=True, has_outside=True)
    outside = {one.step for one in of(CrashBefore, singles) if one.step is not None and one.step.verb == "outside"}
    assert len(outside) == 2
    assert outside <= {one.step for one in of(Pause, singles)}
    assert outside == {one.step for one in singles if isinstance(one, Outage) and one.what == "outside"}


def test_webhooks_are_down_from_each_write_on() -> None:
    singles = derive_singles(play(injected_once.fixed), webhook_kinds=["ConfigMap"])
    found = [one.step for one in singles if isinstance(one, Outage) and one.what == "webhook ConfigMap"]
    assert found == [StepName("apply ConfigMap/test/shop")]


def test_with_an_outside_no_view_shows_a_finalizer_again_that_is_gone() -> None:
    cleared = play(finalizers_cleared.fixed)
    back = "stale-restart:patch.Secret/test/cloud#3:2:4"
    assert back in {one.id for one in derive_singles(cleared)}
    assert back not in {one.id for one in derive_singles(cleared, has_outside=True)}


def test_each_watched_object_of_a_user_is_touched_once() -> None:
    touched = [one.target for one in derive_singles(run) if isinstance(one, ObjectTouched)]
    assert sorted(touched) == sorted({one.location for one in run.targets if one.is_touchable})
    assert touched
