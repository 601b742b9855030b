"""What an estimate knows of a part of an expression before any value is seen."""

from dataclasses import dataclass
from typing import Any

from levelset.cel.spans import UNKNOWN, ZERO, Span, fixed
from levelset.cel.types import Type

__all__ = ["Part"]

_SIZED = frozenset(("string", "bytes", "list", "map", "dyn"))
_SCALARS = frozenset(("bool", "int", "uint", "double", "timestamp", "duration"))


@dataclass(frozen=True, slots=True)
class Part:
    """What is known of a part of an expression: steps, size, sizes of what it holds, and its place in a schema."""

    cost: Span = ZERO
    size: Span | None = None
    key: Span | None = None
    value: Span | None = None
    declared: Type | None = None
    kind: Type | None = None
    literal: Any = None

    @property
    def span(self) -> Span:
        """The size, as far as anything tells it."""
        if self.size is not None:
            return self.size
        if self.declared is not None and self.declared.max_elements is not None:
            return Span(0, self.declared.max_elements)
        if self.declared is not None and self.declared.kind not in _SIZED:
            return ZERO
        if self.kind is not None and self.kind.kind == "type":
            return ZERO
        if self.kind is not None and self.kind.kind in _SCALARS:
            return fixed(1)
        return UNKNOWN

    def inside(self, place: int) -> "Part":
        """An item (or key, for place 0 of a map) of this part."""
        kind = self.kind
        known = self.declared.params if self.declared is not None else ()
        declared = known[place] if len(known) > place else None
        inner = kind.params[place] if kind is not None and len(kind.params) > place else None
        is_key = kind is not None and kind.kind == "map" and place == 0
        return Part(size=self.key if is_key else self.value, declared=declared, kind=inner)
