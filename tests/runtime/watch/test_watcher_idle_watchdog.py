"""The idle watchdog reports a read that waits too long."""

from levelset.aio import timing
from levelset.runtime.watch.watcher import IdleWatchdog
from levelset.testing.virtual_time import virtual


class Reader:
    """Reads that wait, and the times at which the watchdog reported one."""

    def __init__(self, limit: float) -> None:
        self.reports: list[float] = []
        self.watchdog = IdleWatchdog(limit, lambda: self.reports.append(timing.now()))

    async def wait(self, seconds: float) -> None:
        self.watchdog.since = timing.now()
        await timing.sleep(seconds)
        self.watchdog.since = None


@virtual
async def test_a_read_that_waits_too_long_is_reported_and_others_are_not() -> None:
    reader = Reader(10.0)
    for seconds in (9, 9, 0, 9):
        await reader.wait(seconds)
    assert reader.reports == []
    await reader.wait(11)
    assert reader.reports == [37.0]
    reader.watchdog.stop()


@virtual
async def test_time_without_a_waiting_read_does_not_count() -> None:
    reader = Reader(10.0)
    for _ in range(5):
        await timing.sleep(9)
        await reader.wait(9)
    assert reader.reports == []
    reader.watchdog.stop()


@virtual
async def test_a_read_that_goes_on_waiting_is_reported_again() -> None:
    reader = Reader(10.0)
    await reader.wait(25)
    assert reader.reports == [10.0, 20.0]
    reader.watchdog.stop()


@virtual
async def test_a_stopped_watchdog_reports_nothing() -> None:
    reader = Reader(10.0)
    await reader.wait(1)
    reader.watchdog.stop()
    reader.watchdog.stop()
    await reader.wait(100)
    assert reader.reports == []
