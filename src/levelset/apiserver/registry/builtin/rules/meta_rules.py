"""The rules of `metav1.Condition`, which newer kinds have in their status."""

import re
from typing import Any, Final

from levelset.apiserver.registry.builtin.rules.checks import at_least, bytes_at_most, label_key_problems, one_of
from levelset.apiserver.registry.builtin.rules.rule_tables import Required, Table, always, required
from levelset.apiserver.schema import field_errors
from levelset.errors import Cause

__all__ = ["check_conditions"]

_REASON: Final = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"


def _reason(value: str, at: str, out: list[Cause], _context: Any) -> None:
    if not re.fullmatch(_REASON, value):
        rule = "a condition reason must start with alphabetic character, optionally followed by a string of"
        rule = f"{rule} alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'"
        shown = "(e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex"
        out.append(field_errors.invalid(at, value, f"{rule} {shown} used for validation is '{_REASON}')"))


def _type(value: Any, at: str, out: list[Cause], _context: Any) -> None:
    out += [field_errors.invalid(at, value or "", problem) for problem in label_key_problems(value or "")]


CONDITION: Final = Table(
    ("type", always(_type)),
    ("status", Required(), one_of("False", "True", "Unknown")),
    ("observedGeneration", at_least(0, "must be greater than or equal to zero")),
    ("lastTransitionTime", required),
    ("reason", required, bytes_at_most(1024), _reason),
    ("message", bytes_at_most(32 * 1024)),
)


def check_conditions(value: list[Any], at: str, out: list[Cause], _context: Any) -> None:
    """Checks conditions, of which each type occurs once."""
    seen: set[str] = set()
    for index, one in enumerate(value):
        kind = one.get("type") or ""
        if kind in seen:
            out.append(field_errors.duplicate(f"{at}[{index}].type", kind))
        seen.add(kind)
        CONDITION(one, f"{at}[{index}]", out, None)
