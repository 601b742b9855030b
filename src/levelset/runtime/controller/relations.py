"""What else a controller follows: relations are frozen values that say whose change concerns which of its objects.

```python
Controller(
    Website,
    reconcile,
    owns(Deployment),  # whoever owns a Deployment that changes
    references(Secret, certificate),  # whoever names a Secret that changes
    matches(Service, ours=wanted, theirs=offered),  # whoever has a value in common with a Service that changes
    watches(Namespace, to=lambda one: [Ref(...)]),  # whomever a function names
    source(stream),  # whomever a stream names
    every(3600),  # everybody, now and then
    remembers(states),  # whoever has a deferred change in a StateMap
)
```
"""

import math
from collections.abc import AsyncIterable, Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, TypeVar, Unpack, cast, overload

from levelset.client.object_types import Kind, OnlyMetadata, view_of
from levelset.client.requests import Labels
from levelset.errors import ConfigError
from levelset.objects.ref import GroupVersionKind, Ref
from levelset.objects.resource import PartialObjectMetadata
from levelset.objects.unstructured import Unstructured
from levelset.runtime.cache import Index
from levelset.runtime.controller.request import Request
from levelset.runtime.state import StateMap
from levelset.runtime.watch import Predicate

__all__ = [
    "Every",
    "Owns",
    "References",
    "Relation",
    "Remembers",
    "Source",
    "Stream",
    "WatchOptions",
    "Watches",
    "every",
    "matches",
    "owns",
    "references",
    "remembers",
    "source",
    "watches",
]

K = TypeVar("K")
O = TypeVar("O")  # noqa: E741 -- the letter the type checker shows

Stream = AsyncIterable[Any] | Callable[[], AsyncIterable[Any]]
"""An async iterable, or a function that makes one: the function is called anew for each run, and after a failure."""


class WatchOptions(TypedDict, total=False):
    """Which of the other objects are followed, which of their changes matter, and by which indexes they are found."""

    when: Predicate | None
    namespace: str | None
    labels: Labels | None
    indexes: Sequence[Index[Any]]


@dataclass(frozen=True, kw_only=True)
class _Watch:
    """What the relations that watch another kind have in common; `kind` may be metadata only."""

    kind: Kind[Any]
    when: Predicate | None = None
    namespace: str | None = None
    labels: Labels | None = None
    indexes: Sequence[Index[Any]] = ()


@dataclass(frozen=True, kw_only=True)
class Owns(_Watch):
    """See `owns`."""

    every_owner: bool = False


@dataclass(frozen=True, kw_only=True)
class Watches(_Watch):
    """See `watches`."""

    to: Callable[[Any], Iterable[Ref[Any]]]


@dataclass(frozen=True, kw_only=True)
class References(_Watch):
    """See `references`, and `matches`, which has `theirs`."""

    names: Callable[[Any], Iterable[Any]]
    theirs: Callable[[Any], Iterable[Hashable]] | None = None


@dataclass(frozen=True)
class Source:
    """See `source`."""

    stream: Stream


@dataclass(frozen=True)
class Every:
    """See `every`."""

    ticks: float | Stream


@dataclass(frozen=True)
class Remembers:
    """See `remembers`."""

    states: StateMap[Any, Any, Any]


Relation = Owns | Watches | References | Source | Every | Remembers
"""Whatever a controller can be given to follow."""


def owns(
    child: type[Any] | GroupVersionKind,
    *,
    every_owner: bool = False,
    metadata_only: bool = True,
    **options: Unpack[WatchOptions],
) -> Owns:
    """Follows the objects that belong to ours: a change of one is a reason to look at its owner.

    The owner is the one that controls the child, or, with `every_owner`, each of its owners; both the owners before the
    change and those after it. Group and kind decide whether an owner is ours, not the version. Only the metadata of the
    children are watched and kept unless told otherwise; to read them from the cache, say `metadata_only=False`.
    """
    kind: Kind[Any] = OnlyMetadata(child) if metadata_only else child
    view_of(kind)
    return Owns(kind=kind, every_owner=every_owner, **options)


@overload
def watches(kind: type[O], *, to: Callable[[O], Iterable[Ref[Any]]], **options: Unpack[WatchOptions]) -> Watches: ...
@overload
def watches(
    kind: GroupVersionKind, *, to: Callable[[Unstructured], Iterable[Ref[Any]]], **options: Unpack[WatchOptions]
) -> Watches: ...
@overload
def watches(
    kind: OnlyMetadata, *, to: Callable[[PartialObjectMetadata], Iterable[Ref[Any]]], **options: Unpack[WatchOptions]
) -> Watches: ...
def watches(kind: Any, *, to: Callable[[Any], Iterable[Ref[Any]]], **options: Unpack[WatchOptions]) -> Watches:
    """Follows other objects: a change of one is a reason to look at those that `to` names for it.

    `to` is called with the object before the change and with the object after it, and whoever is named is looked at
    once. It must be quick and must not wait. What it raises is logged, and concerns nobody else.
    """
    view_of(kind)
    _require_callable(to, "to", "from the other object to the refs of those to look at")
    return Watches(kind=kind, to=to, **options)


def references(
    kind: type[O] | GroupVersionKind,
    names: Callable[[K], Iterable[Ref[O]]],
    *,
    metadata_only: bool = False,
    **options: Unpack[WatchOptions],
) -> References:
    """Follows the objects that ours name: a change of one is a reason to look at whoever names it.

    `names` gives, for one of our objects, the refs of those it names. An index is kept from that function, so that it
    is asked once for each version of our objects, and never for all of them.
    """
    whole: Any = kind
    other: Kind[Any] = OnlyMetadata(whole) if metadata_only else whole
    view_of(other)
    _require_callable(names, "names", "from one of our objects to the refs that it names")
    return References(kind=other, names=names, **options)


def matches(
    kind: type[O],
    *,
    ours: Callable[[K], Iterable[Hashable]],
    theirs: Callable[[O], Iterable[Hashable]],
    **options: Unpack[WatchOptions],
) -> References:
    """Follows the objects that have something in common with ours: a change of one is a reason to look at those.

    `ours` gives some values for one of our objects (the labels that it selects, say), `theirs` for one of the others
    (the labels that it has); who shares a value is concerned. An index is kept from `ours`, so that nobody goes through
    all of our objects. `theirs` is asked about the object before the change and after it; it must not wait.
    """
    view_of(kind)
    _require_callable(ours, "ours", "from one of our objects to values that it shares with others")
    _require_callable(theirs, "theirs", "from the other object to values that it shares with ours")
    return References(kind=kind, names=ours, theirs=theirs, **options)


def source(
    stream: AsyncIterable[Ref[Any] | Request[Any]] | Callable[[], AsyncIterable[Ref[Any] | Request[Any]]],
) -> Source:
    """Follows a stream of refs, or of requests that say why: each is looked at.

    A controller that is run twice, or a stream that may fail, wants a function that makes the stream. The end of a
    stream is harmless; the failure of one that cannot be made anew stops the controller.
    """
    if not callable(stream) and not hasattr(stream, "__aiter__"):
        raise ConfigError(f"source({stream!r}): give an async iterable of refs, or a function that makes one")
    return Source(stream)


def every(ticks: float | AsyncIterable[object] | Callable[[], AsyncIterable[object]]) -> Every:
    """Has all objects looked at every so many seconds, or at each item of a stream; they wait behind all others."""
    if isinstance(ticks, int | float):
        if not 0 < ticks < math.inf:
            raise ConfigError(f"every({ticks}): give a number of seconds above 0")
    elif not callable(ticks) and not hasattr(ticks, "__aiter__"):
        raise ConfigError(f"every({ticks!r}): give seconds, an async iterable, or a function that makes one")
    return Every(cast("float | Stream", ticks))


def remembers(states: StateMap[Any, Any, Any]) -> Remembers:
    """Follows what is remembered: a deferred change is a reason to look at its object.

    The changes are applied before the reconciler is called, and what is remembered of an object that has gone is
    forgotten.
    """
    return Remembers(states)


def _require_callable(given: object, name: str, what: str) -> None:
    if not callable(given):
        raise ConfigError(f"{name}={given!r} is no function; give one {what}")
