"""Random faults for a cache: writers, broken streams, rejected calls, compacted history and slow subscribers.

`Storm` takes random steps from a seed. At each quiet point it checks that the cache holds what the server holds.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from random import Random
from typing import Any

from levelset.apiserver import ApiServer
from levelset.client import BodyStream, Call, Client, Response, Send
from levelset.errors import BadObject, NotFound, Unreachable
from levelset.http import Headers
from levelset.objects import LabelSelector, Object, ObjectMeta, Ref, replace
from levelset.runtime.cache import Change, Cluster, Index, by_label
from levelset.runtime.watch import Apply, Delete, Event, Init, InitApply, InitDone, WatchError, watch

__all__ = ["Faults", "Settings", "Storm"]

NAMES = [f"n{number}" for number in range(12)]
NAMESPACES = ["default", "kube-public"]
COLORS = ["red", "green", "blue"]


class Settings(Object, api="v1", kind="ConfigMap"):
    """A kind that every server has."""

    data: dict[str, str] = {}


def colors(one: Settings) -> list[str]:
    """Several values for one object, and none for some."""
    return one.data.get("colors", "").split()


class Faults:
    """A hook between the watching client and the server: breaks streams, rejects calls, delays streams."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.refused = 0
        self.open: set[_Cut] = set()

    async def __call__(self, call: Call, send: Send) -> Response:
        if self.refused > 0:
            self.refused -= 1
            return self._refuse(call)
        answer = await send(call)
        if answer.stream is None:
            return answer
        cut = _Cut(answer.stream, self.random, self.open)
        return Response(status=answer.status, headers=answer.headers, stream=cut)

    def _refuse(self, call: Call) -> Response:
        how = self.random.randrange(5)
        if how == 0:
            raise Unreachable("the connection was refused", is_sent=False)
        if how == 1:
            raise Unreachable("the connection was reset")
        status, reason = ((500, "InternalError"), (429, "TooManyRequests"), (410, "Expired"))[how - 2]
        body = f'{{"kind":"Status","apiVersion":"v1","status":"Failure","code":{status},"reason":"{reason}"}}'
        del call
        return Response(status=status, headers=Headers({"content-type": "application/json"}), body=body.encode())

    def cut_all(self) -> None:
        """Breaks every stream that is open, each in one of the ways in which streams break."""
        for one in list(self.open):
            one.cut()


class _Cut:
    """A body that can be broken off: at its end, in the middle of a line, or with an error."""

    def __init__(self, pieces: BodyStream, random: Random, among: "set[_Cut]") -> None:
        self._pieces = pieces
        self._random = random
        self._among = among
        self._broken: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        among.add(self)

    def cut(self) -> None:
        if not self._broken.done():
            self._broken.set_result(self._random.randrange(3))

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._read()

    async def _read(self) -> AsyncIterator[bytes]:
        inner = aiter(self._pieces)
        while True:
            following = asyncio.create_task(self._next(inner))
            try:
                both: list[asyncio.Future[Any]] = [following, self._broken]
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            finally:
                if not following.done():
                    following.cancel()
                    await asyncio.gather(following, return_exceptions=True)
            piece = following.result() if not following.cancelled() else None
            if self._broken.done():
                how = self._broken.result()
                if how == 1 and piece:
                    yield piece[: len(piece) // 2]
                if how == 2:
                    raise Unreachable("the stream was cut")
                return
            if piece is None:
                return
            yield piece

    @staticmethod
    async def _next(inner: AsyncIterator[bytes]) -> bytes | None:
        return await anext(inner, None)

    async def aclose(self) -> None:
        self._among.discard(self)
        self.cut()
        await self._pieces.aclose()


class Storm:
    """One server, a writing client, a watching client with faults, and the subscribers of its cache."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.server = ApiServer(random=Random(seed))
        self.faults = Faults(self.random)
        self.by_color = Index(Settings, colors)
        self.by_tier = by_label("tier")
        self.streamed: dict[Ref[Any], Settings] = {}
        self.followers: list[Follower] = []
        self.errors: list[WatchError] = []
        self.steps = 0
        self._quiet = 0
        self._fresh: dict[Ref[Any], Settings] | None = None

    async def run(self, steps: int, *, every: int = 40) -> None:
        """Runs random steps, with a quiet point after every few of them."""
        await self.server.start(listen=False)
        async with (
            await Client.connect(self.server) as self.writer,
            await Client.connect(self.server, wire_hooks=[self.faults]) as self.reader,
            Cluster(self.reader) as self.cluster,
            self.cluster.declare(
                Settings, labels="app=storm", page_size=self.random.choice([1, 3, 7, 500]), indexes=[self.by_color]
            ) as self.handle,
            asyncio.TaskGroup() as group,
        ):
            listener = group.create_task(self._stream(), name="stream")
            await self.handle.add_index(self.by_tier)
            for self.steps in range(1, steps + 1):
                await self._step(group)
                if self.steps % every == 0:
                    await self._check()
            listener.cancel()
            for one in self.followers:
                one.close()
        await self.server.stop()

    async def _step(self, group: asyncio.TaskGroup) -> None:
        chance = self.random.random()
        if chance < 0.70:
            await self._write()
        elif chance < 0.78:
            self.faults.cut_all()
        elif chance < 0.82:
            self.faults.refused = self.random.randrange(1, 4)
            self.faults.cut_all()
        elif chance < 0.86:
            storage = self.server.state.storage
            await storage.compact(storage.revision)
        elif chance < 0.90:
            await asyncio.sleep(self.random.choice([0, 0.01, 1, 30, 400]))
        elif chance < 0.94:
            self._follow(group)
        elif self.followers and chance < 0.96:
            self.followers.pop(self.random.randrange(len(self.followers))).close()
        else:
            for one in self.followers:
                one.is_slow = self.random.random() < 0.5

    def _follow(self, group: asyncio.TaskGroup) -> None:
        if len(self.followers) < 4:
            self.followers.append(Follower(self.handle.subscribe(), group))

    async def _write(self) -> None:
        ref = Ref(Settings, self.random.choice(NAMES), self.random.choice(NAMESPACES))
        found = await self.writer.find(ref)
        if found is None:
            await self.writer.create(self._made(ref))
        elif self.random.random() < 0.25:
            await self.writer.delete(ref)
        elif self.random.random() < 0.15:
            await self.writer.update(found.with_metadata(labels={"app": "other"}))  # leaves the selector
        else:
            new = self._made(ref)
            await self.writer.update(replace(found.with_metadata(labels=new.metadata.labels), data=new.data))

    def _made(self, ref: Ref[Settings]) -> Settings:
        some = [one for one in COLORS if self.random.random() < 0.5]
        labels = {"app": "storm", "tier": self.random.choice("ab")}
        metadata = ObjectMeta(name=ref.name, namespace=ref.namespace, labels=labels)
        return Settings(metadata=metadata, data={"colors": " ".join(some), "step": str(self.steps)})

    async def _stream(self) -> None:
        watching = watch(
            self.reader, Settings, labels="app=storm", page_size=2, streaming=False, on_error=self.errors.append
        )
        async with watching as events:
            async for event in events:
                self._replay(event)

    def _replay(self, event: Event[Settings]) -> None:
        match event:
            case Init():
                self._fresh = {}
            case InitApply(item):
                assert self._fresh is not None, "InitApply outside of Init and InitDone"
                self._fresh[item.ref] = item.object
            case InitDone():
                assert self._fresh is not None
                self.streamed, self._fresh = self._fresh, None
            case Apply(item):
                assert self._fresh is None, "Apply between Init and InitDone"
                self.streamed[item.ref] = item.object
            case Delete(item):
                assert self._fresh is None, "Delete between Init and InitDone"
                self.streamed.pop(item.ref, None)

    async def _check(self) -> None:
        """A quiet point: waits until the last write has arrived, then compares everything with the server."""
        self._quiet += 1
        self.faults.refused = 0
        labels = {"app": "storm", "tier": "a"}
        mark = Ref(Settings, f"mark-{self._quiet % 2}", "default")
        with contextlib.suppress(NotFound):
            await self.writer.delete(mark)
        made = await self.writer.create(
            Settings(metadata=ObjectMeta(name=mark.name, namespace="default", labels=labels), data={})
        )
        for one in self.followers:
            one.is_slow = False
        places: list[Callable[[], Settings | None]] = [
            lambda: self.handle.store.get(mark),
            lambda: self.streamed.get(mark),
            *[lambda one=one: one.seen.get(mark) for one in self.followers],
        ]
        async with asyncio.timeout(3600):  # of virtual time
            # Of virtual time, and there is nothing else to wait for.
            while not all((got := place()) and got.metadata.uid == made.metadata.uid for place in places):  # noqa: ASYNC110
                await asyncio.sleep(0.5)
        await self._compare()

    async def _compare(self) -> None:
        strange = [one for one in self.errors if isinstance(one.error, BadObject)]
        assert not strange, f"everything that the server said can be read, but not {strange[0]}"
        truth = {one.ref: one for one in await self.writer.list(Settings, labels="app=storm")}
        store = self.handle.store
        assert {one.ref: one for one in store.state()} == _stripped(truth), f"the store differs, step {self.steps}"
        assert _stripped(self.streamed) == _stripped(truth), f"the stream differs, step {self.steps}"
        for number, one in enumerate(self.followers):
            assert one.seen == _stripped(truth), f"follower {number} differs, step {self.steps}"
        for color in COLORS:
            wanted = {ref for ref, one in truth.items() if color in colors(one)}
            assert {one.ref for one in store.by(self.by_color, color)} == wanted
        for tier in "ab":
            wanted = {
                ref for ref, one in truth.items() if LabelSelector.parse(f"tier={tier}").matches(one.metadata.labels)
            }
            assert {one.ref for one in store.by(self.by_tier, tier)} == wanted


def _stripped(objects: dict[Ref[Any], Settings]) -> dict[Ref[Any], Settings]:
    """Without managed fields, which a cache drops."""
    return {ref: one.with_metadata(managed_fields=()) for ref, one in objects.items()}


class Follower:
    """A subscriber that replays the changes, sometimes slowly."""

    def __init__(self, subscription: Any, group: asyncio.TaskGroup) -> None:
        self.seen: dict[Ref[Any], Settings] = {}
        self.is_slow = False
        self._subscription = subscription
        group.create_task(self._follow(), name="follower")

    async def _follow(self) -> None:
        async for change in self._subscription:
            self._take(change)
            if self.is_slow:
                await asyncio.sleep(20)

    def _take(self, change: Change[Settings]) -> None:
        if change.new is None:
            assert change.old is not None, "a delete without the old object"
            self.seen.pop(change.ref, None)
        else:
            self.seen[change.ref] = change.new.object

    def close(self) -> None:
        self._subscription.close()
