"""Types made to fit: what the open types of a signature or an empty list turn out to be."""

from dataclasses import replace

from levelset.cel.signatures import Overload
from levelset.cel.types import DYN, Type, param

__all__ = ["Bindings"]

_NULLABLE = frozenset(("null_type", "object", "opaque", "timestamp", "duration", "optional"))


class Bindings:
    """What each open type stands for so far."""

    def __init__(self) -> None:
        self._bound: dict[str, Type] = {}
        self._count = 0

    def fresh(self) -> Type:
        """An open type of its own."""
        self._count += 1
        return param(f"@{self._count}")

    def snapshot(self) -> dict[str, Type]:
        """The state to come back to."""
        return dict(self._bound)

    def restore(self, state: dict[str, Type]) -> None:
        """Forgets what was found since."""
        self._bound = dict(state)

    def find(self, kind: Type) -> Type:
        """What a type stands for, one level deep."""
        while kind.kind == "param" and kind.name in self._bound:
            kind = self._bound[kind.name]
        return kind

    def final(self, kind: Type) -> Type:
        """The type with everything open replaced, by dyn at last."""
        found = self.find(kind)
        if found.kind == "param":
            return DYN
        if not found.params:
            return found
        params = tuple(map(self.final, found.params))
        return found if all(map(_is, params, found.params)) else replace(found, params=params)

    def applied(self, overload: Overload, types: list[Type]) -> Type | None:
        """The result of this variant for arguments of these types; None if they do not fit."""
        if len(overload.params) != len(types):
            return None
        params, result = overload.params, overload.result
        if overload.is_generic:
            names: dict[str, Type] = {}
            params = tuple(self._renamed(kind, names) for kind in params)
            result = self._renamed(result, names)
        if not all(map(self.assign, params, types)):
            return None
        return result

    def _renamed(self, kind: Type, names: dict[str, Type]) -> Type:
        if kind.kind == "param":
            if kind.name not in names:
                names[kind.name] = self.fresh()
            return names[kind.name]
        if not kind.params:
            return kind
        return replace(kind, params=tuple(self._renamed(each, names) for each in kind.params))

    def assign(self, to: Type, value: Type) -> bool:
        """Whether a value of the second type may stand where the first is wanted; open types are bound on the way."""
        to, value = self.find(to), self.find(value)
        if to.kind == "param":
            return self._bind(to, value)
        if value.kind == "param":
            return self._bind(value, to)
        if to.kind == "dyn" or value.kind == "dyn":
            return True
        if to.kind == "null_type" or value.kind == "null_type":
            return to.kind in _NULLABLE and value.kind in _NULLABLE
        if to.kind != value.kind or to.name != value.name:
            return False
        if to.kind == "object":
            return to.fields is value.fields
        if to.kind == "type":
            return True
        return all(map(self.assign, to.params, value.params))

    def _bind(self, opened: Type, kind: Type) -> bool:
        if kind.kind == "param" and kind.name == opened.name:
            return True
        if self._occurs(opened.name, kind):
            return False
        self._bound[opened.name] = kind
        return True

    def _occurs(self, name: str, kind: Type) -> bool:
        found = self.find(kind)
        return (found.kind == "param" and found.name == name) or any(self._occurs(name, each) for each in found.params)


def _is(one: Type, two: Type) -> bool:
    return one is two
