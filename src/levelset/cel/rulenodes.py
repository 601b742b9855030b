"""Rules of one place of a schema, compiled; and what is found when values or schemas break them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from levelset.cel.converting import Convert
from levelset.cel.program import Program
from levelset.cel.values import is_map

__all__ = ["OMITTED", "Finding", "Rule", "RuleNode"]

OMITTED: Any = object()


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: the field, a reason such as FieldValueInvalid, in words, and the value it is about.

    `value` is OMITTED where it is not shown.
    """

    field: str
    reason: str
    message: str
    value: Any = OMITTED

    @property
    def is_shown(self) -> bool:
        """Whether there is a value to show."""
        return self.value is not OMITTED


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, compiled."""

    text: str
    program: Program
    message: str = ""
    message_program: Program | None = None
    reason: str = "FieldValueInvalid"
    field: str = ""
    is_optional: bool = False

    @property
    def is_transition(self) -> bool:
        """Whether the rule looks at the former value."""
        return "oldSelf" in self.program.uses

    @property
    def shown(self) -> str:
        """The rule as messages name it."""
        return self.message.strip() or self.text.strip()


@dataclass(slots=True)
class RuleNode:
    """The rules of values at one place of a schema, and of those below it."""

    kind: str
    keys: tuple[str, ...] = ()
    rules: list[Rule] = field(default_factory=list[Rule])
    convert: Convert | None = None
    properties: dict[str, "RuleNode"] = field(default_factory=dict[str, "RuleNode"])
    values: "RuleNode | None" = None
    items: "RuleNode | None" = None
    all_of: list["RuleNode"] = field(default_factory=list["RuleNode"])

    @property
    def is_idle(self) -> bool:
        """Whether there is no rule here or below."""
        return not (self.rules or self.properties or self.values or self.items or self.all_of)

    def key_of(self, item: Any) -> tuple[Any, ...] | None:
        """What tells an item of a keyed list apart; None if nothing does."""
        if not self.keys or not is_map(item):
            return None
        members: Mapping[str, Any] = item
        found = tuple(members.get(key) for key in self.keys)
        return None if any(isinstance(value, dict | list) for value in found) else found
