"""What an error is for the loop, and how long an object then waits."""

import logging

import pytest

from levelset.aio import Backoff
from levelset.errors import AlreadyExists, ApplyConflict, Conflict, GiveUp, NotFound, Retry, TooManyRequests
from levelset.runtime.cache import store
from levelset.runtime.controller import Action, Request, requeue
from levelset.runtime.controller.error_policy import Answering, Conflicts, ErrorPolicy, essence, judge, least_delay
from tests.apiserver.clock import virtual
from tests.runtime.controller.loops import Web, web_ref

__all__: list[str] = []

ASKED: Request[Web] = Request(web_ref())
STEADY = Backoff(first=5.0, factor=2.0, cap=300.0, jitter=0.0, quiet=None)


def answering(on_error: ErrorPolicy | None = None) -> Answering:
    return Answering(conflicts=Conflicts(), store=store(Web)[0], backoff=STEADY, on_error=on_error)


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (Retry("not yet", seconds=3), "retry"),
        (GiveUp("never"), "gave_up"),
        (Conflict("somebody else"), "conflict"),
        (AlreadyExists("taken"), "failed"),
        (ApplyConflict("another manager", ()), "failed"),
        (NotFound("gone"), "failed"),
        (ValueError("bug"), "failed"),
    ],
)
def test_each_error_is_one_of_a_few_things(error: Exception, result: str) -> None:
    assert judge(error) == result


def test_a_group_that_says_one_thing_in_several_ways_is_that_thing() -> None:
    conflicts = ExceptionGroup("both", [Conflict("a"), ExceptionGroup("inner", [Conflict("b")])])
    assert judge(essence(conflicts)) == "conflict"
    retries = ExceptionGroup("both", [Retry("a", seconds=9), Retry("b", seconds=3), Retry("c")])
    assert str(essence(retries)) == "b"
    mixed = ExceptionGroup("both", [Conflict("a"), ValueError("b")])
    assert essence(mixed) is mixed
    assert judge(mixed) == "failed"
    plain = ValueError("b")
    assert essence(plain) is plain


@virtual
async def test_failures_wait_longer_each_time_and_a_success_forgets_them() -> None:
    answers = answering()
    waits = [answers.answer(ValueError("x"), ASKED, now=0.0)[1].after for _ in range(8)]
    assert waits == [5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0]
    answers.succeed(ASKED.ref)
    assert answers.answer(ValueError("x"), ASKED, now=0.0)[1].after == 5.0


@virtual
async def test_a_conflict_has_short_delays_of_its_own_and_is_no_failure() -> None:
    answers = answering()
    waits = [answers.answer(Conflict("x"), ASKED, now=0.0)[1].after or 0.0 for _ in range(40)]
    assert 0.0 < waits[0] <= 0.15
    assert 1.0 < waits[-1] <= 5.0, "there is no limit to how often"
    assert ASKED.ref in answers.stale
    assert answers.failures.count(ASKED.ref) == 0


@virtual
async def test_retry_with_seconds_is_a_plain_delay_and_without_a_growing_one() -> None:
    answers = answering()
    assert answers.answer(Retry("x", seconds=30), ASKED, now=0.0) == ("retry", Action(30.0))
    assert answers.failures.count(ASKED.ref) == 0
    waits = [answers.answer(Retry("x"), ASKED, now=0.0)[1].after for _ in range(2)]
    assert waits == [5.0, 10.0]


@virtual
async def test_giving_up_waits_for_a_change_and_forgets_the_failures() -> None:
    answers = answering()
    answers.answer(ValueError("x"), ASKED, now=0.0)
    assert answers.answer(GiveUp("x"), ASKED, now=0.0) == ("gave_up", Action(None))
    assert answers.failures.count(ASKED.ref) == 0


@virtual
async def test_the_users_policy_decides_unless_it_returns_nothing() -> None:
    seen: list[tuple[str, int]] = []

    def policy(_: Web | None, error: Exception, request: Request[Web]) -> Action | None:
        seen.append((str(error), request.attempt))
        return requeue(1) if str(error) == "x" else None

    answers = answering(policy)
    assert answers.answer(ValueError("x"), ASKED, now=0.0) == ("failed", Action(1.0))
    assert answers.answer(ValueError("y"), ASKED, now=0.0) == ("failed", Action(10.0)), "the second failure"
    assert seen == [("x", 0), ("y", 0)]


@virtual
async def test_a_policy_that_fails_itself_is_logged_and_the_delay_grows_as_usual(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def policy(_: Web | None, error: Exception, request: Request[Web]) -> Action | None:
        raise KeyError("oops")

    with caplog.at_level(logging.ERROR):
        assert answering(policy).answer(ValueError("x"), ASKED, now=0.0) == ("failed", Action(5.0))
    assert "the error policy itself has failed" in caplog.text


@virtual
async def test_a_server_that_asks_for_patience_gets_it() -> None:
    assert least_delay(TooManyRequests("slow down", retry_after=60.0)) == 60.0
    assert least_delay(ValueError("x")) == 0.0
    assert answering().answer(TooManyRequests("x", retry_after=60.0), ASKED, now=0.0)[1].after == 60.0
