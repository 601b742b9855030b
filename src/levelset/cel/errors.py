"""What can go wrong with an expression: it does not compile, or it does not evaluate."""

from collections.abc import Sequence
from dataclasses import dataclass

from levelset.errors import LevelsetError, Malformed

__all__ = ["BadProgram", "CompileError", "CostExceeded", "EvaluationError", "Issue"]


@dataclass(frozen=True, slots=True)
class Issue:
    """One thing that is wrong with an expression, and the offset of the character where."""

    position: int
    message: str


class CompileError(Malformed):
    """An expression that is no CEL, or not of the types it needs; the message shows each place with a mark under it."""

    def __init__(self, text: str, issues: Sequence[Issue]) -> None:
        self.text = text
        self.issues = tuple(sorted(issues, key=lambda issue: issue.position))
        super().__init__("\n".join(_show(text, issue) for issue in self.issues), position=self.issues[0].position)


class BadProgram(CompileError):
    """An expression that is CEL, but holds something that no program can be made of, such as a broken pattern."""

    def __init__(self, text: str, position: int, message: str) -> None:
        super().__init__(text, [Issue(position, message)])
        self.message = message

    def __str__(self) -> str:
        return self.message


class EvaluationError(LevelsetError):
    """An expression that has no value for these variables: a missing key, an overflow, a wrong type."""


class CostExceeded(LevelsetError):
    """An expression that took more steps than it may; `&&` and `||` do not swallow this."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


def _show(text: str, issue: Issue) -> str:
    before = text[: issue.position]
    line = before.count("\n") + 1
    column = issue.position - (before.rfind("\n") + 1)
    lines = text.split("\n")
    shown = lines[line - 1].replace("\t", " ") if line <= len(lines) else ""
    head = f"ERROR: <input>:{line}:{column + 1}: {issue.message}"
    return f"{head}\n | {shown}\n | {'.' * column}^"
