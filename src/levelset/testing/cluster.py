"""A cluster for tests: a server of its own, a client with all verbs, controllers at work, and time that jumps.

```python
async with open_cluster() as cluster:
    await cluster.create(blog())
    async with cluster.running(websites):
        await cluster.until(Ref(Deployment, "blog"))
        await cluster.advance(600)
```

Opens a cluster for tests: inside the test by default, or a real one that a kubeconfig names.
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
from levelset.runtime.webhook.webhook_set import Several, Webhooks
from levelset.storage import MemoryStorage
from levelset.testing import faults as the_faults
from levelset.testing.embedded_server import START, Inside, clock_from
from levelset.testing.environment import IntroducingClient, Process, Stage
from levelset.testing.failure_report import Version, condition_words, describe, looks_at, object_words, versions_of
from levelset.testing.faults import Fault
from levelset.testing.quiescence import wait_settled
from levelset.testing.timeline import Looked, Timelines
from levelset.testing.virtual_time import VirtualLoop

__all__ = ["Cluster", "Condition", "Namespace", "ProcessOptions", "open_cluster"]

K = TypeVar("K")

Condition = Callable[[K], object]
"""What should be so of an object: a function that is given it."""


class ProcessOptions(TypedDict, total=False):
    """How controllers run in a test; `Cluster.process` says what each means, and what it is unless given."""

    faults: Sequence[Fault | Hook]
    leader: LeaderElection | None
    name: str
    observers: Sequence[Observer]
    everywhere: bool
    grace: float | None
    webhooks: Webhooks | Several


class Cluster(IntroducingClient):
    """A client of a cluster for tests, with the verbs that only a test needs.

    What has no namespace is meant to be in the test's own. A kind that the server does not know is made known to it
    when it is first used. Made by `open_cluster`, and by the fixture of the same name.
    """

    def __init__(self, transport: Transport, stage: Stage, **options: Any) -> None:
        super().__init__(transport, stage, manager="people", **options)

    @property
    def storage(self) -> MemoryStorage:
        """What the server stores: its revision and its history; ConfigError for a real cluster."""
        if self.stage.inside is None:
            raise ConfigError("the storage of a real cluster is out of reach; read its objects instead")
        return self.stage.inside.storage

    @property
    def processes(self) -> Sequence[Process]:
        """All processes that were started in this test, also those that have ended."""
        return tuple(self.stage.processes)

    def now(self) -> datetime:
        """What time of day it is, for the server and for controllers."""
        return self.stage.now()

    async def define(self, *kinds: Kind[Any]) -> None:
        """Has the server serve these kinds, as far as it does not yet; several versions of a kind, all at once."""
        await self.stage.define(map(view_of, kinds))

    def process(
        self,
        *controllers: Controller[Any],
        faults: Sequence[Fault | Hook] = (),
        leader: LeaderElection | None = None,
        name: str = "operator",
        observers: Sequence[Observer] = (),
        everywhere: bool = False,
        grace: float | None = 30.0,
        webhooks: Webhooks | Several = (),
    ) -> Process:
        """A process that runs these controllers, not started yet; see `running`."""
        hooked = webhooks if isinstance(webhooks, Webhooks) else Webhooks(webhooks)
        options: dict[str, Any] = {
            "leader": leader,
            "observers": [self.stage.timelines, *observers],
            "now": self.stage.now,
            "grace": grace,
            "webhooks": hooked,
        }
        confined = None if everywhere or self.stage.inside is not None else self.namespace

        @asynccontextmanager
        async def connect(hooks: Sequence[Hook]) -> AsyncGenerator[Client, None]:
            # Those of the webhooks first: of several versions the hub is the one that is stored.
            await self.stage.define([*map(view_of, hooked.kinds), *kinds_of(controllers)])
            transport, namespace = await open_transport(self.stage.where)
            usual = namespace or "default"
            async with IntroducingClient(transport, self.stage, namespace=usual, wire_hooks=hooks) as client:
                yield client if confined is None else client.in_namespace(confined)

        wanted = the_faults.wrapped(controllers, faults)
        made = Process(name, wanted, connect, options, hooks=the_faults.hooks_of(faults))
        self.stage.processes.append(made)
        return made

    @asynccontextmanager
    async def running(
        self, *controllers: Controller[Any], **options: Unpack[ProcessOptions]
    ) -> AsyncGenerator[Process, None]:
        """These controllers at work for the length of a block, in a process of their own.

        `faults` go wrong between this process and the server, and hurt nobody else. A controller that fails for good
        interrupts the block with Crashed. `webhooks` are asked before every write, whoever writes. On a real cluster
        controllers see only the namespace of the test, unless they are told to look `everywhere`.
        """
        made = self.process(*controllers, **options)
        async with made.living():
            yield made

    async def settled(self, *, within: float = 60.0, soon: float = 1.0) -> None:
        """Returns when everything has come to rest; AssertionError, with what goes on, if it does not `within` seconds.

        Every controller has filled its caches, its queue is empty, it looks at nothing and has nothing in the
        background; every cache shows what the server has. Looks that a reconciler wishes for later are no unrest. Those
        that wait because something went wrong are, if they come `soon`: so many seconds from now.
        """
        found = await wait_settled(self.stage, within=within, soon=soon)
        if found:
            raise AssertionError("\n".join([f"this has not settled within {within:g} seconds:", *map(_item, found)]))

    async def until(self, ref: Ref[K], condition: Condition[K] | None = None, /, *, within: float = 60.0) -> K:
        """The object, as soon as it is there and the condition holds for it.

        AssertionError if that does not happen `within` seconds, with the object, its history and the timeline of the
        controllers. What the condition raises is raised here.
        """
        full = await self._full(ref)
        try:
            return await self.stage.control.wait(full, partial(_meets, condition), within=within)
        except Deadline:
            raise await self._failure(full, "{} within {:g} seconds", condition, within) from None

    async def until_gone(self, ref: Ref[Any], /, *, within: float = 60.0) -> None:
        """Returns when there is no such object any more; AssertionError, as `until`, if it stays."""
        full = await self._full(ref)
        try:
            await self.stage.control.wait_gone(full, within=within)
        except Deadline:
            raise await self._failure(full, f"it is still there after {within:g} seconds") from None

    async def expect(self, ref: Ref[K], condition: Condition[K] | None = None, /) -> K:
        """The object, which is there now, and for which the condition holds now; AssertionError, as `until`, if not."""
        full = await self._full(ref)
        found = await self.stage.control.find(full)
        if found is None or not _meets(condition, found):
            raise await self._failure(full, "{}", None if found is None else condition)
        return found

    async def always(self, ref: Ref[K], condition: Condition[K], /, *, during: float) -> K:
        """The object, for which the condition has held in every version for so many seconds, and which is still there.

        AssertionError, as `until`, as soon as it does not hold. In virtual time the seconds pass at once.
        """
        full = await self._full(ref)
        self._allow(during)
        await self.expect(ref, condition)
        try:
            await self.stage.control.wait(full, lambda it: not condition(it), within=during)
        except Deadline:
            return await self.expect(ref, condition)
        raise await self._failure(full, "this did not stay so for {1:g} seconds; {0}", condition, during)

    async def never(self, ref: Ref[Any], /, *, during: float) -> None:
        """Returns when there was no such object for so many seconds; AssertionError, as `until`, if one came."""
        full = await self._full(ref)
        self._allow(during)
        try:
            await self.stage.control.wait(full, partial(_meets, None), within=during)
        except Deadline:
            return
        raise await self._failure(full, f"it came within {during:g} seconds, and should not have")

    async def advance(self, seconds: float) -> None:
        """Lets time pass: all that is due on the way happens, in order, and what it leads to.

        RealTime, a ConfigError, where time is real.
        """
        loop = self.stage.virtual(f"advance({seconds:g})")
        self._allow(seconds)
        await asyncio.sleep(seconds)
        await loop.idle()

    def history(self, ref: Ref[Any], /) -> Sequence[Version]:
        """All versions of an object that the server has stored, the oldest first; none for a real cluster."""
        return versions_of(self.stage, ref)

    def looks(self, ref: Ref[Any] | None = None, /) -> Sequence[Looked]:
        """What the controllers of this test have looked at, the oldest first: one object, or all of them."""
        return looks_at(self.stage, ref)

    def story(self, ref: Ref[Any], /) -> str:
        """The history of an object and the looks of all controllers at it, to be read by people."""
        return describe(self.stage, ref)

    async def _failure(
        self, ref: Ref[Any], said: str, condition: Condition[Any] | None = None, seconds: float = 0.0
    ) -> AssertionError:
        found: Any = await self.stage.control.find(ref)
        # Its text is in a file, and a loop waits for no file.
        what = said.format(await asyncio.to_thread(condition_words, condition), seconds)
        return AssertionError("\n".join([f"{ref}: {what}", object_words(found), describe(self.stage, ref)]))

    async def _full(self, ref: Ref[K]) -> Ref[K]:
        """The reference with its namespace, to an object of a kind that is served."""
        of: Any = ref.class_ or ref.gvk
        served = await self._served(view_of(of))
        return Ref(of, ref.name, ref.namespace or self.namespace) if served.namespaced else ref

    def _allow(self, seconds: float) -> None:
        """Somebody wants so much time to pass: it does not count as waiting for what does not happen."""
        if self.stage.loop is not None:
            self.stage.loop.limit += seconds


def _meets(condition: Condition[Any] | None, found: Any) -> bool:
    return condition is None or bool(condition(found))


def _item(text: str) -> str:
    return f"  {text}"


_DEFINITION: Final = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
_LONGEST: Final = 86400.0
"""The virtual seconds after which somebody has waited for too long, apart from those that are let pass on purpose."""


class Namespace(Object, api="v1", scope="Cluster"):
    """Where the objects of a test are."""


@asynccontextmanager
async def open_cluster(
    *,
    seed: int = 1,
    now: datetime = START,
    namespace: str | None = None,
    hooks: Sequence[Hook] = (),
    storage: MemoryStorage | None = None,
    kubeconfig: str | Path | None = None,
) -> AsyncGenerator[Cluster, None]:
    """A cluster for the length of a block: a server in this process, or the one that `kubeconfig` names.

    Inside, everything repeats itself: names and uids come from the seed, as does Python's own `random`, and the day
    begins at `now`. `hooks` stand between the people of the test and the server. A `storage` that is given keeps its
    objects. A real cluster gets a namespace with a name of its own, which is deleted at the end with all that is in
    it, as are the definitions that were made for the test.
    """
    if kubeconfig is not None:
        async with _outside(kubeconfig, namespace, hooks) as cluster:
            yield cluster
        return
    clock, chance = clock_from(now), stdlib_random.getstate()
    stdlib_random.seed(seed)
    inside = Inside(seed=seed, now=clock, storage=storage)
    await inside.start()
    try:
        stage = Stage(
            inside.server,
            await Client.connect(inside.server, namespace=namespace or "test", manager="levelset-testing"),
            clock,
            _virtual_loop(),
            inside,
            timelines=Timelines(lambda: inside.storage.revision),
        )
        with _limited(stage.loop):
            async with _playing(stage, hooks) as cluster:
                yield cluster
    finally:
        await inside.stop()
        stdlib_random.setstate(chance)


@asynccontextmanager
async def _outside(
    kubeconfig: str | Path, namespace: str | None, hooks: Sequence[Hook]
) -> AsyncGenerator[Cluster, None]:
    if _virtual_loop() is not None:
        raise ConfigError(f"{kubeconfig}: a real cluster needs real time; run this on an ordinary event loop")
    name = namespace or f"levelset-{secrets.token_hex(6)}"
    control = await Client.connect(kubeconfig, namespace=name, manager="levelset-testing")
    stage = Stage(kubeconfig, control, _real_now)
    async with _playing(stage, hooks) as cluster:
        yield cluster


@asynccontextmanager
async def _playing(stage: Stage, hooks: Sequence[Hook]) -> AsyncGenerator[Cluster, None]:
    """The cluster on its stage, with a namespace; ends what still runs, and leaves nothing behind in a real cluster."""
    control = stage.control
    async with control:
        if await control.find(Namespace, control.namespace) is None:
            await control.create(Namespace(metadata=ObjectMeta(name=control.namespace)))
        transport, _ = await open_transport(stage.where)
        try:
            async with Cluster(transport, stage, namespace=control.namespace, wire_hooks=hooks) as cluster:
                try:
                    yield cluster
                finally:
                    for one in stage.alive:
                        await one.kill()
        finally:
            if stage.inside is None:
                await _tidy_up(stage)


async def _tidy_up(stage: Stage) -> None:
    await stage.control.delete(Namespace, stage.control.namespace, missing_ok=True)
    for name in stage.installed:
        ref: Ref[Any] = Ref(_DEFINITION, name)
        await stage.control.delete(ref, missing_ok=True)


@contextmanager
def _limited(loop: VirtualLoop | None) -> Generator[None, None, None]:
    """Sees to it that nobody waits for ever: watches and retries go on for as long as time does."""
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
