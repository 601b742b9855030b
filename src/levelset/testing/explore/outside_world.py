"""The world outside of the API: its calls are steps that a plan can disturb, and its state is compared at the end.

Each process has an client of its own, which looks like the object that the exploration's `outside` returned.
The calls of a reconcile to its public methods are steps (`outside Cloud.create(blog)#1`). A client whose process has
crashed reaches nothing any more, also not from `finally` blocks.
"""

import asyncio
import functools
import re
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from inspect import isawaitable, iscoroutinefunction, ismethod, ismodule
from types import BuiltinFunctionType, FunctionType
from typing import Any, Final, Protocol, cast

import msgspec

from levelset.errors import ConfigError
from levelset.objects.ref import Ref
from levelset.objects.resource import Object
from levelset.testing.explore.faults.disturbance import OUTSIDE, Disturbance, StepName
from levelset.testing.explore.faults.environment_faults import Outage, OutsideError, Pause, Preempt
from levelset.testing.explore.faults.plan import CrashAfter, CrashBefore, Downtime, LostResponse, Slow

__all__ = ["GeneratedIds", "OutsideCaller", "OutsideErrors", "ProcessCrashed", "describe_outside", "wrap_outside"]

OutsideErrors = Sequence[type[Exception] | Exception]
"""What a call to the outside raises if it fails: exception classes, or exceptions."""

_LONGEST: Final = 60
_DEEPEST: Final = 6
_PREEMPTED: Final = 0.05
_ATOMS: Final = (str, int, float, bool)
_UID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_ID_FIELD: Final = re.compile(r"(^|_)(id|uid|uuid|number|arn)$|Id$")
_GENERATED: Final = "~"
_encode: Final = msgspec.json.Encoder(order="sorted", enc_hook=str).encode


class ProcessCrashed(asyncio.CancelledError):
    """Raised by a plain function of the outside when its process crashes there."""


@dataclass(eq=False)
class GeneratedIds:
    """The ids that the outside has generated: values that it returned before a caller passed them."""

    _given: set[str | int] = field(default_factory=set[str | int])
    _made: dict[str | int, None] = field(default_factory=dict[str | int, None])

    def note_arguments(self, *values: Any) -> None:
        """Values that a caller passes are no generated ids, unless they were returned before."""
        self._given.update(one for one in _atoms(values) if one not in self._made)

    def note_result(self, value: Any) -> None:
        """New values in a result are generated ids."""
        self._made.update((one, None) for one in _atoms(value) if one not in self._given)

    def __contains__(self, value: object) -> bool:
        return isinstance(value, str | int) and value in self._made

    def texts(self) -> dict[str, str]:
        """The generated ids that are recognizable in other texts, each with what it is shown as."""
        return {one: f"<{OUTSIDE} id>" for one in self._made if isinstance(one, str) and _is_distinctive(one)}


def _is_distinctive(text: str) -> bool:
    return len(text) > 2 and any(one.isdigit() for one in text)


def _atoms(value: Any, depth: int = 0) -> Iterator[str | int]:
    if isinstance(value, bool) or value is None or depth > _DEEPEST:
        return
    if isinstance(value, str | int):
        yield value
    elif isinstance(value, Mapping):
        entries = _mapping(value)
        for key, entry in entries.items():
            yield from _atoms(key, depth + 1)
            yield from _atoms(entry, depth + 1)
    elif isinstance(value, list | tuple | set | frozenset):
        many = cast("Collection[Any]", value)
        for one in many:
            yield from _atoms(one, depth + 1)
    elif not isinstance(value, Object | Ref | type) and not callable(value):
        for _, one in _public(value):
            yield from _atoms(one, depth + 1)


class OutsideCaller(Protocol):
    """The process from whose reconciles the outside is called."""

    outside_errors: OutsideErrors
    outside_ids: GeneratedIds

    @property
    def is_dead(self) -> bool:
        """Whether the process has crashed."""
        ...

    def begin_outside(self, action: str) -> tuple[StepName, Disturbance | None] | None:
        """Names the call and takes its disturbance; None if it is not made in a reconcile."""
        ...

    def end_outside(self, name: StepName, outcome: str, found: Disturbance | None) -> None:
        """Records the call."""
        ...

    def pause_outside(self, name: StepName, found: Pause, call: Callable[[], Awaitable[object]]) -> None:
        """Pauses the process, and makes the call afterwards."""
        ...

    def crash_outside(self, name: StepName, found: Disturbance) -> None:
        """Crashes the process."""
        ...

    def shown_text(self, text: str) -> str:
        """A text without generated names."""
        ...


def wrap_outside(real: Any, caller: Callable[[], OutsideCaller | None], name: str = "") -> Any:
    """The client of one process for the outside; data (mappings, texts, numbers) is returned as it is.

    `caller` returns the process, or None while there is none.
    """
    of: Any = real.__class__
    if real is None or issubclass(of, (*_ATOMS, bytes, list, tuple, set, frozenset, Mapping)) or ismodule(real):
        return real
    made: Any = _client_class(of)(real, caller, name or type(real).__name__)
    return made


class _OutsideClient:
    """Looks like the real object; calls of public methods are steps."""

    __slots__ = ("_levelset_caller", "_levelset_name", "_levelset_real")

    def __init__(self, real: Any, caller: Callable[[], OutsideCaller | None], name: str) -> None:
        object.__setattr__(self, "_levelset_real", real)
        object.__setattr__(self, "_levelset_caller", caller)
        object.__setattr__(self, "_levelset_name", name)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._levelset_real, name)
        if name.startswith("_"):
            return value
        if ismethod(value) or isinstance(value, FunctionType):
            return _Method(value, f"{self._levelset_name}.{name}", self._levelset_caller).function()
        if _is_client(value):
            return wrap_outside(value, self._levelset_caller, f"{self._levelset_name}.{name}")
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._levelset_real, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._levelset_real, name)

    def __repr__(self) -> str:
        return repr(self._levelset_real)


_OWN: Final = frozenset(vars(_OutsideClient)) | {
    "__class__",
    "__dict__",
    "__doc__",
    "__getattribute__",
    "__getstate__",
    "__init_subclass__",
    "__module__",
    "__new__",
    "__reduce__",
    "__reduce_ex__",
    "__sizeof__",
    "__subclasshook__",
    "__weakref__",
}


@functools.cache
def _client_class(of: Any) -> type[Any]:
    """A class of clients with the special methods of the real class, and for which `isinstance` holds."""
    special: list[str] = [
        one for one in dir(of) if one.startswith("__") and one not in _OWN and callable(getattr(of, one, None))
    ]
    members: dict[str, Any] = {one: _forwarded(one) for one in special}
    members["__class__"] = property(lambda _: of)
    members["__slots__"] = ()
    return type(_OutsideClient.__name__, (_OutsideClient,), members)


def _forwarded(name: str) -> Any:
    def forward(self: Any, *args: Any, **options: Any) -> Any:
        return getattr(self._levelset_real, name)(*args, **options)

    return forward


def _is_client(value: Any) -> bool:
    """Whether an attribute is itself a client: an object with a public async method."""
    if isinstance(value, (*_ATOMS, type, BuiltinFunctionType)) or type(value).__module__ in {"builtins", "asyncio"}:
        return False
    if type(value).__module__.startswith("asyncio."):
        return False
    class_: Any = value.__class__
    methods = (getattr(class_, one, None) for one in dir(class_) if not one.startswith("_"))
    return any(iscoroutinefunction(one) for one in methods)


class _Method:
    """A public method of the outside, as one process calls it."""

    def __init__(self, real: Any, name: str, caller: Callable[[], OutsideCaller | None]) -> None:
        self._real = real
        self._name = name
        self._caller = caller

    def function(self) -> Any:
        """The method as a function that is async if the real one is."""

        async def call_async(*args: Any, **options: Any) -> Any:
            return await self._call_async(args, options)

        def call_plain(*args: Any, **options: Any) -> Any:
            return self._call_plain(args, options)

        return functools.wraps(self._real)(call_async if iscoroutinefunction(self._real) else call_plain)

    def _begin(
        self, args: tuple[Any, ...], options: Mapping[str, Any]
    ) -> tuple[OutsideCaller, StepName, Disturbance | None] | None:
        caller = self._caller()
        if caller is None:
            return None
        shown = ", ".join(
            [
                *(_argument(one, caller) for one in args),
                *(f"{key}={_argument(options[key], caller)}" for key in options),
            ]
        )
        begun = caller.begin_outside(f"{OUTSIDE} {self._name}({shown[:_LONGEST]})")
        if begun is None:
            return None
        caller.outside_ids.note_arguments(args, dict(options))
        return caller, *begun

    async def _call_async(self, args: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
        if self._is_dead():
            await _never()
        begun = self._begin(args, options)
        if begun is None:
            return await self._real(*args, **options)
        caller, name, found = begun
        if isinstance(found, CrashBefore):
            caller.crash_outside(name, found)
            await _never()
        if isinstance(found, Pause):
            caller.pause_outside(name, found, functools.partial(self._real, *args, **options))
            await _never()
        if isinstance(found, Slow | Preempt):
            await asyncio.sleep(found.seconds if isinstance(found, Slow) else _PREEMPTED)
        error = _failure(found, caller.outside_errors, name)
        outcome = "cancelled"
        try:
            if isinstance(found, OutsideError | Outage) and error is not None:
                raise error
            result = await self._real(*args, **options)
            outcome = "done"
        except Exception as raised:
            outcome = type(raised).__name__
            raise
        finally:
            caller.end_outside(name, outcome, found)
        caller.outside_ids.note_result(result)
        if isinstance(found, CrashAfter | Downtime):
            caller.crash_outside(name, found)
            await _never()
        if isinstance(found, LostResponse) and error is not None:
            raise error
        return result

    def _call_plain(self, args: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
        if self._is_dead():
            raise ProcessCrashed
        begun = self._begin(args, options)
        if begun is None:
            return self._real(*args, **options)
        caller, name, found = begun
        if isinstance(found, CrashBefore):
            caller.crash_outside(name, found)
            raise ProcessCrashed
        error = _failure(found, caller.outside_errors, name)
        outcome = "failed"
        try:
            if isinstance(found, OutsideError | Outage) and error is not None:
                raise error
            result = self._real(*args, **options)
            outcome = "done"
        except Exception as raised:
            outcome = type(raised).__name__
            raise
        finally:
            caller.end_outside(name, outcome, found)
        if isawaitable(result):
            return result  # a plain function that returns an awaitable: only its start is a step
        caller.outside_ids.note_result(result)
        if isinstance(found, CrashAfter | Downtime):
            caller.crash_outside(name, found)
            raise ProcessCrashed
        if isinstance(found, LostResponse) and error is not None:
            raise error
        return result

    def _is_dead(self) -> bool:
        caller = self._caller()
        return caller is not None and caller.is_dead


async def _never() -> None:
    await asyncio.get_running_loop().create_future()


def _argument(value: Any, caller: OutsideCaller) -> str:
    if isinstance(value, Object):
        return caller.shown_text(f"{type(value).__name__}/{value.metadata.name}")
    if value.__class__ is Ref:
        return caller.shown_text(str(value))
    if not isinstance(value, bool) and value in caller.outside_ids:
        return _GENERATED
    if isinstance(value, _ATOMS) or value is None:
        return caller.shown_text(_UID.sub(_GENERATED, str(value))).replace("\n", " ")
    return type(value).__name__


def _failure(found: Disturbance | None, errors: OutsideErrors, name: StepName) -> Exception | None:
    """The exception of a call that fails or whose response is lost."""
    if not errors or not isinstance(found, OutsideError | Outage | LostResponse):
        return None
    number = found.number if isinstance(found, OutsideError) else 1
    chosen = errors[(number - 1) % len(errors)]
    if isinstance(chosen, Exception):
        return chosen
    words = "the response is lost" if isinstance(found, LostResponse) else "the call fails"
    try:
        return chosen(f"{name}: {words}")
    except TypeError as error:
        raise ConfigError(
            f"outside_errors: {chosen.__name__} cannot be created with one text ({error}); pass an instance instead"
        ) from error


def describe_outside(
    real: Any, ids: GeneratedIds, shown: Callable[[str], str], *, ignored: Collection[str] = ()
) -> dict[str, tuple[str, ...]]:
    """The public state of the outside by location, as `normalise` returns that of the objects.

    Each entry of a mapping, a set or a list of an attribute has a location of its own: `outside.buckets/blog`. Ids that
    the outside has generated, uids and times are replaced. `ignored` has attributes and fields: `outside.calls`.
    """
    if real is None:
        return {}
    describer = _Describer(ids, shown, frozenset(one for one in ignored if one.startswith(f"{OUTSIDE}.")))
    found: dict[str, list[str]] = {}
    for location, text in describer.describe(real):
        found.setdefault(location, []).append(text)
    return {location: tuple(sorted(texts)) for location, texts in sorted(found.items())}


class _Describer:
    def __init__(self, ids: GeneratedIds, shown: Callable[[str], str], ignored: Collection[str]) -> None:
        self._ids = ids
        self._shown = shown
        self._ignored = ignored

    def describe(self, real: Any) -> Iterator[tuple[str, str]]:
        is_data = isinstance(real, list | tuple | set | frozenset | Mapping)
        attributes: dict[str, Any] = {"items": real} if is_data else dict(_public(real))
        for name, value in attributes.items():
            path = f"{OUTSIDE}.{name}"
            if path not in self._ignored and not _is_opaque(value):
                yield from self._entries(path, value)

    def _entries(self, path: str, value: Any) -> Iterator[tuple[str, str]]:
        if isinstance(value, Mapping):
            entries = _mapping(value)
            for key, entry in entries.items():
                yield f"{path}/{self._key(key)}", self._text(entry, path, key)
        elif isinstance(value, set | frozenset | list | tuple):
            many = cast("Collection[Any]", value)
            for one in many:
                text = self._text(one, path, None)
                yield f"{path}/{self._key(one) if isinstance(one, str | int) else text}", text
        else:
            yield path, self._text(value, path, None)

    def _key(self, key: Any) -> str:
        return _GENERATED if key in self._ids else self._plain(str(key))

    def _text(self, value: Any, path: str, key: Any) -> str:
        return _encode(self._value(value, path, key, 0)).decode()

    def _value(self, value: Any, path: str, key: Any, depth: int) -> Any:
        if isinstance(value, str):
            return _GENERATED if value in self._ids else self._plain(value)
        if isinstance(value, bool | float) or value is None or depth > _DEEPEST:
            return value if depth <= _DEEPEST else "..."
        if isinstance(value, int):
            is_id = value in self._ids and (value == key or _ID_FIELD.search(path.rpartition(".")[2]))
            return _GENERATED if is_id else value
        if isinstance(value, Mapping):
            entries = _mapping(value)
            return {
                self._key(name): self._value(one, f"{path}.{name}", key, depth + 1)
                for name, one in entries.items()
                if f"{path}.{name}" not in self._ignored
            }
        if isinstance(value, set | frozenset | list | tuple):
            several = cast("Collection[Any]", value)
            many = [self._value(one, path, key, depth + 1) for one in several]
            return sorted(many, key=_encode) if isinstance(value, set | frozenset) else many
        if _is_opaque(value):
            return type(value).__name__
        return {
            name: self._value(one, f"{path}.{name}", key, depth + 1)
            for name, one in _public(value)
            if f"{path}.{name}" not in self._ignored and not _is_opaque(one)
        }

    def _plain(self, text: str) -> str:
        return self._shown(text)


def _mapping(value: Any) -> Mapping[Any, Any]:
    found: Mapping[Any, Any] = value
    return found


def _is_opaque(value: Any) -> bool:
    """Whether a value has no public state of its own: functions, iterators, locks."""
    if isinstance(value, (*_ATOMS, Mapping, set, frozenset, list, tuple)) or value is None:
        return False
    if callable(value) or isinstance(value, Iterator | type):
        return True
    return type(value).__module__.split(".", 1)[0] in {"asyncio", "itertools", "random", "threading", "_thread"}


def _public(value: Any) -> Iterator[tuple[str, Any]]:
    """The public attributes of an object, in the order of their names."""
    if is_dataclass(value) and not isinstance(value, type):
        names = [one.name for one in fields(value)]
    elif isinstance(value, msgspec.Struct):
        names = list(value.__struct_fields__)
    else:
        slots = [one for base in type(value).__mro__ for one in getattr(base, "__slots__", ())]
        names = [*getattr(value, "__dict__", {}), *slots]
    for name in sorted(set(names)):
        if not name.startswith("_") and hasattr(value, name):
            yield name, getattr(value, name)
