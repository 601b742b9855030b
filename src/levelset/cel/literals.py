"""Texts that must be something else: patterns, times and durations that are written out are checked beforehand."""

from levelset.cel.faults import BadProgram, CompileError, EvaluationError, Issue
from levelset.cel.instants import parse_duration, parse_timestamp
from levelset.cel.patterns import compile_pattern
from levelset.cel.tree import Call, Literal, Node
from levelset.cel.values import MAX_TIME, MIN_TIME
from levelset.cel.walking import walk
from levelset.re2 import BadRegex

__all__ = ["check_literals"]

_PARSERS = {"duration": parse_duration, "timestamp": parse_timestamp}
_PATTERNS = frozenset(("matches", "find", "findAll"))


def check_literals(text: str, tree: Node) -> None:
    """Raises CompileError for a pattern, time or duration that is written out and is none."""
    found = [issue for node in walk(tree) if isinstance(node, Call) for issue in _issues(text, node)]
    if found:
        raise CompileError(text, found)


def _issues(text: str, node: Call) -> list[Issue]:
    arguments = node.arguments if node.target is None else [node.target, *node.arguments]
    place = 1 if node.function in _PATTERNS else 0
    literal = arguments[place] if len(arguments) > place else None
    if node.function == "timestamp" and isinstance(literal, Literal) and type(literal.value) is int:
        is_time = MIN_TIME <= literal.value * 10**9 <= MAX_TIME
        return [] if is_time else [Issue(literal.position, "invalid timestamp argument")]
    if not isinstance(literal, Literal) or not isinstance(literal.value, str):
        return []
    try:
        if node.function in _PATTERNS:
            compile_pattern(literal.value)
        elif node.function in _PARSERS and node.target is None:
            _PARSERS[node.function](literal.value)
    except BadRegex as error:
        if node.function != "matches":
            raise BadProgram(text, literal.position, str(error)) from None
        return [Issue(literal.position, f"invalid matches argument: {error}")]
    except EvaluationError:
        return [Issue(literal.position, f"invalid {node.function} argument")]
    return []
