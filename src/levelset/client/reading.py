"""The verbs that only look: get, list, follow pages, watch."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Any, TypeVar, overload

from levelset.client import requests
from levelset.client.asking import Asking, kind_and_name
from levelset.client.drafting import read_part
from levelset.client.items import Items
from levelset.client.keeping import Transform
from levelset.client.kinds import Kind, OnlyMetadata, View, view_of
from levelset.client.paging import KeptPage, read_page
from levelset.client.requests import Fields, Labels, Match
from levelset.client.watching import EventReader, Watching
from levelset.errors import Expired, NotFound
from levelset.objects.identity import GroupVersionKind, Ref
from levelset.objects.resource import PartialObjectMetadata
from levelset.objects.unstructured import Unstructured

__all__ = ["Reading"]

K = TypeVar("K")


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
        `levelset.watching.watch`. With `as_kept` objects that came or changed are in the lists as they are, as a `Kept`
        and no event.
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
