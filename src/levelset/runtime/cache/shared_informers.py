"""The shared informers of one client: one watch for each kind, namespace and selector.

Opening the same scope twice shares the watch and the objects; closing the last handle ends it. Typed and unstructured
readers of a kind share too, because objects are cached as bytes and decoded with each reader's own class. A watch that
fails, for lack of a permission or of the kind itself, affects only its own readiness.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any, Self, TypedDict, TypeVar, Unpack, overload

import msgspec

from levelset.client.client import Client
from levelset.client.lists import Transform
from levelset.client.object_types import Kind, OnlyMetadata, View, view_of
from levelset.client.requests import Fields, Labels, read_fields, read_labels
from levelset.errors import ConfigError
from levelset.objects.field_selectors import FieldSelector
from levelset.objects.label_selectors import LabelSelector
from levelset.objects.ref import GroupVersionKind
from levelset.objects.resource import PartialObjectMetadata
from levelset.objects.unstructured import Unstructured
from levelset.runtime.cache.index import Index, ReportError
from levelset.runtime.cache.informer import BatchTap, EventSource, Handle, Informer, Stats
from levelset.runtime.cache.object_store import DECODED_BYTES, DecodedBudget
from levelset.runtime.cache.scope import Scope
from levelset.runtime.cache.subscribers import log_error
from levelset.runtime.watch.watcher import ErrorLogger, OnError, Watcher

__all__ = ["Handle", "Informers", "OpenOptions"]

K = TypeVar("K")


class OpenOptions(TypedDict, total=False):
    """Which objects an informer caches, which of their fields, and its indexes."""

    namespace: str | None
    labels: Labels | None
    fields: Fields | None
    transform: Transform | None
    managed_fields: bool
    indexes: Iterable[Index[Any]]
    page_size: int


class _Key(msgspec.Struct, frozen=True):
    """What must be equal for two handles to share a watch."""

    scope: Scope
    transform: Transform | None
    managed_fields: bool


class Informers:
    """Opens informers and counts their handles; `aclose`, or the end of an `async with`, ends them all."""

    def __init__(
        self,
        client: Client,
        *,
        report: ReportError = log_error,
        on_error: OnError | None = None,
        decoded_bytes: int = DECODED_BYTES,
        **watching: Any,
    ) -> None:
        """Creates it without informers; `watching` are more options for every `Watcher`, such as `streaming`.

        `decoded_bytes` is the memory that the decoded objects of all informers may take (see `DecodedBudget`).
        """
        self._client = client
        self._budget = DecodedBudget(decoded_bytes)
        self._report = report
        self._on_error = on_error
        self._watching = watching
        self._shared: dict[_Key, _Shared] = {}
        self._tap: BatchTap | None = None
        self._closed = False

    def __len__(self) -> int:
        """The number of open informers."""
        return len(self._shared)

    @property
    def informers(self) -> tuple[Informer, ...]:
        """The open informers."""
        return tuple(one.informer for one in self._shared.values())

    @overload
    def open(self, kind: type[K], **options: Unpack[OpenOptions]) -> Handle[K]: ...
    @overload
    def open(self, kind: GroupVersionKind, **options: Unpack[OpenOptions]) -> Handle[Unstructured]: ...
    @overload
    def open(self, kind: OnlyMetadata, **options: Unpack[OpenOptions]) -> Handle[PartialObjectMetadata]: ...
    @overload
    def open(self, kind: Kind[K], **options: Unpack[OpenOptions]) -> Handle[K]: ...
    def open(
        self,
        kind: Any,
        *,
        namespace: str | None = None,
        labels: Labels | None = None,
        fields: Fields | None = None,
        transform: Transform | None = None,
        managed_fields: bool = False,
        indexes: Iterable[Index[Any]] = (),
        page_size: int = 500,
    ) -> Handle[Any]:
        """A handle of the informer for these objects, which is started if it is not open yet.

        `transform` changes the bytes of each object before it is cached. Pass the same function each time, not a new
        lambda: informers with different transforms are not shared. `page_size` is that of the first call.
        """
        if self._closed:
            raise ConfigError("these informers are closed; create a new Informers")
        view: View[Any] = view_of(kind)
        namespace = self._confined(namespace)
        key = _Key(_scope(view, namespace, labels, fields, is_changed=transform is not None), transform, managed_fields)
        shared = self._shared.get(key)
        if shared is None:
            watch = partial(self._watch, kind, key, page_size)
            on_error = ErrorLogger() if self._on_error is None else self._on_error
            informer = Informer(key.scope, view, watch, report=self._report, on_error=on_error, budget=self._budget)
            shared = _Shared(informer)
        handle: Handle[Any] = Handle(shared.informer, view, partial(self._release, key, shared))
        handle.begin_indexes(indexes)
        shared.users += 1
        shared.informer.tap = self._tap
        if self._shared.setdefault(key, shared).users == 1:
            shared.informer.start()
        return handle

    def attach(self, tap: BatchTap | None) -> None:
        """Has this tap see what all informers apply, those that are opened later too; None detaches it."""
        self._tap = tap
        for informer in self.informers:
            informer.tap = tap

    def stats(self) -> list[Stats]:
        """The statistics of each informer."""
        return [informer.stats() for informer in self.informers]

    async def aclose(self) -> None:
        """Ends all watches and returns when they have ended; subscriptions deliver their remaining changes and end."""
        self._closed = True
        informers = self.informers
        self._shared.clear()
        for informer in informers:
            informer.close()
        for informer in informers:
            await informer.aclose()

    async def __aenter__(self) -> Self:
        if self._closed:
            raise ConfigError("these informers are closed; create a new Informers")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _confined(self, namespace: str | None) -> str | None:
        """The namespace to watch: a client that is confined to one namespace must not appear to show all of them."""
        only = self._client.only_namespace
        if only is not None and namespace not in {None, only}:
            raise ConfigError(f"this client is confined to namespace {only} and cannot read namespace {namespace}")
        return namespace or only

    def _watch(self, kind: Kind[Any], key: _Key, page_size: int, on_error: OnError) -> EventSource:
        scope = key.scope
        made: Watcher[Any] = Watcher(
            self._client,
            kind,
            namespace=scope.namespace,
            labels=None if scope.labels.is_everything else scope.labels,
            fields=None if scope.fields.is_everything else scope.fields,
            page_size=page_size,
            managed_fields=key.managed_fields,
            transform=key.transform,
            on_error=on_error,
            **self._watching,
        )
        return made

    async def _release(self, key: _Key, shared: "_Shared") -> None:
        shared.users -= 1
        if shared.users == 0 and self._shared.get(key) is shared:
            del self._shared[key]  # before the await: a concurrent open must get a new informer
            await shared.informer.aclose()


class _Shared:
    """An informer and the number of its handles."""

    __slots__ = ("informer", "users")

    def __init__(self, informer: Informer) -> None:
        self.informer = informer
        self.users = 0


def _scope(
    view: View[Any], namespace: str | None, labels: Labels | None, fields: Fields | None, *, is_changed: bool
) -> Scope:
    if view.definition is not None and not view.definition.namespaced:
        namespace = None
    return Scope(
        view.gvk,
        namespace or None,
        read_labels(labels) or LabelSelector.everything(),
        read_fields(fields) or FieldSelector.everything(),
        is_metadata=view.is_metadata,
        is_changed=is_changed,
    )
