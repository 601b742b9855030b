"""The informers of a controller: its own kind and those of its relations, and who hears of their changes.

All of them are declared at the cluster, which shares them with whoever declares the same. A controller has synced when
each of them has been filled *and* each listener here has been shown what was there.
"""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any, Generic, TypeVar

from levelset.aio import timing
from levelset.cache import Cluster, Handle, Index, Store
from levelset.cache.listening import Listening
from levelset.cache.sources import Source
from levelset.client.kinds import view_of
from levelset.controller import triggers
from levelset.controller.controller import Controller
from levelset.controller.desk import Desk
from levelset.controller.relations import Owns, References, Remembers, Watches
from levelset.controller.requests import REMEMBERED
from levelset.controller.triggers import Listener
from levelset.objects.identity import Ref
from levelset.schedule import NORMAL

__all__ = ["Following", "is_namespaced"]

K = TypeVar("K")


class Following(Generic[K]):
    """What one running controller follows, from `open` until `close`; the informers go on until the stack is left."""

    def __init__(self, controller: Controller[K], cluster: Cluster, desk: Desk) -> None:
        self._controller = controller
        self._cluster = cluster
        self._desk = desk
        self._feeds: list[Listening[Any]] = []
        self._unlisten: list[Any] = []
        self.handles: list[Handle[Any]] = []
        """The informers, the controller's own first."""

    @property
    def own(self) -> Handle[K]:
        """The informer of the controller's own kind."""
        return self.handles[0]

    @property
    def store(self) -> Store[K]:
        """The controller's own objects."""
        return self.own.store

    @property
    def source(self) -> Source:
        """The same as reads see it, with the own writes that it has yet to show."""
        return next(one for one in self._cluster.sources if one.informer is self.own.informer)

    @property
    def is_synced(self) -> bool:
        """Whether everything is there, and has been shown."""
        return all(one.is_ready for one in self.handles) and all(one.is_synced for one in self._feeds)

    async def open(self, stack: AsyncExitStack) -> None:
        """Declares everything and begins to listen; leaving the stack lets go of the informers."""
        controller, indexes = self._controller, await self._indexes()
        own = await stack.enter_async_context(
            self._cluster.declare(
                controller.kind,
                namespace=controller.namespace,
                labels=controller.labels,
                indexes=list(indexes.values()),
            )
        )
        self._hear(own, triggers.self_changes(self._desk.target, controller.when, self._desk.ask_all))
        for relation in controller.relations:
            if isinstance(relation, Remembers):
                self._unlisten.append(relation.states.listen(self._remember))
            elif isinstance(relation, Owns | Watches | References):
                handle = await stack.enter_async_context(
                    self._cluster.declare(
                        relation.kind,
                        namespace=relation.namespace,
                        labels=relation.labels,
                        indexes=relation.indexes,
                    )
                )
                self._hear(handle, self._listener(relation, indexes))

    async def wait_synced(self, within: float | None = None) -> None:
        """Returns once everything is there and has been shown; NotReady names what is not."""
        until = timing.deadline(within)
        for handle in self.handles:
            await handle.wait_ready(timing.remaining(until))
        for feed in self._feeds:
            await feed.wait_synced(timing.remaining(until))

    def close(self) -> None:
        """Listens no more; the objects stay readable."""
        for feed in self._feeds:
            feed.close()
        for unlisten in self._unlisten:
            unlisten()
        self._unlisten.clear()

    def _hear(self, handle: Handle[Any], listener: Listener) -> None:
        self.handles.append(handle)
        self._feeds.append(handle.listen(listener))

    def _remember(self, ref: Ref[Any]) -> None:
        self._desk.ask(self._desk.target.key(ref), REMEMBERED, NORMAL)

    def _listener(self, relation: Owns | Watches | References, indexes: dict[int, Index[Any]]) -> Listener:
        target, ask_all = self._desk.target, self._desk.ask_all
        match relation:
            case Owns():
                return triggers.owners(target, relation, ask_all)
            case Watches():
                return triggers.targets(target, relation, ask_all)
            case References():
                return triggers.referrers(target, relation, indexes[id(relation)], self.store, ask_all)

    async def _indexes(self) -> dict[int, Index[Any]]:
        found: dict[int, Index[Any]] = {}
        for relation in self._references():
            found[id(relation)] = triggers.reference_index(
                relation,
                self._controller.kind,
                namespaced=await is_namespaced(self._cluster, relation.kind),
                namespace=self._cluster.client.namespace,
            )
        return found

    def _references(self) -> Sequence[References]:
        return [one for one in self._controller.relations if isinstance(one, References)]


async def is_namespaced(cluster: Cluster, kind: Any) -> bool:
    """Whether the objects of a kind live in namespaces; the server is asked only about a kind without a class."""
    view = view_of(kind)
    if view.definition is not None:
        return view.definition.namespaced
    return (await cluster.client.resource(kind)).namespaced
