"""Rules in CEL (x-kubernetes-validations) of custom resources: told when a definition is written, held to after."""

import functools
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from levelset.apiserver.schemas import wording
from levelset.apiserver.schemas.nodes import as_list, as_map
from levelset.errors import Cause

if TYPE_CHECKING:
    from levelset.cel import Finding, Rules

__all__ = ["check_expressions", "expression_rules"]

UNCHECKED = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete "
    "validation"
)
_PLACE = "\0"  # where a schema stands, until that is known
_WORDS = {
    "FieldValueInvalid": "Invalid value",
    "FieldValueRequired": "Required value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueDuplicate": "Duplicate value",
    "FieldValueNotSupported": "Unsupported value",
    "InternalError": "Internal error",
}
# Values that break the schema in these ways may be anything, so that rules could not be evaluated on them.
_BLOCKING = frozenset(
    f"FieldValue{reason}" for reason in ("NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid")
)


def check_expressions(schema: Any, path: str) -> list[Cause]:
    """What is wrong with the rules of a structural schema that stands at this path."""
    if not _has_rules(schema):
        return []
    causes = map(_cause, _compiled(json.dumps(schema)).problems)
    return [Cause(one.field.replace(_PLACE, path), one.reason, one.message.replace(_PLACE, path)) for one in causes]


def expression_rules(schema: Any) -> Callable[[Any, Any, list[Cause]], list[Cause]] | None:
    """What finds out which rules an object breaks, given what is wrong with it already; None if there are no rules."""
    if not _has_rules(schema):
        return None
    written = json.dumps(schema)

    def check(new: Any, old: Any, causes: list[Cause]) -> list[Cause]:
        if any(cause.reason in _BLOCKING for cause in causes):
            return [Cause("<nil>", "FieldValueInvalid", f"Invalid value: null: {UNCHECKED}")]
        rules = _compiled(written)
        broken = next((one for one in rules.problems if one.reason == "FieldValueInvalid"), None)
        if broken is not None:
            return [] if _is_left_alone(new, old) else [_unusable(broken)]
        return [_cause(finding) for finding in rules.check(new, old)]

    return check


def _is_left_alone(new: Any, old: Any) -> bool:
    """Whether nothing changes that rules could be about, so that such an object can still be let go of."""
    members, before = as_map(new), as_map(old)
    if members is None or before is None:
        return False
    return all(members.get(name) == before.get(name) for name in {*members, *before} - {"metadata", "status"})


def _unusable(problem: "Finding") -> Cause:
    """What is said about every object of a definition with a rule that this server cannot evaluate.

    Such a definition was stored by another server, as this one refuses it. To leave the rule out would let everything
    pass that it is there to keep out.
    """
    place = problem.field.removeprefix(_PLACE).lstrip(".")
    return Cause("<nil>", "FieldValueInvalid", f"Invalid value: null: rule compile error: {place}: {problem.message}")


@functools.lru_cache(256)
def _compiled(schema: str) -> "Rules":
    """The rules of a schema, given as JSON: those of one schema are compiled once, however often it is written."""
    from levelset.cel import compile_rules  # noqa: PLC0415  # it takes a while to load, and most schemas have no rules

    return compile_rules(json.loads(schema), _PLACE)


def _has_rules(schema: Any) -> bool:
    waiting = [schema]
    while waiting:
        tree = waiting.pop()
        members = as_map(tree)
        if members is not None and members.get("x-kubernetes-validations"):
            return True
        waiting += (as_list(tree) or []) if members is None else members.values()
    return False


def _cause(finding: "Finding") -> Cause:
    words = _WORDS.get(finding.reason, "Invalid value")
    is_shown = finding.is_shown and finding.reason not in ("FieldValueRequired", "FieldValueForbidden")
    shown = f" {wording.show(finding.value)}:" if is_shown else ""
    if finding.reason == "FieldValueDuplicate":  # which has no room for a message
        return Cause(finding.field or "<nil>", finding.reason, f"{words}{':' if is_shown else ''}{shown.rstrip(':')}")
    return Cause(finding.field or "<nil>", finding.reason, f"{words}:{shown} {finding.message}")
