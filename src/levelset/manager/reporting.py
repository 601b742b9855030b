"""What a running manager tells of itself, as plain data: its controllers, its watches, why it looked at an object."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

import msgspec

from levelset.cache.stats import Stats
from levelset.client.kinds import View, view_of
from levelset.controller.actions import Outcome
from levelset.controller.running import RunningController
from levelset.errors import BadName, NotFound
from levelset.objects.identity import Ref

__all__ = ["ask_for", "looks_of", "report_controllers", "report_watches"]

_ERRORS: Final = 5


def report_controllers(controllers: Mapping[str, RunningController[Any]]) -> Sequence[dict[str, Any]]:
    """Each controller with its numbers and its last failures, newest first."""
    return [
        {**msgspec.to_builtins(one.stats()), "kind": _kind_of(one), "errors": _errors(one.history)}
        for one in controllers.values()
    ]


def report_watches(stats: Iterable[Stats]) -> Sequence[dict[str, Any]]:
    """Each watch with its numbers."""
    return [asdict(one) for one in stats]


def looks_of(
    controllers: Mapping[str, RunningController[Any]], kind: str, name: str, namespace: str | None
) -> Sequence[dict[str, Any]]:
    """The last looks at an object, oldest first, each with its reasons and what came of it.

    The kind may be written as kubectl takes it: `Website`, `website`, `websites` or a short name. Without a namespace
    objects of that name in all namespaces are meant. NotFound, with what there is, if no controller looks at that kind.
    """
    return [
        {"controller": controller.name, **_look(one)}
        for controller in _of_kind(controllers, kind)
        for one in controller.history
        if one.ref.name == name and namespace in {None, one.ref.namespace}
    ]


def ask_for(
    controllers: Mapping[str, RunningController[Any]], kind: str, name: str, namespace: str | None
) -> Sequence[str]:
    """Has the controllers of a kind look at an object; gives their names. NotFound as `looks_of`."""
    asked = _of_kind(controllers, kind)
    for controller in asked:
        gvk = _view(controller).gvk
        try:
            ref: Ref[Any] = Ref(gvk, name, namespace)
        except BadName as error:
            raise NotFound(str(error)) from error
        controller.enqueue(ref, "somebody typed `levelset trigger`")
    return [one.name for one in asked]


def _of_kind(controllers: Mapping[str, RunningController[Any]], kind: str) -> Sequence[RunningController[Any]]:
    found = [one for one in controllers.values() if kind.lower() in _names_of(one)]
    if not found:
        there = ", ".join(sorted({_kind_of(one) for one in controllers.values()})) or "nothing"
        raise NotFound(f"no controller here looks at {kind}; they look at {there}")
    return found


def _names_of(controller: RunningController[Any]) -> set[str]:
    view = _view(controller)
    names = {view.gvk.kind}
    if view.definition is not None:
        names |= {view.definition.plural, view.definition.singular, *view.definition.short_names}
        names.add(f"{view.definition.plural}.{view.gvk.group}")
    return {one.lower() for one in names}


def _view(controller: RunningController[Any]) -> View[Any]:
    return view_of(controller.controller.kind)


def _kind_of(controller: RunningController[Any]) -> str:
    return _view(controller).gvk.kind


def _errors(history: Sequence[Outcome[Any]]) -> Sequence[dict[str, Any]]:
    return [_look(one) for one in reversed(history) if one.is_error][:_ERRORS]


def _look(outcome: Outcome[Any]) -> dict[str, Any]:
    return {
        "object": str(outcome.ref),
        "result": outcome.result,
        "reasons": [str(one) for one in outcome.reasons],
        "error": None if outcome.error is None else f"{type(outcome.error).__name__}: {outcome.error}",
        "next": str(outcome.action),
        "attempt": outcome.attempt,
        "seconds": outcome.seconds,
        "waited": outcome.waited,
    }
