"""Mistakes with errors that a type checker must find."""

from levelset.errors import ApplyConflict, Conflict, Denied, FieldConflict, NotFound, Retry

Retry("later", 30)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
Retry("later", seconds="30")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Denied("no", "spec.replicas")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
NotFound()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
NotFound("gone", code="404")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
ApplyConflict("taken")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def managers_of_any_conflict(error: Conflict) -> object:
    return error.conflicts  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]


def rewrite(conflict: FieldConflict) -> None:
    conflict.manager = "me"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
