"""A hold on an informer: the objects read with one class, and the ways to hear of their changes."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Generic, Self, TypeVar

from levelset.cache.changes import Change
from levelset.cache.feeds import Feed
from levelset.cache.index import Index
from levelset.cache.informer import Informer
from levelset.cache.listening import Listening
from levelset.cache.scopes import Scope
from levelset.cache.stats import Stats
from levelset.cache.store import Store
from levelset.cache.subscription import Subscription
from levelset.client.kinds import View
from levelset.errors import ConfigError
from levelset.watching.troubles import Trouble

__all__ = ["Handle"]

K = TypeVar("K")
F = TypeVar("F", bound=Feed[Any])


class Handle(Generic[K]):
    """One user of a shared informer; the watch ends when the last of its handles is closed.

    Several handles may read the same informer with different classes. What was subscribed through a handle is closed
    with it.
    """

    def __init__(self, informer: Informer, view: View[K], release: Callable[[], Awaitable[None]]) -> None:
        self.informer = informer
        self.view = view
        self.store: Store[K] = Store(informer.table, view, informer.readiness, report=informer.report)
        self._release = release
        self._feeds: list[Feed[Any]] = []
        self._closed = False

    def __repr__(self) -> str:
        return f"<Handle of {self.scope}{', closed' if self._closed else ''}>"

    @property
    def scope(self) -> Scope:
        """Which objects the informer holds."""
        return self.informer.scope

    @property
    def is_ready(self) -> bool:
        """Whether the objects are there and kept current; not while the kind is gone, or a permission."""
        return self.informer.is_ready

    @property
    def is_closed(self) -> bool:
        """Whether this handle has been closed; the informer may go on for others."""
        return self._closed

    @property
    def trouble(self) -> Trouble | None:
        """What keeps the watch from going well; None if it does. Objects that are there stay readable in the store."""
        return self.informer.trouble

    async def wait_ready(self, within: float | None = None) -> None:
        """Returns once the objects and their indexes are there; NotReady, with the last trouble as its cause, if not.

        A kind that does not exist (yet, or any more) or a missing permission is such a trouble, also after everything
        had been there once; the watch goes on trying. What passes by itself, such as a server that restarts, is none.
        """
        await self.store.wait_ready(within)
        await self.informer.build_indexes()

    def subscribe(self, *, replay: bool = True) -> Subscription[K]:
        """The changes, one by one at the reader's pace: first what is there (if wanted), then what comes."""
        self._refuse_if_closed()
        return self._own(self.informer.subscribe(self.view, replay=replay))

    def listen(self, call: Callable[[Sequence[Change[K]]], None], *, replay: bool = True) -> Listening[K]:
        """Has a function called with each batch of changes at the moment it happens; for queues and the like."""
        self._refuse_if_closed()
        return self._own(self.informer.listen(self.view, call, replay=replay))

    async def add_index(self, index: Index[Any]) -> None:
        """Keeps this index from now on, and returns when it covers what is here; lets others run meanwhile."""
        self._refuse_if_closed()
        await self.informer.add_index(index)

    def begin_indexes(self, indexes: Iterable[Index[Any]]) -> None:
        """Keeps these indexes from now on; `wait_ready`, or the first who looks something up, builds them."""
        for index in indexes:
            self.store.begin_index(index)

    def stats(self) -> Stats:
        """How the informer is doing, in numbers."""
        return self.informer.stats()

    async def aclose(self) -> None:
        """Lets go of the informer; returns, for the last handle, when the watch has ended. A second time is nothing."""
        if not self._closed:
            self._closed = True
            for feed in self._feeds:
                feed.close()
            self._feeds.clear()
            await self._release()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _own(self, feed: F) -> F:
        self._feeds = [one for one in self._feeds if not one.is_closed]
        self._feeds.append(feed)
        return feed

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise ConfigError(f"this handle of {self.scope} is closed; open another one")
