"""Classification of errors, and the delay before the retry."""

import logging

import pytest

from levelset.aio import Backoff
from levelset.errors import AlreadyExists, ApplyConflict, Conflict, GiveUp, NotFound, Retry, TooManyRequests
from levelset.runtime.cache import store
from levelset.runtime.controller import Action, Request, requeue
from levelset.runtime.controller.error_policy import (
    ConflictTracker,
    ErrorHandler,
    ErrorPolicy,
    classify,
    minimum_delay,
    unwrap_group,
)
from levelset.testing.virtual_time import virtual
from tests.runtime.controller.controller_loop import Web, web_ref

__all__: list[str] = []

REQUEST: Request[Web] = Request(web_ref())
STEADY = Backoff(first=5.0, factor=2.0, cap=300.0, jitter=0.0, quiet=None)


def error_handler(on_error: ErrorPolicy | None = None) -> ErrorHandler:
    return ErrorHandler(conflicts=ConflictTracker(), store=store(Web)[0], backoff=STEADY, on_error=on_error)


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (Retry("not yet", seconds=3), "retry"),
        (GiveUp("never"), "gave_up"),
        (Conflict("another writer"), "conflict"),
        (AlreadyExists("taken"), "failed"),
        (ApplyConflict("another manager", ()), "failed"),
        (NotFound("gone"), "failed"),
        (ValueError("bug"), "failed"),
    ],
)
def test_each_error_has_one_result(error: Exception, result: str) -> None:
    assert classify(error) == result


def test_a_group_of_errors_with_one_result_has_that_result() -> None:
    conflicts = ExceptionGroup("both", [Conflict("a"), ExceptionGroup("inner", [Conflict("b")])])
    assert classify(unwrap_group(conflicts)) == "conflict"
    retries = ExceptionGroup("both", [Retry("a", seconds=9), Retry("b", seconds=3), Retry("c")])
    assert str(unwrap_group(retries)) == "b"
    mixed = ExceptionGroup("both", [Conflict("a"), ValueError("b")])
    assert unwrap_group(mixed) is mixed
    assert classify(mixed) == "failed"
    plain = ValueError("b")
    assert unwrap_group(plain) is plain


@virtual
async def test_failures_back_off_and_a_success_resets_the_backoff() -> None:
    handler = error_handler()
    waits = [handler.next_action(ValueError("x"), REQUEST, now=0.0)[1].after for _ in range(8)]
    assert waits == [5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0]
    handler.record_success(REQUEST.ref)
    assert handler.next_action(ValueError("x"), REQUEST, now=0.0)[1].after == 5.0


@virtual
async def test_a_conflict_has_its_own_short_delays_and_is_not_a_failure() -> None:
    handler = error_handler()
    waits = [handler.next_action(Conflict("x"), REQUEST, now=0.0)[1].after or 0.0 for _ in range(40)]
    assert 0.0 < waits[0] <= 0.15
    assert 1.0 < waits[-1] <= 5.0, "there is no limit to how often"
    assert REQUEST.ref in handler.read_live
    assert handler.failures.count(REQUEST.ref) == 0


@virtual
async def test_retry_with_seconds_is_a_fixed_delay_and_without_them_backs_off() -> None:
    handler = error_handler()
    assert handler.next_action(Retry("x", seconds=30), REQUEST, now=0.0) == ("retry", Action(30.0))
    assert handler.failures.count(REQUEST.ref) == 0
    waits = [handler.next_action(Retry("x"), REQUEST, now=0.0)[1].after for _ in range(2)]
    assert waits == [5.0, 10.0]


@virtual
async def test_giving_up_waits_for_a_change_and_resets_the_backoff() -> None:
    handler = error_handler()
    handler.next_action(ValueError("x"), REQUEST, now=0.0)
    assert handler.next_action(GiveUp("x"), REQUEST, now=0.0) == ("gave_up", Action(None))
    assert handler.failures.count(REQUEST.ref) == 0


@virtual
async def test_the_users_policy_decides_unless_it_returns_nothing() -> None:
    seen: list[tuple[str, int]] = []

    def policy(_: Web | None, error: Exception, request: Request[Web]) -> Action | None:
        seen.append((str(error), request.attempt))
        return requeue(1) if str(error) == "x" else None

    handler = error_handler(policy)
    assert handler.next_action(ValueError("x"), REQUEST, now=0.0) == ("failed", Action(1.0))
    assert handler.next_action(ValueError("y"), REQUEST, now=0.0) == ("failed", Action(10.0)), "the second failure"
    assert seen == [("x", 0), ("y", 0)]


@virtual
async def test_an_error_policy_that_raises_is_logged_and_the_backoff_applies(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def policy(_: Web | None, error: Exception, request: Request[Web]) -> Action | None:
        raise KeyError("oops")

    with caplog.at_level(logging.ERROR):
        assert error_handler(policy).next_action(ValueError("x"), REQUEST, now=0.0) == ("failed", Action(5.0))
    assert "on_error raised, the default backoff applies" in caplog.text


@virtual
async def test_retry_after_of_the_server_is_the_minimum_delay() -> None:
    assert minimum_delay(TooManyRequests("slow down", retry_after=60.0)) == 60.0
    assert minimum_delay(ValueError("x")) == 0.0
    assert error_handler().next_action(TooManyRequests("x", retry_after=60.0), REQUEST, now=0.0)[1].after == 60.0
