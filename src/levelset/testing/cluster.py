"""The test cluster: an in-process API server (or a real one), a client with all verbs, and running controllers.

```python
async with open_cluster() as cluster:
    await cluster.create(blog())
    async with cluster.running(websites):
        await cluster.until(Ref(Deployment, "blog"))
        await cluster.advance(600)
```

With a kubeconfig the same test runs against a real cluster, in real time.
"""

import asyncio
import math
import random as stdlib_random
import secrets
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, TypedDict, TypeVar, Unpack

from levelset.client.client import Client, open_transport
from levelset.client.object_types import Kind, view_of
from levelset.client.transport.interface import Hook, Transport
from levelset.errors import ConfigError, Deadline
from levelset.objects.meta import ObjectMeta
from levelset.objects.ref import GroupVersionKind, Ref
from levelset.objects.resource import Object
from levelset.runtime.controller.controller import Controller
from levelset.runtime.controller.observers import Observer
from levelset.runtime.manager.crd_install import kinds_of
from levelset.runtime.manager.leader_election import LeaderElection
from levelset.runtime.manager.sharding import Sharding
from levelset.runtime.recording import Recording
from levelset.runtime.webhook.webhook_set import NestedWebhooks, Webhooks
from levelset.storage import MemoryStorage
from levelset.testing import faults as the_faults
from levelset.testing.embedded_server import START, EmbeddedServer, clock_from
from levelset.testing.environment import CrdInstallingClient, Environment, Process
from levelset.testing.failure_report import (
    Version,
    describe,
    describe_condition,
    describe_object,
    reconciles_of,
    versions_of,
)
from levelset.testing.faults import Fault
from levelset.testing.hot_loop import HotLoopGuard
from levelset.testing.quiescence import FailingReconcile, failing_reconciles, wait_settled
from levelset.testing.reconcile_failures import AllowedErrors, FailureRecorder, check_allowed, leaves_of
from levelset.testing.timeline import ReconcileRecord, Timeline
from levelset.testing.virtual_time import VirtualLoop

__all__ = ["Cluster", "Condition", "Namespace", "ProcessOptions", "open_cluster"]

K = TypeVar("K")

Condition = Callable[[K], object]
"""A condition on an object: a function that takes the object and returns whether it holds."""


class ProcessOptions(TypedDict, total=False):
    """The keyword arguments of `Cluster.process` and `Cluster.running`."""

    faults: Sequence[Fault | Hook]
    """Faults that are injected between this process and the server only."""
    leader: LeaderElection | None
    """Elects a leader among the processes with the same Lease; by default every process works."""
    shards: Sharding | None
    """Shares the objects with the processes of the same name; by default every process has all."""
    name: str
    """The name of the process in reports; `operator` unless given."""
    observers: Sequence[Observer]
    """Called when a reconcile starts and finishes, beside those of the test itself."""
    everywhere: bool
    """On a real cluster, watches all namespaces; by default only that of the test."""
    grace: float | None
    """How many seconds running reconciles may take when the process stops, 30 by default; None: all they need."""
    webhooks: Webhooks | NestedWebhooks
    """Admission and conversion functions, which the server calls in process for the writes of every client."""
    allow_errors: AllowedErrors
    """Errors of reconciles that the test expects: True for all, a class, or a tuple of classes; none by default."""
    record: str | Path | Recording | None
    """The file in which the process is recorded, for `levelset.testing.replay`."""


class Cluster(CrdInstallingClient):
    """A client of a test cluster, with the methods that only a test needs.

    References without a namespace mean the namespace of the test. The CRD of a kind that the server does not serve is
    installed when the kind is first used. Opened by `open_cluster` and by the `cluster` fixture.
    """

    def __init__(self, transport: Transport, environment: Environment, **options: Any) -> None:
        super().__init__(transport, environment, manager="user", **options)

    @property
    def storage(self) -> MemoryStorage:
        """The storage of the in-process server, with its revision and history; ConfigError for a real cluster."""
        if self.environment.embedded is None:
            raise ConfigError(
                "a real cluster gives no access to its storage; read its objects with get and list instead"
            )
        return self.environment.embedded.storage

    @property
    def processes(self) -> Sequence[Process]:
        """All processes that were started in this test, including those that have ended."""
        return tuple(self.environment.processes)

    def now(self) -> datetime:
        """The current time of the server and the controllers."""
        return self.environment.now()

    async def define(self, *kinds: Kind[Any]) -> None:
        """Installs the CRDs of kinds that are not served yet; pass all versions of a kind in one call."""
        await self.environment.define(map(view_of, kinds))

    def process(
        self,
        *controllers: Controller[Any],
        faults: Sequence[Fault | Hook] = (),
        leader: LeaderElection | None = None,
        shards: Sharding | None = None,
        name: str = "operator",
        observers: Sequence[Observer] = (),
        everywhere: bool = False,
        grace: float | None = 30.0,
        webhooks: Webhooks | NestedWebhooks = (),
        allow_errors: AllowedErrors = False,
        record: str | Path | Recording | None = None,
    ) -> Process:
        """Returns a process that runs these controllers and is not started yet; see `running`."""
        check_allowed(allow_errors, "allow_errors")
        failures = FailureRecorder()
        guard = self.environment.guard
        hooked = webhooks if isinstance(webhooks, Webhooks) else Webhooks(webhooks)
        options: dict[str, Any] = {
            "leader": leader,
            "shards": shards,
            "observers": [self.environment.timeline, failures, *([guard] if guard else ()), *observers],
            "now": self.environment.now,
            "grace": grace,
            "webhooks": hooked,
            "record": record,
        }
        confined = None if everywhere or self.environment.embedded is not None else self.namespace

        @asynccontextmanager
        async def connect(hooks: Sequence[Hook]) -> AsyncGenerator[Client, None]:
            # Kinds of webhooks come first: of several versions the hub is the stored one.
            await self.environment.define([*map(view_of, hooked.kinds), *kinds_of(controllers)])
            transport, namespace = await open_transport(self.environment.target)
            usual = namespace or "default"
            async with CrdInstallingClient(transport, self.environment, namespace=usual, wire_hooks=hooks) as client:
                yield client if confined is None else client.in_namespace(confined)

        wanted = the_faults.wrap_controllers(controllers, faults)
        hooks = (*the_faults.hooks_of(faults), *([guard.send_of_process] if guard else ()))
        made = Process(name, wanted, connect, options, hooks, allow_errors=allow_errors, failures=failures)
        self.environment.processes.append(made)
        return made

    @asynccontextmanager
    async def running(
        self, *controllers: Controller[Any], **options: Unpack[ProcessOptions]
    ) -> AsyncGenerator[Process, None]:
        """Runs these controllers in a process of their own for the duration of the block.

        `faults` are injected between this process and the server only. A controller that fails permanently interrupts
        the block with Crashed. `webhooks` are called for the writes of every client. On a real cluster controllers
        watch only the namespace of the test, unless `everywhere` is set.
        """
        made = self.process(*controllers, **options)
        async with made.running():
            yield made

    async def settled(
        self, *, within: float = 60.0, soon: float = 1.0, allow_errors: AllowedErrors | None = None
    ) -> None:
        """Waits until nothing is pending; AssertionError that lists the pending work after `within` seconds.

        Every controller is synced, its queue is empty, no reconcile and no background work is running, every cache
        shows what the server stores, and the last reconcile of no object has failed: retries are waited for. Failures
        that the test expects are those of `allow_errors`, by default of the process that they happen in. Requeues that
        a reconciler requested for later do not count. A Retry counts if it is due within `soon` seconds.
        """
        check_allowed(False if allow_errors is None else allow_errors, "allow_errors")
        found = await wait_settled(self.environment, within=within, soon=soon, allow_errors=allow_errors)
        if found:
            text = "\n".join([f"not settled within {within:g} seconds:", *map(_item, found)])
            raise self._unsettled(text, "settled", failing_reconciles(self.environment, allow_errors))

    async def until(self, ref: Ref[K], condition: Condition[K] | None = None, /, *, within: float = 60.0) -> K:
        """Waits until the object exists and the condition holds for it; returns the object.

        AssertionError after `within` seconds, with the object, its history and the reconciles of the controllers.
        Exceptions of the condition propagate.
        """
        full = await self._full(ref)
        try:
            return await self.environment.control.wait(full, partial(_meets, condition), within=within)
        except Deadline:
            raise await self._failure(full, "{} within {:g} seconds", condition, within) from None

    async def until_gone(self, ref: Ref[Any], /, *, within: float = 60.0) -> None:
        """Waits until the object does not exist; AssertionError, as `until`, after `within` seconds."""
        full = await self._full(ref)
        try:
            await self.environment.control.wait_gone(full, within=within)
        except Deadline:
            raise await self._failure(full, f"it still exists after {within:g} seconds") from None

    async def expect(self, ref: Ref[K], condition: Condition[K] | None = None, /) -> K:
        """Returns the object; AssertionError, as `until`, if it does not exist or the condition does not hold now."""
        full = await self._full(ref)
        found = await self.environment.control.find(full)
        if found is None or not _meets(condition, found):
            raise await self._failure(full, "{}", None if found is None else condition)
        return found

    async def always(self, ref: Ref[K], condition: Condition[K], /, *, during: float) -> K:
        """Returns the object after the condition has held for every version of it during so many seconds.

        AssertionError, as `until`, as soon as it does not hold. In virtual time the seconds pass at once.
        """
        full = await self._full(ref)
        self._allow(during)
        await self.expect(ref, condition)
        try:
            await self.environment.control.wait(full, lambda it: not condition(it), within=during)
        except Deadline:
            return await self.expect(ref, condition)
        raise await self._failure(full, "the condition did not hold for {1:g} seconds; {0}", condition, during)

    async def never(self, ref: Ref[Any], /, *, during: float) -> None:
        """Returns if the object did not exist for so many seconds; AssertionError, as `until`, if it was created."""
        full = await self._full(ref)
        self._allow(during)
        try:
            await self.environment.control.wait(full, partial(_meets, None), within=during)
        except Deadline:
            return
        raise await self._failure(full, f"it was created within {during:g} seconds, and should not have been")

    async def advance(self, seconds: float, *, allow_errors: AllowedErrors | None = None) -> None:
        """Advances virtual time; every timer that becomes due fires in order, with everything it causes.

        AssertionError if the last reconcile of an object has failed at the end of that time, unless `allow_errors` (by
        default that of the process) allows the error. RealTime, a ConfigError, where time is real.
        """
        check_allowed(False if allow_errors is None else allow_errors, "allow_errors")
        loop = self.environment.virtual(f"advance({seconds:g})")
        self._allow(seconds)
        await asyncio.sleep(seconds)
        await loop.idle()
        failing = [one for one in failing_reconciles(self.environment, allow_errors) if one.outcome.is_error]
        if failing:
            text = "\n".join([f"after {seconds:g} seconds reconciles fail:", *map(_item, map(str, failing))])
            raise self._unsettled(text, "advance", failing)

    def history(self, ref: Ref[Any], /) -> Sequence[Version]:
        """All stored versions of an object, the oldest first; empty for a real cluster."""
        return versions_of(self.environment, ref)

    def reconciles(self, ref: Ref[Any] | None = None, /) -> Sequence[ReconcileRecord]:
        """The finished reconciles of the controllers of this test, the oldest first: of one object, or of all."""
        return reconciles_of(self.environment, ref)

    def story(self, ref: Ref[Any], /) -> str:
        """The history of an object and its reconciles as readable text."""
        return describe(self.environment, ref)

    async def _failure(
        self, ref: Ref[Any], message: str, condition: Condition[Any] | None = None, seconds: float = 0.0
    ) -> AssertionError:
        found: Any = await self.environment.control.find(ref)
        # Reads the source of the condition from a file, which must not block the loop.
        what = message.format(await asyncio.to_thread(describe_condition, condition), seconds)
        return AssertionError("\n".join([f"{ref}: {what}", describe_object(found), describe(self.environment, ref)]))

    def _unsettled(self, text: str, verb: str, failing: Sequence[FailingReconcile]) -> AssertionError:
        """The error of a test whose controllers fail or do not settle: with histories, and the first error as cause."""
        errors = [one.outcome.error for one in failing if one.outcome.error is not None]
        histories = [describe(self.environment, one.outcome.ref) for one in failing[:_MOST_HISTORIES]]
        names = list(dict.fromkeys(type(leaf).__name__ for one in errors for leaf in leaves_of(one)))
        lines = [text, *histories]
        if names:
            shown = names[0] if len(names) == 1 else f"({', '.join(names)})"
            lines.append(f"a test that expects this says so: {verb}(..., allow_errors={shown}), or in running(...)")
        made = AssertionError("\n".join(lines))
        made.__cause__ = errors[0] if errors else None
        return made

    async def _full(self, ref: Ref[K]) -> Ref[K]:
        """The reference with its namespace; installs the CRD of the kind if necessary."""
        of: Any = ref.class_ or ref.gvk
        served = await self._resource(view_of(of))
        return Ref(of, ref.name, ref.namespace or self.namespace) if served.namespaced else ref

    def _allow(self, seconds: float) -> None:
        """Extends the limit of the virtual loop: time that a test lets pass on purpose is not a hang."""
        if self.environment.loop is not None:
            self.environment.loop.limit += seconds


def _meets(condition: Condition[Any] | None, found: Any) -> bool:
    return condition is None or bool(condition(found))


def _item(text: str) -> str:
    return f"  {text}"


_MOST_HISTORIES: Final = 3
"""How many objects that fail are shown with their history."""

_DEFINITION: Final = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
_LONGEST: Final = 86400.0
"""The virtual seconds after which a test counts as hanging, without those it lets pass on purpose."""


class Namespace(Object, api="v1", scope="Cluster"):
    """The namespace of a test."""


@asynccontextmanager
async def open_cluster(
    *,
    seed: int = 1,
    now: datetime | None = None,
    namespace: str | None = None,
    hooks: Sequence[Hook] = (),
    storage: MemoryStorage | None = None,
    kubeconfig: str | Path | None = None,
) -> AsyncGenerator[Cluster, None]:
    """Opens a cluster for the duration of the block: an in-process server, or the cluster of `kubeconfig`.

    The in-process server is deterministic: names, uids and Python's `random` derive from `seed`, and the clock starts
    at `now`, by default at `START`; in real time the default is the real clock. `namespace` is that of objects without
    one, `test` by default. `hooks` are wire hooks of the client of the test. A given `storage` keeps its objects. On a
    real cluster a namespace with a unique name is created; it is deleted at the end with everything in it, as are the
    CRDs that were installed for the test.
    """
    if kubeconfig is not None:
        async with _real_cluster(kubeconfig, namespace, hooks) as cluster:
            yield cluster
        return
    is_real = now is None and _virtual_loop() is None
    clock, random_state = _real_now if is_real else clock_from(now or START), stdlib_random.getstate()
    stdlib_random.seed(seed)
    embedded = EmbeddedServer(seed=seed, now=clock, storage=storage)
    await embedded.start()
    try:
        environment = Environment(
            embedded.server,
            await Client.connect(embedded.server, namespace=namespace or "test", manager="levelset-testing"),
            clock,
            _virtual_loop(),
            embedded,
            timeline=Timeline(lambda: embedded.storage.revision),
        )
        if environment.loop is not None:
            environment.guard = HotLoopGuard(environment.loop, environment.timeline)
            embedded.server.state.listeners.append(environment.guard.note_write)
        with _limited(environment.loop):
            async with _opened(environment, hooks) as cluster:
                yield cluster
    finally:
        await embedded.stop()
        stdlib_random.setstate(random_state)


@asynccontextmanager
async def _real_cluster(
    kubeconfig: str | Path, namespace: str | None, hooks: Sequence[Hook]
) -> AsyncGenerator[Cluster, None]:
    if _virtual_loop() is not None:
        raise ConfigError(f"{kubeconfig}: a real cluster needs real time; use an ordinary event loop")
    name = namespace or f"levelset-{secrets.token_hex(6)}"
    control = await Client.connect(kubeconfig, namespace=name, manager="levelset-testing")
    environment = Environment(kubeconfig, control, _real_now)
    async with _opened(environment, hooks) as cluster:
        yield cluster


@asynccontextmanager
async def _opened(environment: Environment, hooks: Sequence[Hook]) -> AsyncGenerator[Cluster, None]:
    """The cluster with its namespace; kills processes that still run, and cleans up a real cluster."""
    control = environment.control
    async with control:
        if await control.find(Namespace, control.namespace) is None:
            await control.create(Namespace(metadata=ObjectMeta(name=control.namespace)))
        transport, _ = await open_transport(environment.target)
        wired = hooks if environment.guard is None else [*hooks, environment.guard.send_of_test]
        try:
            async with Cluster(transport, environment, namespace=control.namespace, wire_hooks=wired) as cluster:
                try:
                    yield cluster
                finally:
                    for one in environment.alive:
                        await one.kill()
        finally:
            if environment.embedded is None:
                await _clean_up(environment)


async def _clean_up(environment: Environment) -> None:
    await environment.control.delete(Namespace, environment.control.namespace, missing_ok=True)
    for name in environment.installed:
        ref: Ref[Any] = Ref(_DEFINITION, name)
        await environment.control.delete(ref, missing_ok=True)


@contextmanager
def _limited(loop: VirtualLoop | None) -> Generator[None, None, None]:
    """Limits virtual time: watches and retries would keep a hanging test running indefinitely."""
    if loop is None or loop.limit < math.inf:
        yield
        return
    loop.limit = loop.time() + _LONGEST
    try:
        yield
    finally:
        loop.limit = math.inf


def _virtual_loop() -> VirtualLoop | None:
    loop = asyncio.get_running_loop()
    return loop if isinstance(loop, VirtualLoop) else None


def _real_now() -> datetime:
    return datetime.now(UTC)
