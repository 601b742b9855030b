"""What the dashboard remembers: metrics of the last hour, versions of objects, writes and requests of reconciles.

Everything is bounded. Nothing is requested from the API server for it: metrics are read from the controllers every few
seconds, versions come from the informers that the controllers have, writes and requests from the client that they
share. Writes and requests are those of reconciles, and of the tasks that these have started.
"""

import asyncio
import logging
import time
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import msgspec

from levelset.aio import timing
from levelset.client import Client
from levelset.client.internals import attach_tap, observe_writes
from levelset.client.request_body import Write
from levelset.dashboard.metrics_history import INTERVAL, MetricsHistory, sample_of
from levelset.dashboard.object_health import parse_time
from levelset.dashboard.object_versions import ObjectVersions, Place, Version, changed_fields
from levelset.dashboard.request_spans import RequestSpan, RequestSpans, note_spans_of
from levelset.dashboard.views import kind_text, map_in, text_of
from levelset.errors import NotReady
from levelset.objects import codec
from levelset.objects.cached_object import CachedObject
from levelset.objects.ref import GroupVersionKind
from levelset.runtime.cache import Change, Cluster
from levelset.runtime.cache.cluster import cluster_sources
from levelset.runtime.cache.informer import Informer
from levelset.runtime.cache.subscribers import ListenerHandle
from levelset.runtime.controller.actions import Outcome
from levelset.runtime.controller.running_controller import RunningController
from levelset.runtime.controller.traced_tasks import RECONCILE, RunningReconcile

__all__ = ["Activity", "ReconcileWrite"]

_MOST_WRITES: Final = 2_000
_STARTING: Final = 0.25
"""The seconds between two attempts to follow controllers that have not started yet."""
_STARTS: Final = 20
_SAME: Final = 1e-6
"""The start of a reconcile is known twice, once by its end and its duration: so many seconds apart is the same."""
_JUST_NOW: Final = 3.0
"""An object that was created so many seconds before it was seen, at most, is new: timestamps have whole seconds."""
_log: Final = logging.getLogger(__name__)


class ReconcileWrite(msgspec.Struct, frozen=True):
    """A write that a reconcile has made, and when on the loop's clock."""

    at: float
    reconcile: RunningReconcile
    write: Write

    @property
    def place(self) -> Place:
        """The object that was written."""
        return self.write.gvk, self.write.namespace, self.write.name or ""


class Activity:
    """Follows the controllers from `start` to `close`; what it has seen stays readable."""

    def __init__(
        self,
        controllers: Callable[[], Mapping[str, RunningController[Any]]],
        clusters: Callable[[], Iterable[Cluster]],
        requests: Callable[[], Mapping[Any, int]],
        tracers: Callable[[], Iterable[Any]] = tuple,
    ) -> None:
        self._controllers = controllers
        self._clusters = clusters
        self._requests = requests
        self._tracers = tracers
        self.metrics = MetricsHistory()
        self.versions = ObjectVersions()
        self.writes: deque[ReconcileWrite] = deque(maxlen=_MOST_WRITES)
        self.requests = RequestSpans()
        self._listeners: dict[Informer, ListenerHandle[Any]] = {}
        self._detach: dict[Client, tuple[Callable[[], None], ...]] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Starts to follow."""
        if self._task is None:
            loop = asyncio.get_running_loop()
            self.requests.clock = timing.clock_of(loop)
            self.requests.is_tracing = True
            note_spans_of(self._tracers(), self.requests)
            self._task = loop.create_task(self._run(), name="dashboard/activity")

    async def close(self) -> None:
        """Ends to follow, and returns when its task has ended."""
        task, self._task = self._task, None
        self.requests.is_tracing = False
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        for listener in self._listeners.values():
            listener.close()
        for both in self._detach.values():
            for detach in both:
                detach()
        self._listeners.clear()
        self._detach.clear()
        try:
            self._mark(self._controllers(), is_on=False)
        except (NotReady, RuntimeError) as error:
            _log.debug("no controller to follow: %s", error)

    def follow(self) -> None:
        """Attaches to the informers, clients and controllers that were opened since the last time; takes a sample."""
        try:
            controllers = self._controllers()
            self._attach_all(controllers)
            sample = sample_of(controllers, self._requests(), self.metrics.last, at=time.time(), own=self.requests.own)
            self.metrics.add(sample)
        except (NotReady, RuntimeError) as error:  # a controller that is starting, or a manager that has not
            _log.debug("no sample for the dashboard: %s", error)

    def see(self, gvk: GroupVersionKind, cached: CachedObject) -> None:
        """Adds the version of an object that was read."""
        version = Version(cached.resource_version, time.time(), cached.raw)
        self.versions.add((gvk, cached.namespace, cached.name), version)

    def writes_of(self, controller: str, outcome: Outcome[Any]) -> list[dict[str, Any]]:
        """The writes of one reconcile, each with the fields that it changed as far as the versions were seen."""
        mine = [one for one in self.writes if one.reconcile.controller == controller]
        return [self._write_view(one) for one in mine if _is_in(one.reconcile, one.at, outcome)]

    def requests_of(self) -> Callable[[str, Outcome[Any]], list[RequestSpan]]:
        """A function that returns the requests of a reconcile of a controller; they are sorted once for all calls."""
        all_ = {key: sorted(some, key=_began) for key, some in self.requests.by_reconcile().items()}

        def find(controller: str, outcome: Outcome[Any]) -> list[RequestSpan]:
            mine = all_.get((controller, outcome.ref.key))
            if mine is None:
                return []
            began = outcome.at - outcome.seconds
            same = mine[bisect_left(mine, began - _SAME, key=_began) : bisect_right(mine, began + _SAME, key=_began)]
            return [one for one in same if _is_in(one.reconcile, one.at, outcome)]

        return find

    async def _run(self) -> None:
        self.follow()  # the first sample is before the first reconcile: rates need two
        for _ in range(_STARTS):  # so that the first reconciles are followed, too
            with suppress(NotReady, RuntimeError):
                if controllers := self._controllers():
                    self._attach_all(controllers)
                    break
            await timing.sleep(_STARTING)
        while True:
            await timing.sleep(INTERVAL)
            self.follow()

    def _attach_all(self, controllers: Mapping[str, RunningController[Any]]) -> None:
        for cluster in self._clusters():
            self._attach(cluster)
        self._mark(controllers, is_on=True)

    @staticmethod
    def _mark(controllers: Mapping[str, RunningController[Any]], *, is_on: bool) -> None:
        for one in controllers.values():
            one.mark_reconciles(is_on=is_on)

    def _attach(self, cluster: Cluster) -> None:
        if cluster.client not in self._detach:
            client = cluster.client
            self._detach[client] = observe_writes(client, self._note_write), attach_tap(client, self.requests)
        for source in cluster_sources(cluster):
            informer = source.informer
            if informer not in self._listeners and not informer.scope.is_metadata:
                note = partial(self._note_changes, informer.scope.gvk)
                self._listeners[informer] = informer.listen(informer.view, note, replay=False)
        for informer in [one for one in self._listeners if one.is_closed]:
            self._listeners.pop(informer).close()

    def _note_changes(self, gvk: GroupVersionKind, changes: Sequence[Change[Any]]) -> None:
        for change in changes:
            if change.before is not None and change.after is not None:
                self.see(gvk, change.before)
            if change.after is not None:
                self.see(gvk, change.after)

    def _note_write(self, write: Write) -> None:
        reconcile = RECONCILE.get()
        if reconcile is not None and write.name is not None:
            self.writes.append(ReconcileWrite(timing.now(), reconcile, write))

    def _write_view(self, one: ReconcileWrite) -> dict[str, Any]:
        write, version = one.write, one.write.resource_version
        after = None if version is None else self.versions.find(one.place, version)
        before = None if version is None else self.versions.before(one.place, version)
        is_new = after is not None and before is None and _is_created(write, after)
        return {
            "kind": kind_text(write.gvk),
            "name": write.name,
            "namespace": write.namespace,
            "isGone": write.is_gone,
            "isNew": is_new,
            "changes": changed_fields(before, after) if after is not None and (before is not None or is_new) else [],
        }


def _began(span: RequestSpan) -> float:
    return span.reconcile.began


def _is_in(reconcile: RunningReconcile, at: float, outcome: Outcome[Any]) -> bool:
    """Whether what happened at a time, in a reconcile or a task that it has started, is a part of this outcome."""
    is_same = reconcile.key == outcome.ref.key and abs(reconcile.began - (outcome.at - outcome.seconds)) < _SAME
    return is_same and at <= outcome.at


def _is_created(write: Write, after: Version) -> bool:
    """Whether the first version that was seen is also the first that there was.

    That is said by its generation; some kinds have none, and then by the time at which it was created.
    """
    generation = None if write.head is None else write.head.generation
    if generation is not None:
        return generation == 1
    tree: Any = codec.decode_tree(after.raw)
    created = parse_time(text_of(map_in(tree, "metadata").get("creationTimestamp")))
    return created is not None and after.at - created.timestamp() < _JUST_NOW
