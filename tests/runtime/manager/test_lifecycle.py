"""The order of a manager's life."""

import pytest

from levelset.errors import ConfigError
from levelset.runtime.manager.lifecycle import Phase, Roster


def filled() -> Roster:
    roster = Roster()
    for name, phase in (
        ("work", Phase.LEADERS),
        ("health", Phase.SERVERS),
        ("more work", Phase.LEADERS),
        ("cluster", Phase.CACHES),
        ("report", Phase.OTHERS),
        ("hooks", Phase.WEBHOOKS),
    ):
        assert not roster.add(name, phase)
    return roster


def test_what_starts_goes_by_phase_and_within_one_by_arrival():
    roster = filled()
    started = [name for phase in Phase for name in roster.begin(phase)]
    assert started == ["health", "hooks", "cluster", "report", "work", "more work"]


def test_what_stops_goes_the_other_way_round():
    roster = filled()
    for phase in Phase:
        roster.begin(phase)
    assert roster.stop() == [
        (Phase.LEADERS, ["more work", "work"]),
        (Phase.OTHERS, ["report"]),
        (Phase.CACHES, ["cluster"]),
        (Phase.WEBHOOKS, ["hooks"]),
        (Phase.SERVERS, ["health"]),
    ]


def test_a_newcomer_starts_at_once_if_its_phase_has_begun():
    roster = filled()
    for phase in (Phase.SERVERS, Phase.WEBHOOKS, Phase.CACHES, Phase.OTHERS):
        roster.begin(phase)
    assert roster.add("second report", Phase.OTHERS)
    assert not roster.add("third work", Phase.LEADERS)


def test_nobody_is_taken_in_while_stopping():
    roster = filled()
    roster.stop()
    with pytest.raises(ConfigError, match="'late': the manager is stopping"):
        roster.add("late", Phase.OTHERS)
    assert roster.begin(Phase.SERVERS) == []


def test_a_name_is_there_once_and_free_again_when_its_bearer_is_removed():
    roster = filled()
    with pytest.raises(ConfigError, match="there is a 'work' in this manager already"):
        roster.add("work", Phase.OTHERS)
    roster.remove("work")
    assert "work" not in roster
    roster.add("work", Phase.OTHERS)


def test_what_has_no_name_is_refused():
    with pytest.raises(ConfigError, match="needs a name"):
        Roster().add("", Phase.OTHERS)


def test_no_phase_is_left_out():
    roster = Roster()
    roster.begin(Phase.SERVERS)
    with pytest.raises(RuntimeError, match="WEBHOOKS comes first"):
        roster.begin(Phase.CACHES)
