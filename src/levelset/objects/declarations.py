"""What a field may declare beyond its type: how its list or map is merged, and rules that it must keep.

They stand in `Annotated`, beside msgspec's `Meta`:

```python
class WebsiteSpec(Spec):
    hosts: Annotated[tuple[Host, ...], ListMap("name")] = ()
    aliases: Annotated[tuple[str, ...], ListSet()] = ()
    image: Annotated[str, Meta(min_length=1), Rule("self == oldSelf", "the image cannot change")]
```

msgspec passes them over; `declarations_of` reads them, for schemas and for merging.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args, get_type_hints

import msgspec

__all__ = ["Atomic", "ListMap", "ListSet", "PreserveUnknown", "Rule", "declarations_of"]


@dataclass(frozen=True, slots=True, init=False)
class ListMap:
    """A list whose items are told apart by these members: `ListMap("name")`, `ListMap("port", "protocol")`."""

    keys: tuple[str, ...]

    def __init__(self, *keys: str) -> None:
        if not keys:
            raise ValueError('a ListMap needs the members that tell its items apart: ListMap("name")')
        object.__setattr__(self, "keys", keys)


@dataclass(frozen=True, slots=True)
class ListSet:
    """A list of values that are there once or not at all, in no order that matters."""


@dataclass(frozen=True, slots=True)
class Atomic:
    """A list or map that has one owner and is replaced as a whole."""


@dataclass(frozen=True, slots=True)
class PreserveUnknown:
    """A map whose members are kept although no schema names them."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A CEL rule that the server checks: `Rule("self.min <= self.max", "min must not be above max")`."""

    rule: str
    message: str = ""
    reason: str = ""
    field_path: str = ""


Declaration = ListMap | ListSet | Atomic | PreserveUnknown | Rule


def declarations_of(model: type[msgspec.Struct]) -> Mapping[str, tuple[Declaration, ...]]:
    """For each attribute that declares something, what it declares, by its Python name."""
    found: dict[str, tuple[Declaration, ...]] = {}
    for name, hint in get_type_hints(model, include_extras=True).items():
        mine = tuple(_declared(hint))
        if mine and name in model.__struct_fields__:
            found[name] = mine
    return found


def _declared(hint: Any) -> list[Declaration]:
    """The declarations of an annotation, also of one that is optional (`Annotated[...] | None`)."""
    here = [one for one in getattr(hint, "__metadata__", ()) if isinstance(one, Declaration)]
    if here or hasattr(hint, "__metadata__"):
        return here
    return [one for part in get_args(hint) if hasattr(part, "__metadata__") for one in _declared(part)]
