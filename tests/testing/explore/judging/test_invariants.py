"""Statements about a controller: always at each revision and tick, eventually after the scenario, or at its end."""

import asyncio
from dataclasses import replace

import pytest

from levelset import Context, Controller, Resource, Spec, Status
from levelset.errors import ConfigError
from levelset.testing import Cluster
from levelset.testing.explore import Exploration, State, always, eventually, explore, finally_
from levelset.testing.explore.search import Explorer
from tests.testing.explore.broken import forgetful
from tests.testing.explore.zoo.common import ConfigMap, config_map


class Note(Resource[Spec, Status], api="statements.dev/v1"):
    """A note, which gets a copy after a while."""


async def copy_later(note: Note, ctx: Context) -> None:
    await asyncio.sleep(100)
    await ctx.apply(config_map(note, f"{note.name}-copy"), owner=note)


async def write_a_note(user: Cluster) -> None:
    await user.create(Note.new("one", Spec()))


def is_copied(state: State) -> None:
    assert state.list(ConfigMap), "there is no copy"


def is_copied_within_a_minute(state: State) -> None:
    assert state.at < 60 or state.list(ConfigMap), f"no copy after {state.at:g} seconds"


def exploration(*invariants: object, **options: object) -> Exploration:
    return Exploration(write_a_note, lambda: [Controller(Note, copy_later)], invariants=invariants, **options)  # type: ignore[arg-type]


def findings(of: Exploration) -> list[str]:
    return [str(one) for one in Explorer(of).reference.played.findings]


def test_what_comes_true_after_the_scenario_holds_eventually() -> None:
    assert findings(exploration(eventually(is_copied))) == []


def test_what_comes_true_too_late_is_a_finding() -> None:
    (found,) = findings(exploration(eventually(is_copied, within=50)))
    assert "is_copied did not come true within 50 seconds after the scenario: there is no copy" in found


def test_a_bare_function_must_hold_always_also_when_only_time_passes() -> None:
    for stated in (is_copied_within_a_minute, always(is_copied_within_a_minute)):
        found = findings(exploration(stated, eventually(is_copied)))
        assert len(found) == 1
        assert "no copy after" in found[0]


def test_what_must_hold_finally_may_be_broken_before() -> None:
    def nothing_is_left(state: State) -> bool:
        return not state.list(Note)

    (found,) = findings(exploration(eventually(is_copied), finally_(nothing_is_left)))
    assert "at the end: nothing_is_left does not hold" in found
    assert findings(exploration(eventually(is_copied), finally_(is_copied))) == []


def test_a_statement_is_about_the_outside_too() -> None:
    class Mail:
        def __init__(self) -> None:
            self.sent: list[str] = []

        def send(self, text: str) -> None:
            self.sent.append(text)

    def sending(mail: Mail) -> list[Controller[Note]]:
        async def reconcile(note: Note, ctx: Context) -> None:
            mail.send(note.name)

        return [Controller(Note, reconcile)]

    def nothing_is_sent(state: State) -> None:
        assert not state.outside.sent, "a mail was sent"

    made = Exploration(write_a_note, sending, outside=Mail, invariants=[nothing_is_sent])
    (found,) = Explorer(made).reference.played.findings
    assert found.sentence == "a mail was sent"
    assert found.step is not None
    assert str(found.step.name) == "outside Mail.send(one)#1"


def test_an_unknown_rule_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="'made twice' is no rule.*created twice, .*is_copied"):
        exploration(is_copied, allowed=["made twice"])
    with pytest.raises(ConfigError, match="give a list"):
        exploration(allowed="lost")
    assert exploration(is_copied, allowed=["is_copied", "lost: ConfigMap"]).allowed


def test_a_statement_takes_a_function_of_a_state() -> None:
    with pytest.raises(ConfigError, match="give a function of a State"):
        always(always(is_copied))
    with pytest.raises(ConfigError, match="above 0"):
        eventually(is_copied, within=0)


def test_an_allowed_rule_is_not_reported() -> None:
    assert not explore(forgetful, budget=3).ok
    assert explore(replace(forgetful, allowed=["created twice: ConfigMap"]), budget=3).ok
