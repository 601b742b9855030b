"""Status conditions: find, set and remove them, in a list of conditions or in an object. Pure functions."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final, Literal, TypeVar, get_args

import msgspec

from levelset.errors import ConfigError
from levelset.objects import codec
from levelset.objects.json_tree import is_list, is_map
from levelset.objects.meta import Condition
from levelset.objects.model import replace
from levelset.objects.resource import Object
from levelset.objects.timestamps import seconds_precision
from levelset.objects.unstructured import Unstructured

__all__ = [
    "conditions_of",
    "find_condition",
    "is_condition_true",
    "remove_condition",
    "set_condition",
    "with_condition",
]


def set_condition(
    conditions: Iterable[Condition],
    type: str,  # noqa: A002  # the word of the API
    status: Literal["True", "False", "Unknown"] | bool | None,
    *,
    now: datetime,
    reason: str = "",
    message: str = "",
    observed_generation: int | None = None,
) -> tuple[Condition, ...]:
    """The conditions with this one set: the usual way to set conditions, as part of a status that is computed whole.

    Write that status with `Context.set_status`; `Context.set_condition` is for one condition that is written alone.
    `lastTransitionTime` changes only when the status does. A new condition is appended, the others keep their order;
    if nothing changed the result equals the input. A bool means "True" or "False", None means "Unknown".
    """
    before = tuple(conditions)
    present = find_condition(before, type)
    word = _word(status)
    moved = present is None or present.status != word or present.last_transition_time is None
    made = Condition(
        type=type,
        status=word,
        reason=reason,
        message=message,
        last_transition_time=seconds_precision(now) if moved or present is None else present.last_transition_time,
        observed_generation=observed_generation,
    )
    if present is None:
        return (*before, made)
    return tuple(made if one is present else one for one in before if one is present or one.type != type)


def find_condition(conditions: Iterable[Condition], type: str) -> Condition | None:  # noqa: A002
    """The condition of that type, or None."""
    return next((one for one in conditions if one.type == type), None)


def is_condition_true(conditions: Iterable[Condition], type: str) -> bool:  # noqa: A002
    """Whether the condition is there and True; Unknown and absent are not."""
    found = find_condition(conditions, type)
    return found is not None and found.status == "True"


def remove_condition(conditions: Iterable[Condition], type: str) -> tuple[Condition, ...]:  # noqa: A002
    """The conditions without that one."""
    return tuple(one for one in conditions if one.type != type)


def _word(status: str | bool | None) -> Literal["True", "False", "Unknown"]:
    if status is None:
        return "Unknown"
    if status in (True, "True"):
        return "True"
    if status in (False, "False"):
        return "False"
    if status == "Unknown":
        return "Unknown"
    raise ValueError(f"a condition's status is True, False or Unknown, not {status!r}")


_KNOWN: Final = frozenset(one.encode_name for one in msgspec.structs.fields(Condition))

O = TypeVar("O", bound=Object | Unstructured)  # noqa: E741  # the letter the type checker shows


def with_condition(
    obj: O,
    type: str,  # noqa: A002  # the word of the API
    status: Literal["True", "False", "Unknown"] | bool | None,
    *,
    now: datetime,
    reason: str = "",
    message: str = "",
) -> O:
    """A copy of the object with this condition in its status, observed for its current generation.

    `Context.set_condition` uses it; reconcilers call that, or `set_condition`. `lastTransitionTime` changes only when
    the status of the condition does. ConfigError if the status class has no conditions.
    """
    made = set_condition(
        conditions_of(obj),
        type,
        status,
        now=now,
        reason=reason,
        message=message,
        observed_generation=obj.metadata.generation or None,
    )
    if isinstance(obj, Unstructured):
        return _in_tree(obj, made)  # type: ignore[return-value]  # an Unstructured has no subclasses
    present: Any = getattr(obj, "status", None)
    base = _new_status(obj) if present is None else present
    return replace(obj, status=replace(base, conditions=made))


def conditions_of(obj: Object | Unstructured) -> tuple[Condition, ...]:
    """The conditions in an object's status; none if it has no status yet."""
    if isinstance(obj, Unstructured):
        status = obj.tree.get("status")
        found = status.get("conditions") if is_map(status) else None
        return tuple(codec.from_tree(Condition, one) for one in found) if is_list(found) else ()
    present: Any = getattr(obj, "status", None)
    if present is None:
        return ()
    return tuple(_with_conditions(obj, present).conditions)


def _in_tree(obj: Unstructured, conditions: tuple[Condition, ...]) -> Unstructured:
    """The tree with these conditions; unknown fields of the existing ones stay."""
    present = obj.tree.get("status")
    status: dict[str, Any] = present if is_map(present) else {}
    found = status.get("conditions")
    trees = {one.get("type"): one for one in found if is_map(one)} if is_list(found) else {}
    made: list[Any] = []
    for one in conditions:
        old = trees.get(one.type, {})
        made.append({**{name: value for name, value in old.items() if name not in _KNOWN}, **codec.to_tree(one)})
    return Unstructured({**obj.tree, "status": {**status, "conditions": made}})


def _new_status(obj: Object) -> Any:
    """An empty status of the class that the object's class declares."""
    declared = next((one.type for one in msgspec.structs.fields(obj) if one.name == "status"), None)
    for found in get_args(declared):
        if isinstance(found, type) and issubclass(found, msgspec.Struct):
            try:
                return _with_conditions(obj, found())
            except TypeError:
                break
    raise ConfigError(f"{obj.ref} has no status yet, and its status class has required fields: call set_status first")


def _with_conditions(obj: Object, status: Any) -> Any:
    """The status itself, if it has conditions."""
    if not hasattr(status, "conditions"):
        raise ConfigError(f"the status of {obj.kind} needs `conditions: tuple[Condition, ...] = ()` to have any")
    return status
