"""List, watch, expire, recover: what a watch does next, as a pure state machine.

It is asked for the next `step` and told what came of it (`listed`, `opened`, `received`, `ended`, `idled`, `failed`);
what is new for those who listen comes back as events. It never waits, sends or looks at a clock.

| phase    | step           | goes on to                                                                          |
|----------|----------------|-------------------------------------------------------------------------------------|
| OPENING  | open with list | SYNCING when open; LISTING if the server does not know such lists                   |
| SYNCING  | read           | WATCHING at the marked bookmark; OPENING (at last LISTING) if it breaks off         |
| LISTING  | next page      | RESUMING after the last one                                                         |
| RESUMING | open at version | WATCHING when open                                                                 |
| WATCHING | read           | RESUMING when it ends or breaks                                                     |
| any      |                | OPENING or LISTING afresh: 410 in any form, 404, a version that cannot be trusted   |

A list is asked for without a version, which means the newest: only so is it never older than what its listeners have
seen or written. With `any_version` it is what the server has at hand at first, and not older than the last version seen
later; then it is not paged, since servers answer that from memory.

What a failure means for a watch: ask the same again, ask in another way, or begin again with a list.

Resource versions, and whether what came is of the kind that was asked for.

A resource version is the server's own text. Where two of them are whole numbers, as those of Kubernetes are, the
smaller one is older; anything else can only be the same or not.
"""

from collections.abc import Sequence
from enum import Enum, auto
from typing import Any, Final, Generic, TypeVar

import msgspec

from levelset.client.lists import KeptPage
from levelset.client.object_types import Item, View
from levelset.client.watch_request import Told, WatchEvent
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
from levelset.objects.cached_object import Kept
from levelset.objects.ref import GroupVersionKind
from levelset.runtime.watch.events import Apply, Delete, Event, Init, InitApply, InitDone

__all__ = [
    "ListPage",
    "Machine",
    "OpenWatch",
    "Phase",
    "ReadWatch",
    "Setback",
    "Sieve",
    "Step",
    "Verdict",
    "is_older",
    "judge",
    "newest",
]

_TOO_LARGE: Final = "ResourceVersionTooLarge"
_REFUSALS: Final = frozenset({400, 405, 406, 415, 422, 501})


class Verdict(Enum):
    """What to do about a failure."""

    AGAIN = auto()
    """It passes, or somebody will repair it: the same request, later."""
    EXPIRED = auto()
    """The server does not have this version (any more, or yet): begin again without one."""
    REFUSED = auto()
    """The server does not do what was asked: ask in another way."""
    AFRESH = auto()
    """What was known cannot be trusted: begin again."""


def judge(error: Exception) -> Verdict:
    """The verdict on a failure, in whatever form it came: an HTTP status, an event on the stream, or no answer."""
    match error:
        case Expired():
            return Verdict.EXPIRED
        case ApiError() if _is_too_large(error):
            return Verdict.EXPIRED
        case ApiError() if error.code in _REFUSALS:
            return Verdict.REFUSED
        case ServerFailed() | TooManyRequests() | Unauthorized() | Forbidden():
            return Verdict.AGAIN
        case Unreachable() | TimeoutError():
            return Verdict.AGAIN
        case _:
            return Verdict.AFRESH


def _is_too_large(error: ApiError) -> bool:
    """Whether the server has not come as far as the version, or has lost it, as after being restored from a backup."""
    said = error.message.startswith("Too large resource version")
    return said or any(cause.reason == _TOO_LARGE for cause in error.causes)


_METADATA: Final = GroupVersionKind("meta.k8s.io", "v1", "PartialObjectMetadata")
_NEAR: Final = 256


def is_older(version: str, than: str) -> bool:
    """Whether a version is certainly older than another."""
    if len(version) == len(than):
        # Also right for numbers, which are compared digit by digit then; for others there is no order.
        return version < than and _is_number(version) and _is_number(than)
    return _is_number(version) and _is_number(than) and int(version) < int(than)


def newest(known: str, seen: str) -> str:
    """The version to go on from, after one was seen: it never goes back."""
    return known if is_older(seen, known) else seen


def _is_number(version: str) -> bool:
    return version.isascii() and version.isdigit()


class _Named(msgspec.Struct, rename="camel", gc=False):
    kind: str | None = None
    api_version: str | None = None


_named: Final = msgspec.json.Decoder(_Named)


class Sieve:
    """Tells the objects of one kind from others, as a rule without decoding them."""

    __slots__ = ("_gvk", "_mark", "beginning")

    def __init__(self, view: View[object]) -> None:
        self._gvk = _METADATA if view.is_metadata else view.gvk
        self._mark = f'"kind":"{self._gvk.kind}"'.encode()
        self.beginning = b"none yet"
        """How the last object of the kind began: a server writes all of them alike, so the next will too."""

    def holds(self, raw: bytes) -> bool:
        """Whether this is an object of the kind; one that does not say is taken at its word."""
        if raw.startswith(self.beginning):
            return True
        if not self._says(raw):
            return False
        end = raw.find(self._mark, 0, _NEAR) + len(self._mark)
        # The kind itself must be part of it, and nothing deeper inside, such as the kind of an owner.
        if end >= len(self._mark) and raw.count(b"{", 0, end) == 1:
            self.beginning = raw[:end]
        return True

    def stray(self, raw: bytes) -> str:
        """What it is instead, in words."""
        named = _read(raw)
        return f"{named.kind} of {named.api_version}" if named.kind else "something without a kind"

    def _says(self, raw: bytes) -> bool:
        named = _read(raw)
        group = (named.api_version or "").rpartition("/")[0]
        return not named.kind or (named.kind == self._gvk.kind and (group == self._gvk.group or not named.api_version))


def _read(raw: bytes) -> _Named:
    try:
        return _named.decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return _Named(kind="an object whose kind is no text")


K = TypeVar("K")

_BRIEF: Final = 1.0
"""A watch of fewer seconds that brought nothing has failed, whatever the server says."""
_CHANCES: Final = 2
"""So many streaming lists, or lists in pages, may break off before they are asked for in another way."""
_PATIENCE: Final = 3
"""So often a server may fail at the same request before everything is begun afresh."""


class Phase(Enum):
    """Where the machine is."""

    OPENING = auto()
    SYNCING = auto()
    LISTING = auto()
    RESUMING = auto()
    WATCHING = auto()


class ListPage(msgspec.Struct, frozen=True):
    """Ask for this page, then say `listed`; with `is_at_least` it may be newer than the version."""

    limit: int | None = None
    continue_: str | None = None
    resource_version: str | None = None
    is_at_least: bool = False


class OpenWatch(msgspec.Struct, frozen=True):
    """Open this watch, then say `opened`; with `is_initial` it is to bring what is there before the changes."""

    resource_version: str | None = None
    is_initial: bool = False


class ReadWatch(msgspec.Struct, frozen=True):
    """Wait for the open watch, then say `received`, `ended` or `idled`."""


class Setback(msgspec.Struct, frozen=True):
    """Close what is open, and tell the error; then wait, unless this was to be expected now and then."""

    error: Exception
    waits: bool = True


Step = ListPage | OpenWatch | ReadWatch | Setback
"""What to do next."""

# Both are asked for with each piece that comes, and to reach a member of an enum takes its time.
_WATCHING: Final = Phase.WATCHING
_READ: Final = ReadWatch()
_OBJECTS: Final[frozenset[type]] = frozenset({Kept})


class Machine(Generic[K]):
    """One watch of one kind; `streaming` None means streaming lists until the server turns out not to have them.

    With `as_kept` it is given objects that came or changed without an event around them, and hands them on so.
    """

    def __init__(
        self,
        view: View[K],
        *,
        page_size: int | None = 500,
        streaming: bool | None = None,
        any_version: bool = False,
        as_kept: bool = False,
    ) -> None:
        self.resource_version: str | None = None
        """Everything up to here has been told."""
        self.failures = 0
        """How many setbacks with a wait there were since the last progress."""
        self.lists = self.bookmarks = 0
        """How many lists were completed, and bookmarks seen."""
        self.skipped: list[BadObject] = []
        """What the server sent and nobody can use; whoever tells of them takes them out."""
        self._view = view
        self._sieve = Sieve(view)
        self._page_size = page_size
        self._is_streaming, self._may_fall_back = streaming is not False, streaming is None
        self._any_version = any_version
        self._as_kept = as_kept
        self._expirations = self._repeats = self._unfinished = 0
        self._was_brief = False
        self._setback: Setback | None = None
        self._token: str | None = None
        self._page_version = self._opened_at = ""
        self._held: dict[tuple[str | None, str], Item[K]] = {}
        self._start_over()

    def step(self) -> Step:
        """What to do next; a setback is told once."""
        setback, self._setback = self._setback, None
        if setback is not None:
            return setback
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

    def listed(self, page: KeptPage) -> list[Event[K]]:
        """A page has come. The version of the list is that of its last page that has one."""
        self._repeats = 0
        version = page.resource_version or self._page_version
        if not (version or page.continue_):
            self._afresh(BadObject("the list has no resourceVersion to watch from"))
            return []
        view = self._view
        events: list[Any] = self._begin()
        events.extend(page.items if self._as_kept else [InitApply(Item(kept, view)) for kept in page.items])
        self._page_version, self._token = version, page.continue_
        if page.continue_ is None:
            events.append(self._complete(version))
            self.phase = Phase.RESUMING
        return events

    def opened(self) -> None:
        """The watch is open."""
        self.phase = Phase.SYNCING if self.phase is Phase.OPENING else Phase.WATCHING
        self._opened_at = self.resource_version or ""

    def received(self, batch: Sequence[Told]) -> list[Any]:
        """Events have come on the open watch; gives what is new to those who listen."""
        is_list = self.phase is not _WATCHING and self.phase is Phase.SYNCING
        if self._as_kept:
            if is_list and not self._held and self._are_usual(batch):
                return [*self._begin(), *batch]
            if self.phase is _WATCHING and (top := self._usual_end(batch)) is not None:
                self._move(top, len(batch))
                return list(batch)
        events = [WatchEvent("MODIFIED", one) if isinstance(one, Kept) else one for one in batch]
        return self._sync(events) if is_list else self._follow(events)

    def ended(self, *, lasted: float) -> None:
        """The server has ended the watch properly, so many seconds after it was opened.

        It goes on from the last version at once, but not over and over: a server that ends each watch as soon as it has
        begun must not be asked a thousand times a second.
        """
        if self.phase is Phase.SYNCING:
            self.failed(Unreachable("the server ended the list before it was complete"), lasted=lasted)
            return
        was_brief, self._was_brief = self._was_brief, lasted < _BRIEF
        if not self._was_brief:
            self._expirations = self._repeats = 0
        self.phase = Phase.RESUMING
        if self._was_brief and (was_brief or self.resource_version == self._opened_at):
            self._set_back(Unreachable("the server ended the watch as soon as it had begun"))

    def idled(self) -> None:
        """Nothing came for too long, not even a bookmark: the connection may be dead."""
        if self.phase is Phase.SYNCING:
            self.failed(Unreachable("nothing more came of the list, and it is not complete"))
        else:
            self.phase = Phase.RESUMING

    def failed(self, error: Exception, *, lasted: float = 0.0) -> None:
        """The step could not be done, or the watch broke so many seconds after it was opened."""
        if lasted >= _BRIEF:
            self._expirations = self._repeats = 0
        verdict = judge(error)
        self._expirations += verdict is Verdict.EXPIRED
        self._unfinished += self.phase is Phase.SYNCING
        if verdict is Verdict.AGAIN and self._may_repeat(error):
            self._set_back(error)
        elif self._may_fall_back and self._has_no_streams(verdict):
            self._is_streaming = False
            self._afresh(error, waits=verdict is not Verdict.REFUSED)
        else:
            self._afresh(error, waits=verdict is not Verdict.EXPIRED or self._expirations > 1)

    def _may_repeat(self, error: Exception) -> bool:
        """Whether the same request may work later, from the same place."""
        if self.phase is Phase.SYNCING:
            return False
        if self.phase is Phase.WATCHING:
            self.phase = Phase.RESUMING
        # A server may put "too old" into the words of a 500: a version that always fails is not asked for for ever.
        self._repeats += isinstance(error, ApiError) and error.code >= 500
        return self._repeats < _PATIENCE

    def _has_no_streams(self, verdict: Verdict) -> bool:
        """Whether the server seems not to know streaming lists: it says so, or nothing ever comes of them."""
        if self.phase is Phase.OPENING and verdict in {Verdict.REFUSED, Verdict.AGAIN}:
            return True
        return self._unfinished >= _CHANCES or (self.phase is Phase.OPENING and self._expirations >= _CHANCES)

    def _set_back(self, error: Exception, *, waits: bool = True) -> None:
        self.failures += waits
        self._setback = Setback(error, waits)

    def _afresh(self, error: Exception, *, waits: bool = True) -> None:
        self._set_back(error, waits=waits)
        self._start_over()

    def _start_over(self) -> None:
        self.phase = Phase.OPENING if self._is_streaming else Phase.LISTING
        self._has_begun = False
        self._repeats = 0
        self._token = None
        self._page_version = self._opened_at = ""
        self._held.clear()

    def _least(self) -> str | None:
        """The version that a list has to have at least; None means the newest."""
        if not self._any_version or self._expirations:
            return None
        return self.resource_version or "0"

    def _next_page(self) -> ListPage:
        least = self._least()
        if self._token is not None:
            return ListPage(self._page_size, self._token)
        if least is not None:
            return ListPage(None, None, least, is_at_least=least != "0")
        # Pages that expire again are too many for this server's memory: then all at once.
        return ListPage(self._page_size if self._expirations < _CHANCES else None)

    def _begin(self) -> list[Event[K]]:
        begins, self._has_begun = not self._has_begun, True
        return [Init()] if begins else []

    def _complete(self, version: str) -> InitDone:
        """The list is complete, which counts as progress unless lists are all that ever works."""
        self.resource_version = self._opened_at = version
        self.lists += 1
        self._has_begun = False
        self._unfinished = 0
        if not self._expirations:
            self.failures = 0
        return InitDone(version)

    def _sync(self, batch: Sequence[WatchEvent]) -> list[Event[K]]:
        """The events of a streaming list; they have no order, so they do not move the version."""
        events = self._begin()
        view, held = self._view, self._held
        for place, event in enumerate(batch, 1):
            kept = event.kept
            if event.is_initial_end:
                return [*events, *self._synced(event), *self._follow(batch[place:])]
            if event.type == "ERROR" or kept is None:
                self.failed(event.status or BadObject("an event of the list has no object"))
                return []
            if event.type == "BOOKMARK" or not self._is_ours(event):
                continue
            item = Item(kept, view)
            if event.type == "DELETED":
                held[kept.namespace, kept.name] = item
                continue
            if held:
                held.pop((kept.namespace, kept.name), None)
            events.append(InitApply(item))
        return events

    def _are_usual(self, batch: Sequence[Told]) -> bool:
        """Whether all are mere objects that begin as those of our kind do."""
        beginning = self._sieve.beginning
        for kept in batch:  # noqa: SIM110 -- all(...) takes longer
            if not isinstance(kept, Kept) or not kept.raw.startswith(beginning):
                return False
        return True

    def _usual_end(self, batch: Sequence[Told]) -> str | None:
        """The version of the last one, if all are mere objects of our kind, each newer than the one before.

        Nothing has to be looked at one by one then: `_follow` would come to the same.
        """
        if not set(map(type, batch)) <= _OBJECTS:
            return None
        objects: Sequence[Any] = batch
        top, beginning = self.resource_version or "", self._sieve.beginning
        digits, front = len(top), slice(len(beginning))
        for kept in objects:
            if kept.raw[front] != beginning:  # quicker than to call `startswith`
                return None
            version = kept.resource_version
            if version <= top or len(version) != digits:
                return None
            top = version
        return top

    def _synced(self, event: WatchEvent) -> list[Event[K]]:
        version = event.kept.resource_version if event.kept is not None else ""
        if not version:
            self._afresh(BadObject("the end of the list has no resourceVersion to watch from"))
            return []
        self.phase = Phase.WATCHING
        # A delete that came too early is told as soon as it may be: left out, the object would be kept for ever.
        gone = [Delete(item) for item in self._held.values()]
        self._held.clear()
        return [self._complete(version), *gone]

    def _follow(self, batch: Sequence[WatchEvent]) -> list[Event[K]]:
        """The changes of an open watch; what comes after an error or an object without a version does not count."""
        events: list[Event[K]] = []
        if self.phase is not _WATCHING:
            return events
        add, view, sieve = events.append, self._view, self._sieve
        top = self.resource_version or ""
        for event in batch:
            kept, type_ = event.kept, event.type
            if kept is None or type_ == "BOOKMARK":
                self._move(top, len(events))
                if not self._mark(event):
                    return events
                top = self.resource_version or ""
                continue
            if not kept.raw.startswith(sieve.beginning) and not self._is_ours(event):
                continue
            version = kept.resource_version
            if not version:
                self._move(top, len(events))
                self._afresh(BadObject(f"{kept.name} has no resourceVersion to go on from"))
                return events
            # The usual case, without a call: numbers of the same length.
            top = version if len(version) == len(top) and version > top else newest(top, version)
            add(Delete(Item(kept, view)) if type_ == "DELETED" else Apply(Item(kept, view)))
        self._move(top, len(events))
        return events

    def _move(self, version: str, events: int) -> None:
        self.resource_version = version
        if events:
            self.failures = self._expirations = self._repeats = 0

    def _mark(self, event: WatchEvent) -> bool:
        """Moves the version to that of a bookmark; whether the watch can go on after it."""
        if event.type != "BOOKMARK" or event.kept is None:
            self.failed(event.status or BadObject("an event of the watch has no object"))
            return False
        version = event.kept.resource_version
        if is_older(version, self._opened_at):
            text = f"the server is at version {version}, before {self._opened_at}, where this watch began"
            self.failed(Expired(f"{text}: it has lost what came after"))
            return False
        self.bookmarks += 1
        if version:
            self._move(newest(self.resource_version or "", version), 1)
        return True

    def _is_ours(self, event: WatchEvent) -> bool:
        if event.kept is None or self._sieve.holds(event.kept.raw):
            return True
        stray = self._sieve.stray(event.kept.raw)
        self.skipped.append(BadObject(f"a {event.type} event is about {stray}, which was not asked for"))
        return False
