"""A watch that never ends: batches of what is new about the objects of one kind.

This is what a cache wants. `levelset.watching.watch` makes a stream of single events of it.
"""

import random as stdlib_random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, Self, TypedDict, TypeVar

from levelset.aio.backoff import Backoff
from levelset.aio.streams import Stream
from levelset.client.keeping import Transform
from levelset.client.kinds import Kind, View, view_of
from levelset.client.reading import Reading
from levelset.client.selecting import Fields, Labels, read_fields, read_labels
from levelset.errors import ConfigError
from levelset.watching.asking import Question
from levelset.watching.events import Event
from levelset.watching.machine import Machine
from levelset.watching.running import Pace, Run
from levelset.watching.transforms import guarded
from levelset.watching.troubles import OnTrouble, Teller, Trouble

__all__ = ["WatchOptions", "Watcher"]

K = TypeVar("K")

_BACKOFF: Final = Backoff()


class WatchOptions(TypedDict, total=False):
    """The options of a `Watcher`, for those who pass them on."""

    namespace: str | None
    labels: Labels | None
    fields: Fields | None
    page_size: int | None
    streaming: bool | None
    any_version: bool
    watch_timeout: float
    idle_timeout: float
    backoff: Backoff
    on_trouble: OnTrouble | None
    managed_fields: bool
    transform: Transform | None
    random: Callable[[], float]


class Watcher(AsyncIterator[list[Event[K]]]):
    """Batches of events about the objects of one kind, for one reader; nothing is asked before somebody reads.

    It never ends by itself, and what can be healed is never raised: `on_trouble` is told instead (the default writes to
    the log), and `trouble` is the last of it until things go well again. A batch may be empty: then only
    `resource_version` has moved on, or a watch that was refused has been opened again.

    `watch_timeout` is for how many seconds a watch is asked for, or up to a quarter less, so that many do not end
    together. `idle_timeout` is how long nothing may come, not even a bookmark (which servers send every minute), before
    the connection counts as dead and is made anew. See `machine` for `streaming` and `any_version`.

    With `as_kept` the batches are of `Told`, which is less work for whoever keeps the objects.
    """

    def __init__(
        self,
        client: Reading,
        kind: Kind[K],
        *,
        namespace: str | None = None,
        labels: Labels | None = None,
        fields: Fields | None = None,
        page_size: int | None = 500,
        streaming: bool | None = None,
        any_version: bool = False,
        watch_timeout: float = 290.0,
        idle_timeout: float = 75.0,
        backoff: Backoff = _BACKOFF,
        on_trouble: OnTrouble | None = None,
        managed_fields: bool = False,
        transform: Transform | None = None,
        random: Callable[[], float] = stdlib_random.random,
        as_kept: bool = False,
    ) -> None:
        if watch_timeout < 2 or idle_timeout <= 0:
            raise ConfigError("a watch needs a watch_timeout of at least 2 seconds and a positive idle_timeout")
        self.view: View[K] = view_of(kind)
        self.namespace = namespace
        teller = Teller(self.view.gvk, namespace, on_trouble)
        question = Question(
            client=client,
            kind=kind,
            namespace=namespace,
            labels=read_labels(labels),
            fields=read_fields(fields),
            managed_fields=managed_fields,
            transform=None if transform is None else guarded(transform, teller.tell_aside),
            as_kept=as_kept,
        )
        machine = Machine(self.view, page_size=page_size, streaming=streaming, any_version=any_version, as_kept=as_kept)
        pace = Pace(backoff=backoff, watch_timeout=watch_timeout, idle_timeout=idle_timeout, random=random)
        self._run: Run[K] = Run(question, machine, teller, pace)
        self._stream: Stream[list[Event[K]]] = Stream(self._run)

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Awaitable[list[Event[K]]]:
        return self._stream.__anext__()

    async def aclose(self) -> None:
        """Ends the watch and returns when its connection is closed; may be called again, and by any task."""
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @property
    def resource_version(self) -> str | None:
        """The batches so far have told everything up to this version; None before the first list is complete."""
        return self._run.told

    @property
    def trouble(self) -> Trouble | None:
        """What keeps the watch from going well; None if it does."""
        return self._run.trouble()

    @property
    def lists(self) -> int:
        """How many complete lists there were: one, and one for each time that the watch could not simply go on."""
        return self._run.machine.lists

    @property
    def relists(self) -> int:
        """How many complete lists there were after the first."""
        return max(0, self.lists - 1)

    @property
    def reconnects(self) -> int:
        """How many watches were opened after the first."""
        return max(0, self._run.opens - 1)

    @property
    def bookmarks(self) -> int:
        """How many bookmarks came."""
        return self._run.machine.bookmarks

    @property
    def errors(self) -> int:
        """How many troubles were told."""
        return self._run.teller.count

    @property
    def last_heard(self) -> float | None:
        """When the server last sent something, on the loop's clock."""
        return self._run.last_heard
