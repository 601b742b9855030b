import sqlite3
import threading
from collections.abc import Iterator
from queue import SimpleQueue

import pytest

from levelset.storage.group_commit import WriterThread

Outcomes = SimpleQueue[BaseException | None]


@pytest.fixture
def writer() -> Iterator[WriterThread]:
    writer = WriterThread(sqlite3.connect(":memory:", check_same_thread=False), name="levelset storage test")
    yield writer
    ended: Outcomes = SimpleQueue()
    writer.stop(ended.put)
    assert ended.get(timeout=120) is None
    writer._thread.join(120)


def test_jobs_run_in_order_and_their_outcomes_are_reported(writer: WriterThread) -> None:
    reported: Outcomes = SimpleQueue()
    writer.submit(lambda connection: connection.execute("CREATE TABLE t (x)"), reported.put)
    writer.submit(lambda connection: connection.execute("CREATE TABLE t (x)"), reported.put)
    assert reported.get(timeout=120) is None
    assert isinstance(reported.get(timeout=120), sqlite3.OperationalError)


def test_an_outcome_that_was_awaited_is_not_reported(writer: WriterThread) -> None:
    reported: Outcomes = SimpleQueue()
    job = writer.submit_waiting(lambda connection: connection.execute("SELECT 1"), reported.put, patience=5)
    assert job is not None
    assert (job.error, writer.is_idle, reported.empty()) == (None, True, True)


def test_an_error_reaches_the_waiting_submitter(writer: WriterThread) -> None:
    reported: Outcomes = SimpleQueue()
    job = writer.submit_waiting(lambda connection: connection.execute("nonsense"), reported.put, patience=5)
    assert job is not None
    assert isinstance(job.error, sqlite3.OperationalError)
    assert reported.empty()


def test_after_its_patience_a_submitter_continues_and_the_outcome_is_reported(writer: WriterThread) -> None:
    gate, reported = threading.Event(), SimpleQueue[BaseException | None]()
    assert writer.submit_waiting(lambda _: gate.wait(), reported.put, patience=0.001) is None
    assert not writer.is_idle
    assert reported.empty()
    gate.set()
    assert reported.get(timeout=120) is None


def test_an_outcome_is_delivered_once_even_when_the_wait_times_out_at_that_moment(writer: WriterThread) -> None:
    for _ in range(2_000):
        reported: Outcomes = SimpleQueue()
        job = writer.submit_waiting(lambda _: None, reported.put, patience=0.000_001)
        if job is None:
            assert reported.get(timeout=120) is None
        else:
            assert reported.empty()
