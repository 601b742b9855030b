"""The table of a kind, as `kubectl get` shows it: the server's own columns, filtered, sorted and cut into pages.

Without a text and an order the API server pages, so that 100,000 objects cost as much as 200. With one of them all
objects are listed, chosen and sorted here, and the rows of the page are read one by one: up to `MOST_ROWS` objects with
their cells, and longer lists by their metadata alone, which is small. `search` finds objects of all kinds by labels and
texts.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from levelset.aio import timing
from levelset.client import Call, Client, OnlyMetadata, requests
from levelset.client.discovery import ApiResource
from levelset.client.internals import list_page
from levelset.dashboard.views import kind_text, map_in, maps_in, state_of, text_of
from levelset.errors import ApiError, BadRequest, BadSelector, LevelsetError, NotFound
from levelset.objects.cached_object import Head
from levelset.objects.label_selectors import LabelSelector
from levelset.objects.ref import GroupVersionKind

__all__ = [
    "ListedObject",
    "SearchWords",
    "TableQuery",
    "TableReader",
    "arranged",
    "check_labels",
    "read_search",
    "search",
    "tone_of",
]

PAGE_ROWS: Final = 200
"""The rows of one page."""
MOST_ROWS: Final = 20_000
"""The rows whose cells are read to be searched or sorted."""
MOST_OBJECTS: Final = 500_000
"""The objects whose metadata is read."""

_CHUNK: Final = 500
_METADATA_CHUNK: Final = 5_000
_METADATA_ORDERS: Final = frozenset({"", "Age", "Name", "Namespace"})
_CONCURRENT_ROWS: Final = 16
_MANY: Final = 2_000
_REUSED: Final = 10.0
"""The seconds for which a list of more than `_MANY` objects is reused."""
_LONGEST_CELL: Final = 300
_TIMEOUT: Final = 30.0
_TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
_CONCURRENT_LISTS: Final = 8
_MOST_FOUND: Final = 200
_GOOD_WORDS: Final = frozenset(
    {"active", "available", "bound", "complete", "completed", "healthy", "ready", "running", "succeeded", "true"}
)
_BAD_WORDS: Final = frozenset(
    {"containerstatusunknown", "evicted", "false", "invalidimagename", "lost", "oomkilled", "unknown"}
)
_BAD_ENDS: Final = ("backoff", "error", "failed")
"""How other words of Kubernetes for what is bad end; those of images begin with `Err`."""
_BUSY_WORDS: Final = frozenset({"containercreating", "creating", "pending", "progressing", "starting", "terminating"})
_STATE_COLUMNS: Final = frozenset({"available", "health", "healthy", "phase", "ready", "state", "status", "synced"})


class TableQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which rows of a kind to show; `sort` is a column, `continue_` the token of the next page of the API server."""

    gvk: GroupVersionKind
    namespace: str | None = None
    labels: str = ""
    text: str = ""
    sort: str = ""
    is_descending: bool = False
    offset: int = 0
    continue_: str | None = None
    limit: int = PAGE_ROWS


class ListedObject(msgspec.Struct, frozen=True, gc=False):
    """An object that is searched and sorted: its searched text in lower case; no cells if only metadata was read."""

    name: str
    namespace: str
    created: str
    text: str
    cells: tuple[str, ...] = ()


class _Listed(msgspec.Struct, frozen=True):
    objects: list[ListedObject]
    columns: list[dict[str, Any]]
    is_partial: bool
    has_cells: bool


class TableReader:
    """Reads tables of a server; a long list that was searched or sorted is reused for some seconds."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._last: tuple[tuple[object, ...], float, _Listed] | None = None

    async def read(self, query: TableQuery) -> dict[str, Any]:
        """A page of the table of a kind; BadRequest for labels that are no selector."""
        check_labels(query.labels)
        served = await self._client.resource(query.gvk)
        if not (query.text or query.sort or query.offset):
            return await self._page(served, query)
        listed = await self._listed(served, query)
        found = arranged(listed.objects, listed.columns, query)
        return {
            "columns": listed.columns,
            "rows": await self._shown(served, found[query.offset : query.offset + query.limit]),
            "continue": None,
            "total": len(found),
            "isPartial": listed.is_partial,
            "isByMetadata": bool(query.text) and not listed.has_cells,
        }

    async def _page(self, served: ApiResource, query: TableQuery) -> dict[str, Any]:
        """One page as the API server cuts it."""
        table = await self._table(served, query, query.limit, query.continue_, include="Object")
        meta, rows = map_in(table, "metadata"), _rows(table)
        remaining = meta.get("remainingItemCount")
        rest = remaining if isinstance(remaining, int) else None
        token = text_of(meta.get("continue")) or None
        return {
            "columns": _columns(table),
            "rows": rows,
            "continue": token,
            "total": None if token and rest is None else len(rows) + (rest or 0),
            "isPartial": False,
            "isByMetadata": False,
        }

    async def _listed(self, served: ApiResource, query: TableQuery) -> _Listed:
        """The objects to search: reused if they are many, so that typing and turning pages do not list them again."""
        key = (query.gvk, query.namespace, query.labels, query.sort in _METADATA_ORDERS)
        if self._last is not None and self._last[0] == key and timing.now() - self._last[1] < _REUSED:
            return self._last[2]
        found = await self._with_cells(served, query)
        self._last = (key, timing.now(), found) if len(found.objects) > _MANY else None
        return found

    async def _with_cells(self, served: ApiResource, query: TableQuery) -> _Listed:
        """The first objects with their cells; all by their metadata if they are more and the order needs no cells."""
        columns: list[dict[str, Any]] = []
        objects: list[ListedObject] = []
        token: str | None = None
        while len(objects) < MOST_ROWS:
            table = await self._table(served, query, _CHUNK, token, include="Metadata")
            columns = columns or _columns(table)
            objects += _listed_rows(table)
            meta = map_in(table, "metadata")
            token = text_of(meta.get("continue")) or None
            if token is None:
                return _Listed(objects, columns, is_partial=False, has_cells=True)
            remaining = meta.get("remainingItemCount")  # not with a selector
            is_long = isinstance(remaining, int) and len(objects) + remaining > MOST_ROWS
            if query.sort in _METADATA_ORDERS and (is_long or len(objects) >= MOST_ROWS):
                return await self._by_metadata(served, query, columns)
        return _Listed(objects, columns, is_partial=True, has_cells=True)

    async def _by_metadata(self, served: ApiResource, query: TableQuery, columns: list[dict[str, Any]]) -> _Listed:
        objects: list[ListedObject] = []
        token: str | None = None
        while len(objects) < MOST_OBJECTS:
            call = requests.list_(
                _collection(served, query),
                labels=query.labels or None,
                limit=_METADATA_CHUNK,
                continue_=token,
                is_metadata=True,
                timeout=_TIMEOUT,
            )
            page = _metadata_pages.decode((await self._client.send(call)).body)
            objects += [_listed_object(one.metadata) for one in page.items or ()]
            token = page.metadata.continue_
            if not token:
                break
        return _Listed(objects, columns, is_partial=bool(token), has_cells=False)

    async def _shown(self, served: ApiResource, objects: Sequence[ListedObject]) -> list[dict[str, Any]]:
        """The rows of these objects as they are now, without those that were deleted meanwhile."""
        limit = asyncio.Semaphore(_CONCURRENT_ROWS)

        async def read(one: ListedObject) -> list[dict[str, Any]]:
            target = requests.Target(served=served, namespace=one.namespace or None, name=one.name)
            async with limit:
                try:
                    return _rows(await self._send(requests.get(target, timeout=_TIMEOUT), include="Object"))
                except NotFound:
                    return []

        return [row for rows in await asyncio.gather(*map(read, objects)) for row in rows]

    async def _table(
        self, served: ApiResource, query: TableQuery, limit: int, token: str | None, *, include: str
    ) -> Any:
        target = _collection(served, query)
        call = requests.list_(target, labels=query.labels or None, limit=limit, continue_=token, timeout=_TIMEOUT)
        return await self._send(call, include=include)

    async def _send(self, call: Call, *, include: str) -> Any:
        """The response as a table; with `Object` a row has the whole object, whose state may be in no column."""
        query = "&".join(filter(None, (call.query, f"includeObject={include}")))
        headers = {**call.headers, "accept": _TABLE}
        response = await self._client.send(msgspec.structs.replace(call, query=query, headers=headers))
        return msgspec.json.decode(response.body)


class _Metadata(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str = ""
    namespace: str | None = None
    creation_timestamp: str | None = None
    labels: dict[str, str] | None = None


class _MetadataItem(msgspec.Struct, frozen=True, gc=False):
    metadata: _Metadata


class _PageMetadata(msgspec.Struct, frozen=True):
    continue_: str | None = msgspec.field(default=None, name="continue")


class _MetadataPage(msgspec.Struct, frozen=True):
    metadata: _PageMetadata
    items: list[_MetadataItem] | None = None


_metadata_pages: Final = msgspec.json.Decoder(_MetadataPage)


def _collection(served: ApiResource, query: TableQuery) -> requests.Target:
    return requests.Target(served=served, namespace=query.namespace if served.namespaced else None)


def _listed_object(meta: _Metadata, cells: tuple[str, ...] = ()) -> ListedObject:
    labels = (f"{name}={value}" for name, value in (meta.labels or {}).items())
    text = "\n".join([meta.name, meta.namespace or "", *cells, *labels]).lower()
    return ListedObject(meta.name, meta.namespace or "", meta.creation_timestamp or "", text, cells)


def _listed_rows(table: Any) -> list[ListedObject]:
    ages = [one.get("name") == "Age" for one in maps_in(table, "columnDefinitions")]
    return [
        _listed_object(
            msgspec.convert(map_in(row, "object").get("metadata") or {}, _Metadata, strict=False),
            tuple(_cell(value) for value, is_age in zip(row.get("cells") or (), ages, strict=False) if not is_age),
        )
        for row in maps_in(table, "rows")
    ]


def arranged(objects: Sequence[ListedObject], columns: Sequence[Any], query: TableQuery) -> list[ListedObject]:
    """The objects that have all words of the text, in the order that was wanted."""
    words = query.text.lower().split()
    found = [one for one in objects if all(word in one.text for word in words)]
    if not query.sort:
        return found
    names = [one["name"] for one in columns]
    place = names.index(query.sort) if query.sort in names else None

    def key(one: ListedObject) -> tuple[int, float, str]:
        match query.sort:
            case "Age":
                return _sort_key(one.created)
            case "Namespace":
                return _sort_key(one.namespace)
            case _:
                return _sort_key(one.cells[place] if place is not None and one.cells else one.name)

    return sorted(found, key=key, reverse=query.is_descending)


def check_labels(labels: str) -> None:
    """BadRequest, with the position, if this is no label selector."""
    try:
        LabelSelector.parse(labels)
    except BadSelector as error:
        raise BadRequest(f"labels: {error}") from error


class SearchWords(msgspec.Struct, frozen=True):
    """What a search box says: a label selector, and words that the name, the namespace, the kind or a label have."""

    labels: str = ""
    words: tuple[str, ...] = ()


def read_search(text: str) -> SearchWords:
    """Words with `=` or a leading `!` select by label, such as `app=web`; all others are searched for."""
    parts = text.split()
    labels = [one for one in parts if "=" in one or one.startswith("!")]
    found = SearchWords(",".join(labels), tuple(one.lower() for one in parts if one not in labels))
    check_labels(found.labels)
    return found


async def search(client: Client, kinds: Sequence[ApiResource], wanted: SearchWords) -> dict[str, Any]:
    """The objects of these kinds that match, by their metadata; at most so many."""
    limit = asyncio.Semaphore(_CONCURRENT_LISTS)
    found = await asyncio.gather(*(_search_kind(client, one, wanted, limit) for one in kinds))
    all_ = [row for rows, _ in found for row in rows]
    is_partial = any(partial for _, partial in found) or len(all_) > _MOST_FOUND
    return {"objects": all_[:_MOST_FOUND], "isPartial": is_partial}


async def _search_kind(
    client: Client, served: ApiResource, wanted: SearchWords, limit: asyncio.Semaphore
) -> tuple[list[dict[str, Any]], bool]:
    rows: list[dict[str, Any]] = []
    token: str | None = None
    async with limit:
        for _ in range(MOST_OBJECTS // _METADATA_CHUNK):
            try:
                page = await list_page(
                    client,
                    OnlyMetadata(served.gvk),
                    labels=wanted.labels or None,
                    limit=_METADATA_CHUNK,
                    continue_=token,
                    managed_fields=False,
                )
            except LevelsetError as error:
                if isinstance(error, ApiError) and error.code == 400:
                    raise
                return rows, False  # forbidden, or deleted meanwhile: the other kinds are still searched
            rows += [_found(served, one) for one in page.items if _has_words(served, one, wanted.words)]
            token = page.continue_
            if token is None or len(rows) > _MOST_FOUND:
                break
    return rows[:_MOST_FOUND], token is not None


def _has_words(served: ApiResource, head: Head, words: Sequence[str]) -> bool:
    if not words:
        return True
    labels = " ".join(f"{name}={value}" for name, value in head.labels.items())
    text = f"{head.name} {head.namespace or ''} {served.gvk.kind} {labels}".lower()
    return all(word in text for word in words)


def _found(served: ApiResource, head: Head) -> dict[str, Any]:
    labels = dict(list(head.labels.items())[:8])
    return {"kind": kind_text(served.gvk), "name": head.name, "namespace": head.namespace, "labels": labels}


def _columns(table: Any) -> list[dict[str, Any]]:
    """The columns of a table, without its age: the page computes that itself, so that it goes on."""
    return [
        {
            "name": text_of(one.get("name")),
            "isWide": bool(one.get("priority")),
            "isNumber": one.get("type") in {"integer", "number"},
            "description": text_of(one.get("description")),
        }
        for one in maps_in(table, "columnDefinitions")
        if one.get("name") != "Age"
    ]


def _rows(table: Any) -> list[dict[str, Any]]:
    names = [text_of(one.get("name")) for one in maps_in(table, "columnDefinitions")]
    has_state = any(name.lower() in _STATE_COLUMNS for name in names)
    return [_row(one, names, has_state=has_state) for one in maps_in(table, "rows")]


def _row(row: Any, names: Sequence[str], *, has_state: bool) -> dict[str, Any]:
    tree = map_in(row, "object")
    meta = map_in(tree, "metadata")
    state, tone = ("", "none") if has_state else state_of(tree)
    cells = [_cell(value) for name, value in zip(names, row.get("cells") or (), strict=False) if name != "Age"]
    shown = [name for name in names if name != "Age"]
    return {
        "name": text_of(meta.get("name")),
        "namespace": text_of(meta.get("namespace")) or None,
        "created": text_of(meta.get("creationTimestamp")) or None,
        "deleted": text_of(meta.get("deletionTimestamp")) or None,
        "labels": {name: value for name, value in map_in(meta, "labels").items() if isinstance(value, str)},
        "state": state,
        "tone": tone,
        "cells": cells,
        "tones": [tone_of(name, cell) for name, cell in zip(shown, cells, strict=False)],
    }


def tone_of(column: str, cell: str) -> str:
    """How a cell of a state column is coloured: good, bad, busy or none."""
    if column.lower() not in _STATE_COLUMNS:
        return "none"
    word = cell.lower()
    ready, slash, wanted = cell.partition("/")
    if slash and ready.isdecimal() and wanted.isdecimal():
        return "good" if int(ready) >= int(wanted) else "busy"
    for words, tone in ((_GOOD_WORDS, "good"), (_BAD_WORDS, "bad"), (_BUSY_WORDS, "busy")):
        if word in words:
            return tone
    return "bad" if word.endswith(_BAD_ENDS) or word.startswith("errimage") else "none"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return (value if isinstance(value, str) else msgspec.json.encode(value).decode())[:_LONGEST_CELL]


def _sort_key(cell: str) -> tuple[int, float, str]:
    """Numbers in their order, before texts in theirs."""
    try:
        return 0, float(cell), ""
    except ValueError:
        return 1, 0.0, cell.lower()
