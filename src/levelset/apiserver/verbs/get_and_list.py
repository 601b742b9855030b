"""Gets objects and lists them, with `resourceVersion`, `resourceVersionMatch`, `limit` and `continue`.

Reads return at once (`get_item`, `list_items`). What a request may have to wait for is a revision that the storage has
not reached yet, and the conversion of objects by a webhook (`read_item`, `read_list`).
"""

import asyncio
import base64
import binascii
from collections.abc import Generator, Mapping
from functools import partial
from posixpath import normpath
from typing import Final

import msgspec

from levelset.apiserver.registry import conversion_webhook
from levelset.apiserver.registry.conversion import ConversionRequired
from levelset.apiserver.registry.selectors import Selectors, read_selectors
from levelset.apiserver.registry.storage_codec import served_tree
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import ServerState, Tree
from levelset.apiserver.schema import field_errors
from levelset.apiserver.schema.field_errors import show
from levelset.apiserver.wire.request_options import read_list_numbers
from levelset.apiserver.wire.status_errors import ExpiredContinueToken, damaged_object, invalid_options, not_found
from levelset.errors import ApiError, BadRequest, Cause, Expired
from levelset.storage import FutureRevision, Item, NowaitReader

__all__ = [
    "ListQuery",
    "ListResult",
    "get_item",
    "list_items",
    "list_steps",
    "parse_cached_revision",
    "parse_list_options",
    "parse_revision",
    "read_item",
    "read_large",
    "read_list",
    "wait_revision",
]


Parameters = Mapping[str, tuple[str, ...]]
_MIN_SELECTED_READ: Final = 500
"""The minimum number of items to read per page with a selector, which may leave out most of them."""
_READ_AT_ONCE: Final = 20_000
"""How many objects of a list without a limit are looked up before others may run: some 6 ms."""
_EXAMINED_AT_ONCE: Final = 1_000
_EXAMINED_BYTES: Final = 512 * 1024
"""How many objects, and bytes of them, a selector is compared with before others may run."""
_INVALID_REVISION: Final = "invalid resource version: "
_MAX_REVISION: Final = 2**63 - 1
_REVISION_WAIT_SECONDS: Final = 3.0
"""The maximum wait, in seconds, for a revision that this server has not reached yet."""


class ListQuery(msgspec.Struct, frozen=True):
    """A validated list request."""

    selection: Selectors | None = None
    limit: int | None = None
    exact: int | None = None
    """The revision to read at."""
    not_older: int = 0
    """The minimum revision of the result; the read waits for it."""
    after: str | None = None
    """Where to continue: the last key of the previous page, relative to the storage prefix of the list."""
    is_newest: bool = False
    """Whether the result must have everything that was committed before the request, also by other servers."""
    is_resumed: bool = False
    """Whether this is a later page; if its revision is compacted, the client gets a token to continue without it."""


class ListResult(msgspec.Struct, frozen=True):
    """A page of a list: its items, their revision, the continue token and the number of remaining items."""

    items: list[Item]
    revision: int
    token: str = ""
    remaining: int | None = None


class _Token(msgspec.Struct):
    v: int
    rv: int
    after: str


def get_item(state: ServerState, served: ServedResource, namespace: str | None, name: str) -> Item:
    """Returns the stored object; raises NotFound, and ServerFailed if it is damaged."""
    key = served.key(namespace, name)
    item = state.reader.get_nowait(key)
    if item is None:
        raise damaged_object(served, name) if key in state.reader.damaged else not_found(served, name)
    return item


async def read_large(state: ServerState, served: ServedResource, item: Item) -> Tree:
    """As `served_tree`, for a large object: decoded in a thread."""
    return await state.expensive_work.run(partial(served_tree, served, item))


async def read_item(
    state: ServerState, served: ServedResource, namespace: str | None, name: str, *, resource_version: str = ""
) -> Item:
    """As `get_item`, after the resourceVersion is reached; the object is converted."""
    if state.shared is not None and not resource_version:
        await state.shared.wait_current()
    await wait_revision(state, parse_cached_revision(served, resource_version))
    item = get_item(state, served, namespace, name)
    if served.converts_by_webhook:
        await conversion_webhook.convert_items(served, [item])
    return item


def parse_cached_revision(served: ServedResource, text: str) -> int:
    """The resourceVersion of a get or a watch; as upstream, one that cannot be read is a 500, unlike that of a list.

    Events, which upstream does not cache, are the exception.
    """
    try:
        return parse_revision(text)
    except BadRequest as error:
        if served.kind == "Event" and not served.custom:
            raise
        raise ApiError(error.message.removeprefix(_INVALID_REVISION), code=500, reason="") from None


async def read_list(state: ServerState, served: ServedResource, namespace: str | None, query: ListQuery) -> ListResult:
    """As `list_items`, after the revision of the query is reached and the objects are converted."""
    if state.shared is not None and query.is_newest:
        await state.shared.wait_current()
    await wait_revision(state, query.not_older)
    if not served.converts_by_webhook:
        steps = list_steps(state.reader, served, namespace, query)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                listing: ListResult = end.value
                return listing
            await asyncio.sleep(0)
    try:
        listing = list_items(state.reader, served, namespace, query)
    except ConversionRequired:
        # A field selector evaluates the converted objects, so all of them are needed first.
        everything = state.reader.list_nowait(served.prefix_in(namespace)).items
        await conversion_webhook.convert_items(served, everything)
        listing = list_items(state.reader, served, namespace, query)
    await conversion_webhook.convert_items(served, listing.items)
    return listing


async def wait_revision(state: ServerState, revision: int) -> None:
    """Waits until the storage has reached a revision; raises FutureRevision (504) after 3 s."""
    storage = state.storage
    if storage.revision < revision and state.shared is not None:
        await state.shared.wait_current()
    if storage.revision >= revision:
        return
    changes = state.reader.watch("", after=storage.revision)
    # Ends the iteration. Not `asyncio.timeout`, which needs a task: reads run without one (`eager_coroutines.py`).
    timer = asyncio.get_running_loop().call_later(_REVISION_WAIT_SECONDS, changes.close_nowait)
    try:
        async with changes:
            async for _ in changes:
                if storage.revision >= revision:
                    return
    finally:
        timer.cancel()
    raise FutureRevision(revision, storage.revision)


def parse_list_options(served: ServedResource, parameters: Parameters) -> ListQuery:
    """Parses the list options of a query; raises 400 for invalid values and 422 for invalid combinations."""
    if not parameters:
        return ListQuery(is_newest=True)
    first = {name: values[0] for name, values in parameters.items()}
    _, limit = read_list_numbers(first)
    selectors = read_selectors(parameters)
    _check_match(first)
    selection = None if selectors is None else selectors.resolve(served)
    given = first.get("resourceVersion", "")
    token = first.get("continue", "")
    if token and given not in ("", "0"):
        raise BadRequest("specifying resource version is not allowed when using continue")
    revision = parse_revision(given)
    if token:
        read = _read_token(token)
        exact = None if read.rv < 0 else read.rv
        return ListQuery(selection, limit, exact, after=read.after, is_resumed=exact is not None)
    match = first.get("resourceVersionMatch", "")
    is_one = selection is not None and not served.namespaced and selection.name is not None  # upstream gets that one
    if revision and (match == "Exact" or (limit and not match and not is_one)):
        return ListQuery(selection, limit, exact=revision)
    # As upstream, which serves `resourceVersion=0` from its watch cache: the limit is ignored.
    return ListQuery(selection, None if given == "0" else limit, not_older=revision, is_newest=not given)


def parse_revision(text: str) -> int:
    """Parses a resourceVersion; returns 0 for none and for `0`, which means any. Raises BadRequest."""
    if not text:
        return 0
    is_number = text.isascii() and text.isdigit()
    if not is_number or len(text) > 19 or int(text) > _MAX_REVISION:
        problem = f"strconv.ParseUint: parsing {show(text)}: {'value out of range' if is_number else 'invalid syntax'}"
        raise BadRequest(f"{_INVALID_REVISION}resourceVersion: Invalid value: {show(text)}: {problem}")
    return int(text)


def list_items(reader: NowaitReader, served: ServedResource, namespace: str | None, query: ListQuery) -> ListResult:
    """Returns the requested page of a list; raises `Expired`, for a later page with a token to continue without it."""
    steps = list_steps(reader, served, namespace, query)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            listing: ListResult = end.value
            return listing


def list_steps(
    reader: NowaitReader, served: ServedResource, namespace: str | None, query: ListQuery
) -> Generator[None, None, ListResult]:
    """As `list_items`, in steps, between which others may run: a selector may have to read very many objects."""
    try:
        return (yield from _list_steps(reader, served, namespace, query))
    except (Expired, FutureRevision) as error:
        if not query.is_resumed:
            raise
        # A token of the future is forged, or from before an older copy of the data was restored: start again, too.
        resume = _write_token(-1, query.after or "")
        text = f"The provided continue parameter is too old to display a consistent list result: {error.message}"
        raise ExpiredContinueToken(
            f"{text}. Start again, or use the token in metadata.continue", resume=resume
        ) from error


def _list_steps(
    reader: NowaitReader, served: ServedResource, namespace: str | None, query: ListQuery
) -> Generator[None, None, ListResult]:
    if query.selection is None and query.limit is not None:
        base = served.prefix_in(namespace)
        after = None if query.after is None else base + query.after
        page = reader.list_nowait(base, limit=query.limit, after=after, revision=query.exact)
        token = _write_token(page.revision, page.items[-1].key[len(base) :]) if page.more else ""
        return ListResult(list(page.items), page.revision, token, page.remaining if page.more else None)
    if query.limit is not None:
        return (yield from _read_slices(reader, served, namespace, query, max(query.limit, _MIN_SELECTED_READ)))
    try:
        return (yield from _read_slices(reader, served, namespace, query, _READ_AT_ONCE))
    except Expired:
        if query.exact is not None:
            raise
        # So much was written between two slices that the revision of the first one is gone: all at once, then.
        return (yield from _read_slices(reader, served, namespace, query, None))


def _read_slices(
    reader: NowaitReader, served: ServedResource, namespace: str | None, query: ListQuery, size: int | None
) -> Generator[None, None, ListResult]:
    """Reads the selected items, so many at a time, all at the revision of the first ones."""
    selection, limit, revision = query.selection, query.limit, query.exact
    base, prefix = served.prefix_in(namespace), _narrowest_prefix(served, namespace, selection)
    after = None if query.after is None else base + query.after
    is_one = query.after is None and prefix != base  # as upstream, which gets the only object with this name
    found: list[Item] = []
    pace = _Pace()
    while True:
        page = reader.list_nowait(prefix, limit=size, after=after, revision=revision)
        if selection is None:
            found += page.items
        else:
            for position, item in enumerate(page.items, 1):
                if pace.is_due(item):
                    yield
                if selection.matches(served, item):
                    found.append(item)
                    if len(found) == limit and not is_one and (page.more or position < len(page.items)):
                        return ListResult(found, page.revision, _write_token(page.revision, item.key[len(base) :]))
        if not page.more:
            return ListResult(found, page.revision)
        after, revision = page.items[-1].key, page.revision
        yield


class _Pace:
    """Says after how many objects others may run."""

    __slots__ = ("_bytes", "_objects")

    def __init__(self) -> None:
        self._objects = self._bytes = 0

    def is_due(self, item: Item) -> bool:
        """Whether others may run before this object is examined."""
        self._objects += 1
        self._bytes += len(item.value)
        if self._objects < _EXAMINED_AT_ONCE and self._bytes < _EXAMINED_BYTES:
            return False
        self._objects = self._bytes = 0
        return True


def _narrowest_prefix(served: ServedResource, namespace: str | None, selection: Selectors | None) -> str:
    """Returns the storage prefix of the objects that may match; nearly one key, if a name is selected."""
    name = None if selection is None else selection.name
    if not name or (served.namespaced and not namespace):
        return served.prefix_in(namespace)
    return served.key(namespace, name)


def _check_match(first: Mapping[str, str]) -> None:
    causes: list[Cause] = []
    match, version = first.get("resourceVersionMatch", ""), first.get("resourceVersion", "")
    if match:
        if not version:
            causes.append(_forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided"))
        if first.get("continue"):
            causes.append(_forbidden("resourceVersionMatch is forbidden when continue is provided"))
        if match not in ("Exact", "NotOlderThan"):
            causes.append(field_errors.not_supported("resourceVersionMatch", match, ("Exact", "NotOlderThan", "")))
        elif match == "Exact" and version == "0":
            causes.append(_forbidden('resourceVersionMatch "exact" is forbidden for resourceVersion "0"'))
    if "sendInitialEvents" in first:
        causes.append(field_errors.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if causes:
        raise invalid_options("ListOptions", causes)


def _forbidden(text: str) -> Cause:
    return Cause("resourceVersionMatch", "FieldValueForbidden", f"Forbidden: {text}")


def _write_token(revision: int, after: str) -> str:
    data = msgspec.json.encode(_Token(1, revision, after))
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _read_token(text: str) -> _Token:
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        token = _decode_token(data)
    except (msgspec.MsgspecError, binascii.Error, ValueError, RecursionError) as error:
        raise BadRequest("continue key is not valid: it must come from the list before, unchanged") from error
    if token.v != 1 or not -1 <= token.rv <= _MAX_REVISION or token.rv == 0:
        raise BadRequest("continue key is not valid: start the list again")
    # As upstream: a key that leads elsewhere did not come from a list.
    if not token.after or token.after.startswith("/") or normpath(f"/{token.after}") != f"/{token.after}":
        raise BadRequest("continue key is not valid: its key is not that of an object; start the list again")
    return token


_decode_token: Final = msgspec.json.Decoder(_Token).decode
