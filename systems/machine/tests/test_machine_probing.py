"""Checks are repeated at their pace, and believed after as many equal verdicts as it takes."""

import asyncio

import pytest

from levelset.aio import timing
from levelset.errors import ConfigError
from levelset.testing import virtual
from levelset_machine.probes import Check, TcpCheck, Verdict
from levelset_machine.probing import Pace, Tally, keep_probing

GOOD = Verdict("Success", "well")
BAD = Verdict("Failure", "unwell")
ODD = Verdict("Unknown", "who knows")
CHECK = TcpCheck("127.0.0.1", 1)


class Script:
    """Gives verdicts one after the other, the last one for ever, each after some seconds."""

    def __init__(self, *verdicts: Verdict, takes: float = 0.0) -> None:
        self.verdicts = list(verdicts)
        self.takes = takes
        self.asked: list[float] = []

    async def probe(self, check: Check, *, timeout: float) -> Verdict:  # noqa: ASYNC109
        self.asked.append(timing.now())
        await timing.sleep(self.takes)
        return self.verdicts.pop(0) if len(self.verdicts) > 1 else self.verdicts[0]


def standings(pace: Pace, *verdicts: Verdict, start: Tally | None = None) -> list[str]:
    tally = start or Tally()
    found: list[str] = []
    for one in verdicts:
        tally = tally.after(one, pace)
        found.append(tally.standing)
    return found


def test_a_program_fails_after_as_many_failures_in_a_row_as_the_threshold() -> None:
    pace = Pace(failure_threshold=3)
    seen = standings(pace, GOOD, BAD, BAD, GOOD, BAD, BAD, BAD)
    assert seen == ["passing"] * 6 + ["failing"]


def test_a_program_passes_after_as_many_successes_in_a_row_as_the_threshold() -> None:
    pace = Pace(success_threshold=2, failure_threshold=1)
    assert standings(pace, BAD, GOOD, BAD, GOOD, GOOD) == ["failing"] * 4 + ["passing"]


def test_an_unknown_verdict_neither_counts_nor_interrupts_a_row() -> None:
    assert standings(Pace(failure_threshold=2), BAD, ODD, BAD) == ["unknown", "unknown", "failing"]


def test_what_is_believed_before_the_first_check_stays_until_a_threshold_is_reached() -> None:
    start = Tally(standing="passing")
    assert standings(Pace(failure_threshold=2), BAD, BAD, start=start) == ["passing", "failing"]


@pytest.mark.parametrize("wrong", ["initial_delay", "period", "timeout", "success_threshold", "failure_threshold"])
def test_a_pace_that_makes_no_sense_is_refused_and_named(wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong):
        Pace(**{wrong: -1})  # type: ignore[arg-type]  # by its name


async def probed(script: Script, pace: Pace, seconds: float) -> list[tuple[str, str]]:
    told: list[tuple[str, str]] = []
    try:
        async with timing.within(seconds):
            await keep_probing(
                script, CHECK, pace, lambda verdict, tally: told.append((verdict.reason, tally.standing))
            )
    except TimeoutError:
        pass
    return told


@virtual
async def test_the_first_check_comes_after_the_delay_and_then_one_every_period() -> None:
    script = Script(GOOD)
    await probed(script, Pace(initial_delay=5, period=10), seconds=30)
    assert script.asked == [5, 15, 25]


@virtual
async def test_a_slow_check_is_followed_by_the_next_at_once_and_never_by_two() -> None:
    script = Script(GOOD, takes=12.0)
    await probed(script, Pace(period=10), seconds=30)
    assert script.asked == [0, 12, 24]


@virtual
async def test_each_verdict_is_told_with_what_is_believed_after_it() -> None:
    told = await probed(Script(BAD, BAD, GOOD), Pace(period=1, failure_threshold=2), seconds=2.5)
    assert told == [("unwell", "unknown"), ("unwell", "failing"), ("well", "passing")]


@virtual
async def test_until_success_ends_with_the_first_time_it_passes() -> None:
    script = Script(BAD, GOOD, GOOD, BAD)
    async with asyncio.timeout(60):
        told = await probed(script, Pace(period=1, success_threshold=2, until_success=True), seconds=50)
    assert [standing for _, standing in told] == ["unknown", "unknown", "passing"]
