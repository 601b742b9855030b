"""Relations: which other objects, streams and timers cause a reconcile of which objects of a controller; frozen values.

```python
Controller(
    Website,
    reconcile,
    owns(Deployment),  # a Deployment changes: its owner
    references(Secret, certificate),  # a Secret changes: the websites whose spec names it
    matches(Service, ours=wanted, theirs=offered),  # a Service changes: the websites that select it by labels
    watches(Namespace, to=lambda one: [Ref(...)]),  # a Namespace changes: the refs that a function returns
    source(stream),  # the refs that a stream yields
    every(3600),  # all objects, every hour
    remembers(states),  # a deferred change of a StateMap: its object
)
```

Each constructor's docstring says which relation to use when; `event_handlers.py` turns them into requests.
"""

import inspect
import math
from collections.abc import AsyncIterable, Callable, Hashable, Iterable, Sequence
from typing import Any, TypedDict, TypeVar, Unpack, cast, overload

import msgspec

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
    "Namespaces",
    "Owns",
    "References",
    "Relation",
    "Remembers",
    "Source",
    "Stream",
    "WatchOptions",
    "Watches",
    "check_predicate",
    "every",
    "is_stream",
    "matches",
    "namespaces_of",
    "owns",
    "references",
    "remembers",
    "source",
    "watches",
]

K = TypeVar("K")
O = TypeVar("O")  # noqa: E741 -- the letter the type checker shows

Stream = AsyncIterable[Any] | Callable[[], AsyncIterable[Any]]
"""An async iterable, or a function that makes one; it is called for each run, and again after a failure."""


Namespaces = str | Sequence[str] | None
"""One namespace, several, or all of them (None)."""


class WatchOptions(TypedDict, total=False):
    """Options of relations to another kind: predicate, selection, and indexes of its cache."""

    when: Predicate | None
    """Which changes count; None: all of them."""
    namespace: Namespaces
    """The namespaces that are watched; None: all, or for `owns` those of the controller."""
    labels: Labels | None
    """A label selector of the objects that are watched; None: all."""
    indexes: Sequence[Index[Any]]
    """Indexes of the cache of this kind, for `ctx.list(kind, index=(index, value))`; none unless given."""


class Relation(msgspec.Struct, frozen=True):
    """Any relation of a controller: what `owns`, `watches`, `references`, `source` and the others return."""


class _Watch(Relation, frozen=True, kw_only=True):
    """What the relations to another kind have in common; `kind` may be metadata only."""

    kind: Kind[Any]
    when: Predicate | None = None
    namespace: Namespaces = None
    labels: Labels | None = None
    indexes: Sequence[Index[Any]] = ()

    def __post_init__(self) -> None:
        namespaces_of(self.kind, self.namespace)
        if self.when is not None:
            check_predicate("when", self.when)


class Owns(_Watch, frozen=True, kw_only=True):
    """See `owns`."""

    every_owner: bool = False


class Watches(_Watch, frozen=True, kw_only=True):
    """See `watches`."""

    to: Callable[[Any], Iterable[Ref[Any]]]


class References(_Watch, frozen=True, kw_only=True):
    """See `references`, and `matches`, which sets `theirs`."""

    names: Callable[[Any], Iterable[Any]]
    theirs: Callable[[Any], Iterable[Hashable]] | None = None


class Source(Relation, frozen=True):
    """See `source`."""

    stream: Stream


class Every(Relation, frozen=True):
    """See `every`."""

    ticks: float | Stream


class Remembers(Relation, frozen=True):
    """See `remembers`."""

    states: StateMap[Any, Any, Any]


def owns(
    child: type[Any] | GroupVersionKind,
    *,
    every_owner: bool = False,
    metadata_only: bool = False,
    **options: Unpack[WatchOptions],
) -> Owns:
    """Watches the children of our objects: a change of one reconciles its owner.

    The owner is the controller in the owner references, or with `every_owner` each owner; both the owners before the
    change and those after it. An owner is matched by group and kind, not by version. Whole children are watched and
    cached, so that `ctx.children(child)` and `ctx.find(child, ...)` read them. For many or large children that no code
    reads, `metadata_only=True` saves memory: then only `OnlyMetadata(child)` can be read from the cache.
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
    """Watches other objects: a change of one reconciles the refs that `to` returns for it.

    Use it when our objects can be computed from the other object alone (by name, by a label); if that takes a search
    through our objects, use `references` or `matches`, which keep an index. `to` is called with the object before the
    change and with the object after it; each ref is reconciled once. It must be quick and synchronous. What it raises
    is logged and affects no other object.
    """
    view_of(kind)
    _require_callable(to, "to", "from the other object to the refs to reconcile")
    return Watches(kind=kind, to=to, **options)


def references(
    kind: type[O] | GroupVersionKind,
    names: Callable[[K], Iterable[Ref[O]]],
    *,
    metadata_only: bool = False,
    **options: Unpack[WatchOptions],
) -> References:
    """Watches the objects that ours name in their spec: a change of one reconciles all objects that name it.

    Use it for references by name, such as `spec.secretName`; for references by label selector or another shared value,
    use `matches`. `names` returns, for one of our objects, the refs that it names. They are indexed: `names` is called
    once for each version of our objects, and a change looks up the index instead of scanning them.
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
    """Watches objects that share a value with ours: a change of one reconciles all of ours that share one.

    Use it for references by label selector, or by a field that is not the name; for references by name, use
    `references`. `ours` returns values of one of our objects (the labels that it selects), `theirs` those of the other
    object (the labels that it has). The values of `ours` are indexed, so that no change scans all of our objects.
    `theirs` is called with the object before the change and after it; it must be quick and synchronous.
    """
    view_of(kind)
    _require_callable(ours, "ours", "from one of our objects to the values that it shares with others")
    _require_callable(theirs, "theirs", "from the other object to the values that it shares with ours")
    return References(kind=kind, names=ours, theirs=theirs, **options)


def source(
    stream: AsyncIterable[Ref[Any] | Request[Any]] | Callable[[], AsyncIterable[Ref[Any] | Request[Any]]],
) -> Source:
    """Reconciles each ref, or request with its reasons, that a stream yields.

    For a controller that runs more than once, or a stream that may fail, pass a function that makes the stream: it is
    called again, with backoff. If a plain stream fails, the controller stops; its end is harmless.
    """
    if not is_stream(stream):
        raise ConfigError(f"source({stream!r}): pass an async iterable of refs, or a function that makes one")
    return Source(stream)


def every(ticks: float | AsyncIterable[object] | Callable[[], AsyncIterable[object]]) -> Every:
    """Reconciles all objects every so many seconds, or at each item of a stream, with low priority."""
    if isinstance(ticks, int | float):
        if not 0 < ticks < math.inf:
            raise ConfigError(f"every({ticks}): pass a number of seconds above 0")
    elif not is_stream(ticks):
        raise ConfigError(f"every({ticks!r}): pass seconds, an async iterable, or a function that makes one")
    return Every(cast("float | Stream", ticks))


def remembers(states: StateMap[Any, Any, Any]) -> Remembers:
    """Connects a StateMap: a deferred change of an object's state reconciles that object.

    The changes are applied before the reconcile function is called. The state of an object that is gone is dropped.
    """
    return Remembers(states)


def is_stream(given: object) -> bool:
    """Whether something is an async iterable, or may be a function that makes one."""
    return callable(given) or hasattr(given, "__aiter__")


def namespaces_of(kind: Kind[Any], namespace: Namespaces) -> tuple[str | None, ...]:
    """The namespaces to watch a kind in, (None,) for all of them; ConfigError if they are not different names."""
    definition = view_of(kind).definition
    names = (None,) if namespace is None or namespace == "" else _namespace_names(kind, namespace)
    return names if definition is None or definition.namespaced else (None,)


def _namespace_names(kind: Kind[Any], namespace: Any) -> tuple[str, ...]:
    is_one = isinstance(namespace, str) or not hasattr(namespace, "__iter__")
    given: Any = namespace
    names: tuple[Any, ...] = (given,) if is_one else tuple(given)
    if not names or len(set(names)) < len(names) or not all(isinstance(name, str) and name for name in names):
        rule = "a name, a sequence of different names, or None for all namespaces"
        raise ConfigError(f"{view_of(kind).gvk.kind}: namespace={namespace!r}, but it must be {rule}")
    return names


def check_predicate(name: str, given: object) -> None:
    """Raises ConfigError for anything but a predicate; `name` is that of the option."""
    if not isinstance(given, Predicate):
        shown = getattr(given, "__qualname__", repr(given))
        ways = "where(function) for a function of the object, or by.generation, by.labels, by.value(...)"
        raise ConfigError(f"{name}={shown} is not a predicate; write {ways}")


def _require_callable(given: object, name: str, what: str) -> None:
    if not callable(given):
        raise ConfigError(f"{name}={given!r} is not a function; pass one {what}")
    if inspect.iscoroutinefunction(given) or inspect.isasyncgenfunction(given):
        shown = getattr(given, "__qualname__", repr(given))
        raise ConfigError(f"{name}={shown} is async, but is called for each event: write def, not async def, {what}")
