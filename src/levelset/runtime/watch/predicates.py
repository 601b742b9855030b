"""Which changes matter: predicates on an object before and after.

```python
watch(client, Website).applied().changed(by.generation, by.labels)
```

A predicate reduces an object to a `trace`, something small that can be compared, and passes a change if the trace has
changed. What was not there before, and what is no longer there, passes. Predicates combine with `any_of`, `all_of` and
`not_`.
"""

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

from levelset.client.object_types import Item

__all__ = ["By", "Predicate", "all_of", "any_of", "by", "not_"]

K = TypeVar("K")

Trace = Any
"""What a predicate remembers of an object."""


class Predicate(Protocol):
    """Decides whether a change matters."""

    def trace(self, item: Item[Any], /) -> Trace:
        """What is to be remembered of an object in order to judge its next change; small, and comparable."""
        ...

    def differs(self, old: Trace | None, new: Trace | None, /) -> bool:
        """Whether a change from one trace to another matters; None stands for an object that is not there."""
        ...

    def passes(self, old: Item[Any] | None, new: Item[Any] | None) -> bool:
        """Whether a change from one object to another matters; without both there is no change."""
        if old is None and new is None:
            return False
        return self.differs(None if old is None else self.trace(old), None if new is None else self.trace(new))


class _By(Predicate):
    """Passes what changes the trace; traces are wrapped, so that one that is None is told from an absent object."""

    def __init__(self, name: str, trace: Callable[[Item[Any]], Any]) -> None:
        self._name = name
        self._trace = trace

    def trace(self, item: Item[Any], /) -> Trace:
        return (self._trace(item),)

    def differs(self, old: Trace | None, new: Trace | None, /) -> bool:
        return old is None or new is None or bool(old != new)

    def __repr__(self) -> str:
        return f"by.{self._name}"


class _Combined(Predicate):
    """Several predicates, each with its own trace."""

    def __init__(self, name: str, parts: tuple[Predicate, ...], decide: Callable[[list[bool]], bool]) -> None:
        self._name = name
        self._parts = parts
        self._decide = decide

    def trace(self, item: Item[Any], /) -> Trace:
        return tuple([part.trace(item) for part in self._parts])

    def differs(self, old: Trace | None, new: Trace | None, /) -> bool:
        nothing = (None,) * len(self._parts)
        pairs = zip(self._parts, nothing if old is None else old, nothing if new is None else new, strict=True)
        return self._decide([part.differs(before, after) for part, before, after in pairs])

    def __repr__(self) -> str:
        return f"{self._name}({', '.join(map(repr, self._parts))})"


def any_of(*predicates: Predicate) -> Predicate:
    """Passes what at least one of them passes; none of none."""
    return _Combined("any_of", predicates, any)


def all_of(*predicates: Predicate) -> Predicate:
    """Passes what each of them passes; all of none."""
    return _Combined("all_of", predicates, all)


def not_(predicate: Predicate) -> Predicate:
    """Passes what the other does not pass: objects that come or go, too, are then not passed."""
    return _Combined("not_", (predicate,), lambda passed: not passed[0])


def _generation(item: Item[Any]) -> tuple[object, bool]:
    head = item.kept
    version = head.resource_version if head.generation is None else head.generation
    return version, head.deletion_timestamp is not None


class By:
    """The predicates of the house, by what they look at."""

    resource_version: Final[Predicate] = _By("resource_version", lambda item: item.kept.resource_version)
    """Any change at all; a list that brings the same again is none."""
    generation: Final[Predicate] = _By("generation", _generation)
    """A change of the spec, or the beginning of a deletion; of kinds without a generation, any change at all."""
    labels: Final[Predicate] = _By("labels", lambda item: item.kept.labels)
    annotations: Final[Predicate] = _By("annotations", lambda item: item.kept.annotations)
    finalizers: Final[Predicate] = _By("finalizers", lambda item: item.kept.finalizers)
    deletion: Final[Predicate] = _By("deletion", lambda item: item.kept.deletion_timestamp is not None)
    """The beginning of a deletion."""

    @staticmethod
    def value(function: Callable[[Any], object]) -> Predicate:
        """A change of what a function makes of the typed object: `by.value(lambda site: site.spec.image)`.

        An object that its class cannot read, or the function cannot take, always passes: whoever reads it then says so.
        """
        return _By("value", lambda item: _value(item, function))


by: Final = By()
"""`by.generation`, `by.labels`, `by.value(...)`."""


def _value(item: Item[Any], function: Callable[[Any], object]) -> object:
    try:
        return function(item.object)
    except Exception:  # noqa: BLE001 -- whatever a user's function raises
        return object()  # equal to nothing, not even to what it was before
