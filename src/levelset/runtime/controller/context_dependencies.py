"""What all reconciles of one controller share: the cluster, the client, and those who do the work behind a context.

A logger that says with each line which controller, object and reconcile it is about.

Fields are given as keywords: `ctx.log.info("scaled", replicas=3)`. Each becomes an attribute of the record, for whoever
formats it; a formatter that knows nothing of them shows the message alone.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, MutableMapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from levelset.aio import timing
from levelset.client.client import Client
from levelset.client.transport.interface import Guard, Hook
from levelset.errors import ConfigError
from levelset.objects.ref import GroupVersionKind, Ref
from levelset.runtime.cache import Cluster, Store
from levelset.runtime.controller.applied_cache import Applied
from levelset.runtime.controller.cache_lookup import Peeking
from levelset.runtime.controller.error_policy import Conflicts
from levelset.runtime.controller.event_recorder import Recorder
from levelset.runtime.controller.expectations import Expectations
from levelset.runtime.controller.hot_loops import HotLoop, HotLoops
from levelset.runtime.state import StateMap, WorkQueue

__all__ = ["BoundLog", "Services", "open_services", "wall_clock"]

log: Final = logging.getLogger(__name__)

_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def wall_clock() -> datetime:
    """The time of the day, in UTC."""
    return datetime.now(UTC)


def _never(_: Ref[Any]) -> bool:
    return False


def _unknown(key: str) -> Ref[Any]:
    raise ConfigError(f"of which kind the object {key} is was not said; give open_services ref_of=")


def _nothing(_: Ref[Any]) -> None:
    return None


def _log_hot_loop(found: HotLoop) -> None:
    log.warning("%s", found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What a context acts with; one for each controller that runs.

    `fence`, if there is one, raises before a write that is no longer allowed. `is_superseded` says whether a newer
    request for an object waits, `wake` asks for another look at it, and `on_hot_loop` is told of what never comes to
    rest. `peeking` looks into the caches without waiting. `ref_of` makes the ref of the controller's object that has a
    key.
    """

    cluster: Cluster
    client: Client
    """The client that writes, under the name of the controller."""
    recorder: Recorder
    work: WorkQueue
    controller_name: str
    peeking: Peeking
    states: tuple[StateMap[Any, Any, Any], ...] = ()
    log: logging.Logger = log
    fence: Callable[[], object] | None = None
    conflicts: Conflicts = field(default_factory=Conflicts)
    applied: Applied = field(default_factory=Applied)
    expectations: Expectations = field(default_factory=Expectations)
    hot_loops: HotLoops = field(default_factory=HotLoops)
    is_superseded: Callable[[Ref[Any]], bool] = _never
    wake: Callable[[Ref[Any]], object] = _nothing
    ref_of: Callable[[str], Ref[Any]] = _unknown
    on_hot_loop: Callable[[HotLoop], object] = _log_hot_loop
    now: Callable[[], datetime] = wall_clock
    clock: Callable[[], float] = timing.now
    """What tells the time of the running loop soonest."""

    def check_fence(self) -> None:
        """Raises if nothing may be written any more."""
        if self.fence is not None:
            self.fence()

    def forget(self, ref: Ref[Any]) -> None:
        """The object is gone: what is remembered about it is dropped."""
        self.conflicts.forget(ref)
        self.expectations.forget(ref)
        self.hot_loops.forget(ref)


@asynccontextmanager
async def open_services(
    cluster: Cluster,
    *,
    controller_name: str,
    client: Client | None = None,
    recorder: Recorder | None = None,
    work: WorkQueue | None = None,
    stores: Mapping[GroupVersionKind, Store[Any]] | None = None,
    states: Sequence[StateMap[Any, Any, Any]] = (),
    **options: Any,
) -> AsyncGenerator[Services, None]:
    """The services of a controller for the length of a block; a recorder and a work queue are made if none are given.

    `options` are the other attributes of `Services`. Writes carry the controller's name as their field manager, and
    with a `fence` none is sent once that raises, whoever uses the client.
    """
    writing = (client or cluster.client).using(manager=controller_name)
    fence: Callable[[], object] | None = options.get("fence")
    if fence is not None:
        writing = writing.hooked(_fencing(fence))
    options.setdefault("clock", timing.clock_of(asyncio.get_running_loop()))
    async with AsyncExitStack() as stack:
        if recorder is None:
            made = Recorder(writing, controller_name, now=options.get("now", wall_clock), fence=fence)
            recorder = await stack.enter_async_context(made)
        if work is None:
            work = await stack.enter_async_context(WorkQueue(name=f"{controller_name} work"))
        yield Services(
            cluster=cluster,
            client=writing,
            recorder=recorder,
            work=work,
            controller_name=controller_name,
            peeking=Peeking(cluster, stores),
            states=tuple(states),
            **options,
        )


def _fencing(fence: Callable[[], object]) -> Hook:
    return Guard(lambda call: call.method in _READS or fence())


if TYPE_CHECKING:
    _Adapter = logging.LoggerAdapter[logging.Logger]
else:
    _Adapter = logging.LoggerAdapter

_OPTIONS: Final = frozenset({"exc_info", "extra", "stack_info", "stacklevel"})
# What a record has already, and must not be given again.
_TAKEN: Final = frozenset({*logging.makeLogRecord({}).__dict__, "asctime", "message"})


class BoundLog(_Adapter):
    """A logger with fields that each of its lines has. A field whose name a record has already gets a `_` behind it."""

    def __init__(self, logger: logging.Logger, fields: Mapping[str, Any]) -> None:
        super().__init__(logger, {})
        self.fields = dict(fields)

    def bind(self, **fields: Any) -> "BoundLog":
        """The same with more fields."""
        return BoundLog(self.logger, {**self.fields, **fields})

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Puts the fields of the line and those of the logger into the record."""
        options = {name: value for name, value in kwargs.items() if name in _OPTIONS}
        own = {name: value for name, value in kwargs.items() if name not in _OPTIONS}
        extra: Mapping[str, Any] = options.get("extra") or {}
        fields = {**extra, **self.fields, **own}
        options["extra"] = {f"{name}_" if name in _TAKEN else name: value for name, value in fields.items()}
        return msg, options
