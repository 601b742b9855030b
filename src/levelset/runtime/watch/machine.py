"""The state machine of a watch: list, watch, resume, relist. Pure: no I/O, no clock.

The caller (`watcher.py`) gets the next `step`, carries it out and reports the outcome (`listed`, `opened`, `received`,
`ended`, `idled`, `failed`); events come back from these calls.

| phase    | step           | goes on to                                                                          |
|----------|----------------|-------------------------------------------------------------------------------------|
| OPENING  | open with list | SYNCING when open; LISTING if the server does not support streaming lists           |
| SYNCING  | read           | WATCHING at the marked bookmark; OPENING (finally LISTING) if it breaks off         |
| LISTING  | next page      | RESUMING after the last one                                                         |
| RESUMING | open at version | WATCHING when open                                                                 |
| WATCHING | read           | RESUMING when it ends or breaks                                                     |
| any      |                | OPENING or LISTING again: 410 in any form, 404, a version that cannot be trusted    |

A list is requested without a resourceVersion, which means the most recent one: only then it is never older than what
subscribers have seen or written. With `any_version` the first list may be any version the server has in its watch
cache (resourceVersion=0) and later ones are not older than the last version seen; these are not paged, because servers
answer them from memory.

`classify_failure` says what to do about a failure, `KindFilter` drops events about other kinds, and `is_older` compares
resourceVersions: if both are whole numbers, as those of Kubernetes are, the smaller one is older; other versions can
only be equal or not.
"""

from collections.abc import Sequence
from enum import Enum, auto
from typing import Final, Generic, TypeVar

import msgspec

from levelset.client.lists import ObjectPage
from levelset.client.object_types import Item, View
from levelset.client.watch_events import WatchEvent
from levelset.errors import (
    ApiError,
    BadObject,
    Expired,
    Forbidden,
    ServerFailed,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from levelset.objects.cached_object import CachedObject
from levelset.objects.ref import GroupVersionKind
from levelset.runtime.watch.events import Apply, Delete, Event, Init, InitApply, InitDone

__all__ = [
    "FailureAction",
    "KindFilter",
    "ListPage",
    "Machine",
    "OpenWatch",
    "Phase",
    "ReadWatch",
    "Recover",
    "Step",
    "classify_failure",
    "is_older",
    "newer_version",
]

K = TypeVar("K")

_BRIEF: Final = 1.0
"""A watch of fewer seconds without an event counts as failed, even if the server ended it properly."""
_MAX_BROKEN_LISTS: Final = 2
"""After so many broken streaming lists, or expired paged lists, the next one is requested in another way."""
_MAX_REPEATS: Final = 3
"""After so many server errors for the same request the watch lists again."""

_TOO_LARGE: Final = "ResourceVersionTooLarge"
_REFUSALS: Final = frozenset({400, 405, 406, 415, 422, 501})

_METADATA: Final = GroupVersionKind("meta.k8s.io", "v1", "PartialObjectMetadata")
_NEAR: Final = 256


class Phase(Enum):
    """The state of the machine; see the module's docstring."""

    OPENING = auto()
    SYNCING = auto()
    LISTING = auto()
    RESUMING = auto()
    WATCHING = auto()


class ListPage(msgspec.Struct, frozen=True):
    """Request this page, then call `listed`; with `is_at_least` it may be newer than the version."""

    limit: int | None = None
    continue_: str | None = None
    resource_version: str | None = None
    is_at_least: bool = False


class OpenWatch(msgspec.Struct, frozen=True):
    """Open this watch, then call `opened`; with `is_initial` it is a streaming list (sendInitialEvents)."""

    resource_version: str | None = None
    is_initial: bool = False


class ReadWatch(msgspec.Struct, frozen=True):
    """Read from the open watch, then call `received`, `ended` or `idled`."""


class Recover(msgspec.Struct, frozen=True):
    """Close the watch and report the error; with `waits`, back off before the next step."""

    error: Exception
    waits: bool = True


Step = ListPage | OpenWatch | ReadWatch | Recover
"""What to do next."""


class FailureAction(Enum):
    """What to do about a failure."""

    RETRY = auto()
    """It is transient, or a person will fix it: send the same request later."""
    EXPIRED = auto()
    """The server does not have this version (any more, or yet): start over without one."""
    UNSUPPORTED = auto()
    """The server does not support the request: send another kind of request."""
    RELIST = auto()
    """The known version cannot be trusted: list again."""


# Used for every chunk that arrives; the lookup of an enum member is measurable there.
_WATCHING: Final = Phase.WATCHING
_READ: Final = ReadWatch()


class Machine(Generic[K]):
    """The watch of one kind.

    - `streaming`: use streaming lists (sendInitialEvents); None means until the server turns out not to support them.
    - `any_version`: lists may come from the server's watch cache, see the module's docstring.
    """

    def __init__(
        self,
        view: View[K],
        *,
        page_size: int | None = 500,
        streaming: bool | None = None,
        any_version: bool = False,
    ) -> None:
        self.resource_version: str | None = None
        """All events up to this version have been returned."""
        self.failures = 0
        """The number of `Recover` steps with a wait since the last progress."""
        self.lists = self.bookmarks = 0
        """The numbers of completed lists and of bookmarks."""
        self.skipped: list[BadObject] = []
        """Errors about unusable events; the caller reports and removes them."""
        self._view = view
        self._filter = KindFilter(view)
        self._page_size = page_size
        self._is_streaming, self._may_fall_back = streaming is not False, streaming is None
        self._any_version = any_version
        self._expirations = self._repeats = self._unfinished = 0
        self._was_brief = False
        self._recover: Recover | None = None
        self._token: str | None = None
        self._page_version = self._opened_at = ""
        self._held: dict[tuple[str | None, str], CachedObject] = {}
        self._start_over()

    def step(self) -> Step:
        """What to do next; a `Recover` is returned once."""
        recover, self._recover = self._recover, None
        if recover is not None:
            return recover
        if self.phase is _WATCHING:
            return _READ
        match self.phase:
            case Phase.OPENING:
                return OpenWatch(self._least(), is_initial=True)
            case Phase.LISTING:
                return self._next_page()
            case Phase.RESUMING:
                return OpenWatch(self.resource_version)
            case Phase.SYNCING:
                return _READ

    def listed(self, page: ObjectPage) -> list[Event[K]]:
        """A page was received. The version of the list is that of its last page that has one."""
        self._repeats = 0
        version = page.resource_version or self._page_version
        if not (version or page.continue_):
            self._relist(BadObject("the list has no resourceVersion to watch from"))
            return []
        view = self._view
        events = self._begin()
        events.extend([InitApply(Item(cached, view)) for cached in page.items])
        self._page_version, self._token = version, page.continue_
        if page.continue_ is None:
            events.append(self._complete(version))
            self.phase = Phase.RESUMING
        return events

    def opened(self) -> None:
        """The watch is open."""
        self.phase = Phase.SYNCING if self.phase is Phase.OPENING else Phase.WATCHING
        self._opened_at = self.resource_version or ""

    def received(self, batch: Sequence[WatchEvent]) -> list[Event[K]]:
        """Events were received on the open watch; returns the events for subscribers."""
        return self._sync(batch) if self.phase is Phase.SYNCING else self._follow(batch)

    def ended(self, *, lasted: float) -> None:
        """The server ended the watch properly, `lasted` seconds after it was opened.

        The watch resumes at once, but not repeatedly: a server that ends each watch as soon as it is open must not
        receive a thousand requests a second.
        """
        if self.phase is Phase.SYNCING:
            self.failed(Unreachable("the server ended the list before it was complete"), lasted=lasted)
            return
        was_brief, self._was_brief = self._was_brief, lasted < _BRIEF
        if not self._was_brief:
            self._expirations = self._repeats = 0
        self.phase = Phase.RESUMING
        if self._was_brief and (was_brief or self.resource_version == self._opened_at):
            self._set_recover(Unreachable("the server ended the watch as soon as it was open"))

    def idled(self) -> None:
        """Nothing was received for too long, not even a bookmark: the connection may be dead."""
        if self.phase is Phase.SYNCING:
            self.failed(Unreachable("the streaming list stalled before it was complete"))
        else:
            self.phase = Phase.RESUMING

    def failed(self, error: Exception, *, lasted: float = 0.0) -> None:
        """The step failed, or the watch broke `lasted` seconds after it was opened."""
        if lasted >= _BRIEF:
            self._expirations = self._repeats = 0
        action = classify_failure(error)
        self._expirations += action is FailureAction.EXPIRED
        self._unfinished += self.phase is Phase.SYNCING
        if action is FailureAction.RETRY and self._may_repeat(error):
            self._set_recover(error)
        elif self._may_fall_back and self._has_no_streams(action):
            self._is_streaming = False
            self._relist(error, waits=action is not FailureAction.UNSUPPORTED)
        else:
            self._relist(error, waits=action is not FailureAction.EXPIRED or self._expirations > 1)

    def _may_repeat(self, error: Exception) -> bool:
        """Whether the same request may succeed later, from the same version."""
        if self.phase is Phase.SYNCING:
            return False
        if self.phase is Phase.WATCHING:
            self.phase = Phase.RESUMING
        # A server may report "too old" as a 500: a version that always fails must not be requested for ever.
        self._repeats += isinstance(error, ApiError) and error.code >= 500
        return self._repeats < _MAX_REPEATS

    def _has_no_streams(self, action: FailureAction) -> bool:
        """Whether the server seems not to support streaming lists: it says so, or they never complete."""
        if self.phase is Phase.OPENING and action in {FailureAction.UNSUPPORTED, FailureAction.RETRY}:
            return True
        return self._unfinished >= _MAX_BROKEN_LISTS or (
            self.phase is Phase.OPENING and self._expirations >= _MAX_BROKEN_LISTS
        )

    def _set_recover(self, error: Exception, *, waits: bool = True) -> None:
        self.failures += waits
        self._recover = Recover(error, waits)

    def _relist(self, error: Exception, *, waits: bool = True) -> None:
        self._set_recover(error, waits=waits)
        self._start_over()

    def _start_over(self) -> None:
        self.phase = Phase.OPENING if self._is_streaming else Phase.LISTING
        self._has_begun = False
        self._repeats = 0
        self._token = None
        self._page_version = self._opened_at = ""
        self._held.clear()

    def _least(self) -> str | None:
        """The minimum version of a list; None means the most recent one."""
        if not self._any_version or self._expirations:
            return None
        return self.resource_version or "0"

    def _next_page(self) -> ListPage:
        least = self._least()
        if self._token is not None:
            return ListPage(self._page_size, self._token)
        if least is not None:
            return ListPage(None, None, least, is_at_least=least != "0")
        # The continue token of a paged list expired repeatedly: request the whole list at once.
        return ListPage(self._page_size if self._expirations < _MAX_BROKEN_LISTS else None)

    def _begin(self) -> list[Event[K]]:
        begins, self._has_begun = not self._has_begun, True
        return [Init()] if begins else []

    def _complete(self, version: str) -> InitDone:
        """The list is complete, which counts as progress unless every watch after a list expires."""
        self.resource_version = self._opened_at = version
        self.lists += 1
        self._has_begun = False
        self._unfinished = 0
        if not self._expirations:
            self.failures = 0
        return InitDone(version)

    def _sync(self, batch: Sequence[WatchEvent]) -> list[Event[K]]:
        """The events of a streaming list; they are not ordered, so they do not advance the version."""
        events = self._begin()
        add, view, held = events.append, self._view, self._held
        prefix, beginning = self._filter.prefix, self._filter.beginning
        pending = iter(batch)
        for event in pending:
            cached = event.cached
            if cached is None or event.type == "BOOKMARK":
                if event.is_initial_end:
                    return [*events, *self._synced(event), *self._follow(list(pending))]
                if cached is None:
                    self.failed(event.status or BadObject("an event of the list has no object"))
                    return []
                continue
            if cached.raw[beginning] != prefix:
                if not self._is_ours(event):
                    continue
                prefix, beginning = self._filter.prefix, self._filter.beginning
            if event.type == "DELETED":
                held[cached.namespace, cached.name] = cached
                continue
            if held:
                held.pop((cached.namespace, cached.name), None)
            add(InitApply(Item(cached, view)))
        return events

    def _synced(self, event: WatchEvent) -> list[Event[K]]:
        version = event.cached.resource_version if event.cached is not None else ""
        if not version:
            self._relist(BadObject("the end of the list has no resourceVersion to watch from"))
            return []
        self.phase = Phase.WATCHING
        # Deletions that arrived during the list are returned after it: without them a cache would never drop these.
        gone = [Delete(Item(cached, self._view)) for cached in self._held.values()]
        self._held.clear()
        return [self._complete(version), *gone]

    def _follow(self, batch: Sequence[WatchEvent]) -> list[Event[K]]:
        """The events of an open watch; those after an error or an object without a version are discarded."""
        events: list[Event[K]] = []
        if self.phase is not _WATCHING:
            return events
        add, view, top = events.append, self._view, self.resource_version or ""
        prefix, beginning = self._filter.prefix, self._filter.beginning
        for event in batch:
            cached = event.cached
            if cached is None or event.type == "BOOKMARK":
                self._move(top, len(events))
                if not self._mark(event):
                    return events
                top = self.resource_version or ""
                continue
            if cached.raw[beginning] != prefix:
                if not self._is_ours(event):
                    continue
                prefix, beginning = self._filter.prefix, self._filter.beginning
            version = cached.resource_version
            # The usual case, without a call: a greater number of the same length.
            if len(version) == len(top) and version > top:
                top = version
            elif version:
                top = newer_version(top, version)
            else:
                self._move(top, len(events))
                self._relist(BadObject(f"{cached.name} has no resourceVersion to resume from"))
                return events
            item = Item(cached, view)
            add(Delete(item) if event.type == "DELETED" else Apply(item))
        self._move(top, len(events))
        return events

    def _move(self, version: str, events: int) -> None:
        self.resource_version = version
        if events:
            self.failures = self._expirations = self._repeats = 0

    def _mark(self, event: WatchEvent) -> bool:
        """Advances to the version of a bookmark; returns whether the watch can continue after it."""
        if event.type != "BOOKMARK" or event.cached is None:
            self.failed(event.status or BadObject("an event of the watch has no object"))
            return False
        version = event.cached.resource_version
        if is_older(version, self._opened_at):
            text = f"the server is at version {version}, before {self._opened_at}, where this watch started"
            self.failed(Expired(f"{text}: it has lost later versions, as after a restore"))
            return False
        self.bookmarks += 1
        if version:
            self._move(newer_version(self.resource_version or "", version), 1)
        return True

    def _is_ours(self, event: WatchEvent) -> bool:
        if event.cached is None or self._filter.holds(event.cached.raw):
            return True
        other = self._filter.describe(event.cached.raw)
        self.skipped.append(BadObject(f"skipped a {event.type} event about {other}, which is not the watched kind"))
        return False


def classify_failure(error: Exception) -> FailureAction:
    """What to do about a failure: an HTTP status, an ERROR event on the stream, or no response."""
    match error:
        case Expired():
            return FailureAction.EXPIRED
        case ApiError() if _is_too_large(error):
            return FailureAction.EXPIRED
        case ApiError() if error.code in _REFUSALS:
            return FailureAction.UNSUPPORTED
        case ServerFailed() | TooManyRequests() | Unauthorized() | Forbidden():
            return FailureAction.RETRY
        case Unreachable() | TimeoutError():
            return FailureAction.RETRY
        case _:
            return FailureAction.RELIST


def _is_too_large(error: ApiError) -> bool:
    """Whether the server has not reached the version, or has lost it, as after a restore from a backup."""
    says_so = error.message.startswith("Too large resource version")
    return says_so or any(cause.reason == _TOO_LARGE for cause in error.causes)


def is_older(version: str, than: str) -> bool:
    """Whether a version is certainly older than another."""
    if len(version) == len(than):
        # Strings of the same length compare as their numbers do; versions that are not numbers have no order.
        return version < than and _is_number(version) and _is_number(than)
    return _is_number(version) and _is_number(than) and int(version) < int(than)


def newer_version(known: str, seen: str) -> str:
    """The version to resume from after another one was seen; it never goes back."""
    return known if is_older(seen, known) else seen


def _is_number(version: str) -> bool:
    return version.isascii() and version.isdigit()


class KindFilter:
    """Recognizes the objects of one kind, usually without decoding them."""

    __slots__ = ("_gvk", "_mark", "beginning", "prefix")

    def __init__(self, view: View[object]) -> None:
        self._gvk = _METADATA if view.is_metadata else view.gvk
        self._mark = f'"kind":"{self._gvk.kind}"'.encode()
        self.prefix = b"none yet"
        """The prefix of the last object of the kind: a server encodes all of them alike, so the next one has it too."""
        self.beginning = slice(len(self.prefix))
        """Where an object has the prefix: comparing it there takes half as long as `startswith`."""

    def holds(self, raw: bytes) -> bool:
        """Whether this is an object of the kind; one without a kind counts as such."""
        if raw[self.beginning] == self.prefix:
            return True
        named = _read(raw)
        if not self._matches(named):
            return False
        # Kind and version are the object's own if no nested object, such as an owner, begins before them.
        marks = self._mark, f'"apiVersion":"{named.api_version}"'.encode()
        end = max(raw.find(mark, 0, _NEAR) + len(mark) for mark in marks)
        if all(mark in raw[:end] for mark in marks) and raw.count(b"{", 0, end) == 1:
            self.prefix, self.beginning = raw[:end], slice(end)
        return True

    def describe(self, raw: bytes) -> str:
        """The kind of an object that does not belong here, as text."""
        named = _read(raw)
        return f"{named.kind} of {named.api_version}" if named.kind else "something without a kind"

    def _matches(self, named: "_Named") -> bool:
        group = (named.api_version or "").rpartition("/")[0]
        return not named.kind or (named.kind == self._gvk.kind and (group == self._gvk.group or not named.api_version))


class _Named(msgspec.Struct, rename="camel", gc=False):
    kind: str | None = None
    api_version: str | None = None


_named: Final = msgspec.json.Decoder(_Named)


def _read(raw: bytes) -> _Named:
    try:
        return _named.decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return _Named(kind="an object whose kind is not a string")
