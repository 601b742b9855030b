"""The errors of CEL: compilation errors with positions, evaluation errors, and an exceeded cost limit."""

from collections.abc import Sequence

import msgspec

from levelset.errors import LevelsetError, Malformed

__all__ = ["BadProgram", "CompileError", "CostExceeded", "EvaluationError", "Issue"]


class Issue(msgspec.Struct, frozen=True):
    """One error in an expression, and its character offset."""

    position: int
    message: str


class CompileError(Malformed):
    """An expression that is not valid CEL or has type errors; the message shows each position with a caret under it.

    What to do: correct the expression at the caret.
    """

    def __init__(self, text: str, issues: Sequence[Issue]) -> None:
        self.text = text
        self.issues = tuple(sorted(issues, key=lambda issue: issue.position))
        super().__init__("\n".join(_show(text, issue) for issue in self.issues), position=self.issues[0].position)


class BadProgram(CompileError):
    """A valid expression that cannot be compiled, for example because of an invalid pattern."""

    def __init__(self, text: str, position: int, message: str) -> None:
        super().__init__(text, [Issue(position, message)])
        self.message = message

    def __str__(self) -> str:
        return self.message


class EvaluationError(LevelsetError):
    """An expression without a result for these variables: a missing key, an overflow, a wrong type.

    What to do: guard the access with `has(...)`, and check ranges before arithmetic.
    """


class CostExceeded(LevelsetError):
    """The expression exceeded its cost limit; unlike other errors, `&&` and `||` do not absorb this one.

    What to do: give lists, maps and strings in the schema a maximum size, or make the expression simpler.
    """

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
