"""Opens a cluster for tests: inside the test by default, or a real one that a kubeconfig names."""

import asyncio
import math
import random as stdlib_random
import secrets
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from levelset.client.calls import Hook
from levelset.client.client import Client
from levelset.client.connecting import open_transport
from levelset.errors import ConfigError
from levelset.objects.identity import GroupVersionKind, Ref
from levelset.objects.meta import ObjectMeta
from levelset.objects.resource import Object
from levelset.storage import MemoryStorage
from levelset.testing.clock import VirtualLoop
from levelset.testing.cluster import Cluster
from levelset.testing.inside import START, Inside, clock_from
from levelset.testing.stage import Stage
from levelset.testing.timelines import Timelines

__all__ = ["Namespace", "open_cluster"]

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
