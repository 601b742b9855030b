"""Plans cover every step of the undisturbed run, the most telling come first, and none is made twice."""

from collections import Counter
from itertools import islice

from levelset.testing.explore.plan_generation import derive, derive_pairs, derive_singles
from levelset.testing.explore.plans import (
    At,
    Conflict,
    CrashAfter,
    CrashBefore,
    CrashDuring,
    Disturbance,
    Hold,
    LostAnswer,
    OlderAfterRestart,
    Refusal,
    Reorder,
    Skip,
    Slow,
    Takeover,
)
from levelset.testing.explore.run_result import Run
from levelset.testing.explore.simulation import play
from tests.testing.explore.mistakes import MISTAKES

run: Run = play(MISTAKES["conflict"][0])
WRITES = [
    At("create ConfigMap/test/first"),
    At("update ConfigMap/test/first", 1),
    At("update ConfigMap/test/first", 2),
    At("create ConfigMap/test/second"),
]


def of(kind: type[Disturbance], singles: list[Disturbance]) -> list[Disturbance]:
    return [one for one in singles if isinstance(one, kind)]


def test_whatever_can_go_wrong_with_a_write_is_tried_with_each() -> None:
    singles = derive_singles(run)
    for kind in (CrashAfter, LostAnswer, Refusal, Slow):
        assert {one.step for one in of(kind, singles)} == set(WRITES)


def test_only_what_changes_an_object_conflicts() -> None:
    assert {one.step for one in of(Conflict, derive_singles(run))} == set(WRITES[1:3])


def test_each_change_of_a_watched_kind_is_held_and_skipped_and_no_other_kind() -> None:
    singles = derive_singles(run)
    for kind in (Hold, Skip):
        found: list[Hold | Skip] = [one for one in singles if isinstance(one, kind)]
        assert sorted((one.kind, one.change) for one in found) == [("Order", number) for number in (1, 2, 3, 4)]


def test_an_older_state_is_seen_after_each_write_but_never_one_that_is_not_older() -> None:
    found = [one for one in derive_singles(run) if isinstance(one, OlderAfterRestart)]
    assert {one.at for one in found} == set(WRITES)
    assert min(one.back for one in found) == 2
    assert derive_singles(run, older=False) == [one for one in derive_singles(run) if one not in found]


def test_leadership_moves_only_where_there_is_a_leader() -> None:
    assert not of(Takeover, derive_singles(run))
    assert {one.step for one in of(Takeover, derive_singles(run, leader=True))} == set(WRITES)


def test_a_crash_before_a_later_write_of_a_look_is_another_one_only_if_something_is_outside() -> None:
    both = play(MISTAKES["crash after"][0])
    status = At("patch Order/test/first/status")
    assert CrashBefore(status) not in derive_singles(both)
    assert CrashBefore(status) in derive_singles(both, has_outside=True)


def test_a_look_is_left_in_the_middle_where_it_waits() -> None:
    waiting = play(MISTAKES["inside an await"][0])
    look = At("look orders/Order/test/first")
    assert CrashDuring(look, 1) in derive_singles(waiting)
    assert CrashDuring(look, 0) in derive_singles(waiting, has_outside=True)


def test_looks_have_other_orders_and_kinds_only_if_there_are_several() -> None:
    assert {one.what for one in derive_singles(run) if isinstance(one, Reorder)} == {"workers"}
    several = play(MISTAKES["order of events"][0])
    found = {one.what for one in derive_singles(several) if isinstance(one, Reorder)}
    assert found == {"ConfigMap", "Order", "workers"}


def test_the_first_plans_are_of_different_kinds() -> None:
    assert len({type(one) for one in derive_singles(run)[:8]}) >= 7


def test_no_plan_is_made_twice() -> None:
    ids = Counter(plan.id for plan in islice(derive(run, leader=True, has_outside=True), 2000))
    assert ids.most_common(1)[0][1] == 1


def test_pairs_come_after_all_others_and_never_meet_at_one_step() -> None:
    plans = list(islice(derive(run), 500))
    sizes = [len(plan) for plan in plans]
    assert sizes == sorted(sizes)
    assert sizes[-1] == 2
    for plan in derive_pairs(derive_singles(run)):
        one, other = plan
        assert one != other
        assert one.step is None or one.step != other.step
