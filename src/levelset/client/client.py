"""The client: one object with a verb for everything that can be asked of an API server.

```python
client = await Client.connect()  # KUBECONFIG, in the cluster, or ~/.kube/config
async with client:
    site = await client.get(Website, "blog")
```

What all verbs of a client share: where a kind is served, in which namespace, with which defaults.

What a container has written, line by line, as it comes.

The verbs that only look: get, list, follow pages, watch.

Waits until an object is as it should be, or is no more: a read, and then a watch of that one object.

Whatever can get better (a server that is away, a watch that ends, a forgotten version) is tried again until the time
is up; what cannot (no permission, a request that makes no sense) is raised at once.

The verbs that change something: create, update, patch, apply, delete, scale.

Makes sure that an object is there and is as it should be: made, changed, or left alone.

Finds the server that is meant: one of this process, one that a value describes, or one from a file.

Tries a write again that lost a race: read, decide, write, until nobody was faster.
"""

import asyncio
import codecs
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Generic, Literal, Protocol, Self, TypedDict, TypeVar, Unpack, cast, overload

import msgspec

from levelset.aio import timing
from levelset.aio.backoff import Backoff
from levelset.client import requests
from levelset.client.config.config import Config
from levelset.client.config.loader import load_config
from levelset.client.discovery import ApiResource, served_by
from levelset.client.lists import Items, KeptPage, Transform, read_page
from levelset.client.object_types import Kind, ObjectScale, OnlyMetadata, View, view_of
from levelset.client.patches import MergePatch, Patch
from levelset.client.request_body import Draft, Write, delete_options, draft_of, is_gone, read_part, write_of
from levelset.client.request_pipeline import Sender
from levelset.client.requests import (
    APPLY,
    Fields,
    Form,
    FormKey,
    Labels,
    Match,
    Propagation,
    ResourceInfo,
    Target,
    Validation,
    form_of,
)
from levelset.client.responses import retry_after_of
from levelset.client.rest_mapper import Mapper
from levelset.client.transport.http1 import Incoming
from levelset.client.transport.in_process import Handles, InsideTransport
from levelset.client.transport.interface import Answer, Call, Hook, Transport
from levelset.client.transport.retry import Retries
from levelset.client.transport.sockets import SocketTransport
from levelset.client.watch_request import EventReader, Watching
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
from levelset.objects.cached_object import Kept
from levelset.objects.field_selectors import FieldSelector
from levelset.objects.json_tree import same
from levelset.objects.ref import GroupVersionKind, Ref
from levelset.objects.resource import Object, PartialObjectMetadata
from levelset.objects.unstructured import Unstructured

__all__ = [
    "ApplyOptions",
    "Asking",
    "Client",
    "DeleteOptions",
    "Done",
    "DraftOptions",
    "Ensured",
    "Ensuring",
    "LogLines",
    "Logs",
    "Observer",
    "Reading",
    "Resolves",
    "Settings",
    "Waiting",
    "Where",
    "WriteOptions",
    "Writing",
    "kind_and_name",
    "open_transport",
    "retry_on_conflict",
]

K = TypeVar("K")

_log: Final = logging.getLogger("levelset.client")
_MOST_FORMS: Final = 4096
_WHOLE: Final = frozenset({None, "status"})
"""The parts of an object that are answered with the whole of it."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a client does unless a call says otherwise."""

    namespace: str = "default"
    manager: str = "levelset"
    timeout: float = 30.0
    dry_run: bool = False
    validation: Validation | None = None
    only_namespace: str | None = None
    """The one namespace that this client may name; None for all."""

    def __post_init__(self) -> None:
        seconds: object = self.timeout
        if not isinstance(seconds, int | float) or not seconds > 0:
            raise ConfigError(f"timeout={seconds!r}: every call has one; give seconds, more than 0")


Observer = Callable[[Write], None]
"""Is told of each write, before the verb returns; what it raises is logged, since the write has happened."""


class Resolves(Protocol):
    """What knows the kinds of a server."""

    async def resource(self, gvk: GroupVersionKind, /) -> ApiResource:
        """How a kind is served; UnknownKind if it is not."""
        ...


class Asking:
    """The part of a client below its verbs."""

    def __init__(self, sender: Sender, settings: Settings, mapper: Resolves, observers: list[Observer]) -> None:
        self._sender = sender
        self._settings = settings
        self._mapper = mapper
        self._observers = observers
        self._forms: dict[FormKey, Form] = {}

    async def resource(self, kind: Kind[Any]) -> ApiResource:
        """How a kind is served: a class says it itself, for a bare kind the server is asked once."""
        view = view_of(kind)
        if view.definition is None:
            return await self._mapper.resource(view.gvk)
        return served_by(view.definition)

    def observe_writes(self, observer: Observer) -> Callable[[], None]:
        """Has `observer` called after each write that succeeds; what is returned ends that."""
        self._observers.append(observer)

        def detach() -> None:
            if observer in self._observers:
                self._observers.remove(observer)

        return detach

    @property
    def is_closed(self) -> bool:
        """Whether the connections were closed; a client that is, is of no use any more."""
        return self._sender.is_closed

    @property
    def only_namespace(self) -> str | None:
        """The one namespace to which this client is confined; None if it is not."""
        return self._settings.only_namespace

    @property
    def namespace(self) -> str:
        """Where a namespaced object is looked for, and made, if nobody says where."""
        return self._settings.only_namespace or self._settings.namespace

    @property
    def mapper(self) -> Resolves:
        """What knows the kinds of the server."""
        return self._mapper

    def _served_nowait(self, view: View[Any]) -> ResourceInfo | None:
        """What `_served` gives, if that has nothing to wait for."""
        return view.definition

    async def _served(self, view: View[Any]) -> ResourceInfo:
        return await self._mapper.resource(view.gvk) if view.definition is None else view.definition

    async def _one(self, view: View[Any], name: str, namespace: str | None, subresource: str | None = None) -> Target:
        """One object, in the client's namespace unless another is named."""
        return self._target(await self._served(view), name, namespace, subresource)

    def _target(self, served: ResourceInfo, name: str, namespace: str | None, subresource: str | None = None) -> Target:
        """The same of a kind that is known."""
        return Target(served, self._place(served, namespace or self.namespace), name, subresource)

    def _form(self, view: View[Any], key: FormKey) -> Form | None:
        """The form for writes of a class with this client's settings, kept for the next one; None if they need more."""
        served, settings = self._served_nowait(view), self._settings
        if served is None or view.is_metadata or key[2] not in _WHOLE:
            return None
        made = form_of(
            Target(served, self._place(served, key[1] or self.namespace)),
            key,
            timeout=settings.timeout,
            manager=settings.manager,
            validation=settings.validation,
            dry_run=settings.dry_run,
        )
        if len(self._forms) >= _MOST_FORMS:
            self._forms.clear()
        self._forms[key] = made
        return made

    async def _many(self, view: View[Any], namespace: str | None) -> Target:
        """All objects of a kind, in all namespaces unless one is named."""
        served = await self._served(view)
        return Target(served, self._place(served, namespace or self._settings.only_namespace))

    def _place(self, served: ResourceInfo, namespace: str | None) -> str | None:
        if not served.namespaced:
            return None
        only = self._settings.only_namespace
        if only is not None and namespace != only:
            raise ConfigError(f"this client is for namespace {only} only, not for {served.gvk.kind} in {namespace}")
        return namespace

    def _observe(self, write: Write | None) -> None:
        """Has those who observe writes hear of one; of None, an answer that does not say what was written, nobody."""
        if write is None:
            return
        for observer in tuple(self._observers):
            try:
                observer(write)
            except Exception:  # noqa: BLE001 -- the write has happened, and others have to hear of it
                _log.exception("an observer of writes failed", extra={"object": f"{write.gvk} {write.name or ''}"})


def kind_and_name(
    what: "Ref[Any] | Kind[Any]", name: str | None, namespace: str | None
) -> tuple[View[Any], str, str | None]:
    """The view, name and namespace that `get(ref)` or `get(Kind, name, namespace=...)` mean."""
    if isinstance(what, Ref):
        if name is not None and name != what.name:
            raise ConfigError(f"{what} names its object already; leave {name!r} out")
        if namespace is not None and what.namespace is not None and namespace != what.namespace:
            raise ConfigError(f"{what} names its namespace already; leave {namespace!r} out")
        return view_of(what.class_ or what.gvk), what.name, what.namespace or namespace
    if name is None:
        raise ConfigError(f"which {view_of(what).gvk.kind}? Give its name, or a Ref")
    view: View[Any] = view_of(what)
    if not isinstance(name, str) or not name:
        raise BadName(f"{name!r} is no name of a {view.gvk.kind}; it is a text, and not empty", field="name")
    return view, name, namespace


_LONGEST: Final = 16 * 1024 * 1024


class Logs(Asking):
    """The verb that reads logs."""

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
    ) -> "LogLines":
        """The lines that a container has written: `async for line in client.logs(pod.ref, follow=True, tail=10)`.

        `tail` is how many of the last lines, `since` how many of the last seconds, `previous` means the container
        before its last restart.
        """
        options: list[tuple[str, object]] = [
            ("follow", "true" if follow else None),
            ("container", container),
            ("tailLines", tail),
            ("sinceSeconds", None if since is None else max(1, round(since))),
            ("previous", "true" if previous else None),
            ("timestamps", "true" if timestamps else None),
            ("limitBytes", limit_bytes),
        ]

        async def open_() -> Answer:
            target = await self._one(view_of(ref.class_ or ref.gvk), ref.name, ref.namespace, "log")
            return await self._sender.send(requests.logs(target, options, timeout=self._settings.timeout))

        return LogLines(open_)


class LogLines:
    """The lines of a log without their line ends: iterate over it, and close it with `async with` if you stop early.

    The request is made when the first line is asked for. Bytes that are no UTF-8 become U+FFFD.
    """

    __slots__ = ("_incoming", "_reader", "_ready")

    def __init__(self, open_: Callable[[], Awaitable[Answer]]) -> None:
        self._incoming = Incoming(open_)
        self._reader = _LineReader()
        self._ready: list[str] = []

    async def __aenter__(self) -> Self:
        await self._incoming.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        stream = await self._incoming.open()
        while not self._ready:
            piece = await anext(stream, None)
            self._ready = self._reader.finish() if piece is None else self._reader.feed(piece)
            if piece is None:
                break
            self._ready.reverse()
        if not self._ready:
            await self.aclose()
            raise StopAsyncIteration
        return self._ready.pop()

    async def aclose(self) -> None:
        """Ends the stream; may be repeated."""
        await self._incoming.aclose()


class _LineReader:
    """Makes lines of bytes, wherever those were cut; a line that does not end comes in parts of about `_LONGEST`."""

    __slots__ = ("_decoder", "_rest", "_size")

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest: list[str] = []  # the parts of a line whose end has not come yet
        self._size = 0

    def feed(self, piece: bytes) -> list[str]:
        first, *more = self._decoder.decode(piece).split("\n")
        self._rest.append(first)
        self._size += len(first)
        if not more:
            return [self._take()] if self._size > _LONGEST else []
        *lines, last = [self._take(), *more]
        self._rest, self._size = [last], len(last)
        return [line.removesuffix("\r") for line in lines]

    def finish(self) -> list[str]:
        self._rest.append(self._decoder.decode(b"", final=True))
        rest = self._take()
        return [rest] if rest else []

    def _take(self) -> str:
        line, self._rest, self._size = "".join(self._rest), [], 0
        return line


class Reading(Asking):
    """The verbs of a client that change nothing."""

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
        """The object, read from the server; NotFound if there is none.

        A version asks for one at least that new; "0" takes whatever the server has at hand.
        """
        view, name, namespace = kind_and_name(what, name, namespace)
        target = await self._one(view, name, namespace, subresource)
        call = requests.get(
            target, version=resource_version, is_metadata=view.is_metadata, timeout=self._settings.timeout
        )
        return read_part(view, (await self._sender.send(call)).body, subresource)

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
        """The object, or None if there is none; a kind that is not served is still NotFound or UnknownKind."""
        view, name, namespace = kind_and_name(what, name, namespace)
        target = await self._one(view, name, namespace)
        call = requests.get(target, is_metadata=view.is_metadata, timeout=self._settings.timeout)
        try:
            return view.read((await self._sender.send(call)).body)
        except NotFound as error:
            if error.details.get("name"):  # the server knows the kind, and names the object that it lacks
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
        """The objects of a kind, in all namespaces unless one is named; one page of them if there is a `limit`."""
        view = view_of(kind)
        return Items(await self._page(view, is_repeated=True, **options), view)

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
        """The objects of a kind one by one; the next page is asked for when the last object has been taken.

        All pages are of the version of the first. If that is forgotten on the way and the server offers to go on with
        what is true by now, that is taken: nothing comes twice, and what was there all the time is not missed.
        """
        view = view_of(kind)
        token: str | None = None
        while True:
            try:
                page = await self._page(view, is_repeated=True, limit=page_size, continue_=token, **options)
            except Expired as error:
                offered = error.details.get("continue")
                if token is None or not offered or offered == token:
                    raise
                token = offered
                continue
            for kept in page.items:
                yield view.read(kept.raw)
            token = page.continue_
            if token is None:
                return

    async def list_kept(
        self,
        kind: Kind[Any],
        /,
        *,
        namespace: str | None = None,
        labels: Labels | None = None,
        fields: Fields | None = None,
        limit: int | None = None,
        continue_: str | None = None,
        resource_version: str | None = None,
        match: Match | None = None,
        managed_fields: bool = True,
        transform: Transform | None = None,
    ) -> KeptPage:
        """A page of a list as it is kept in a cache: heads and bytes, nothing decoded, and never asked twice.

        Without `managed_fields` these are cut out of the bytes; then `transform` may change them.
        """
        return await self._page(
            view_of(kind),
            is_repeated=False,
            namespace=namespace,
            labels=labels,
            fields=fields,
            limit=limit,
            continue_=continue_,
            resource_version=resource_version,
            match=match,
            managed_fields=managed_fields,
            transform=transform,
        )

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
        as_kept: bool = False,
    ) -> Watching:
        """One watch request: `async with client.watch(Website) as batches`, then lists of `WatchEvent`s.

        It ends when the server ends it, after `timeout` seconds if that is given; what heals itself is
        `levelset.runtime.watch.watch`. With `as_kept` objects that came or changed are in the lists as they are, as a
        `Kept` and no event.
        """
        view = view_of(kind)

        async def open_() -> Any:
            target = await self._many(view, namespace)
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
            return await self._sender.send(call, is_repeated=False)

        reader = EventReader(view.gvk, managed_fields=managed_fields, transform=transform, as_kept=as_kept)
        return Watching(open_, reader)

    async def _page(
        self,
        view: View[Any],
        *,
        is_repeated: bool,
        namespace: str | None = None,
        resource_version: str | None = None,
        managed_fields: bool = True,
        transform: Transform | None = None,
        **options: Any,
    ) -> KeptPage:
        target = await self._many(view, namespace)
        call = requests.list_(
            target, version=resource_version, is_metadata=view.is_metadata, timeout=self._settings.timeout, **options
        )
        answer = await self._sender.send(call, is_repeated=is_repeated)
        read = partial(read_page, managed_fields=managed_fields, transform=transform)
        return read(answer.body, view.gvk, is_metadata=view.is_metadata)


_PASSING = (Expired, ServerFailed, TooManyRequests, Unreachable)


class Waiting(Reading):
    """The verbs that take as long as it takes."""

    async def wait(self, ref: Ref[K], condition: Callable[[K], bool], /, *, within: float | None = 30.0) -> K:
        """The object as soon as it is there and `condition` holds for it; Deadline if that does not happen in time.

        What the condition raises is raised here. Needs the permission to list and watch, not only to get.
        """
        view: View[K] = view_of(ref.class_ or ref.gvk)
        name = getattr(condition, "__name__", "the condition").strip("<>")

        def check(kept: Kept | None) -> bool:
            return kept is not None and condition(view.read(kept.raw))

        kept = await self._wait(ref, check, within, name)
        assert kept is not None  # or the check would have failed
        return view.read(kept.raw)

    async def wait_gone(self, ref: Ref[Any], /, *, uid: str | None = None, within: float | None = 30.0) -> None:
        """Returns when there is no such object; with a uid, also when another object has taken its name."""

        def is_gone(kept: Kept | None) -> bool:
            return kept is None or (uid is not None and kept.uid != uid)

        await self._wait(ref, is_gone, within, "its end")

    async def _wait(
        self, ref: Ref[Any], condition: Callable[[Kept | None], bool], within: float | None, what: str
    ) -> Kept | None:
        target = await self._one(view_of(ref.class_ or ref.gvk), ref.name, ref.namespace)
        one = _One(self, ref, condition, target.namespace)
        limit = timing.within(within)
        try:
            async with limit:
                return await one.run()
        except TimeoutError:
            if not limit.expired():
                raise
            raise Deadline(f"{ref}: {what} did not happen within {within:g} seconds; {one.said()}") from one.trouble


class _One:
    """The state of one wait."""

    def __init__(
        self, client: Reading, ref: Ref[Any], condition: Callable[[Kept | None], bool], namespace: str | None
    ) -> None:
        self._client = client
        self._kind: Any = ref.class_ or ref.gvk
        self._condition = condition
        self._options: dict[str, Any] = {
            "namespace": namespace,
            "fields": FieldSelector.of({"metadata.name": ref.name}),
        }
        self._seen: Kept | None = None
        self._has_seen = False
        self.trouble: Exception | None = None

    async def run(self) -> Kept | None:
        delays = Backoff(first=0.2, cap=10.0).delays()
        while True:
            try:
                if await self._follow():
                    return self._seen
                wait = next(delays) if self._has_seen else 0.0
            except _PASSING as error:
                if self._client.is_closed:
                    raise
                self.trouble = error
                wait = max(next(delays), retry_after_of(error) or 0.0)
            await timing.sleep(wait)

    async def _follow(self) -> bool:
        """Reads the object and then watches it; whether the condition holds before the watch ends."""
        page = await self._client.list_kept(self._kind, **self._options)
        if self._holds(page.items[0] if page.items else None):
            return True
        version = page.resource_version
        async with self._client.watch(self._kind, resource_version=version, **self._options) as batches:
            async for events in batches:
                for event in events:
                    if event.status is not None:
                        raise event.status
                    if event.type != "BOOKMARK" and self._holds(None if event.type == "DELETED" else event.kept):
                        return True
        return False

    def _holds(self, kept: Kept | None) -> bool:
        self._seen, self._has_seen, self.trouble = kept, True, None
        return self._condition(kept)

    def said(self) -> str:
        """What was seen last, in words."""
        if self.trouble is not None:
            return f"the last attempt to look failed: {self.trouble}"
        if not self._has_seen:
            return "it could not be looked at"
        return "there is no such object" if self._seen is None else f"it is at version {self._seen.resource_version}"


O = TypeVar("O", bound=Object | Unstructured)  # noqa: E741  # the letter the type checker shows

_TEXT: Final = (str, type(None))
_reader: Final = cast("Callable[[Any], Callable[[bytes], Any]]", codec.reader)


class WriteOptions(TypedDict, total=False):
    """Who writes, whether it is for show, and what the server does with fields that it does not know."""

    manager: str | None
    dry_run: bool
    validation: Validation | None


_OPTIONS: Final = frozenset(WriteOptions.__annotations__)


class DraftOptions(WriteOptions, total=False):
    """Where a whole object goes: a namespace, or a part of the object `on`."""

    namespace: str | None
    on: Ref[Any] | None
    subresource: str | None


class ApplyOptions(TypedDict, total=False):
    """Where an apply goes, who applies, and whether it takes over what others own."""

    namespace: str | None
    subresource: str | None
    manager: str | None
    force: bool
    dry_run: bool


class DeleteOptions(TypedDict, total=False):
    """How to delete, and which object only."""

    propagation: Propagation | None
    grace: int | None
    uid: str | None
    resource_version: str | None
    missing_ok: bool
    dry_run: bool


class Writing(Asking):
    """The verbs of a client that change something.

    All of them take `dry_run` (the server does everything but store), `manager` (who owns the fields that are written)
    and, where there are fields to check, `validation`; the client's own settings stand in where they are left out.
    """

    @overload
    async def create(self, obj: O, /, **options: Unpack[DraftOptions]) -> O: ...
    @overload
    async def create(self, obj: Mapping[str, Any], /, **options: Unpack[DraftOptions]) -> Unstructured: ...
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
        """The object as the server made it; AlreadyExists if its name is taken.

        With `on` and `subresource` it is posted to a part of another object, such as an eviction to a Pod.
        """
        draft = draft_of(obj)
        if on is not None or subresource is not None:
            target = await self._part(draft, on, subresource)
            whole = target
        else:
            target = self._drafted(await self._served(draft.view), draft, namespace)
            whole = Target(target.served, target.namespace)
        chosen = self._options(options)
        words = target.said("create")
        call = requests.create(whole, draft.body(), words=words, timeout=self._settings.timeout, **chosen)
        return self._written(await self._sender.send(call), draft.view, target, is_dry=chosen["dry_run"])

    @overload
    async def update(self, obj: O, /, **options: Unpack[DraftOptions]) -> O: ...
    @overload
    async def update(self, obj: Mapping[str, Any], /, **options: Unpack[DraftOptions]) -> Unstructured: ...
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
        """The object after it was replaced as a whole; Conflict if somebody wrote since it was read.

        An object without a version replaces whatever is there, where the kind allows that. One that has a version but
        was not read from a server is refused (BadObject), since fields that its class does not know would be lost.
        """
        draft = draft_of(obj)
        draft.check_whole()
        if on is not None and subresource is not None:
            target = await self._part(draft, on, subresource)
        else:
            target = self._drafted(await self._served(draft.view), draft, namespace, subresource)
        chosen = self._options(options)
        call = requests.update(target, draft.body(), timeout=self._settings.timeout, **chosen)
        return self._written(await self._sender.send(call), draft.view, target, is_dry=chosen["dry_run"])

    async def update_status(self, obj: O, /, *, manager: str | None = None, dry_run: bool = False) -> O:
        """The object after its status was replaced; the rest of it is not looked at."""
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
        """The object after the patch, or only its metadata; NotFound if there is none."""
        if not isinstance(patch, Patch):  # a bare tree, most often
            raise ConfigError(f"patch {what}: say how a {type(patch).__name__} is meant, such as MergePatch(...)")
        class_ = what.class_
        if class_ is not None and not options and not only_metadata:  # as a controller writes
            key = class_, what.namespace, subresource, patch.content_type, None
            form = self._forms.get(key) or self._form(view_of(class_), key)
            if form is not None:
                return self._formed(form, what.name, await self._sender.send(form.call(what.name, patch.body())))
        kind: Any = class_ or what.gvk
        view: View[Any] = view_of(OnlyMetadata(kind) if only_metadata else kind)
        served = self._served_nowait(view) or await self._served(view)
        target = self._target(served, what.name, what.namespace, subresource)
        chosen = self._options(options)
        call = requests.patch(
            target,
            patch.body(),
            patch.content_type,
            is_metadata=view.is_metadata,
            timeout=self._settings.timeout,
            **chosen,
        )
        return self._written(await self._sender.send(call), view, target, is_dry=chosen["dry_run"])

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
        """The object after a server-side apply: made if it is not there; what the manager no longer says is dropped.

        ApplyConflict names the fields that other managers own; with `force` they are taken over.
        """
        draft = draft_of(obj)
        return await self.apply_draft(
            draft, draft.applied_body(), namespace=namespace, subresource=subresource, force=force, **options
        )

    async def apply_draft(
        self,
        draft: Draft,
        body: bytes,
        /,
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        force: bool = False,
        **options: Any,
    ) -> Any:
        """As `apply`, for who has the draft and its `applied_body` already."""
        view, place = draft.view, draft.namespace
        is_plain = not options and (namespace is None or namespace == place)
        if is_plain and isinstance(place, _TEXT) and force.__class__ is bool:  # nonsense has no form
            key = view.class_, place, subresource, APPLY, force
            form = self._forms.get(key) or self._form(view, key)
            if form is not None:
                return self._formed(form, draft.name, await self._sender.send(form.call(draft.name, body)))
        served = self._served_nowait(view) or await self._served(view)
        target = self._drafted(served, draft, namespace, subresource)
        chosen = self._options(options)
        call = requests.patch(target, body, APPLY, force=force, verb="apply", timeout=self._settings.timeout, **chosen)
        return self._written(await self._sender.send(call), view, target, is_dry=chosen["dry_run"])

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
        """None if the object is gone, or the object if finalizers or its grace period still hold it.

        NotFound if there is none (unless that is fine), Conflict if it is not the one that `uid` or
        `resource_version` says.
        """
        view, name, namespace = kind_and_name(what, name, namespace)
        target = await self._one(view, name, namespace)
        dry_run = dry_run or self._settings.dry_run
        body = delete_options(dry_run=dry_run, **options)
        call = requests.delete(target, body, is_metadata=view.is_metadata, timeout=self._settings.timeout)
        try:
            answer = await self._sender.send(call)
        except NotFound:
            if missing_ok:
                return None
            raise
        if not dry_run:
            self._observe(write_of(view.gvk, name, target.namespace, answer.body, is_delete=True))
        return None if is_gone(answer.body) else view.read(answer.body)

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
        """Deletes all objects of a kind in one namespace that the selectors select, and gives what it deleted."""
        view = view_of(kind)
        target = await self._many(view, namespace)
        if target.served.namespaced and target.namespace is None:
            raise ConfigError(f"delete all {view.gvk.kind}: name the namespace; all of them at once is not offered")
        dry_run = dry_run or self._settings.dry_run
        body = delete_options(propagation=propagation, grace=grace, dry_run=dry_run)
        call = requests.delete_collection(target, body, labels=labels, fields=fields, timeout=self._settings.timeout)
        answer = await self._sender.send(call)
        page = _deleted_page(answer.body, view)
        if not dry_run:
            version = page.resource_version or None
            self._observe(Write(view.gvk, None, target.namespace, version, is_gone=True))
        return Items(page, view)

    async def get_scale(self, ref: Ref[Any], /) -> ObjectScale:
        """How many replicas an object wants and has; NotFound if its kind has no scale."""
        target = await self._one(view_of(ref.class_ or ref.gvk), ref.name, ref.namespace, "scale")
        answer = await self._sender.send(requests.get(target, timeout=self._settings.timeout))
        return codec.decode(ObjectScale, answer.body)

    async def scale(
        self,
        ref: Ref[Any],
        /,
        replicas: int,
        *,
        manager: str | None = None,
        dry_run: bool = False,
    ) -> ObjectScale:
        """The scale of an object after its number of replicas was set."""
        view: View[Any] = view_of(ref.class_ or ref.gvk)
        target = await self._one(view, ref.name, ref.namespace, "scale")
        patch = MergePatch({"spec": {"replicas": replicas}})
        chosen = self._options({"manager": manager, "dry_run": dry_run})
        call = requests.patch(target, patch.body(), patch.content_type, timeout=self._settings.timeout, **chosen)
        made: ObjectScale = self._written(
            await self._sender.send(call), view_of(ObjectScale), target, is_dry=chosen["dry_run"]
        )
        return made

    def _options(self, said: Mapping[str, Any]) -> dict[str, Any]:
        settings = self._settings
        if not said:  # as a controller writes
            return {"manager": settings.manager, "dry_run": settings.dry_run, "validation": settings.validation}
        unknown = sorted(said.keys() - _OPTIONS)
        if unknown:
            # Passed over, a `dryrun=True` would write.
            raise TypeError(f"there is no option {', '.join(unknown)}; there is: {', '.join(sorted(_OPTIONS))}")
        return {
            "manager": said.get("manager") or settings.manager,
            "dry_run": bool(said.get("dry_run")) or settings.dry_run,
            "validation": said.get("validation") or settings.validation,
        }

    def _drafted(
        self, served: ResourceInfo, draft: Draft, namespace: str | None, subresource: str | None = None
    ) -> Target:
        if namespace is not None and draft.namespace is not None and namespace != draft.namespace:
            raise ConfigError(f"{draft.view.gvk.kind} {draft.name} is in namespace {draft.namespace}, not {namespace}")
        return self._target(served, draft.name, draft.namespace or namespace, subresource)

    async def _part(self, draft: Draft, on: Ref[Any] | None, subresource: str | None) -> Target:
        if on is None or subresource is None:
            raise ConfigError(
                f"{draft.view.gvk.kind}: `on` says of which object, `subresource` of which part; give both"
            )
        return await self._one(view_of(on.class_ or on.gvk), on.name, on.namespace, subresource)

    def _formed(self, form: Form, name: str, answer: Answer) -> Any:
        """As `_written`, for a write by a form."""
        body = answer.body
        if not form.is_dry:
            self._observe(write_of(form.gvk, name, form.namespace, body))
        return _reader(form.class_)(body)

    def _written(self, answer: Answer, view: View[Any], target: Target, *, is_dry: bool) -> Any:
        """The object in the answer to a write, once those who observe writes have heard of it."""
        body = answer.body
        if not is_dry:
            self._observe(write_of(target.served.gvk, target.name, target.namespace, body))
        return view.read(body) if target.subresource is None else read_part(view, body, target.subresource)


def _deleted_page(body: bytes, view: View[Any]) -> KeptPage:
    if b'"Status"' in body[:200] and b'"items"' not in body:
        return KeptPage([], "")
    return read_page(body, view.gvk)


Done = Literal["created", "unchanged", "updated"]

# the letter the type checker shows
O_co = TypeVar("O_co", covariant=True)

_BACKOFF: Final = Backoff(first=0.01, factor=5.0, cap=1.0)


class Ensured(msgspec.Struct, Generic[O_co], frozen=True):
    """The object as it is now, and what had to be done for it."""

    object: O_co
    done: Done


class Ensuring(Reading, Writing):
    """The verb that reads and writes in one."""

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
        """The object as `change` wants it: made from `obj` if it is not there, written only if it differs.

        `change` gets what the server has, or `obj`, and returns what it should have; it must not change who the object
        is. If somebody else writes in between, it is called again with what is there then, up to `attempts` times;
        then the Conflict is raised.
        """
        draft = draft_of(obj)
        target = self._drafted(await self._served(draft.view), draft, None)
        if not draft.name:
            raise ConfigError(f"ensure {draft.view.gvk.kind}: only an object with a name can be there already")
        kind: Any = type(obj) if isinstance(obj, Object) else draft.view.gvk
        ref: Ref[Any] = Ref(kind, draft.name, target.namespace)
        delays = _BACKOFF.delays()
        for _ in range(attempts - 1):
            try:
                return await self._ensure_once(obj, change, ref, by=by, manager=manager, dry_run=dry_run)
            except Conflict:
                await timing.sleep(next(delays))
            except NotFound as error:
                # Deleted between our read and our write; but a kind that is not there stays so.
                if not error.details.get("name"):
                    raise
        return await self._ensure_once(obj, change, ref, by=by, manager=manager, dry_run=dry_run)

    async def _ensure_once(
        self, obj: O, change: Callable[[O], O], ref: Ref[Any], *, by: str, **options: Any
    ) -> Ensured[O]:
        found: O | None = await self.find(ref)
        if found is None:
            return Ensured(await self.create(_changed(obj, change, ref), **options), "created")
        # Written down first: who changes a tree in place must still differ from what was read.
        before: Any = codec.decode_tree(codec.encode(found) if isinstance(found, Object) else codec.encode(found.tree))
        wanted = _changed(found, change, ref)
        if same(before, codec.to_tree(wanted)):
            return Ensured(found, "unchanged")
        if by == "patch":
            return Ensured(await self.patch(ref, MergePatch.between(before, wanted), **options), "updated")
        return Ensured(await self.update(wanted, **options), "updated")


def _changed(obj: O, change: Callable[[O], O], ref: Ref[Any]) -> O:
    wanted = change(obj)
    if not isinstance(wanted, Object | Unstructured):  # pyright: ignore[reportUnnecessaryIsInstance]  # a forgotten return
        raise ConfigError(f"{ref}: the change must return the object that it wants, and this one returned nothing")
    place = wanted.namespace or ref.namespace
    if wanted.name != ref.name or place != ref.namespace or wanted.ref.gvk != ref.gvk:
        raise ConfigError(f"{ref}: the change made another object of it, {wanted.ref}; make that one by itself")
    return wanted


Where = Handles | Config | str | Path | None
"""A server of this process, a Config, the path of a kubeconfig, or None for the usual places."""


async def open_transport(
    where: Where = None, *, context: str | None = None, peer: Peer | None = None
) -> tuple[Transport, str | None]:
    """The transport to a server, and the namespace that its configuration names; ConfigError says what is missing."""
    if context is not None and where is not None and not isinstance(where, str | Path):
        raise ConfigError(f"context {context!r} is chosen in a kubeconfig; give the path of one, or nothing")
    if where is None or isinstance(where, str | Path):
        where = await asyncio.to_thread(load_config, where, context)
    if isinstance(where, Config):
        return SocketTransport(where), where.namespace
    handle: Any = getattr(where, "handle", None)
    if not callable(handle):
        raise ConfigError(f"a {type(where).__name__} is no server to connect to; give a path, a Config or a server")
    return InsideTransport(where, peer=peer), None


_RETRIES: Final = Retries()


class Client(Ensuring, Waiting, Logs):
    """Typed, unstructured and metadata-only access to every kind of one server.

    A namespaced object that is asked for without a namespace is looked for in `namespace`; lists and watches without
    one are of all namespaces. `hooks` see each verb once, `wire_hooks` each attempt of it, and both may answer in the
    server's place. `on_warning` is told what the server warns of; each distinct warning is logged once by default.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        namespace: str = "default",
        mapper: Resolves | None = None,
        manager: str = "levelset",
        timeout: float = 30.0,
        retries: Retries = _RETRIES,
        hooks: Sequence[Hook] = (),
        wire_hooks: Sequence[Hook] = (),
        dry_run: bool = False,
        validation: Validation | None = None,
        on_warning: Callable[[Call, str], None] | None = None,
    ) -> None:
        sender = Sender(transport, retries=retries, hooks=hooks, wire_hooks=wire_hooks, on_warning=on_warning)
        settings = Settings(
            namespace=namespace, manager=manager, timeout=timeout, dry_run=dry_run, validation=validation
        )
        known = Mapper(sender.send_plainly, timeout=timeout) if mapper is None else mapper
        super().__init__(sender, settings, known, [])
        self._owns_transport = True

    @classmethod
    async def connect(
        cls,
        where: Where = None,
        /,
        *,
        context: str | None = None,
        peer: Peer | None = None,
        namespace: str | None = None,
        **options: Any,
    ) -> Self:
        """A client of the server that a kubeconfig names, of one that a Config describes, or of one in this process.

        Without an argument KUBECONFIG, the cluster that this process runs in, and `~/.kube/config` are looked at, in
        that order. `peer` is who asks a server in this process, its owner by default; `options` are those of `Client`.
        """
        transport, found = await open_transport(where, context=context, peer=peer)
        return cls(transport, namespace=namespace or found or "default", **options)

    @property
    def inside(self) -> Handles | None:
        """The server of this process that it asks; None if it talks to one elsewhere."""
        transport = self._sender.transport
        return transport.server if isinstance(transport, InsideTransport) else None

    def using(
        self,
        *,
        namespace: str | None = None,
        manager: str | None = None,
        timeout: float | None = None,
        dry_run: bool | None = None,
        validation: Validation | None = None,
    ) -> Self:
        """The same client with other settings: it shares the connections, and whoever opened them closes them."""
        changes = {
            "namespace": namespace,
            "manager": manager,
            "timeout": timeout,
            "dry_run": dry_run,
            "validation": validation,
        }
        return self._with({name: value for name, value in changes.items() if value is not None})

    def in_namespace(self, namespace: str, /) -> Self:
        """The same client, confined to one namespace: all verbs mean that one, and another one is refused.

        Kinds that are not namespaced stay reachable.
        """
        if self._settings.only_namespace not in {None, namespace}:
            raise ConfigError(f"this client is for namespace {self._settings.only_namespace} only, not {namespace}")
        return self._with({"only_namespace": namespace})

    def hooked(self, hook: Hook, /) -> Self:
        """The same client with one more hook, which sees each verb before all others do; it shares the connections."""
        made = self._with({})
        made._sender = self._sender.hooked(hook)
        return made

    async def send(self, call: Call, /) -> Answer:
        """The answer to a call of one's own; ApiError for a refusal."""
        return await self._sender.send(call)

    async def aclose(self) -> None:
        """Closes the connections; streams that are still open end with Unreachable."""
        if self._owns_transport:
            await self._sender.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _with(self, changes: dict[str, Any]) -> Self:
        made = object.__new__(type(self))
        settings = msgspec.structs.replace(self._settings, **changes)
        Asking.__init__(made, self._sender, settings, self._mapper, self._observers)
        made._owns_transport = False
        return made


T = TypeVar("T")


async def retry_on_conflict(
    attempt: Callable[[], Awaitable[T]], /, *, attempts: int = 5, backoff: Backoff = _BACKOFF
) -> T:
    """What `attempt` gives, tried again after each Conflict; it has to read the object anew every time.

    A name that is taken and a field that another manager owns are conflicts too, but trying again does not help, so
    AlreadyExists and ApplyConflict are raised at once.

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
