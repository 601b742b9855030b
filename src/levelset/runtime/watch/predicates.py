"""Predicates: which changes of an object matter.

```python
watch(client, Website).applied().changed(by.generation, by.labels)
```

A predicate reduces an object to a `trace`, a small comparable value, and passes a change if the trace has changed. An
object that is added or deleted passes. `where` passes changes by the state of the object instead. Predicates combine
with `any_of`, `all_of` and `not_`.
"""

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

from levelset.client.object_types import Item

__all__ = ["By", "Predicate", "all_of", "any_of", "by", "not_", "where"]

K = TypeVar("K")

Trace = Any
"""The small value that a predicate compares instead of the object."""


@runtime_checkable
class Predicate(Protocol):
    """Decides whether a change matters."""

    def trace(self, item: Item[Any], /) -> Trace:
        """The value to compare with that of the object's next version; small, and comparable."""
        ...

    def differs(self, old: Trace | None, new: Trace | None, /) -> bool:
        """Whether a change from one trace to another matters; None stands for an object that does not exist."""
        ...

    def passes(self, old: Item[Any] | None, new: Item[Any] | None) -> bool:
        """Whether a change from one object to another matters; False if both are None."""
        if old is None and new is None:
            return False
        return self.differs(None if old is None else self.trace(old), None if new is None else self.trace(new))


class _By(Predicate):
    """Passes changes of the trace; traces are wrapped in tuples, so that None always means an absent object."""

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
    """Passes a change that at least one predicate passes; without predicates, none."""
    return _Combined("any_of", predicates, any)


def all_of(*predicates: Predicate) -> Predicate:
    """Passes a change that every predicate passes; without predicates, all."""
    return _Combined("all_of", predicates, all)


def not_(predicate: Predicate) -> Predicate:
    """Passes a change that the predicate does not pass; added and deleted objects are then not passed either."""
    return _Combined("not_", (predicate,), lambda passed: not passed[0])


class _Where(Predicate):
    """Passes changes of objects for which a function returns true, before or after the change."""

    def __init__(self, function: Callable[[Any], object]) -> None:
        self._function = function

    def trace(self, item: Item[Any], /) -> Trace:
        try:
            return bool(self._function(item.object))
        except Exception:  # noqa: BLE001 -- as with by.value, so that the error surfaces where the object is read
            return True

    def differs(self, old: Trace | None, new: Trace | None, /) -> bool:
        return bool(old) or bool(new)

    def __repr__(self) -> str:
        return f"where({getattr(self._function, '__name__', self._function)})"


def where(function: Callable[[Any], object]) -> Predicate:
    """Passes changes of objects for which a function returns true: `where(lambda one: one.namespace != "kube-system")`.

    A change passes if the object before it or after it does, so that an object that no longer fits is noticed once.
    This holds for added and deleted objects too. An object that its class cannot decode, or for which the function
    raises, passes.
    """
    return _Where(function)


def _generation(item: Item[Any]) -> tuple[object, bool]:
    head = item.cached
    version = head.resource_version if head.generation is None else head.generation
    return version, head.deletion_timestamp is not None


class By:
    """The built-in predicates, named after what they compare."""

    resource_version: Final[Predicate] = _By("resource_version", lambda item: item.cached.resource_version)
    """Any change; a relist that returns the same version is not one."""
    generation: Final[Predicate] = _By("generation", _generation)
    """A change of the spec, or the start of a deletion; for kinds without metadata.generation, any change."""
    labels: Final[Predicate] = _By("labels", lambda item: item.cached.labels)
    annotations: Final[Predicate] = _By("annotations", lambda item: item.cached.annotations)
    finalizers: Final[Predicate] = _By("finalizers", lambda item: item.cached.finalizers)
    deletion: Final[Predicate] = _By("deletion", lambda item: item.cached.deletion_timestamp is not None)
    """The start of a deletion."""

    @staticmethod
    def value(function: Callable[[Any], object]) -> Predicate:
        """A change of what a function returns for the typed object: `by.value(lambda site: site.spec.image)`.

        An object that its class cannot decode, or for which the function raises, always passes, so that the error
        surfaces where the object is read.
        """
        return _By("value", lambda item: _value(item, function))


by: Final = By()
"""`by.generation`, `by.labels`, `by.value(...)`."""


def _value(item: Item[Any], function: Callable[[Any], object]) -> object:
    try:
        return function(item.object)
    except Exception:  # noqa: BLE001 -- whatever a user's function raises
        return object()  # equal to nothing, so that the change passes
