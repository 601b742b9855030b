"""The order in which runnables start and stop."""

import pytest

from levelset.errors import ConfigError
from levelset.runtime.manager.lifecycle import Phase, RunnablePhases


def filled() -> RunnablePhases:
    roster = RunnablePhases()
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


def test_runnables_start_by_phase_and_within_a_phase_in_the_order_added():
    roster = filled()
    started = [name for phase in Phase for name in roster.begin(phase)]
    assert started == ["health", "hooks", "cluster", "report", "work", "more work"]


def test_runnables_stop_in_reverse_order():
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


def test_a_runnable_added_late_starts_at_once_if_its_phase_has_begun():
    roster = filled()
    for phase in (Phase.SERVERS, Phase.WEBHOOKS, Phase.CACHES, Phase.OTHERS):
        roster.begin(phase)
    assert roster.add("second report", Phase.OTHERS)
    assert not roster.add("third work", Phase.LEADERS)


def test_nothing_can_be_added_while_stopping():
    roster = filled()
    roster.stop()
    with pytest.raises(ConfigError, match="'late': the manager is stopping"):
        roster.add("late", Phase.OTHERS)
    assert roster.begin(Phase.SERVERS) == []


def test_names_are_unique_and_free_again_after_removal():
    roster = filled()
    with pytest.raises(ConfigError, match="already runs a 'work'"):
        roster.add("work", Phase.OTHERS)
    roster.remove("work")
    assert "work" not in roster
    roster.add("work", Phase.OTHERS)


def test_an_empty_name_raises_a_config_error():
    with pytest.raises(ConfigError, match="needs a name"):
        RunnablePhases().add("", Phase.OTHERS)


def test_phases_cannot_be_skipped():
    roster = RunnablePhases()
    roster.begin(Phase.SERVERS)
    with pytest.raises(RuntimeError, match="WEBHOOKS comes first"):
        roster.begin(Phase.CACHES)
