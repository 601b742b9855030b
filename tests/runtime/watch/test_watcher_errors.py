"""Watch errors as text, in the log, and their reporter."""

import logging

import pytest

from levelset.errors import Expired, Forbidden, NotFound, Unreachable
from levelset.objects.ref import GroupVersionKind
from levelset.runtime.watch.watcher import ErrorLogger, ErrorReporter, WatchError

WEBSITE = GroupVersionKind("example.dev", "v1", "Website")


def watch_error(error: Exception, *, attempt: int = 2, retry_after: float | None = 1.6) -> WatchError:
    return WatchError(error=error, gvk=WEBSITE, namespace="default", attempt=attempt, retry_after=retry_after)


def test_a_watch_error_names_the_kind_the_namespace_the_cause_and_the_next_attempt() -> None:
    text = str(watch_error(Unreachable("connection refused")))
    assert text == "watching Website in namespace default: connection refused; attempt 3 in 1.6 s"


def test_a_watch_error_names_all_namespaces() -> None:
    assert "Website in all namespaces" in str(WatchError(error=Unreachable("x"), gvk=WEBSITE, retry_after=1.0))


def test_a_watch_error_about_one_object_names_it() -> None:
    text = str(WatchError(error=Unreachable("bad"), gvk=WEBSITE, namespace="default", name="blog"))
    assert text == "watching Website/default/blog: bad; the watch continues"


def test_errors_are_logged_each_time_and_persistent_ones_once_for_each_cause(caplog: pytest.LogCaptureFixture) -> None:
    log_error = ErrorLogger()
    with caplog.at_level(logging.WARNING, logger="levelset.runtime.watch"):
        for error in [Unreachable("x")] * 2 + [Forbidden("f")] * 5 + [NotFound("n")] * 5 + [Forbidden("f")] * 5:
            log_error(watch_error(error))
    assert len(caplog.records) == 5


def test_a_persistent_error_is_logged_again_when_it_recurs(caplog: pytest.LogCaptureFixture) -> None:
    log_error = ErrorLogger()
    for attempt in (1, 2, 3, 1, 2):
        log_error(watch_error(Forbidden("f"), attempt=attempt))
    assert len(caplog.records) == 2


def test_an_expired_version_is_logged_as_info(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="levelset.runtime.watch"):
        ErrorLogger()(watch_error(Expired("old"), retry_after=0.0))
    assert [one.levelname for one in caplog.records] == ["INFO"]


def test_an_error_reporter_counts_errors_and_stores_the_last_retried_one() -> None:
    reported: list[WatchError] = []
    reporter = ErrorReporter(WEBSITE, None, reported.append)
    reporter.report(Unreachable("x"), attempt=1, retry_after=2.0)
    reporter.report_skipped(Unreachable("y"))
    assert reporter.count == len(reported) == 2
    assert reporter.last is reported[0]
