"""What all contexts of one controller share: cluster, client, event recorder, background work, trackers and logger.

`open_dependencies` opens them for a running controller; `Context` reads them. `BoundLogger` is the logger behind
`ctx.log`: its fields are keywords, `ctx.log.info("scaled", replicas=3)`, and become attributes of the log record. A
formatter that does not know them shows the message alone.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, MutableMapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from levelset.aio import timing
from levelset.client.client import Client
from levelset.client.internals import with_hook, with_settings
from levelset.client.transport.interface import Guard, Hook
from levelset.errors import ConfigError
from levelset.objects.ref import GroupVersionKind, Ref
from levelset.runtime.cache import Cluster, Store
from levelset.runtime.controller.applied_cache import AppliedCache
from levelset.runtime.controller.cache_lookup import CacheLookup
from levelset.runtime.controller.error_policy import ConflictTracker
from levelset.runtime.controller.event_recorder import EventRecorder
from levelset.runtime.controller.expectations import Expectations
from levelset.runtime.controller.hot_loops import HotLoop, HotLoopDetector
from levelset.runtime.state import BackgroundWork, StateMap

__all__ = ["BoundLogger", "ContextDependencies", "fence_hook", "open_dependencies", "wall_clock"]

log: Final = logging.getLogger(__name__)

_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def wall_clock() -> datetime:
    """The wall clock time, in UTC."""
    return datetime.now(UTC)


def _never(_: Ref[Any]) -> bool:
    return False


def _unknown(key: str) -> Ref[Any]:
    raise ConfigError(f"the kind of object {key} is not known; pass ref_of= to open_dependencies")


def _nothing(_: Ref[Any]) -> None:
    return None


def _log_hot_loop(found: HotLoop) -> None:
    log.warning("%s", found)


class ContextDependencies(msgspec.Struct, frozen=True, kw_only=True):
    """What the contexts of one running controller share.

    `is_superseded` says whether a newer request for an object is queued, `wake` enqueues an object, and `on_hot_loop`
    is called with each hot loop that was found. `cache_lookup` reads the caches without waiting. `ref_of` makes the ref
    of the controller's object with a key.
    """

    cluster: Cluster
    client: Client
    """The client; it writes with the controller's name as field manager."""
    recorder: EventRecorder
    work: BackgroundWork
    controller_name: str
    cache_lookup: CacheLookup
    states: tuple[StateMap[Any, Any, Any], ...] = ()
    log: logging.Logger = log
    conflicts: ConflictTracker = msgspec.field(default_factory=ConflictTracker)
    applied: AppliedCache = msgspec.field(default_factory=AppliedCache)
    expectations: Expectations = msgspec.field(default_factory=Expectations)
    hot_loops: HotLoopDetector = msgspec.field(default_factory=HotLoopDetector)
    is_superseded: Callable[[Ref[Any]], bool] = _never
    wake: Callable[[Ref[Any]], object] = _nothing
    ref_of: Callable[[str], Ref[Any]] = _unknown
    on_hot_loop: Callable[[HotLoop], object] = _log_hot_loop
    now: Callable[[], datetime] = wall_clock
    clock: Callable[[], float] = timing.now
    """The monotonic clock of the running loop, by its cheapest call."""

    def forget(self, ref: Ref[Any]) -> None:
        """Drops everything that is tracked about an object that is gone."""
        self.conflicts.forget(ref)
        self.expectations.forget(ref)
        self.hot_loops.forget(ref)


@asynccontextmanager
async def open_dependencies(
    cluster: Cluster,
    *,
    controller_name: str,
    client: Client | None = None,
    recorder: EventRecorder | None = None,
    work: BackgroundWork | None = None,
    stores: Mapping[GroupVersionKind, Store[Any]] | None = None,
    states: Sequence[StateMap[Any, Any, Any]] = (),
    fence: Callable[[], object] | None = None,
    **options: Any,
) -> AsyncGenerator[ContextDependencies, None]:
    """Opens the dependencies of a controller; event recorder and background work are opened too unless given.

    `options` are further attributes of `ContextDependencies`. All writes of the client carry the controller's name as
    field manager. `fence`, if given, is called before each of them and raises if writes are no longer allowed: the
    client calls it, so that also writes that do not go through a context are checked, and each only once.
    """
    writing = with_settings(client or cluster.client, manager=controller_name)
    if fence is not None:
        writing = with_hook(writing, fence_hook(fence))
    options.setdefault("clock", timing.clock_of(asyncio.get_running_loop()))
    async with AsyncExitStack() as stack:
        if recorder is None:
            made = EventRecorder(writing, controller_name, now=options.get("now", wall_clock))
            recorder = await stack.enter_async_context(made)
        if work is None:
            work = await stack.enter_async_context(BackgroundWork(name=f"{controller_name} work"))
        yield ContextDependencies(
            cluster=cluster,
            client=writing,
            recorder=recorder,
            work=work,
            controller_name=controller_name,
            cache_lookup=CacheLookup(cluster, stores),
            states=tuple(states),
            **options,
        )


def fence_hook(fence: Callable[[], object]) -> Hook:
    """A client hook that calls `fence` before every write."""
    return Guard(lambda call: call.method in _READS or fence())


if TYPE_CHECKING:
    _Adapter = logging.LoggerAdapter[logging.Logger]
else:
    _Adapter = logging.LoggerAdapter

_OPTIONS: Final = frozenset({"exc_info", "extra", "stack_info", "stacklevel"})
# Attributes that a LogRecord already has and must not be overwritten.
_RECORD_ATTRIBUTES: Final = frozenset({*logging.makeLogRecord({}).__dict__, "asctime", "message"})


class BoundLogger(_Adapter):
    """A logger with fields on every line. A field with the name of a LogRecord attribute gets a `_` appended."""

    def __init__(self, logger: logging.Logger, fields: Mapping[str, Any]) -> None:
        super().__init__(logger, {})
        self.fields = dict(fields)

    def bind(self, **fields: Any) -> "BoundLogger":
        """A logger with additional fields."""
        return BoundLogger(self.logger, {**self.fields, **fields})

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Adds the fields of the line and of the logger to the record."""
        options = {name: value for name, value in kwargs.items() if name in _OPTIONS}
        own = {name: value for name, value in kwargs.items() if name not in _OPTIONS}
        extra: Mapping[str, Any] = options.get("extra") or {}
        fields = {**extra, **self.fields, **own}
        options["extra"] = {f"{name}_" if name in _RECORD_ATTRIBUTES else name: value for name, value in fields.items()}
        return msg, options
