"""Bugs planted in the protocol of shared work: random runs of the model must find each of them.

They show that the checks of `test_protocol_model.py` can fail: each bug is one that a change could bring in.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from levelset.runtime.manager.sharding.membership import MemberRecord, Membership
from tests.runtime.manager.sharding.model_world import ModelWorld, run_model
from tests.runtime.manager.sharding.protocol_model import ModelMember
from tests.runtime.manager.sharding.test_protocol_model import check, run_without_events

Plant = Callable[[pytest.MonkeyPatch], None]

_begin, _end_of = Membership.begin, Membership._end_of


def acts_before_it_is_acknowledged(patch: pytest.MonkeyPatch) -> None:
    def begin(self: Membership, seen: Mapping[str, MemberRecord], now: float) -> None:
        for member, record in seen.items():
            self.observe(member, record, now)
        _begin(self, {}, now)

    patch.setattr(Membership, "begin", begin)


def acknowledges_before_its_work_has_stopped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ModelWorld, "is_drained", lambda *_: True)


def starts_work_until_it_has_acknowledged(patch: pytest.MonkeyPatch) -> None:
    update = Membership._update

    def respect_late(self: Membership) -> None:
        update(self)
        known = {one: it.record.holder for one, it in self.others.items() if it.is_acknowledged}
        self.view = self.view.with_members(known, known)

    patch.setattr(Membership, "_update", respect_late)


def acts_on_without_renewals(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Membership, "holds", lambda self, _: self.deadline is not None)


def releases_a_lease_that_was_renewed(patch: pytest.MonkeyPatch) -> None:
    release = ModelMember._release

    def release_any(self: ModelMember, name: str, _: str) -> bool:
        there = self.server.leases.get(name)
        return release(self, name, "" if there is None else there.version)

    patch.setattr(ModelMember, "_release", release_any)


def releases_before_the_holder_has_stopped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Membership, "_end_of", lambda self, other: _end_of(self, other) - 10.0)


def releases_two_seconds_late(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Membership, "_end_of", lambda self, other: _end_of(self, other) + 2.0)


def never_releases(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Membership, "expired", lambda *_: {})


def joins_while_a_member_hangs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Membership, "are_alive", lambda *_: True)


def forgets_a_member_that_it_has_acknowledged(patch: pytest.MonkeyPatch) -> None:
    acknowledge = Membership.acknowledge

    def forget(self: Membership, members: Iterable[str]) -> None:
        names = list(members)
        acknowledge(self, names)
        self._update()
        hidden = {one: other.record.holder for one, other in self.others.items() if one not in names}
        self.view = self.view.with_members(hidden, hidden)

    patch.setattr(Membership, "acknowledge", forget)


BUGS: dict[Plant, range] = {
    acts_before_it_is_acknowledged: range(50),
    acknowledges_before_its_work_has_stopped: range(50),
    starts_work_until_it_has_acknowledged: range(50),
    acts_on_without_renewals: range(50),
    releases_before_the_holder_has_stopped: range(50),
    releases_two_seconds_late: range(50),
    never_releases: range(50),
    joins_while_a_member_hangs: range(50),
    forgets_a_member_that_it_has_acknowledged: range(50),
}
"""The bugs, and the seeds among which runs find them."""


def is_found(seeds: range) -> bool:
    for seed in seeds:
        try:
            check(run_model(seed), seed)
        except AssertionError:
            return True
    return False


def test_a_release_of_a_lease_that_was_renewed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    releases_a_lease_that_was_renewed(monkeypatch)
    assert run_without_events(0).wrong


@pytest.mark.parametrize("bug", [pytest.param(bug, id=bug.__name__) for bug in BUGS])
def test_a_planted_bug_is_found(bug: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    assert is_found(BUGS[bug])
