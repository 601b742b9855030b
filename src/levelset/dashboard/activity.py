"""What the dashboard remembers while it runs: metrics of the last hour, versions of objects, writes of reconciles.

All three are bounded. Nothing is requested from the API server for them: metrics are read from the controllers every
few seconds, versions come from the informers that the controllers have, and writes from the client that they share.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from levelset.aio import timing
from levelset.client import Client
from levelset.client.internals import observe_writes
from levelset.client.request_body import Write
from levelset.dashboard.metrics_history import INTERVAL, MetricsHistory, sample_of
from levelset.dashboard.object_versions import ObjectVersions, Place, Version, changed_fields
from levelset.dashboard.views import kind_text
from levelset.errors import NotReady
from levelset.objects.cached_object import CachedObject
from levelset.objects.ref import GroupVersionKind
from levelset.runtime.cache import Change, Cluster
from levelset.runtime.cache.cluster import cluster_sources
from levelset.runtime.cache.informer import Informer
from levelset.runtime.cache.subscribers import ListenerHandle
from levelset.runtime.controller.actions import Outcome
from levelset.runtime.controller.running_controller import RunningController

__all__ = ["Activity", "ReconcileWrite"]

_MOST_WRITES: Final = 2_000
_log: Final = logging.getLogger(__name__)


class ReconcileWrite(msgspec.Struct, frozen=True):
    """A write that a reconcile has made: when (on the loop's clock), in which controller, and for which object."""

    at: float
    controller: str
    key: str
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
    ) -> None:
        self._controllers = controllers
        self._clusters = clusters
        self._requests = requests
        self.metrics = MetricsHistory()
        self.versions = ObjectVersions()
        self.writes: deque[ReconcileWrite] = deque(maxlen=_MOST_WRITES)
        self._listeners: dict[Informer, ListenerHandle[Any]] = {}
        self._detach: dict[Client, Callable[[], None]] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Starts to follow."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="dashboard/activity")

    async def close(self) -> None:
        """Ends to follow, and returns when its task has ended."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        for listener in self._listeners.values():
            listener.close()
        for detach in self._detach.values():
            detach()
        self._listeners.clear()
        self._detach.clear()

    def follow(self) -> None:
        """Attaches to the informers and clients that were opened since the last time, and takes a sample."""
        try:
            controllers = self._controllers()
            for cluster in self._clusters():
                self._attach(cluster)
            self.metrics.add(sample_of(controllers, self._requests(), self.metrics.last, at=time.time()))
        except (NotReady, RuntimeError) as error:  # a controller that is starting, or a manager that has not
            _log.debug("no sample for the dashboard: %s", error)

    def see(self, gvk: GroupVersionKind, cached: CachedObject) -> None:
        """Adds the version of an object that was read."""
        version = Version(cached.resource_version, time.time(), cached.raw)
        self.versions.add((gvk, cached.namespace, cached.name), version)

    def writes_of(self, controller: str, outcome: Outcome[Any]) -> list[dict[str, Any]]:
        """The writes of one reconcile, each with the fields that it changed as far as the versions were seen."""
        return [self._write_view(one) for one in self.made_in(controller, outcome)]

    def made_in(self, controller: str, outcome: Outcome[Any]) -> list[ReconcileWrite]:
        """The writes of one reconcile."""
        began, key = outcome.at - outcome.seconds, outcome.ref.key
        mine = [one for one in self.writes if one.controller == controller and one.key == key]
        return [one for one in mine if began <= one.at <= outcome.at]

    async def _run(self) -> None:
        while True:
            self.follow()
            await timing.sleep(INTERVAL)

    def _attach(self, cluster: Cluster) -> None:
        if cluster.client not in self._detach:
            self._detach[cluster.client] = observe_writes(cluster.client, self._note_write)
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
        if write.name is None:
            return
        for name, controller in self._controllers().items():
            key = controller.current_key()
            if key is not None:
                self.writes.append(ReconcileWrite(timing.now(), name, key, write))
                return

    def _write_view(self, one: ReconcileWrite) -> dict[str, Any]:
        write, version = one.write, one.write.resource_version
        after = None if version is None else self.versions.find(one.place, version)
        before = None if version is None else self.versions.before(one.place, version)
        return {
            "kind": kind_text(write.gvk),
            "name": write.name,
            "namespace": write.namespace,
            "isGone": write.is_gone,
            "isNew": after is not None and before is None and _generation(write) == 1,
            "changes": [] if after is None else changed_fields(before, after),
        }


def _generation(write: Write) -> int | None:
    return None if write.head is None else write.head.generation
