"""Takes type annotations apart: what is inside `Annotated`, behind an alias, and beside `None`."""

import types
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, NewType, Union, get_args, get_origin

import msgspec

from levelset.errors import ConfigError

__all__ = ["Place", "Schema", "options_of", "unfold"]

_OURS: Final = ("levelset.kinds.", "levelset.objects.")

Schema = dict[str, Any]
"""A schema as it stands in a CustomResourceDefinition."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a class a schema is made: for what is said when none can be made, and for what is inside itself."""

    path: str
    inside: tuple[type, ...] = ()
    is_open: bool = False
    """Whether what the schema does not name is kept."""
    keeps_null: bool = True
    """Whether null is a value of its own here; it is not where it says the same as absence."""
    reads_source: bool = True
    """Whether words are looked for in source files."""

    @property
    def is_ours(self) -> bool:
        """Whether it is in a class that comes with the house, whose defaults stand for what is not there."""
        return bool(self.inside) and self.inside[-1].__module__.startswith(_OURS)

    def member(self, name: str, *, keeps_null: bool = True) -> "Place":
        """The place of a member of this one."""
        return replace(self, path=f"{self.path}.{name}", is_open=False, keeps_null=keeps_null)

    def items(self) -> "Place":
        """The place of what this one has many of."""
        return replace(self, path=f"{self.path}[]", keeps_null=True)

    def within(self, model: type) -> "Place":
        """The same place, inside of a class."""
        return replace(self, inside=(*self.inside, model), is_open=False)

    def refuse(self, why: str) -> ConfigError:
        """The error that says why there is no schema for this place."""
        return ConfigError(f"{self.path}: {why}")


def unfold(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """The type itself, and everything that `Annotated` puts beside it, the innermost first."""
    extras: tuple[Any, ...] = ()
    while True:
        if get_origin(hint) is Annotated:
            hint, more = hint.__origin__, hint.__metadata__
            extras = (*more, *extras)
        elif isinstance(hint, NewType):
            hint = hint.__supertype__
        elif type(hint).__name__ == "TypeAliasType":  # `type X = ...` of Python 3.12
            hint = hint.__value__
        else:
            return hint, extras


def options_of(hint: Any) -> tuple[list[Any], bool]:
    """The alternatives of a type, None and the unset value left out, and whether None was among them."""
    if get_origin(hint) not in (Union, types.UnionType):
        return [hint], False
    options: list[Any] = []
    is_nullable = False
    for one in get_args(hint):
        if one is type(None):
            is_nullable = True
        elif one is not msgspec.UnsetType:
            options.append(one)
    return options, is_nullable
