"""What a failure means for a watch: ask the same again, ask in another way, or begin again with a list."""

from enum import Enum, auto
from typing import Final

from levelset.errors import ApiError, Expired, Forbidden, ServerFailed, TooManyRequests, Unauthorized, Unreachable

__all__ = ["Verdict", "judge"]

_TOO_LARGE: Final = "ResourceVersionTooLarge"
_REFUSALS: Final = frozenset({400, 405, 406, 415, 422, 501})


class Verdict(Enum):
    """What to do about a failure."""

    AGAIN = auto()
    """It passes, or somebody will repair it: the same request, later."""
    EXPIRED = auto()
    """The server does not have this version (any more, or yet): begin again without one."""
    REFUSED = auto()
    """The server does not do what was asked: ask in another way."""
    AFRESH = auto()
    """What was known cannot be trusted: begin again."""


def judge(error: Exception) -> Verdict:
    """The verdict on a failure, in whatever form it came: an HTTP status, an event on the stream, or no answer."""
    match error:
        case Expired():
            return Verdict.EXPIRED
        case ApiError() if _is_too_large(error):
            return Verdict.EXPIRED
        case ApiError() if error.code in _REFUSALS:
            return Verdict.REFUSED
        case ServerFailed() | TooManyRequests() | Unauthorized() | Forbidden():
            return Verdict.AGAIN
        case Unreachable() | TimeoutError():
            return Verdict.AGAIN
        case _:
            return Verdict.AFRESH


def _is_too_large(error: ApiError) -> bool:
    """Whether the server has not come as far as the version, or has lost it, as after being restored from a backup."""
    said = error.message.startswith("Too large resource version")
    return said or any(cause.reason == _TOO_LARGE for cause in error.causes)
