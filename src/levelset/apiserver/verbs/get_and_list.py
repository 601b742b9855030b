"""Reading objects and lists: at once from a storage that can, otherwise with waiting; the same answer either way.

What a list request asks for, and how to read it page by page; pure, so that the reading itself is told once.

A list may name a version (`resourceVersion`), how that is meant (`resourceVersionMatch`), a size of pages (`limit`) and
where to go on (`continue`). `read_steps` says what to read next and is told what was found; `reading` runs it against a
storage that answers at once or later.
"""

import asyncio
import base64
import binascii
from collections.abc import Awaitable, Generator, Mapping
from dataclasses import dataclass
from typing import Final, cast

import msgspec

from levelset.apiserver.registry import conversion_webhook
from levelset.apiserver.registry.conversion import NeedsConversion
from levelset.apiserver.registry.selectors import Selection, selection_of
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import World
from levelset.apiserver.wire.status_errors import ExpiredToken, invalid_options, not_found
from levelset.errors import BadRequest, Cause, Expired
from levelset.storage import FutureRevision, Item, NowaitReader, Page

__all__ = [
    "Ask",
    "ListQuery",
    "Listing",
    "get_item",
    "parse_list",
    "parse_revision",
    "read_list",
    "read_steps",
    "wait_revision",
]

Parameters = Mapping[str, tuple[str, ...]]

_FIRST_READ: Final = 500
"""How many items are read at once where a selector leaves out some of them and a page is not full yet."""
_LARGEST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ListQuery:
    """A checked list request."""

    selection: Selection | None = None
    limit: int | None = None
    exact: int | None = None
    """The revision to read at."""
    not_older: int = 0
    """The revision that must be there before the list is read."""
    after: str | None = None
    """Where to go on: the last key that was looked at, without what the keys of the resource begin with."""
    is_resumed: bool = False
    """Whether this is a later page: if its revision is forgotten, the client is offered to go on without it."""


@dataclass(frozen=True, slots=True)
class Listing:
    """A page of a list: what was found, as of which revision, and how to get the next page."""

    items: list[Item]
    revision: int
    token: str = ""
    remaining: int | None = None


@dataclass(frozen=True, slots=True)
class Ask:
    """One page to be read from the storage."""

    prefix: str
    limit: int | None
    after: str | None
    revision: int | None


class _Token(msgspec.Struct):
    v: int
    rv: int
    after: str


def parse_list(served: ServedResource, parameters: Parameters) -> ListQuery:
    """The list request in the parameters; raises 400 for values that are none and 422 for what does not go together."""
    if not parameters:
        return ListQuery()
    first = {name: values[0] for name, values in parameters.items()}
    _check_match(first)
    selection = selection_of(served, parameters)
    limit = _limit(first.get("limit", ""))
    asked = first.get("resourceVersion", "")
    revision = parse_revision(asked)
    token = first.get("continue", "")
    if token:
        if revision:
            raise BadRequest("specifying resource version is not allowed when using continue")
        read = _read_token(token)
        exact = None if read.rv < 0 else read.rv
        return ListQuery(selection, limit, exact, after=read.after, is_resumed=exact is not None)
    match = first.get("resourceVersionMatch", "")
    if revision and (match == "Exact" or (limit and not match)):
        return ListQuery(selection, limit, exact=revision)
    # Any version will do, so the whole list is as cheap as a page of it: clients count on getting it.
    return ListQuery(selection, None if asked == "0" else limit, not_older=revision)


def parse_revision(text: str) -> int:
    """The revision that a resourceVersion names; 0 for none, and for `0`, which means any. Raises BadRequest."""
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()) or len(text) > 19 or int(text) > _LARGEST:
        raise BadRequest(f"Invalid value: {text[:40]!r}: resourceVersion must be a number that an object or list had")
    return int(text)


def read_steps(served: ServedResource, namespace: str | None, query: ListQuery) -> Generator[Ask, Page, Listing]:
    """Reads a list: yields what to read and is sent the page; returns the result.

    Raises `Expired` (with a token to go on with if it was not the first page).
    """
    base = served.prefix_in(namespace)
    selection = query.selection
    prefix = _narrowed(served, namespace, selection)
    after = None if query.after is None else base + query.after
    try:
        if selection is None:
            page = yield Ask(prefix, query.limit, after, query.exact)
            token = _write_token(page.revision, page.items[-1].key[len(base) :]) if page.more else ""
            return Listing(list(page.items), page.revision, token, page.remaining if page.more else None)
        return (yield from _selected(served, base, Ask(prefix, query.limit, after, query.exact), selection))
    except Expired as error:
        if not query.is_resumed:
            raise
        resume = _write_token(-1, query.after or "")
        text = f"The provided continue parameter is too old to display a consistent list result: {error.message}"
        raise ExpiredToken(f"{text}. Start again, or use the token in metadata.continue", resume=resume) from error


def _selected(served: ServedResource, base: str, ask: Ask, selection: Selection) -> Generator[Ask, Page, Listing]:
    limit, found = ask.limit, list[Item]()
    size = None if limit is None else max(limit, _FIRST_READ)
    while True:
        page = yield Ask(ask.prefix, size, ask.after, ask.revision)
        for place, item in enumerate(page.items, 1):
            if selection.matches(served, item):
                found.append(item)
                if len(found) == limit and (page.more or place < len(page.items)):
                    return Listing(found, page.revision, _write_token(page.revision, item.key[len(base) :]))
        if not page.more:
            return Listing(found, page.revision)
        ask = Ask(ask.prefix, size, page.items[-1].key, page.revision)


def _narrowed(served: ServedResource, namespace: str | None, selection: Selection | None) -> str:
    """What the keys that may match begin with: hardly more than one, if a name is asked for."""
    name = None if selection is None else selection.name
    if not name or (served.namespaced and not namespace):
        return served.prefix_in(namespace)
    return served.key(namespace, name)


def _check_match(first: Mapping[str, str]) -> None:
    causes: list[Cause] = []
    match, version = first.get("resourceVersionMatch", ""), first.get("resourceVersion", "")
    if match:
        if first.get("continue"):
            causes.append(_forbidden("resourceVersionMatch is forbidden when continue is provided"))
        elif not version:
            causes.append(_forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided"))
        if match not in ("Exact", "NotOlderThan"):
            text = f'Unsupported value: "{match[:40]}": supported values: "Exact", "NotOlderThan"'
            causes.append(Cause("resourceVersionMatch", "FieldValueNotSupported", text))
        elif match == "Exact" and version == "0":
            causes.append(_forbidden('resourceVersionMatch "Exact" is forbidden for resourceVersion "0"'))
    if first.get("sendInitialEvents"):
        text = "Forbidden: sendInitialEvents is forbidden for list"
        causes.append(Cause("sendInitialEvents", "FieldValueForbidden", text))
    if causes:
        raise invalid_options("ListOptions", causes)


def _forbidden(text: str) -> Cause:
    return Cause("resourceVersionMatch", "FieldValueForbidden", f"Forbidden: {text}")


def _limit(text: str) -> int | None:
    """How many items at most; None for no limit, which is also what 0 and negative numbers mean."""
    if not text:
        return None
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 19:
        raise BadRequest(f"Invalid value: {text[:40]!r}: limit must be a whole number")
    limit = int(text)
    return limit if 0 < limit <= _LARGEST else None


def _write_token(revision: int, after: str) -> str:
    data = msgspec.json.encode(_Token(1, revision, after))
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _read_token(text: str) -> _Token:
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        token = _decode_token(data)
    except (msgspec.MsgspecError, binascii.Error, ValueError, RecursionError) as error:
        raise BadRequest("continue key is not valid: it must come from the list before, unchanged") from error
    if token.v != 1 or not -1 <= token.rv <= _LARGEST or token.rv == 0:
        raise BadRequest("continue key is not valid: start the list again")
    return token


_decode_token: Final = msgspec.json.Decoder(_Token).decode


Steps = Generator[Ask, Page, Listing]

_PATIENCE: Final = 3.0
"""Seconds to wait for a revision that a client knows and this server does not know yet."""


def get_item(
    world: World, served: ServedResource, namespace: str | None, name: str, *, resource_version: str | None = None
) -> Item | Awaitable[Item]:
    """The stored object: at once if the storage can, and nobody has to convert it; NotFound if there is none.

    A resource version is one that the answer may not be older than: it is waited for, a while.
    """
    key = served.key(namespace, name)
    not_older = parse_revision(resource_version) if resource_version else 0
    reader = world.reader
    if reader is None or not_older > world.storage.revision or served.awaits:
        return _get_later(world, served, key, name, not_older)
    item = reader.get_nowait(key)
    if item is None:
        raise not_found(served, name)
    return item


def read_list(
    world: World, served: ServedResource, namespace: str | None, query: ListQuery
) -> Listing | Awaitable[Listing]:
    """The objects that a list request asks for: at once if the storage can."""
    reader = world.reader
    if served.awaits:
        return _list_converted(world, served, namespace, query)
    if reader is None or query.not_older > world.storage.revision:
        return _list_later(world, served, namespace, query)
    return _list_nowait(reader, read_steps(served, namespace, query))


async def wait_revision(world: World, revision: int) -> None:
    """Waits until the storage has come to a revision; raises FutureRevision (504) if it does not within 3 s."""
    storage = world.storage
    if storage.revision >= revision:
        return
    try:
        async with asyncio.timeout(_PATIENCE), storage.watch("", after=storage.revision) as changes:
            async for _ in changes:
                if storage.revision >= revision:
                    return
    except TimeoutError:
        pass
    raise FutureRevision(revision, storage.revision)


async def _get_later(world: World, served: ServedResource, key: str, name: str, not_older: int) -> Item:
    await wait_revision(world, not_older)
    item = await world.storage.get(key)
    if item is None:
        raise not_found(served, name)
    if served.awaits:
        await conversion_webhook.convert(served, [item])
    return item


async def _list_converted(world: World, served: ServedResource, namespace: str | None, query: ListQuery) -> Listing:
    """As `_list_later`, with all objects converted, so that whoever shows them need not wait."""
    try:
        listing = await _list_later(world, served, namespace, query)
    except NeedsConversion:
        # A selector looks into the objects before it is known which of them are meant.
        await conversion_webhook.convert(served, (await world.storage.list(served.prefix_in(namespace))).items)
        listing = await _list_later(world, served, namespace, query)
    await conversion_webhook.convert(served, listing.items)
    return listing


async def _list_later(world: World, served: ServedResource, namespace: str | None, query: ListQuery) -> Listing:
    await wait_revision(world, query.not_older)
    steps = read_steps(served, namespace, query)
    step = _tell(steps, None)
    while isinstance(step, Ask):
        try:
            page = await world.storage.list(step.prefix, limit=step.limit, after=step.after, revision=step.revision)
        except Expired as error:
            step = _tell(steps, error)
        else:
            step = _tell(steps, page)
    return step


def _list_nowait(reader: NowaitReader, steps: Steps) -> Listing:
    step = _tell(steps, None)
    while isinstance(step, Ask):
        try:
            page = reader.list_nowait(step.prefix, limit=step.limit, after=step.after, revision=step.revision)
        except Expired as error:
            step = _tell(steps, error)
        else:
            step = _tell(steps, page)
    return step


def _tell(steps: Steps, found: Page | Expired | None) -> Ask | Listing:
    """Goes on with what was found: the next thing to read, or the result."""
    try:
        if isinstance(found, Expired):
            return steps.throw(found)
        return next(steps) if found is None else steps.send(found)
    except StopIteration as end:
        return cast("Listing", end.value)
