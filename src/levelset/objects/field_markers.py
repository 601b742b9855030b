"""Field markers: what a field declares beyond its type, such as merge strategies and CEL rules.

They are used in `Annotated`, beside msgspec's `Meta`:

```python
class WebsiteSpec(Spec):
    hosts: Annotated[tuple[Host, ...], ListMap("name")] = ()
    aliases: Annotated[tuple[str, ...], ListSet()] = ()
    image: Annotated[str, Meta(min_length=1), Rule("self == oldSelf", "the image cannot change")]
```

A rule about several fields belongs to their class: `class Range(Spec, rules=[Rule("self.min <= self.max")])`.
msgspec ignores them; `declarations_of` and `rules_of` read them, for schemas and for merging.
"""

from collections.abc import Mapping
from typing import Any, get_args, get_type_hints

import msgspec
from msgspec import Struct

__all__ = [
    "Atomic",
    "Declaration",
    "Embedded",
    "ListMap",
    "ListSet",
    "PreserveUnknown",
    "Rule",
    "declarations_of",
    "rules_of",
]


class ListMap:
    """A list whose items are identified by these fields: `ListMap("name")`, `ListMap("port", "protocol")`."""

    __match_args__ = ("keys",)
    __slots__ = ("keys",)

    keys: tuple[str, ...]

    def __init__(self, *keys: str) -> None:
        if not keys:
            raise ValueError('a ListMap needs the fields that identify its items: ListMap("name")')
        object.__setattr__(self, "keys", keys)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a ListMap is immutable; create another one instead of setting {name}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ListMap) and self.keys == other.keys

    def __hash__(self) -> int:
        return hash((ListMap, self.keys))

    def __reduce__(self) -> tuple[object, ...]:
        return ListMap, self.keys

    def __repr__(self) -> str:
        return f"ListMap({', '.join(map(repr, self.keys))})"


class ListSet(Struct, frozen=True):
    """A list of unique values whose order does not matter."""


class Atomic(Struct, frozen=True):
    """A list or map that has one owner and is replaced as a whole."""


class PreserveUnknown(Struct, frozen=True):
    """A map whose unknown fields are preserved (`x-kubernetes-preserve-unknown-fields`)."""


class Embedded(Struct, frozen=True):
    """A map that is an embedded object: the API server validates its `apiVersion`, `kind` and metadata."""


class Rule(Struct, frozen=True):
    """A CEL validation rule: `Rule("self.min <= self.max", "min must not be above max")`.

    `self` is the annotated value, `oldSelf` its value before an update; a rule that uses `oldSelf` is evaluated on
    updates only, unless `optional_old_self` makes `oldSelf` an optional value. The message may be computed by
    `message_expression`, and `field_path` (`.min`) says which field it is about.
    """

    rule: str
    message: str = ""
    reason: str = ""
    field_path: str = ""
    message_expression: str = ""
    optional_old_self: bool = False


Declaration = ListMap | ListSet | Atomic | PreserveUnknown | Embedded | Rule
"""The markers that may be used in `Annotated`."""


def declarations_of(model: type[msgspec.Struct]) -> Mapping[str, tuple[Declaration, ...]]:
    """The markers of each attribute that has any, by its Python name."""
    found: dict[str, tuple[Declaration, ...]] = {}
    for name, hint in get_type_hints(model, include_extras=True).items():
        mine = tuple(_declared(hint))
        if mine and name in model.__struct_fields__:
            found[name] = mine
    return found


def rules_of(model: type[Any]) -> tuple[Rule, ...]:
    """The rules of a class (`rules=`), those of its bases first."""
    found: tuple[Rule, ...] = getattr(model, "__rules__", ())
    return found


def _declared(hint: Any) -> list[Declaration]:
    """The markers of an annotation, also of an optional one (`Annotated[...] | None`)."""
    here = [one for one in getattr(hint, "__metadata__", ()) if isinstance(one, Declaration)]
    if here or hasattr(hint, "__metadata__"):
        return here
    return [one for part in get_args(hint) if hasattr(part, "__metadata__") for one in _declared(part)]
