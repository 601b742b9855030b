"""Shapes: what a schema says about how a tree may be merged, and nothing else.

Strategic merge and server-side apply ask one question of a schema at every node: is this a scalar, a map, a list of
keyed items, a set, or one indivisible value? A `Shape` is that answer. It is made from an OpenAPI or structural
schema (`shape_of`), or looked up for a built-in kind (`builtin_shape`). Without a schema `ANYTHING` stands in: maps
are merged member by member and lists are whole.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["ANYTHING", "Shape"]

ListType = Literal["atomic", "set", "map"]


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """How one node of a tree is merged.

    `fields` are the members that are known by name, `items` the shape of all other members of a map, or of a list's
    items. `keys` are the list-map keys of server-side apply, `defaults` their defaults. `merge_key` and `strategies`
    are what strategic merge goes by: a list with strategy "merge" and no key is a set of scalars.
    """

    fields: Mapping[str, "Shape"] = field(default_factory=dict[str, "Shape"])
    items: "Shape | None" = None
    list_type: ListType = "atomic"
    keys: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict[str, Any])
    atomic: bool = False
    merge_key: str | None = None
    strategies: frozenset[str] = frozenset()

    def member(self, name: str) -> "Shape":
        """The shape of the member `name` of a map; ANYTHING where the schema is silent."""
        return self.fields.get(name) or self.items or ANYTHING

    def item(self) -> "Shape":
        """The shape of a list's items; ANYTHING where the schema is silent."""
        return self.items or ANYTHING


ANYTHING = Shape()
