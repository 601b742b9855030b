"""What a failed call to etcd means: above all, whether a write may have happened nevertheless."""

from enum import Enum
from typing import Final

__all__ = ["CallFailed", "Verdict", "judge"]


class Verdict(Enum):
    """What is known about a failed call."""

    UNSENT = "unsent"
    """It was not executed, and may be sent again, to this member or another one."""
    UNKNOWN = "unknown"
    """It was or was not executed, or still will be: a write must not be repeated."""
    REFUSED = "refused"
    """etcd has refused it; nothing was changed."""
    LOGIN = "login"
    """etcd has refused it because the token is not valid any more; nothing was changed."""
    COMPACTED = "compacted"
    """The requested revision is compacted."""
    FUTURE = "future"
    """The requested revision is in the future."""
    NO_SPACE = "no space"
    """etcd has no space left and accepts no puts; nothing was changed."""
    TOO_LARGE = "too large"
    """The value is larger than etcd accepts; nothing was changed."""


class CallFailed(Exception):
    """A call to etcd failed; `reason` is etcd's text or that of the connection."""

    def __init__(self, verdict: Verdict, reason: str) -> None:
        super().__init__(reason)
        self.verdict = verdict
        self.reason = reason


# By a part of the text, which etcd's clients compare, too: codes alone do not tell these apart.
_BY_TEXT: Final = (
    ("required revision has been compacted", Verdict.COMPACTED),
    ("required revision is a future revision", Verdict.FUTURE),
    ("database space exceeded", Verdict.NO_SPACE),
    ("request is too large", Verdict.TOO_LARGE),
    ("received message larger than max", Verdict.TOO_LARGE),
    ("invalid auth token", Verdict.LOGIN),
    ("revision of auth store is old", Verdict.LOGIN),
    ("etcdserver: no leader", Verdict.UNSENT),  # checked before the request is read
    ("etcdserver: too many requests", Verdict.UNSENT),  # refused before it is proposed
)
_UNKNOWN_CODES: Final = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED", "UNKNOWN", "INTERNAL", "ABORTED"})


def judge(code: str, reason: str) -> Verdict:
    """The verdict about a failed call, from the name of its gRPC code and its text.

    Whatever is not known to be harmless counts as unknown: `UNAVAILABLE` is also what a cut connection, a change of
    the leader and etcd's own timeout give, all of which can follow a commit.
    """
    for text, verdict in _BY_TEXT:
        if text in reason:
            return verdict
    return Verdict.UNKNOWN if code in _UNKNOWN_CODES else Verdict.REFUSED
