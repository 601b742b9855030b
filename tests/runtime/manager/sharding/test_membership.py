"""The hand-over between members as a pure state machine: who waits for whom, and until when."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from levelset.runtime.manager.sharding import rendezvous
from levelset.runtime.manager.sharding.membership import LeaseTimes, MemberRecord, Membership
from levelset.runtime.manager.sharding.rendezvous import View

TIMES = LeaseTimes(lease=15, renew=10, retry=2, allowance=1)


def record(version: str = "1", *acknowledged: str, holder: str = "host", duration: float = 15) -> MemberRecord:
    return MemberRecord(holder=holder, version=version, duration=duration, acknowledged=frozenset(acknowledged))


def released() -> MemberRecord:
    return record("9", holder="")


def joined(me: str = "b", now: float = 0.0, **seen: MemberRecord) -> Membership:
    member = Membership(me, f"host_{me}", TIMES)
    member.record_written(now)
    member.begin(seen, now)
    return member


def test_the_first_member_may_act_at_once() -> None:
    assert joined().may_act(0.0)


def test_a_member_may_not_act_before_those_that_were_there_have_acknowledged_it() -> None:
    member = joined(a=record("1"), c=record("1"))
    assert not member.may_act(0.0)
    member.observe("a", record("2", "b"), 1.0)
    assert not member.may_act(1.0)
    assert member.awaited == {"c"}
    member.observe("c", record("2", "b", "a"), 1.0)
    assert member.may_act(1.0)


def test_a_member_respects_others_from_the_moment_on_that_it_knows_them() -> None:
    member = joined(now=0.0)
    keys = [f"k{number}" for number in range(50)]
    member.observe("a", record(), 1.0)
    assert 0 < sum(map(member.view.owns, keys)) < 50


def test_a_member_that_comes_later_need_not_acknowledge_the_one_that_waits() -> None:
    member = joined(a=record("1"))
    member.observe("later", record("1"), 1.0)
    member.observe("a", record("2", "b"), 1.0)
    assert member.may_act(1.0)
    assert member.unacknowledged() == ["a", "later"]


def test_what_is_acknowledged_is_published_until_the_member_is_gone() -> None:
    member = joined(a=record("1"))
    member.acknowledge(["a", "unknown"])
    assert member.acknowledged == {"a"}
    member.observe("a", released(), 2.0)
    assert member.acknowledged == frozenset()


def test_a_member_that_released_its_lease_is_gone_at_once() -> None:
    member = joined(a=record("1"))
    member.observe("a", released(), 1.0)
    assert member.may_act(1.0)
    assert len(member.view) == 1


def test_a_lease_that_was_deleted_by_hand_counts_until_its_time_has_run_out() -> None:
    member = joined(a=record("1"))
    member.observe("a", None, 3.0)
    member.tick(15.9)
    assert not member.may_act(3.0)
    assert member.next_at() == 16.0
    member.record_written(15.0)
    member.tick(16.0)
    assert member.may_act(16.0)


def test_a_lease_that_is_not_renewed_is_released_after_its_duration_and_the_allowance() -> None:
    member = joined(a=record("1"), c=record("1"))
    member.observe("c", record("2"), 14.0)
    assert member.expired(15.9) == {}
    assert member.expired(16.0) == {"a": "1"}
    assert member.next_at() == 16.0


def test_each_renewal_that_is_seen_starts_the_time_again() -> None:
    member = joined(a=record("1"))
    member.observe("a", record("2"), 10.0)
    member.observe("a", record("2"), 15.0)
    assert member.expired(25.9) == {}
    assert member.expired(26.0) == {"a": "2"}


def test_the_duration_that_counts_is_that_of_the_lease_itself() -> None:
    assert joined(a=record("1", duration=60)).expired(60.9) == {}


def test_members_release_an_expired_lease_one_after_the_other() -> None:
    member = joined("d", a=record("1"), b=record("1"), c=record("1"), x=record("1"))
    assert set(member.expired(16.09)) == set()
    assert set(member.expired(16.11)) == {"a", "b", "c"}
    assert set(member.expired(16.16)) == {"a", "b", "c", "x"}
    first = joined("0", a=record("1"))
    assert first.expired(16.0) == {"a": "1"}


def test_a_member_that_could_not_renew_may_not_act_before_another_can_release_its_lease() -> None:
    member = joined(now=5.0)
    assert member.deadline == 15.0
    assert member.may_act(14.9)
    assert not member.may_act(15.0)
    member.record_written(14.0)
    assert member.may_act(23.9)


def test_a_member_that_resigned_may_not_act_again() -> None:
    member = joined()
    member.resign()
    member.record_written(1.0)
    member.observe("a", record(), 1.0)
    assert not member.may_act(1.0)


def test_a_member_is_known_to_be_alive_once_it_has_renewed_in_our_sight_at_its_pace() -> None:
    member = joined(now=1.0, a=record("1"))
    assert not member.are_alive(1.0, 1.0)
    member.observe("a", record("2"), 3.0)
    assert member.are_alive(1.0, 3.0)
    assert not member.are_alive(3.0, 3.0), "not since then"
    assert not member.are_alive(1.0, 7.5), "not lately"
    member.observe("a", released(), 8.0)
    assert member.are_alive(8.0, 8.0), "it is gone"


def test_renewals_that_are_seen_all_at_once_do_not_show_that_a_member_is_alive() -> None:
    member = joined(now=0.0, a=record("1"), b=record("1"))
    member.observe("a", record("2"), 18.0)
    assert not member.are_alive(1.0, 18.0), "its renewals were not seen for a while"
    member.observe("a", record("3"), 18.0)
    assert not member.are_alive(1.0, 18.0)


def test_the_pace_is_what_the_member_says() -> None:
    member = Membership("b", "host_b", TIMES)
    slow = MemberRecord(holder="host", version="1", duration=60, retry=10)
    member.observe("a", slow, 0.0)
    member.observe("a", replace(slow, version="2"), 10.0)
    assert member.are_alive(0.0, 15.0)


def test_a_list_that_is_older_than_an_event_does_not_take_an_acknowledgement_back() -> None:
    member = Membership("b", "host_b", TIMES)
    member.record_written(0.0)
    member.observe("a", record("1"), 0.0)
    member.observe("a", record("2", "b"), 0.1)  # the event is faster than the response
    member.begin({"a": record("1")}, 0.2)
    assert member.may_act(0.2)
    assert member.expired(17.0) == {"a": "2"}


def test_a_list_that_is_older_than_a_release_does_not_bring_the_member_back() -> None:
    member = Membership("b", "host_b", TIMES)
    member.record_written(0.0)
    member.observe("a", record("1"), 0.0)
    member.observe("a", released(), 0.1)
    member.begin({"a": record("1")}, 0.2)
    assert member.may_act(0.2)
    assert not member.others


def test_releases_are_remembered_for_as_long_as_a_lease_lasts() -> None:
    member = joined()
    member.observe("a", released(), 1.0)
    member.tick(17.0)
    member.observe("a", record("1"), 17.0)
    assert not member.others
    member.tick(17.1)
    member.observe("a", record("1"), 17.1)
    assert set(member.others) == {"a"}


def test_thousands_of_members_that_are_seen_at_once_are_taken_in_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    class CountedView(View):
        def __init__(self, me: str, members: Mapping[str, str]) -> None:
            made.append(len(members))
            super().__init__(me, members)

    monkeypatch.setattr(rendezvous, "View", CountedView)
    member = joined(now=0.0)
    forged = {f"m{number}": record() for number in range(5_000)}
    member.observe_all(forged.items(), 1.0)
    assert made == [5_001]
    member.observe_all([(one, released()) for one in forged], 2.0)
    assert made == [5_001, 1]
    assert joined("b", 0.0, **forged).awaited == forged.keys()
    assert made == [5_001, 1, 5_001]
