"""`Controller`: which objects are reconciled, by which function, because of which changes, and with which options."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, Self, TypedDict, TypeVar, Unpack, cast, overload

from levelset.aio import Backoff
from levelset.client.object_types import Kind, OnlyMetadata, View, view_of
from levelset.client.requests import Labels
from levelset.errors import ConfigError
from levelset.objects.lazy_pattern import Pattern
from levelset.objects.ref import GroupVersionKind
from levelset.objects.resource import PartialObjectMetadata
from levelset.objects.unstructured import Unstructured
from levelset.runtime.controller.error_policy import Delay, ErrorPolicy
from levelset.runtime.controller.event_handlers import SELF_CHANGES
from levelset.runtime.controller.finalizers import check_finalizer, finalizer_name
from levelset.runtime.controller.reconcile import GaveUpHandler, GoneHandler, Reconcile
from levelset.runtime.controller.relations import (
    Namespaces,
    Owns,
    References,
    Relation,
    Source,
    Stream,
    Watches,
    check_predicate,
    is_stream,
    namespaces_of,
)
from levelset.runtime.queue import DEFAULT_BACKOFF
from levelset.runtime.watch import Predicate

__all__ = ["Controller", "ControllerOptions"]

K = TypeVar("K")

# What the functions of the user are called with.
_PARAMETERS: Final[Mapping[str, tuple[str, ...]]] = {
    "reconcile": ("object", "ctx"),
    "cleanup": ("object", "ctx"),
    "gone": ("ref", "ctx"),
    "gave_up": ("object", "error", "ctx"),
}
_NAME: Final = Pattern(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")


class ControllerOptions(TypedDict, Generic[K], total=False):
    """The options of a Controller; see there for meaning and defaults."""

    cleanup: Reconcile[K] | None
    gone: GoneHandler[K] | None
    gave_up: GaveUpHandler[K] | None
    when: Predicate
    event_filter: Predicate | None
    for_stream: Stream | None
    concurrency: int
    timeout: float | None
    debounce: float
    backoff: Delay
    on_error: ErrorPolicy | None
    namespace: Namespaces
    labels: Labels | None
    finalizer: str | None
    name: str | None
    leader_only: bool


@dataclass(frozen=True, init=False, eq=False)
class Controller(Generic[K]):
    """Reconciles each object of a kind whenever the object, or something related to it, changes.

    `reconcile` is called with the object and a Context, never twice at once for one object. It returns None (or
    `await_change()`) to be called again when something changes, or `requeue(...)`. What it raises is handled as
    described in `error_policy.py`. `relations` name the other objects whose changes cause a reconcile; see
    `relations.py`.

    - `cleanup` is called instead of `reconcile` once an object is being deleted; a `finalizer` keeps the object until
      it has succeeded. It returns `requeue(...)` if it is not done yet. Without a cleanup, an object that is being
      deleted but held by another finalizer is reconciled like any other.
    - `finalizer` is the name of that finalizer: made of the kind's resource and the controller's name unless given.
    - `gone` is called with the ref of an object that no longer exists.
    - `gave_up` is called when `reconcile` raises GiveUp, after a Warning event has been recorded.
    - `concurrency` is how many objects are reconciled at once: 4 unless given, where controller-runtime has 1.
    - `when` is a predicate for changes of the object itself: by default all but changes of its status.
    - `event_filter` is a predicate for all changes, of the object itself and of the relations' objects (default: none);
      a change must pass it and the `when` of its kind. Deletions of the object itself always pass.
    - `for_stream` is a stream of refs or requests that decides which objects are reconciled, instead of the changes of
      the objects themselves; `when` is not used then. The objects are still cached and their deletions noticed.
    - `timeout` is the maximum duration of a reconcile in seconds (default: none).
    - `debounce` is a time in seconds (default 0): the changes within it are collected into one reconcile.
    - `backoff` is the delay of a failing object, unless `on_error` chooses another action.
    - `on_error` is called with the cached object, the error and the request; it returns an action, or None to back off.
    - `namespace`, one or a sequence of several, selects the objects (default: all).
    - `labels` is a label selector of the objects (default: all).
    - `name` is the plural of the kind unless given; it is the field manager of all writes.
    - `leader_only` (default True) runs the controller only in the replica that is the leader.

    It is a frozen value: nothing runs until a manager, or `running`, runs it, and it may run several times.
    """

    kind: Kind[K]
    reconcile: Reconcile[K]
    relations: tuple[Relation, ...]
    name: str
    cleanup: Reconcile[K] | None
    finalizer: str | None
    gone: GoneHandler[K] | None
    gave_up: GaveUpHandler[K] | None
    when: Predicate
    event_filter: Predicate | None
    for_stream: Stream | None
    concurrency: int
    timeout: float | None
    debounce: float
    backoff: Delay
    on_error: ErrorPolicy | None
    namespace: Namespaces
    labels: Labels | None
    leader_only: bool

    @overload
    def __init__(
        self,
        kind: type[K],
        reconcile: Reconcile[K],
        /,
        *relations: Relation,
        **options: Unpack[ControllerOptions[K]],
    ) -> None: ...
    @overload
    def __init__(
        self: "Controller[Unstructured]",
        kind: GroupVersionKind,
        reconcile: Reconcile[Unstructured],
        /,
        *relations: Relation,
        **options: Unpack[ControllerOptions[Unstructured]],
    ) -> None: ...
    @overload
    def __init__(
        self: "Controller[PartialObjectMetadata]",
        kind: OnlyMetadata,
        reconcile: Reconcile[PartialObjectMetadata],
        /,
        *relations: Relation,
        **options: Unpack[ControllerOptions[PartialObjectMetadata]],
    ) -> None: ...
    def __init__(self, kind: Any, reconcile: Any, /, *relations: Relation, **options: Any) -> None:
        view: View[Any] = view_of(kind)
        unknown = options.keys() - _DEFAULTS.keys()
        if unknown:
            known = f"the options are {', '.join(sorted(_DEFAULTS))}"
            raise ConfigError(f"Controller({view.gvk.kind}): unknown option {', '.join(sorted(unknown))}; {known}")
        chosen = {**_DEFAULTS, **options}
        chosen["name"] = chosen["name"] or _default_name(view)
        namespaces_of(kind, chosen["namespace"])  # raises if it is wrong
        if not isinstance(chosen["namespace"], str | None):
            chosen["namespace"] = tuple(chosen["namespace"])
        _check(reconcile, relations, chosen)
        chosen["finalizer"] = _finalizer(view, chosen)
        for name, value in {**chosen, "kind": kind, "reconcile": reconcile, "relations": relations}.items():
            object.__setattr__(self, name, value)

    @property
    def namespaces(self) -> tuple[str | None, ...]:
        """The namespaces of its objects; (None,) for all of them, and for a cluster-scoped kind."""
        return namespaces_of(self.kind, self.namespace)

    def watched_namespaces(self, relation: Owns | Watches | References) -> tuple[str | None, ...]:
        """The namespaces that a relation's objects are watched in; children are where their owners are."""
        if isinstance(relation, Owns) and relation.namespace is None and None not in self.namespaces:
            return namespaces_of(relation.kind, self.namespace)
        return namespaces_of(relation.kind, relation.namespace)

    @property
    def sources(self) -> tuple[Source, ...]:
        """The stream of its own objects, if it has one, as a source."""
        return () if self.for_stream is None else (Source(self.for_stream),)

    def __repr__(self) -> str:
        return f"<Controller {self.name!r} of {view_of(self.kind).gvk}>"

    def with_options(self, **options: Unpack[ControllerOptions[K]]) -> Self:
        """A copy of the controller with some options changed."""
        known = {name: getattr(self, name) for name in _DEFAULTS}
        if "name" in options and "finalizer" not in options:
            known["finalizer"] = None
        same: Any = type(self)
        made: Self = same(self.kind, self.reconcile, *self.relations, **{**known, **options})
        return made


_DEFAULTS: Final[Mapping[str, Any]] = {
    "name": None,
    "cleanup": None,
    "finalizer": None,
    "gone": None,
    "gave_up": None,
    "when": SELF_CHANGES,
    "event_filter": None,
    "for_stream": None,
    "concurrency": 4,
    "timeout": None,
    "debounce": 0.0,
    "backoff": DEFAULT_BACKOFF,
    "on_error": None,
    "namespace": None,
    "labels": None,
    "leader_only": True,
}


def _default_name(view: View[Any]) -> str:
    return view.gvk.kind.lower() if view.definition is None else view.definition.gvr.resource


def _check(reconcile: object, relations: tuple[object, ...], chosen: Mapping[str, Any]) -> None:
    name = chosen["name"]
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise ConfigError(f"Controller(name={name!r}): a name has at most 63 characters of a-z, 0-9, - and .")
    functions = {"reconcile": reconcile, **{one: chosen[one] for one in ("cleanup", "gone", "gave_up", "on_error")}}
    for what, function in functions.items():
        if not callable(function) and (function is not None or what == "reconcile"):
            raise ConfigError(f"{name}: {what}={function!r} is not a function")
        if function is not None and what in _PARAMETERS:
            _check_function(name, what, function)
    for relation in relations:
        if isinstance(relation, list | tuple):
            way = "Controller(kind, reconcile, *relations)"
            raise ConfigError(f"{name}: a list is not a relation; pass its items: {way}")
        if not isinstance(relation, Relation):
            raise ConfigError(f"{name}: {relation!r} is not a relation; use owns(...), watches(...), source(...)")
    for what in ("when", "event_filter"):
        if chosen[what] is not None:
            check_predicate(f"{name}: {what}", chosen[what])
    for what, is_right, rule in _rules(chosen):
        if not is_right(chosen[what]):
            raise ConfigError(f"{name}: {what}={chosen[what]!r}, but it must be {rule}")


def _check_function(name: str, what: str, function: Any) -> None:
    """Raises ConfigError if a function of the user is not async, or cannot be called with its arguments."""
    names = _PARAMETERS[what]
    shown = getattr(function, "__qualname__", repr(function))
    wanted = f"async def {what}({', '.join(names)})"
    try:
        inspect.signature(function).bind(*names)
    except ValueError:  # the signature is not known
        pass
    except TypeError as error:
        problem = f"{what}={shown} is called with ({', '.join(names)}), but it takes {inspect.signature(function)}"
        raise ConfigError(f"{name}: {problem}: {error}; write {wanted}") from error
    if _is_sync(function):
        raise ConfigError(f"{name}: {what}={shown} is not async; write {wanted}")


def _is_sync(function: Any) -> bool:
    """Whether a function is certainly not async; a lambda or a decorator may return what an async function returned."""
    while isinstance(function, partial):
        function = cast("Any", function).func
    code: Any = function if inspect.isroutine(function) else type(function).__call__
    if inspect.iscoroutinefunction(code) or not inspect.isfunction(getattr(code, "__func__", code)):
        return False
    if inspect.isasyncgenfunction(code) or inspect.isgeneratorfunction(code):
        return True
    if code.__name__ == "<lambda>" or hasattr(code, "__wrapped__"):
        return False
    if "return" in code.__annotations__:
        returned = str(code.__annotations__["return"])
        return not any(word in returned for word in ("Any", "Awaitable", "Coroutine", "Future", "Task"))
    return not code.__closure__


def _rules(chosen: Mapping[str, Any]) -> list[tuple[str, Callable[[Any], bool], str]]:
    return [
        ("concurrency", lambda many: isinstance(many, int) and many >= 1, "1 or more"),
        (
            "timeout",
            lambda given: given is None or (_is_number(given) and given > 0),
            "a number of seconds above 0, or None",
        ),
        ("debounce", lambda given: _is_number(given) and given >= 0, "a number of seconds, 0 or more"),
        ("backoff", lambda one: isinstance(one, Backoff) or callable(one), "a Backoff, or a function to seconds"),
        (
            "for_stream",
            lambda given: given is None or is_stream(given),
            "an async iterable, or a function that makes one",
        ),
        ("finalizer", lambda given: given is None or chosen["cleanup"] is not None, "left out without a cleanup"),
    ]


def _is_number(given: object) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool)


def _finalizer(view: View[Any], chosen: Mapping[str, Any]) -> str | None:
    if chosen["finalizer"] is not None:
        return check_finalizer(chosen["finalizer"])
    if chosen["cleanup"] is None:
        return None
    if view.definition is None:
        raise ConfigError(f"{chosen['name']}: a cleanup of a kind without a class needs finalizer='group/name'")
    return finalizer_name(view.definition, chosen["name"])
