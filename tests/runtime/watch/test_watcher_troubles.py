"""Trouble in words, and in the log."""

import logging

import pytest

from levelset.errors import Expired, Forbidden, NotFound, Unreachable
from levelset.objects.ref import GroupVersionKind
from levelset.runtime.watch.watcher import Complaints, Teller, Trouble

WEBSITE = GroupVersionKind("example.dev", "v1", "Website")


def trouble(error: Exception, *, attempt: int = 2, retry_after: float | None = 1.6) -> Trouble:
    return Trouble(error=error, gvk=WEBSITE, namespace="default", attempt=attempt, retry_after=retry_after)


def test_trouble_names_the_kind_the_namespace_the_error_and_the_next_attempt() -> None:
    said = str(trouble(Unreachable("connection refused")))
    assert said == "watching Website in namespace default: connection refused; attempt 3 in 1.6 s"


def test_trouble_in_all_namespaces_says_so() -> None:
    assert "Website in all namespaces" in str(Trouble(error=Unreachable("x"), gvk=WEBSITE, retry_after=1.0))


def test_trouble_with_one_object_names_it() -> None:
    said = str(Trouble(error=Unreachable("bad"), gvk=WEBSITE, namespace="default", name="blog"))
    assert said == "watching Website/default/blog: bad; the watch goes on"


def test_trouble_is_logged_each_time_and_standing_trouble_once_for_each_cause(caplog: pytest.LogCaptureFixture) -> None:
    complain = Complaints()
    with caplog.at_level(logging.WARNING, logger="levelset.runtime.watch"):
        for error in [Unreachable("x")] * 2 + [Forbidden("f")] * 5 + [NotFound("n")] * 5 + [Forbidden("f")] * 5:
            complain(trouble(error))
    assert len(caplog.records) == 5


def test_standing_trouble_is_logged_again_when_it_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    complain = Complaints()
    for attempt in (1, 2, 3, 1, 2):
        complain(trouble(Forbidden("f"), attempt=attempt))
    assert len(caplog.records) == 2


def test_what_is_to_be_expected_now_and_then_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="levelset.runtime.watch"):
        Complaints()(trouble(Expired("old"), retry_after=0.0))
    assert [one.levelname for one in caplog.records] == ["INFO"]


def test_a_teller_counts_and_remembers_what_is_waited_for() -> None:
    told: list[Trouble] = []
    teller = Teller(WEBSITE, None, told.append)
    teller.tell(Unreachable("x"), attempt=1, retry_after=2.0)
    teller.tell_aside(Unreachable("y"))
    assert teller.count == len(told) == 2
    assert teller.last is told[0]
