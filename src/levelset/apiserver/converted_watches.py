"""Watches of kinds that a webhook converts: each has a task of its own, which waits for conversions as they are needed.

Others are pushed by whoever writes (`feeds`), and nobody may wait there. Here the changes of a batch are converted with
one call, and then sent in their order. A change that cannot be converted ends the watch with an error, as it does in
Kubernetes: the client lists again.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Final

from levelset.apiserver import ahead
from levelset.apiserver.watchevents import Encoder, Topic, error_event
from levelset.apiserver.world import World
from levelset.errors import ApiError
from levelset.storage import Change, Item
from levelset.web import Sink

__all__ = ["ConvertedWatch"]

_AT_A_TIME: Final = 250
_BOOKMARK_EVERY: Final = 60.0


class ConvertedWatch:
    """One open watch; `run` sends its events until its sink is closed."""

    def __init__(self, world: World, topic: Topic, sink: Sink, *, after: int | None, ends_initial: bool) -> None:
        self._world = world
        self._topic = topic
        self._sink = sink
        self._after = after
        self._ends_initial = ends_initial
        self._encoder = Encoder(topic, world.now)
        self._is_headed = False
        self._timer: asyncio.TimerHandle | None = None
        self._revision = min(after or 0, world.storage.revision)

    async def run(self, *, bookmarks: bool) -> None:
        """Sends what is there (unless the watch begins after a revision), and then every change."""
        if bookmarks:
            self._mark_later()
        try:
            await self._send_all()
        except ApiError as error:
            # Forgotten history, or an object that nobody could convert.
            self._sink.write(error_event(error))
            self._sink.close()
        finally:
            if self._timer is not None:
                self._timer.cancel()

    def mark(self) -> None:
        """Sends a bookmark: up to its revision everything was sent."""
        if self._revision and not self._sink.is_closed:
            self._sink.write(self._encoder.bookmark(self._revision, headed=self._heads()))

    async def _send_all(self) -> None:
        if self._after is None:
            page = await self._world.storage.list(self._topic.prefix)
            for start in range(0, len(page.items), _AT_A_TIME):
                await self._send_present(page.items[start : start + _AT_A_TIME])
            self._revision = page.revision
            if self._ends_initial:
                self._sink.write(self._encoder.bookmark(page.revision, ends_initial=True, headed=self._heads()))
        async with aclosing(self._batches()) as batches:
            async for batch in batches:
                await self._send_changes(batch)
                self._revision = batch[-1].revision

    async def _batches(self) -> AsyncGenerator[Sequence[Change], None]:
        async with self._world.storage.watch(self._topic.prefix, after=self._revision) as watch:
            async for batch in watch:
                if self._sink.is_closed:
                    return
                yield batch

    async def _send_present(self, items: Sequence[Item]) -> None:
        await self._send(items, [partial(self._encoder.added, item) for item in items])

    async def _send_changes(self, batch: Sequence[Change]) -> None:
        items = [item for change in batch for item in (change.before, change.after) if item is not None]
        await self._send(items, [partial(self._encoder.change, change) for change in batch])

    async def _send(self, items: Sequence[Item], events: Sequence[Callable[..., bytes | None]]) -> None:
        if self._sink.is_backed_up:
            await self._sink.wait_drained()
        if self._sink.is_closed:
            return
        await ahead.convert(self._topic.served, items)
        for event in events:
            made = event(headed=not self._is_headed)
            if made is not None:
                self._is_headed = True
                self._sink.write(made)

    def _heads(self) -> bool:
        """Whether the next event is the first, which carries the columns of a table."""
        is_first, self._is_headed = not self._is_headed, True
        return is_first

    def _mark_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_BOOKMARK_EVERY, self._mark_again)

    def _mark_again(self) -> None:
        self.mark()
        self._mark_later()
