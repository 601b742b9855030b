"""A controller as a value: which objects are looked at, by what function, because of which changes, and how."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, Self, TypedDict, TypeVar, Unpack, overload

from levelset.client.object_types import Kind, OnlyMetadata, View, view_of
from levelset.client.requests import Labels
from levelset.errors import ConfigError
from levelset.objects.ref import GroupVersionKind
from levelset.objects.resource import PartialObjectMetadata
from levelset.objects.unstructured import Unstructured
from levelset.runtime.controller.error_policy import Delay, ErrorPolicy
from levelset.runtime.controller.finalizers import check_finalizer, finalizer_name
from levelset.runtime.controller.reconcile import GaveUp, Reconcile, Vanished
from levelset.runtime.controller.relations import Relation
from levelset.runtime.controller.triggers import SELF_CHANGES
from levelset.runtime.queue import TRANSIENT
from levelset.runtime.watch import Predicate

__all__ = ["Controller", "ControllerOptions"]

K = TypeVar("K")

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")


class ControllerOptions(TypedDict, Generic[K], total=False):
    """What a controller may be told besides its kind, its function and its relations."""

    cleanup: Reconcile[K] | None
    gone: Vanished[K] | None
    gave_up: GaveUp[K] | None
    when: Predicate
    concurrency: int
    timeout: float | None
    debounce: float
    backoff: Delay
    on_error: ErrorPolicy | None
    namespace: str | None
    labels: Labels | None
    finalizer: str | None
    name: str | None
    leader_only: bool


@dataclass(frozen=True, init=False, eq=False)
class Controller(Generic[K]):
    """Looks at each object of a kind whenever something that concerns it changes.

    `reconcile` is called with the object and a Context, for one object never twice at the same time, and for at most
    `concurrency` objects at once. It returns nothing (or `await_change()`) to be called again when something changes,
    or `requeue(...)`; what it raises is answered as `levelset.runtime.controller.error_policy` says.

    - `cleanup` is called instead once an object is being deleted; a `finalizer` keeps the object until it succeeds. It
      returns `requeue(...)` if it is not done yet. Without it, an object that is being deleted, and kept by somebody
      else's finalizer, is an object like any other.
    - `gone` is called with the ref of an object that is no longer there.
    - `gave_up` is called when the reconciler raises GiveUp, after an event has been recorded.
    - `when` says which changes of an object itself matter: by default all but those of its status.
    - `timeout` is how many seconds a look may take; `debounce`, for how many changes are collected into one look.
    - `backoff` is how long a failing object waits, unless `on_error` decides otherwise.
    - `namespace` and `labels` select the objects.
    - `name` is that of the kind unless given; it is the field manager of all writes.
    - `leader_only` controllers run only in the replica that leads.

    It is a frozen value: nothing runs until a manager, or `running`, runs it, and it may run several times.
    """

    kind: Kind[K]
    reconcile: Reconcile[K]
    relations: tuple[Relation, ...]
    name: str
    cleanup: Reconcile[K] | None
    finalizer: str | None
    gone: Vanished[K] | None
    gave_up: GaveUp[K] | None
    when: Predicate
    concurrency: int
    timeout: float | None
    debounce: float
    backoff: Delay
    on_error: ErrorPolicy | None
    namespace: str | None
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
            raise ConfigError(f"Controller({view.gvk.kind}): there is no option {', '.join(sorted(unknown))}")
        chosen = {**_DEFAULTS, **options}
        chosen["name"] = chosen["name"] or _default_name(view)
        _check(reconcile, relations, chosen)
        chosen["finalizer"] = _finalizer(view, chosen)
        for name, value in {**chosen, "kind": kind, "reconcile": reconcile, "relations": relations}.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"<Controller {self.name!r} of {view_of(self.kind).gvk}>"

    def with_options(self, **options: Unpack[ControllerOptions[K]]) -> Self:
        """The same controller with some options changed."""
        kept = {name: getattr(self, name) for name in _DEFAULTS}
        if "name" in options and "finalizer" not in options:
            kept["finalizer"] = None
        same: Any = type(self)
        made: Self = same(self.kind, self.reconcile, *self.relations, **{**kept, **options})
        return made


_DEFAULTS: Final[Mapping[str, Any]] = {
    "name": None,
    "cleanup": None,
    "finalizer": None,
    "gone": None,
    "gave_up": None,
    "when": SELF_CHANGES,
    "concurrency": 4,
    "timeout": None,
    "debounce": 0.0,
    "backoff": TRANSIENT,
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
        raise ConfigError(f"Controller(name={name!r}): a name has at most 63 of a-z, 0-9, - and .")
    functions = {"reconcile": reconcile, **{one: chosen[one] for one in ("cleanup", "gone", "gave_up", "on_error")}}
    for what, function in functions.items():
        if not callable(function) and (function is not None or what == "reconcile"):
            raise ConfigError(f"{name}: {what}={function!r} is no function")
    for relation in relations:
        if not isinstance(relation, Relation):
            raise ConfigError(f"{name}: {relation!r} is no relation; write owns(...), watches(...), source(...)")
    for what, is_right, rule in _rules(chosen):
        if not is_right(chosen[what]):
            raise ConfigError(f"{name}: {what}={chosen[what]!r}, but it must be {rule}")


def _rules(chosen: Mapping[str, Any]) -> list[tuple[str, Callable[[Any], bool], str]]:
    return [
        ("concurrency", lambda many: isinstance(many, int) and many >= 1, "1 or more"),
        ("timeout", lambda seconds: seconds is None or seconds > 0, "a number of seconds above 0, or None"),
        ("debounce", lambda seconds: seconds >= 0, "a number of seconds, 0 or more"),
        ("finalizer", lambda given: given is None or chosen["cleanup"] is not None, "left out without a cleanup"),
    ]


def _finalizer(view: View[Any], chosen: Mapping[str, Any]) -> str | None:
    if chosen["finalizer"] is not None:
        return check_finalizer(chosen["finalizer"])
    if chosen["cleanup"] is None:
        return None
    if view.definition is None:
        raise ConfigError(f"{chosen['name']}: a cleanup of a kind without a class needs finalizer='group/word'")
    return finalizer_name(view.definition, chosen["name"])
