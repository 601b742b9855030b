"""How far a session is, and what may be asked of it next; pure."""

import json
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

__all__ = ["LARGEST", "Answer", "Asked", "Cleanup", "ExecutionStatus", "answer", "read_wish"]

ExecutionStatus = Literal["Running", "CleaningResources", "CleanupComplete", "Stopping"]
Cleanup = Literal["Full", "None"]

LARGEST: Final = 512
_ORDER: Final[tuple[ExecutionStatus, ...]] = ("Running", "CleaningResources", "CleanupComplete", "Stopping")
_CLEANUPS: Final[tuple[Cleanup, ...]] = ("Full", "None")
_PATCH: Final = "application/merge-patch+json"


@dataclass(frozen=True, slots=True)
class Asked:
    """What somebody wants of the session."""

    status: ExecutionStatus | None = None
    cleanup: Cleanup | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What is answered, and what is to be done."""

    code: int
    words: str = ""
    begins: ExecutionStatus | None = None
    """Where the session is to go from here; None if it stays, or is on its way."""
    cleanup: Cleanup | None = None


def read_wish(content_type: str, body: bytes) -> Asked | Answer:
    """What a request asks for, or the refusal."""
    if content_type.partition(";")[0].strip().lower() != _PATCH:
        return Answer(415, f"send a merge patch: Content-Type: {_PATCH}")
    if len(body) > LARGEST:
        return Answer(413, f"at most {LARGEST} bytes are taken")
    try:
        tree: Any = json.loads(body)
    except (ValueError, RecursionError):
        return Answer(400, 'the body is no JSON; send {"status": "Stopping"}')
    if not isinstance(tree, dict):
        return Answer(400, 'an object is expected, such as {"status": "Stopping"}')
    fields = cast("dict[str, Any]", tree)
    status, cleanup = fields.get("status"), fields.get("shutdownResourceCleanup")
    if status is not None and status not in _ORDER:
        return Answer(422, f"status: {str(status)[:40]!r} is none of {', '.join(_ORDER[1:])}")
    if cleanup is not None and cleanup not in _CLEANUPS:
        return Answer(422, f"shutdownResourceCleanup: {str(cleanup)[:40]!r} is none of {', '.join(_CLEANUPS)}")
    return Asked(status, cleanup)


def answer(now: ExecutionStatus, asked: Asked) -> Answer:
    """What comes of a wish: 202 if it begins, 204 if nothing changes, 200 if it was done before; or why not."""
    if asked.cleanup is not None and now != "Running":
        return Answer(422, f"shutdownResourceCleanup: the session is {now}, so it is too late to choose")
    if asked.cleanup == "None" and asked.status in ("CleaningResources", "CleanupComplete"):
        return Answer(422, f"status: {asked.status} cleans up, and shutdownResourceCleanup says not to")
    if asked.status is None or asked.status == now:
        return Answer(204 if asked.cleanup is None else 200, cleanup=asked.cleanup)
    if asked.status == "Running":
        return Answer(422, f"status: a session that is {now} does not run again")
    if _ORDER.index(asked.status) < _ORDER.index(now):
        return Answer(200)
    return Answer(202, begins=asked.status, cleanup=asked.cleanup)
