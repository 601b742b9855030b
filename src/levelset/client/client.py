"""The client: one object with a method for every verb of the Kubernetes API.

```python
client = await Client.connect()  # KUBECONFIG, in-cluster, or ~/.kube/config
async with client:
    site = await client.get(Website, "blog")
```

A kind is a class (typed objects), a `GroupVersionKind` (`Unstructured`) or `OnlyMetadata` of either: see
`object_types.py`. Requests are built in `requests.py` and sent through the hooks and retries of `request_pipeline.py`;
error responses become the exceptions of `levelset.errors` in `responses.py`. What other levelset packages need beyond
the public verbs is in `internals.py`.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Generic, Literal, Protocol, Self, TypedDict, TypeVar, Unpack, overload

import msgspec

from levelset.aio import timing
from levelset.aio.backoff import Backoff
from levelset.client import requests
from levelset.client.config.config import Config
from levelset.client.config.loader import load_config
from levelset.client.discovery import ApiResource, served_by
from levelset.client.lists import Items, ObjectPage, Transform, read_page
from levelset.client.object_types import Kind, ObjectScale, OnlyMetadata, View, view_of
from levelset.client.patches import MergePatch, Patch
from levelset.client.pod_logs import LogLines
from levelset.client.request_body import (
    RequestBody,
    Write,
    delete_options,
    is_gone,
    kind_of_definition,
    read_subresource,
    request_body_of,
    write_of,
)
from levelset.client.request_pipeline import RequestPipeline
from levelset.client.requests import (
    APPLY,
    Fields,
    Labels,
    Match,
    Propagation,
    ResourceInfo,
    Target,
    Validation,
)
from levelset.client.responses import retry_after_of
from levelset.client.rest_mapper import RestMapper
from levelset.client.transport.in_process import InProcessServer, InProcessTransport
from levelset.client.transport.interface import Call, CallTap, Hook, Response, Transport
from levelset.client.transport.retry import Retries
from levelset.client.transport.sockets import SocketTransport
from levelset.client.watch_events import EventReader
from levelset.client.watch_request import WatchStream
from levelset.errors import (
    AlreadyExists,
    ApplyConflict,
    BadName,
    ConfigError,
    Conflict,
    Deadline,
    Expired,
    NotFound,
    ServerFailed,
    TooManyRequests,
    Unreachable,
)
from levelset.http.messages import Peer
from levelset.objects import codec
from levelset.objects.cached_object import CachedObject
from levelset.objects.field_selectors import FieldSelector
from levelset.objects.json_tree import same
from levelset.objects.ref import GroupVersionKind, Ref
from levelset.objects.resource import Object, PartialObjectMetadata
from levelset.objects.unstructured import Unstructured

__all__ = [
    "ApplyOptions",
    "Client",
    "ClientSettings",
    "DeleteOptions",
    "EnsureOutcome",
    "Ensured",
    "ObjectWriteOptions",
    "ResourceResolver",
    "ServerLocation",
    "WriteObserver",
    "WriteOptions",
    "kind_and_name",
    "open_transport",
    "retry_on_conflict",
]

K = TypeVar("K")
T = TypeVar("T")
O = TypeVar("O", bound=Object | Unstructured)  # noqa: E741  # the letter the type checker shows
O_co = TypeVar("O_co", covariant=True)  # the letter the type checker shows

_CRD: Final = "CustomResourceDefinition"
_log: Final = logging.getLogger("levelset.client")
_RETRIES: Final = Retries()
_CONFLICT_BACKOFF: Final = Backoff(first=0.01, factor=5.0, cap=1.0)

ServerLocation = InProcessServer | Config | str | Path | None
"""A server of this process, a Config, the path of a kubeconfig, or None for KUBECONFIG, in-cluster, ~/.kube/config."""

WriteObserver = Callable[[Write], None]
"""Called with each write that succeeded, before the verb returns. What it raises is logged: the write has happened."""

EnsureOutcome = Literal["created", "unchanged", "updated"]


class ClientSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults of a client; most can be overridden per call."""

    namespace: str = "default"
    manager: str = "levelset"
    timeout: float = 30.0
    dry_run: bool = False
    validation: Validation | None = None
    only_namespace: str | None = None
    """The one namespace that this client is confined to; None for all."""

    def __post_init__(self) -> None:
        seconds: object = self.timeout
        if not isinstance(seconds, int | float) or not seconds > 0:
            raise ConfigError(f"timeout={seconds!r}: every request has a timeout; give seconds, more than 0")


class ResourceResolver(Protocol):
    """Maps a kind to the resource that serves it, as `RestMapper` does."""

    async def resource(self, gvk: GroupVersionKind, /) -> ApiResource:
        """The resource of a kind; UnknownKind if the server does not serve it."""
        ...


class WriteOptions(TypedDict, total=False):
    """Options of every write: the field manager, dry run, and the validation of unknown fields."""

    manager: str | None
    dry_run: bool
    validation: Validation | None


_WRITE_OPTIONS: Final = frozenset(WriteOptions.__annotations__)


class ObjectWriteOptions(WriteOptions, total=False):
    """Options of create and update: a namespace, or a subresource of the object `on`."""

    namespace: str | None
    on: Ref[Any] | None
    subresource: str | None


class ApplyOptions(TypedDict, total=False):
    """Options of a server-side apply; `force` takes over fields that other managers own."""

    namespace: str | None
    subresource: str | None
    manager: str | None
    force: bool
    dry_run: bool


class DeleteOptions(TypedDict, total=False):
    """Options of a delete; `uid` and `resource_version` are preconditions."""

    propagation: Propagation | None
    grace: int | None
    uid: str | None
    resource_version: str | None
    missing_ok: bool
    dry_run: bool


class Ensured(msgspec.Struct, Generic[O_co], frozen=True):
    """The object after an `ensure`, and what was done to get there."""

    object: O_co
    done: EnsureOutcome


class Client:
    """Typed, unstructured and metadata-only access to every kind of one API server.

    `transport` sends the requests (`Client.connect` makes it), `mapper` finds the resource of a kind, by discovery
    unless given. A call takes at most `timeout` seconds, with its `retries`. Reads and writes of a namespaced object
    without a namespace use the client's `namespace`; lists and watches without one cover all namespaces. `hooks` see
    each verb once, `wire_hooks` each attempt of it; both may respond in place of the server. `on_warning` is called
    with each warning of the server; by default each distinct warning is logged once.

    Every write takes `dry_run` (the server does everything but store), `manager` (the field manager) and, where
    fields are checked, `validation`; the client's settings are the defaults.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        namespace: str = "default",
        mapper: ResourceResolver | None = None,
        manager: str = "levelset",
        timeout: float = 30.0,
        retries: Retries = _RETRIES,
        hooks: Sequence[Hook] = (),
        wire_hooks: Sequence[Hook] = (),
        dry_run: bool = False,
        validation: Validation | None = None,
        on_warning: Callable[[Call, str], None] | None = None,
    ) -> None:
        pipeline = RequestPipeline(
            transport, retries=retries, hooks=hooks, wire_hooks=wire_hooks, on_warning=on_warning
        )
        self._pipeline = pipeline
        self._settings = ClientSettings(
            namespace=namespace, manager=manager, timeout=timeout, dry_run=dry_run, validation=validation
        )
        self._mapper: ResourceResolver = RestMapper(pipeline.send_raw, timeout=timeout) if mapper is None else mapper
        self._observers: list[WriteObserver] = []
        self._owns_transport = True

    @classmethod
    async def connect(
        cls,
        where: ServerLocation = None,
        /,
        *,
        context: str | None = None,
        peer: Peer | None = None,
        namespace: str | None = None,
        **options: Any,
    ) -> Self:
        """A client of the server in a kubeconfig, of one that a Config describes, or of one in this process.

        Without an argument KUBECONFIG, the in-cluster config and `~/.kube/config` are tried, in that order. `peer` is
        the user for a server in this process, its owner by default; `options` are those of `Client`.
        """
        transport, found = await open_transport(where, context=context, peer=peer)
        return cls(transport, namespace=namespace or found or "default", **options)

    # --- reads ----------------------------------------------------------------------------------------------------

    @overload
    async def get(self, what: Ref[K], /, *, subresource: str | None = None) -> K: ...
    @overload
    async def get(
        self,
        what: type[K],
        name: str,
        /,
        *,
        namespace: str | None = None,
        resource_version: str | None = None,
        subresource: str | None = None,
    ) -> K: ...
    @overload
    async def get(
        self,
        what: GroupVersionKind,
        name: str,
        /,
        *,
        namespace: str | None = None,
        resource_version: str | None = None,
        subresource: str | None = None,
    ) -> Unstructured: ...
    @overload
    async def get(
        self,
        what: OnlyMetadata,
        name: str,
        /,
        *,
        namespace: str | None = None,
        resource_version: str | None = None,
        subresource: str | None = None,
    ) -> PartialObjectMetadata: ...
    async def get(
        self,
        what: Ref[Any] | Kind[Any],
        name: str | None = None,
        /,
        *,
        namespace: str | None = None,
        resource_version: str | None = None,
        subresource: str | None = None,
    ) -> Any:
        """Reads one object from the server; NotFound if it does not exist.

        With `resource_version` the object is at least that new; "0" accepts any version the server has cached.
        """
        view, name, namespace = kind_and_name(what, name, namespace)
        target = await self._object_target(view, name, namespace, subresource)
        call = requests.get(
            target, version=resource_version, is_metadata=view.is_metadata, timeout=self._settings.timeout
        )
        return read_subresource(view, (await self._pipeline.send(call)).body, subresource)

    @overload
    async def find(self, what: Ref[K], /) -> K | None: ...
    @overload
    async def find(self, what: type[K], name: str, /, *, namespace: str | None = None) -> K | None: ...
    @overload
    async def find(
        self, what: GroupVersionKind, name: str, /, *, namespace: str | None = None
    ) -> Unstructured | None: ...
    @overload
    async def find(
        self, what: OnlyMetadata, name: str, /, *, namespace: str | None = None
    ) -> PartialObjectMetadata | None: ...
    async def find(
        self,
        what: Ref[Any] | Kind[Any],
        name: str | None = None,
        /,
        *,
        namespace: str | None = None,
    ) -> Any:
        """Reads one object, None if it does not exist; a kind that is not served raises NotFound or UnknownKind."""
        view, name, namespace = kind_and_name(what, name, namespace)
        target = await self._object_target(view, name, namespace)
        call = requests.get(target, is_metadata=view.is_metadata, timeout=self._settings.timeout)
        try:
            return view.read((await self._pipeline.send(call)).body)
        except NotFound as error:
            if error.details.get("name"):  # set only if the kind is served and the object is missing
                return None
            raise

    @overload
    async def list(
        self,
        kind: type[K],
        /,
        *,
        namespace: str | None = None,
        labels: Labels | None = None,
        fields: Fields | None = None,
        limit: int | None = None,
        continue_: str | None = None,
        resource_version: str | None = None,
        match: Match | None = None,
    ) -> Items[K]: ...
    @overload
    async def list(
        self,
        kind: GroupVersionKind,
        /,
        *,
        namespace: str | None = None,
        labels: Labels | None = None,
        fields: Fields | None = None,
        limit: int | None = None,
        continue_: str | None = None,
        resource_version: str | None = None,
        match: Match | None = None,
    ) -> Items[Unstructured]: ...
    @overload
    async def list(
        self,
        kind: OnlyMetadata,
        /,
        *,
        namespace: str | None = None,
        labels: Labels | None = None,
        fields: Fields | None = None,
        limit: int | None = None,
        continue_: str | None = None,
        resource_version: str | None = None,
        match: Match | None = None,
    ) -> Items[PartialObjectMetadata]: ...
    async def list(self, kind: Kind[Any], /, **options: Any) -> Items[Any]:
        """Lists the objects of a kind, in all namespaces unless one is named; with `limit`, one page of them."""
        view = view_of(kind)
        return Items(await self._list_page(view, is_repeated=True, **options), view)

    @overload
    def each(
        self,
        kind: type[K],
        /,
        *,
        namespace: str | None = None,
        labels: Labels | None = None,
        fields: Fields | None = None,
        page_size: int = 500,
    ) -> AsyncIterator[K]: ...
    @overload
    def each(
        self,
        kind: GroupVersionKind,
        /,
        *,
        namespace: str | None = None,
        labels: Labels | None = None,
        fields: Fields | None = None,
        page_size: int = 500,
    ) -> AsyncIterator[Unstructured]: ...
    @overload
    def each(
        self,
        kind: OnlyMetadata,
        /,
        *,
        namespace: str | None = None,
        labels: Labels | None = None,
        fields: Fields | None = None,
        page_size: int = 500,
    ) -> AsyncIterator[PartialObjectMetadata]: ...
    async def each(self, kind: Kind[Any], /, *, page_size: int = 500, **options: Any) -> AsyncIterator[Any]:
        """Iterates over the objects of a kind, page by page; a page is requested when the one before has been consumed.

        All pages are of the resource version of the first. If that version expires and the server offers an
        inconsistent continue token, iteration continues with it: no object is returned twice, and every object that
        exists during the whole iteration is returned.
        """
        view = view_of(kind)
        token: str | None = None
        while True:
            try:
                page = await self._list_page(view, is_repeated=True, limit=page_size, continue_=token, **options)
            except Expired as error:
                offered = error.details.get("continue")
                if token is None or not offered or offered == token:
                    raise
                token = offered
                continue
            for cached in page.items:
                yield view.read(cached.raw)
            token = page.continue_
            if token is None:
                return

    def watch(
        self,
        kind: Kind[Any],
        /,
        *,
        namespace: str | None = None,
        labels: Labels | None = None,
        fields: Fields | None = None,
        resource_version: str | None = None,
        match: Match | None = None,
        timeout: float | None = None,
        bookmarks: bool = True,
        send_initial_events: bool = False,
        managed_fields: bool = True,
        transform: Transform | None = None,
    ) -> WatchStream:
        """One watch request: `async with client.watch(Website) as batches` yields lists of `WatchEvent`s.

        It ends when the server ends it, after `timeout` seconds if given; for a watch that reconnects and relists use
        `levelset.runtime.watch.watch`.
        """
        view = view_of(kind)

        async def open_() -> Any:
            target = await self._collection_target(view, namespace)
            call = requests.watch(
                target,
                labels=labels,
                fields=fields,
                version=resource_version,
                match=match,
                seconds=timeout,
                bookmarks=bookmarks,
                send_initial_events=send_initial_events,
                is_metadata=view.is_metadata,
                timeout=self._settings.timeout,
            )
            return await self._pipeline.send(call, is_repeated=False)

        return WatchStream(open_, EventReader(view.gvk, managed_fields=managed_fields, transform=transform))

    async def wait(self, ref: Ref[K], condition: Callable[[K], bool], /, *, within: float | None = 30.0) -> K:
        """Waits until the object exists and `condition` holds for it, and returns it; Deadline after `within` seconds.

        Errors of the condition propagate. Server errors that may pass (unreachable, 5xx, 429, expired) are retried
        until the deadline, all others are raised. Needs permission to list and watch, not only to get.
        """
        view: View[K] = view_of(ref.class_ or ref.gvk)
        name = getattr(condition, "__name__", "the condition").strip("<>")

        def check(cached: CachedObject | None) -> bool:
            return cached is not None and condition(view.read(cached.raw))

        cached = await self._wait(ref, check, within, name)
        assert cached is not None  # the check fails for None
        return view.read(cached.raw)

    async def wait_gone(self, ref: Ref[Any], /, *, uid: str | None = None, within: float | None = 30.0) -> None:
        """Waits until the object does not exist; with `uid`, also until another object has its name."""

        def is_gone(cached: CachedObject | None) -> bool:
            return cached is None or (uid is not None and cached.uid != uid)

        await self._wait(ref, is_gone, within, "deletion")

    # --- writes ---------------------------------------------------------------------------------------------------

    @overload
    async def create(self, obj: O, /, **options: Unpack[ObjectWriteOptions]) -> O: ...
    @overload
    async def create(self, obj: Mapping[str, Any], /, **options: Unpack[ObjectWriteOptions]) -> Unstructured: ...
    async def create(
        self,
        obj: Any,
        /,
        *,
        namespace: str | None = None,
        on: Ref[Any] | None = None,
        subresource: str | None = None,
        **options: Any,
    ) -> Any:
        """Creates an object and returns it as stored; AlreadyExists if its name is taken.

        With `on` and `subresource` it is posted to a subresource of another object, such as an Eviction of a Pod.
        """
        body = request_body_of(obj)
        of_other = on is not None or subresource is not None
        if of_other:
            target = await self._subresource_target(body, on, subresource)
        else:
            target = self._body_target(await self._resource(body.view), body, namespace)
        settings = self._write_settings(options) if options else self._settings
        call = requests.create(target, body.encode(), settings, subresource=of_other)
        return self._read_written(await self._pipeline.send(call), body.view, target, is_dry=settings.dry_run)

    @overload
    async def update(self, obj: O, /, **options: Unpack[ObjectWriteOptions]) -> O: ...
    @overload
    async def update(self, obj: Mapping[str, Any], /, **options: Unpack[ObjectWriteOptions]) -> Unstructured: ...
    async def update(
        self,
        obj: Any,
        /,
        *,
        namespace: str | None = None,
        on: Ref[Any] | None = None,
        subresource: str | None = None,
        **options: Any,
    ) -> Any:
        """Replaces a whole object and returns it as stored; Conflict if another writer changed it since it was read.

        An object without a resource version replaces any version, where the kind allows that. One that has a version
        but was not read from a server is refused (BadObject): fields that its class does not define would be lost.
        """
        body = request_body_of(obj)
        body.check_complete()
        if on is not None and subresource is not None:
            target = await self._subresource_target(body, on, subresource)
        else:
            target = self._body_target(await self._resource(body.view), body, namespace, subresource)
        settings = self._write_settings(options) if options else self._settings
        call = requests.update(target, body.encode(), settings)
        return self._read_written(await self._pipeline.send(call), body.view, target, is_dry=settings.dry_run)

    async def update_status(self, obj: O, /, *, manager: str | None = None, dry_run: bool = False) -> O:
        """Replaces the status of an object and returns the object; all other fields are ignored."""
        return await self.update(obj, subresource="status", manager=manager, dry_run=dry_run)

    @overload
    async def patch(
        self,
        what: Ref[K],
        patch: Patch,
        /,
        *,
        subresource: str | None = None,
        only_metadata: Literal[False] = False,
        **options: Unpack[WriteOptions],
    ) -> K: ...
    @overload
    async def patch(
        self,
        what: Ref[Any],
        patch: Patch,
        /,
        *,
        subresource: str | None = None,
        only_metadata: Literal[True],
        **options: Unpack[WriteOptions],
    ) -> PartialObjectMetadata: ...
    async def patch(
        self,
        what: Ref[Any],
        patch: Patch,
        /,
        *,
        subresource: str | None = None,
        only_metadata: bool = False,
        **options: Any,
    ) -> Any:
        """Patches an object and returns it as stored, or only its metadata; NotFound if it does not exist."""
        if not isinstance(patch, Patch):  # most often a plain dict
            raise ConfigError(
                f"patch {what}: a {type(patch).__name__} is not a patch; wrap it, such as MergePatch(...)"
            )
        kind: Any = what.class_ or what.gvk
        view: View[Any] = view_of(OnlyMetadata(kind) if only_metadata else kind)
        served = self._resource_nowait(view) or await self._resource(view)
        target = self._target(served, what.name, what.namespace, subresource)
        settings = self._write_settings(options) if options else self._settings
        call = requests.patch(target, patch.body(), patch.content_type, settings, is_metadata=view.is_metadata)
        return self._read_written(await self._pipeline.send(call), view, target, is_dry=settings.dry_run)

    @overload
    async def apply(self, obj: O, /, **options: Unpack[ApplyOptions]) -> O: ...
    @overload
    async def apply(self, obj: Mapping[str, Any], /, **options: Unpack[ApplyOptions]) -> Unstructured: ...
    async def apply(
        self,
        obj: Any,
        /,
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        force: bool = False,
        **options: Any,
    ) -> Any:
        """Applies an object server-side and returns it as stored: created if missing, fields left out are given up.

        ApplyConflict names the fields that other managers own; `force` takes them over.
        """
        body = request_body_of(obj)
        return await self._apply_body(
            body, body.encode_for_apply(), namespace=namespace, subresource=subresource, force=force, **options
        )

    async def ensure(
        self,
        obj: O,
        change: Callable[[O], O],
        /,
        *,
        by: Literal["patch", "update"] = "update",
        attempts: int = 5,
        manager: str | None = None,
        dry_run: bool = False,
    ) -> Ensured[O]:
        """Creates or updates an object: created from `obj` if missing, written only if `change` makes a difference.

        `change` gets the stored object, or `obj`, and returns the desired one; kind, name and namespace must stay. If
        another writer is faster, it is called again with the new version, up to `attempts` times; then the Conflict is
        raised.
        """
        body = request_body_of(obj)
        target = self._body_target(await self._resource(body.view), body, None)
        if not body.name:
            raise ConfigError(f"ensure {body.view.gvk.kind}: the object needs a name")
        kind: Any = type(obj) if isinstance(obj, Object) else body.view.gvk
        ref: Ref[Any] = Ref(kind, body.name, target.namespace)
        delays = _CONFLICT_BACKOFF.delays()
        for _ in range(attempts - 1):
            try:
                return await self._ensure_once(obj, change, ref, by=by, manager=manager, dry_run=dry_run)
            except Conflict:
                await timing.sleep(next(delays))
            except NotFound as error:
                # Deleted between our read and our write: try again. A kind that is not served (no name) stays so.
                if not error.details.get("name"):
                    raise
        return await self._ensure_once(obj, change, ref, by=by, manager=manager, dry_run=dry_run)

    @overload
    async def delete(self, what: Ref[K], /, **options: Unpack[DeleteOptions]) -> K | None: ...
    @overload
    async def delete(
        self, what: Kind[K], name: str, /, *, namespace: str | None = None, **options: Unpack[DeleteOptions]
    ) -> K | None: ...
    async def delete(
        self,
        what: Ref[Any] | Kind[Any],
        name: str | None = None,
        /,
        *,
        namespace: str | None = None,
        missing_ok: bool = False,
        dry_run: bool = False,
        **options: Any,
    ) -> Any:
        """Deletes an object; returns None once it is gone, or the object while finalizers or a grace period hold it.

        NotFound if it does not exist (None with `missing_ok`), Conflict if the precondition `uid` or
        `resource_version` does not match.
        """
        view, name, namespace = kind_and_name(what, name, namespace)
        target = await self._object_target(view, name, namespace)
        dry_run = dry_run or self._settings.dry_run
        body = delete_options(dry_run=dry_run, **options)
        call = requests.delete(target, body, is_metadata=view.is_metadata, timeout=self._settings.timeout)
        try:
            response = await self._pipeline.send(call)
        except NotFound:
            if missing_ok:
                return None
            raise
        if not dry_run:
            self._notify_observers(write_of(view.gvk, name, target.namespace, response.body, is_delete=True))
        return None if is_gone(response.body) else view.read(response.body)

    async def delete_collection(
        self,
        kind: Kind[K],
        /,
        *,
        namespace: str | None = None,
        labels: Labels | None = None,
        fields: Fields | None = None,
        propagation: Propagation | None = None,
        grace: int | None = None,
        dry_run: bool = False,
    ) -> Items[K]:
        """Deletes the objects of a kind in one namespace that match the selectors, and returns those it deleted."""
        view = view_of(kind)
        target = await self._collection_target(view, namespace)
        if target.served.namespaced and target.namespace is None:
            raise ConfigError(
                f"delete all {view.gvk.kind}: name the namespace; the API deletes in one namespace at a time"
            )
        dry_run = dry_run or self._settings.dry_run
        body = delete_options(propagation=propagation, grace=grace, dry_run=dry_run)
        call = requests.delete_collection(target, body, labels=labels, fields=fields, timeout=self._settings.timeout)
        response = await self._pipeline.send(call)
        page = _deleted_page(response.body, view)
        if not dry_run:
            version = page.resource_version or None
            self._notify_observers(Write(view.gvk, None, target.namespace, version, is_gone=True))
        return Items(page, view)

    async def get_scale(self, ref: Ref[Any], /) -> ObjectScale:
        """Reads the scale subresource: desired and current replicas; NotFound if the kind has none."""
        target = await self._object_target(view_of(ref.class_ or ref.gvk), ref.name, ref.namespace, "scale")
        response = await self._pipeline.send(requests.get(target, timeout=self._settings.timeout))
        return codec.decode(ObjectScale, response.body)

    async def scale(
        self,
        ref: Ref[Any],
        /,
        replicas: int,
        *,
        manager: str | None = None,
        dry_run: bool = False,
    ) -> ObjectScale:
        """Sets the number of replicas through the scale subresource, and returns the scale."""
        view: View[Any] = view_of(ref.class_ or ref.gvk)
        target = await self._object_target(view, ref.name, ref.namespace, "scale")
        patch = MergePatch({"spec": {"replicas": replicas}})
        settings = self._write_settings({"manager": manager, "dry_run": dry_run})
        call = requests.patch(target, patch.body(), patch.content_type, settings)
        made: ObjectScale = self._read_written(
            await self._pipeline.send(call), view_of(ObjectScale), target, is_dry=settings.dry_run
        )
        return made

    # --- logs, raw requests ---------------------------------------------------------------------------------------

    def logs(
        self,
        ref: Ref[Any],
        /,
        *,
        follow: bool = False,
        container: str | None = None,
        tail: int | None = None,
        since: float | None = None,
        previous: bool = False,
        timestamps: bool = False,
        limit_bytes: int | None = None,
        source: str | None = None,
    ) -> LogLines:
        """The log of a container, line by line: `async for line in client.logs(pod.ref, follow=True, tail=10)`.

        `tail` limits it to the last lines, `since` to the last seconds; `previous` reads the container before its last
        restart. `source` is which log to read of an object of another kind that has several, such as `stderr`.
        """
        options: list[tuple[str, object]] = [
            ("follow", "true" if follow else None),
            ("container", container),
            ("tailLines", tail),
            ("sinceSeconds", None if since is None else max(1, round(since))),
            ("previous", "true" if previous else None),
            ("timestamps", "true" if timestamps else None),
            ("limitBytes", limit_bytes),
            ("source", source),
        ]

        async def open_() -> Response:
            target = await self._object_target(view_of(ref.class_ or ref.gvk), ref.name, ref.namespace, "log")
            return await self._pipeline.send(requests.logs(target, options, timeout=self._settings.timeout))

        return LogLines(open_)

    async def send(self, call: Call, /) -> Response:
        """Sends a raw call and returns its response; ApiError for a status of 300 or more."""
        return await self._pipeline.send(call)

    # --- the client itself ----------------------------------------------------------------------------------------

    async def resource(self, kind: Kind[Any]) -> ApiResource:
        """The resource that serves a kind: from the class, or by one discovery request for a bare kind."""
        view = view_of(kind)
        if view.definition is None:
            return await self._mapper.resource(view.gvk)
        return served_by(view.definition)

    @property
    def mapper(self) -> ResourceResolver:
        """Maps kinds to the resources of the server."""
        return self._mapper

    @property
    def namespace(self) -> str:
        """The namespace of reads and writes that do not name one."""
        return self._settings.only_namespace or self._settings.namespace

    @property
    def only_namespace(self) -> str | None:
        """The namespace that this client is confined to (see `in_namespace`); None if it is not."""
        return self._settings.only_namespace

    def in_namespace(self, namespace: str, /) -> Self:
        """The same client confined to one namespace: all verbs use it, and any other namespace raises ConfigError.

        Cluster-scoped kinds stay accessible. It shares the connections; closing it does not close them.
        """
        if self._settings.only_namespace not in {None, namespace}:
            raise ConfigError(f"this client is confined to namespace {self._settings.only_namespace}, not {namespace}")
        return self._derive({"only_namespace": namespace})

    @property
    def in_process_server(self) -> InProcessServer | None:
        """The server of this process that the client talks to; None if the server is elsewhere."""
        transport = self._pipeline.transport
        return transport.server if isinstance(transport, InProcessTransport) else None

    @property
    def is_closed(self) -> bool:
        """Whether the connections were closed; then every verb raises Unreachable."""
        return self._pipeline.is_closed

    async def aclose(self) -> None:
        """Closes the connections; streams that are still open end with Unreachable."""
        if self._owns_transport:
            await self._pipeline.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    # --- protected: for subclasses, and for other packages through `internals.py` ----------------------------------

    async def _list_page(
        self,
        view: View[Any],
        *,
        is_repeated: bool,
        namespace: str | None = None,
        resource_version: str | None = None,
        managed_fields: bool = True,
        transform: Transform | None = None,
        **options: Any,
    ) -> ObjectPage:
        """One page of a list, undecoded; with `is_repeated` the request is retried where that is safe."""
        target = await self._collection_target(view, namespace)
        call = requests.list_(
            target, version=resource_version, is_metadata=view.is_metadata, timeout=self._settings.timeout, **options
        )
        response = await self._pipeline.send(call, is_repeated=is_repeated)
        read = partial(read_page, managed_fields=managed_fields, transform=transform)
        return read(response.body, view.gvk, is_metadata=view.is_metadata)

    async def _apply_body(
        self,
        body: RequestBody,
        encoded: bytes,
        /,
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        force: bool = False,
        **options: Any,
    ) -> Any:
        """As `apply`, for a caller that has built the request body and its `encode_for_apply` already."""
        view = body.view
        served = self._resource_nowait(view) or await self._resource(view)
        target = self._body_target(served, body, namespace, subresource)
        settings = self._write_settings(options) if options else self._settings
        call = requests.patch(target, encoded, APPLY, settings, force=force)
        return self._read_written(await self._pipeline.send(call), view, target, is_dry=settings.dry_run)

    def _observe_writes(self, observer: WriteObserver) -> Callable[[], None]:
        """Calls `observer` after each write that succeeds, also of derived clients; returns how to detach it."""
        self._observers.append(observer)

        def detach() -> None:
            if observer in self._observers:
                self._observers.remove(observer)

        return detach

    def _attach(self, tap: CallTap) -> Callable[[], None]:
        """Has a tap see each call, also of derived clients and of the REST mapper; returns how to detach it."""
        self._set_mapper_tap(self._pipeline.attach(tap))
        return lambda: self._set_mapper_tap(self._pipeline.detach(tap))

    def _set_mapper_tap(self, tap: CallTap | None) -> None:
        if isinstance(self._mapper, RestMapper):
            self._mapper.tap = tap

    def _known_documents(self) -> Sequence[tuple[str, bytes]]:
        return self._mapper.known_documents() if isinstance(self._mapper, RestMapper) else ()

    def _with_hook(self, hook: Hook) -> Self:
        """The same client with one more hook, which sees each verb before all others; it shares the connections."""
        derived = self._derive({})
        derived._pipeline = self._pipeline.with_hook(hook)
        return derived

    def _derive(self, changes: dict[str, Any]) -> Self:
        """The same client with other settings; it shares connections, mapper and observers, and closes nothing."""
        derived = object.__new__(type(self))
        derived._pipeline = self._pipeline
        derived._settings = msgspec.structs.replace(self._settings, **changes)
        derived._mapper = self._mapper
        derived._observers = self._observers
        derived._owns_transport = False
        return derived

    def _resource_nowait(self, view: View[Any]) -> ResourceInfo | None:
        """The resource of a kind if its class defines it; None if `_resource` has to query the server."""
        return view.definition

    async def _resource(self, view: View[Any]) -> ResourceInfo:
        return await self._mapper.resource(view.gvk) if view.definition is None else view.definition

    # --- targets, options and responses ---------------------------------------------------------------------------

    async def _object_target(
        self, view: View[Any], name: str, namespace: str | None, subresource: str | None = None
    ) -> Target:
        """One object, in the client's namespace unless another is named."""
        return self._target(await self._resource(view), name, namespace, subresource)

    async def _collection_target(self, view: View[Any], namespace: str | None) -> Target:
        """All objects of a kind, in all namespaces unless one is named."""
        served = await self._resource(view)
        return Target(served, self._place(served, namespace or self._settings.only_namespace))

    def _body_target(
        self, served: ResourceInfo, body: RequestBody, namespace: str | None, subresource: str | None = None
    ) -> Target:
        if namespace is not None and body.namespace is not None and namespace != body.namespace:
            raise ConfigError(f"{body.view.gvk.kind} {body.name} is in namespace {body.namespace}, not {namespace}")
        return self._target(served, body.name, body.namespace or namespace, subresource)

    async def _subresource_target(self, body: RequestBody, on: Ref[Any] | None, subresource: str | None) -> Target:
        if on is None or subresource is None:
            raise ConfigError(
                f"{body.view.gvk.kind}: `on` names the object and `subresource` its subresource; give both"
            )
        return await self._object_target(view_of(on.class_ or on.gvk), on.name, on.namespace, subresource)

    def _target(self, served: ResourceInfo, name: str, namespace: str | None, subresource: str | None = None) -> Target:
        return Target(served, self._place(served, namespace or self.namespace), name, subresource)

    def _place(self, served: ResourceInfo, namespace: str | None) -> str | None:
        if not served.namespaced:
            return None
        only = self._settings.only_namespace
        if only is not None and namespace != only:
            raise ConfigError(
                f"this client is confined to namespace {only}, and cannot access {served.gvk.kind} in {namespace}"
            )
        return namespace

    def _write_settings(self, given: Mapping[str, Any]) -> ClientSettings:
        """The settings of this client, with the options that are given."""
        settings = self._settings
        unknown = sorted(given.keys() - _WRITE_OPTIONS)
        if unknown:
            # Ignored, a misspelt `dryrun=True` would write.
            raise TypeError(f"unknown option {', '.join(unknown)}; the options are {', '.join(sorted(_WRITE_OPTIONS))}")
        return msgspec.structs.replace(
            settings,
            manager=given.get("manager") or settings.manager,
            dry_run=bool(given.get("dry_run")) or settings.dry_run,
            validation=given.get("validation") or settings.validation,
        )

    def _read_written(self, response: Response, view: View[Any], target: Target, *, is_dry: bool) -> Any:
        """Reads the object in the response to a write, after notifying the write observers."""
        body = response.body
        if not is_dry:
            written = write_of(target.served.gvk, target.name, target.namespace, body)
            if target.served.gvk.kind == _CRD and isinstance(self._mapper, RestMapper):
                defined = kind_of_definition(body)
                if defined is not None:
                    self._mapper.expect(*defined)
            self._notify_observers(written)
        return read_subresource(view, body, target.subresource)

    def _notify_observers(self, write: Write | None) -> None:
        """Calls the write observers; does nothing for None, a response that does not say what was written."""
        if write is None:
            return
        for observer in tuple(self._observers):
            try:
                observer(write)
            except Exception:  # noqa: BLE001 -- the write has happened, and the other observers must see it
                _log.exception("write observer failed", extra={"object": f"{write.gvk} {write.name or ''}"})

    async def _ensure_once(
        self, obj: O, change: Callable[[O], O], ref: Ref[Any], *, by: str, **options: Any
    ) -> Ensured[O]:
        found: O | None = await self.find(ref)
        if found is None:
            return Ensured(await self.create(_changed(obj, change, ref), **options), "created")
        # Copied first: `change` may modify an Unstructured in place.
        before: Any = codec.decode_tree(codec.encode(found) if isinstance(found, Object) else codec.encode(found.tree))
        wanted = _changed(found, change, ref)
        if same(before, codec.to_tree(wanted)):
            return Ensured(found, "unchanged")
        if by == "patch":
            return Ensured(await self.patch(ref, MergePatch.between(before, wanted), **options), "updated")
        return Ensured(await self.update(wanted, **options), "updated")

    async def _wait(
        self, ref: Ref[Any], condition: Callable[[CachedObject | None], bool], within: float | None, what: str
    ) -> CachedObject | None:
        view: View[Any] = view_of(ref.class_ or ref.gvk)
        target = await self._object_target(view, ref.name, ref.namespace)
        options: dict[str, Any] = {
            "namespace": target.namespace,
            "fields": FieldSelector.of({"metadata.name": ref.name}),
        }
        wait = _ObjectWait(
            condition,
            list_=lambda: self._list_page(view, is_repeated=False, **options),
            watch=lambda version: self.watch(ref.class_ or ref.gvk, resource_version=version, **options),
            is_closed=lambda: self._pipeline.is_closed,
        )
        limit = timing.within(within)
        try:
            async with limit:
                return await wait.run()
        except TimeoutError:
            if not limit.expired():
                raise
            raise Deadline(f"{ref}: {what} did not happen within {within:g} seconds; {wait.describe()}") from wait.error


async def retry_on_conflict(
    attempt: Callable[[], Awaitable[T]], /, *, attempts: int = 5, backoff: Backoff = _CONFLICT_BACKOFF
) -> T:
    """Runs `attempt` again after each Conflict and returns its result; it must read the object again every time.

    AlreadyExists and ApplyConflict are raised at once: they are conflicts that a retry does not solve. After `attempts`
    attempts the last Conflict is raised.

    ```python
    async def promote() -> Website:
        site = await client.get(Website, "blog")
        return await client.update(site.with_spec(replicas=site.spec.replicas + 1))


    await retry_on_conflict(promote)
    ```
    """
    delays = backoff.delays()
    for _ in range(attempts - 1):
        try:
            return await attempt()
        except (AlreadyExists, ApplyConflict):
            raise
        except Conflict:
            await timing.sleep(next(delays))
    return await attempt()


async def open_transport(
    where: ServerLocation = None, *, context: str | None = None, peer: Peer | None = None
) -> tuple[Transport, str | None]:
    """The transport to a server, and the namespace of its configuration, if any; ConfigError if there is no server."""
    if context is not None and where is not None and not isinstance(where, str | Path):
        raise ConfigError(f"context {context!r} is one of a kubeconfig: give the path of a kubeconfig, or nothing")
    if where is None or isinstance(where, str | Path):
        where = await asyncio.to_thread(load_config, where, context)
    if isinstance(where, Config):
        return SocketTransport(where), where.namespace
    handle: Any = getattr(where, "handle", None)
    if not callable(handle):
        raise ConfigError(
            f"cannot connect to {type(where).__name__!r}: give a kubeconfig path, a Config or an in-process server"
        )
    return InProcessTransport(where, peer=peer), None


def kind_and_name(
    what: "Ref[Any] | Kind[Any]", name: str | None, namespace: str | None
) -> tuple[View[Any], str, str | None]:
    """The view, name and namespace in the arguments `(ref)` or `(Kind, name, namespace=...)`."""
    if isinstance(what, Ref):
        if name is not None and name != what.name:
            raise ConfigError(f"{what} names its object already; leave {name!r} out")
        if namespace is not None and what.namespace is not None and namespace != what.namespace:
            raise ConfigError(f"{what} names its namespace already; leave {namespace!r} out")
        return view_of(what.class_ or what.gvk), what.name, what.namespace or namespace
    if name is None:
        raise ConfigError(f"the name of the {view_of(what).gvk.kind} is missing: give its name, or a Ref")
    view: View[Any] = view_of(what)
    if not isinstance(name, str) or not name:
        raise BadName(f"{name!r} is not the name of a {view.gvk.kind}: give a string that is not empty", field="name")
    return view, name, namespace


_TRANSIENT: Final = (Expired, ServerFailed, TooManyRequests, Unreachable)


class _ObjectWait:
    """One wait for a condition: lists the object, then watches it, again and again until the condition holds."""

    def __init__(
        self,
        condition: Callable[[CachedObject | None], bool],
        *,
        list_: Callable[[], Awaitable[ObjectPage]],
        watch: Callable[[str], WatchStream],
        is_closed: Callable[[], bool],
    ) -> None:
        self._condition = condition
        self._list = list_
        self._watch = watch
        self._is_closed = is_closed
        self._last: CachedObject | None = None
        self._has_read = False
        self.error: Exception | None = None
        """What the last attempt failed with."""

    async def run(self) -> CachedObject | None:
        delays = Backoff(first=0.2, cap=10.0).delays()
        while True:
            try:
                if await self._list_and_watch():
                    return self._last
                delay = next(delays) if self._has_read else 0.0
            except _TRANSIENT as error:
                if self._is_closed():
                    raise
                self.error = error
                delay = max(next(delays), retry_after_of(error) or 0.0)
            await timing.sleep(delay)

    async def _list_and_watch(self) -> bool:
        """Whether the condition held before the watch ended."""
        page = await self._list()
        if self._check(page.items[0] if page.items else None):
            return True
        async with self._watch(page.resource_version) as batches:
            async for events in batches:
                for event in events:
                    if event.status is not None:
                        raise event.status
                    if event.type != "BOOKMARK" and self._check(None if event.type == "DELETED" else event.cached):
                        return True
        return False

    def _check(self, cached: CachedObject | None) -> bool:
        self._last, self._has_read, self.error = cached, True, None
        return self._condition(cached)

    def describe(self) -> str:
        """The last state that was read, for a message."""
        if self.error is not None:
            return f"the last attempt to read it failed: {self.error}"
        if not self._has_read:
            return "it could not be read"
        return "it does not exist" if self._last is None else f"it is at resource version {self._last.resource_version}"


def _changed(obj: O, change: Callable[[O], O], ref: Ref[Any]) -> O:
    wanted = change(obj)
    if not isinstance(wanted, Object | Unstructured):  # pyright: ignore[reportUnnecessaryIsInstance]  # a forgotten return
        raise ConfigError(f"{ref}: `change` must return the desired object, and returned {type(wanted).__name__}")
    place = wanted.namespace or ref.namespace
    if wanted.name != ref.name or place != ref.namespace or wanted.ref.gvk != ref.gvk:
        raise ConfigError(f"{ref}: `change` returned another object, {wanted.ref}; ensure that one by itself")
    return wanted


def _deleted_page(body: bytes, view: View[Any]) -> ObjectPage:
    if b'"Status"' in body[:200] and b'"items"' not in body:
        return ObjectPage([], "")
    return read_page(body, view.gvk)
