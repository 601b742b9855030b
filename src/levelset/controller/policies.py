"""What an error means for the next look: try again, wait longer each time, read anew, or leave it."""

from collections.abc import Callable, Sequence
from typing import Any, cast

from levelset.aio import Backoff
from levelset.controller.actions import Action, Result
from levelset.controller.requests import Request
from levelset.errors import AlreadyExists, ApplyConflict, Conflict, GiveUp, Retry, TooManyRequests

__all__ = ["Delay", "ErrorPolicy", "essence", "judge", "least_delay"]

ErrorPolicy = Callable[[Any, Exception, Request[Any]], Action | None]
"""Decides about an error of the reconciler, given the object and the request; None leaves it to the growing delay."""

Delay = Backoff | Callable[[int], float]
"""How long a failing object waits: a Backoff, or a function from the number of earlier failures to seconds."""


def judge(error: Exception) -> Result:
    """What an error is for the controller, in a word.

    `conflict` is cured by reading anew, `retry` and `gave_up` were asked for, and `failed` is everything else: also a
    name that is taken and a conflict of managers, which reading anew does not cure and somebody has to hear of.
    """
    match error:
        case Retry():
            return "retry"
        case GiveUp():
            return "gave_up"
        case Conflict() if not isinstance(error, AlreadyExists | ApplyConflict):
            return "conflict"
        case _:
            return "failed"


def least_delay(error: Exception) -> float:
    """How long a server has asked us to wait; 0 if it has not."""
    return error.retry_after or 0.0 if isinstance(error, TooManyRequests) else 0.0


def essence(error: Exception) -> Exception:
    """The error to judge: for a group (of a TaskGroup, say) that tells the same in several ways, one of them."""
    leaves = _leaves(error)
    results = {judge(one) for one in leaves}
    if results == {"retry"}:
        return min(leaves, key=_patience)
    return leaves[0] if len(results) == 1 and results != {"failed"} else error


def _leaves(error: Exception) -> list[Exception]:
    if not isinstance(error, ExceptionGroup):
        return [error]
    inner: Sequence[Exception] = cast("ExceptionGroup[Exception]", error).exceptions
    return [leaf for one in inner for leaf in _leaves(one)]


def _patience(error: Exception) -> float:
    seconds = error.seconds if isinstance(error, Retry) else None
    return float("inf") if seconds is None else seconds
