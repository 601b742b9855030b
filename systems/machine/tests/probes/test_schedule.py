"""Periodic probing: checks run on schedule, and thresholds decide the health."""

import asyncio

import pytest

from levelset.aio import timing
from levelset.errors import ConfigError
from levelset.testing import virtual
from levelset_machine.probes import Check, ProbeResult, ProbeSchedule, ProbeStatus, TcpCheck, probe_periodically

GOOD = ProbeResult("Success", "healthy")
BAD = ProbeResult("Failure", "unhealthy")
ODD = ProbeResult("Unknown", "no answer")
CHECK = TcpCheck("127.0.0.1", 1)


class ScriptedProber:
    """Returns results one after the other, the last one forever, each after some seconds."""

    def __init__(self, *results: ProbeResult, takes: float = 0.0) -> None:
        self.results = list(results)
        self.takes = takes
        self.calls: list[float] = []

    async def probe(self, check: Check, *, timeout: float) -> ProbeResult:  # noqa: ASYNC109
        self.calls.append(timing.now())
        await timing.sleep(self.takes)
        return self.results.pop(0) if len(self.results) > 1 else self.results[0]


def healths(schedule: ProbeSchedule, *results: ProbeResult, start: ProbeStatus | None = None) -> list[str]:
    status = start or ProbeStatus()
    found: list[str] = []
    for one in results:
        status = status.after(one, schedule)
        found.append(status.health)
    return found


def test_a_program_fails_after_as_many_failures_in_a_row_as_the_threshold() -> None:
    schedule = ProbeSchedule(failure_threshold=3)
    seen = healths(schedule, GOOD, BAD, BAD, GOOD, BAD, BAD, BAD)
    assert seen == ["passing"] * 6 + ["failing"]


def test_a_program_passes_after_as_many_successes_in_a_row_as_the_threshold() -> None:
    schedule = ProbeSchedule(success_threshold=2, failure_threshold=1)
    assert healths(schedule, BAD, GOOD, BAD, GOOD, GOOD) == ["failing"] * 4 + ["passing"]


def test_an_unknown_result_neither_counts_nor_resets_the_count() -> None:
    assert healths(ProbeSchedule(failure_threshold=2), BAD, ODD, BAD) == ["unknown", "unknown", "failing"]


def test_the_initial_health_stays_until_a_threshold_is_reached() -> None:
    start = ProbeStatus(health="passing")
    assert healths(ProbeSchedule(failure_threshold=2), BAD, BAD, start=start) == ["passing", "failing"]


@pytest.mark.parametrize("wrong", ["initial_delay", "period", "timeout", "success_threshold", "failure_threshold"])
def test_an_invalid_schedule_is_rejected_with_its_field(wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong):
        ProbeSchedule(**{wrong: -1})  # type: ignore[arg-type]  # the field varies


async def probed(prober: ScriptedProber, schedule: ProbeSchedule, seconds: float) -> list[tuple[str, str]]:
    reported: list[tuple[str, str]] = []
    try:
        async with timing.within(seconds):
            await probe_periodically(
                prober, CHECK, schedule, lambda result, status: reported.append((result.reason, status.health))
            )
    except TimeoutError:
        pass
    return reported


@virtual
async def test_the_first_check_comes_after_the_delay_and_then_one_every_period() -> None:
    prober = ScriptedProber(GOOD)
    await probed(prober, ProbeSchedule(initial_delay=5, period=10), seconds=30)
    assert prober.calls == [5, 15, 25]


@virtual
async def test_a_slow_check_is_followed_by_one_more_at_once() -> None:
    prober = ScriptedProber(GOOD, takes=12.0)
    await probed(prober, ProbeSchedule(period=10), seconds=30)
    assert prober.calls == [0, 12, 24]


@virtual
async def test_each_result_is_reported_with_the_health_after_it() -> None:
    reported = await probed(ScriptedProber(BAD, BAD, GOOD), ProbeSchedule(period=1, failure_threshold=2), seconds=2.5)
    assert reported == [("unhealthy", "unknown"), ("unhealthy", "failing"), ("healthy", "passing")]


@virtual
async def test_until_success_ends_when_the_program_first_passes() -> None:
    prober = ScriptedProber(BAD, GOOD, GOOD, BAD)
    async with asyncio.timeout(60):
        reported = await probed(prober, ProbeSchedule(period=1, success_threshold=2, until_success=True), seconds=50)
    assert [health for _, health in reported] == ["unknown", "unknown", "passing"]
