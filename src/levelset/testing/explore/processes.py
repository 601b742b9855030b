"""Where processes live during a run: one dies, and after a moment another one starts in its place.

Follows everything that is stored during a run: who changed what, which invariant broke, and what is there now.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from inspect import iscoroutine
from typing import Any, Final, Literal, Protocol, cast

from levelset.aio import timing
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.client.transport.interface import Answer, Call, Hook, Send
from levelset.errors import LeaseLost
from levelset.objects import codec
from levelset.testing import faults
from levelset.testing.call_info import OWN_KINDS, about, is_write
from levelset.testing.environment import Process
from levelset.testing.explore.exploration import Invariant
from levelset.testing.explore.fault_injection import CUT_OFF, Disturbing, carry_out
from levelset.testing.explore.plans import (
    At,
    Away,
    CrashAfter,
    CrashBefore,
    Disturbance,
    OlderAfterRestart,
    Slow,
    Takeover,
)
from levelset.testing.explore.run_result import Broken, Change, Ended
from levelset.testing.explore.stored_state import Key, State, Tree
from levelset.testing.explore.trace import ACTING, CAUSE, LEASE, Recording, is_silent

__all__ = ["Books", "Following", "People", "Place"]

_UNSEEN: Final = OWN_KINDS | {("apiextensions.k8s.io", "CustomResourceDefinition")}
"""Nobody's work, or made when a kind is first used."""


@dataclass(eq=False)
class Following:
    """A listener of the server. `on_change` is told of each change with its number among those of its kind."""

    recording: Recording
    state: State
    invariants: Sequence[Invariant]
    revision: Callable[[], int]
    now: Callable[[], float]
    on_change: Callable[[str, int, int], None]
    changes: list[Change] = field(default_factory=list[Change])
    broken: list[Broken] = field(default_factory=list[Broken])
    uids: dict[str, Key] = field(default_factory=dict[str, Key])
    """All objects that there ever were."""
    made: Counter[At] = field(default_factory=Counter[At])
    """How many revisions each call has made."""
    holder: str = ""
    _numbers: Counter[str] = field(default_factory=Counter[str])
    _failing: set[str] = field(default_factory=set[str])

    def __call__(self, served: ServedResource, before: Tree | None, after: Tree | None) -> None:
        """Is told of a committed write."""
        if (served.group, served.kind) in _UNSEEN:
            if served.kind == "Lease" and after is not None and after["metadata"]["name"] == LEASE:
                spec: Tree = after.get("spec") or {}
                self.holder = spec.get("holderIdentity") or ""
            return
        change = self._note(served, before, after)
        self._numbers[change.kind] += 1
        self.on_change(change.kind, self._numbers[change.kind], change.revision)
        self._check(change)

    def _note(self, served: ServedResource, before: Tree | None, after: Tree | None) -> Change:
        tree: Any = before if after is None else after
        metadata = tree["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        key: Key = served.group, served.kind, namespace, name
        prefix = metadata.get("generateName", "")
        if prefix and before is None:
            self.recording.note_generated(served.kind, namespace, name, prefix)
        process, by = ACTING.get() or ("server", None)
        if by is not None:
            self.made[by] += 1
        cause = CAUSE.get()
        change = Change(
            revision=self.revision(),
            at=self.now(),
            key=key,
            before=_uid(before),
            after=_uid(after),
            prefix=prefix,
            process=process,
            by=by,
            holder=self.holder,
            controller="" if cause is None or by is None else cause.controller,
            content=_content(tree) if prefix else "",
        )
        self.changes.append(change)
        self.uids[metadata.get("uid", "")] = key
        self.state.revision, self.state.at = change.revision, change.at
        self.state.put(key, after)
        return change

    def _check(self, change: Change) -> None:
        for one in self.invariants:
            name = getattr(one, "__name__", repr(one))
            try:
                said = one(self.state)
                words = f"{name} is not so" if said is False else None
                if iscoroutine(said):
                    said.close()
                    words = f"{name} is no plain function, so that nobody hears what it says; write `def`"
            except AssertionError as error:
                words = str(error).split("\n", 1)[0] or f"{name} is not so"
            except Exception as error:  # noqa: BLE001 -- the user's function; that it fails is the finding
                words = f"{name} has failed itself: {type(error).__name__}: {error}"
            if words is None:
                self._failing.discard(name)
            elif name not in self._failing:
                self._failing.add(name)
                self.broken.append(Broken(name, words, change))


def _content(tree: Tree) -> str:
    return codec.encode_tree({name: tree[name] for name in sorted(tree) if name not in {"metadata", "status"}}).decode()


def _uid(tree: Tree | None) -> str | None:
    return None if tree is None else tree["metadata"].get("uid", "")


_OFTEN: Final = 10
_PACE: Final = 0.05
_SLOWEST: Final = 0.5
"""Calls that say the same for more than ten times take longer each time, up to half a second."""
_MOST_ENDED: Final = 3
"""So often may a process end by itself before no more is started."""
_DOWN: Final = 1.0
"""How many seconds it takes until another process is there."""


class Books(Protocol):
    """What those who take part share."""

    recording: Recording
    following: Following
    disturbing: Disturbing

    def count(self, name: At) -> bool:
        """Counts one more step; whether there have been far too many."""
        ...


@dataclass(frozen=True)
class _Older:
    """Everything is seen as at this revision, until some time."""

    revision: int
    until: float
    hook: Hook


class People:
    """The wire of the people: their calls are steps too, and never disturbed."""

    def __init__(self, books: Books) -> None:
        self._books = books

    async def __call__(self, call: Call, send: Send) -> Answer:
        """Sends the call and writes it down."""
        if is_silent(about(call)):
            return await send(call)
        name = self._books.recording.name_call(call, by="people")
        return await _recorded(self._books, _Sent("people", "people", call, *name), send)


class Place:
    """Where one process lives after the other; it is also the wire of the one that lives now."""

    def __init__(self, name: str, books: Books, make: Callable[["Place"], Process]) -> None:
        self.name = name
        self.number = 0
        self.up = asyncio.Event()
        """Whether a process lives here now."""
        self.ended: list[Ended] = []
        self._books = books
        self._make = make
        self._process: Process | None = None
        self._killing: asyncio.Task[None] | None = None
        self._older: _Older | None = None
        self._cut_until = 0.0
        self._down = _DOWN
        self.is_away = False
        """Whether it takes long until there is another process."""
        self.is_slow = False
        """Whether a call waits on the way."""

    @property
    def who(self) -> str:
        """The process that lives here now."""
        return f"{self.name}.{self.number}"

    async def live(self) -> None:
        """Starts a process whenever there is none; until it is cancelled, or too many have ended by themselves."""
        recording = self._books.recording
        while len(self.ended) < _MOST_ENDED:
            self.number += 1
            self._process = process = self._make(self)
            recording.add(self.who, "start", At(f"start {self.name}", self.number))
            await process.start()
            self.up.set()
            self.is_away, self._down = False, _DOWN
            await process.wait_ended()
            self.up.clear()
            if self._killing is not None:
                await self._killing
                self._killing = None
            elif process.error is not None and not _is_lost_lease(process.error):
                self.ended.append(Ended(self.who, process.error))
            await asyncio.sleep(self._down)

    async def end(self) -> None:
        """Ends what lives here, at once."""
        if self._process is not None:
            await self._process.kill()

    async def __call__(self, call: Call, send: Send) -> Answer:
        """Sends a call of this process, unless the plan has something against it."""
        books, what = self._books, about(call)
        if timing.now() < self._cut_until:
            return await faults.never_sent(call, send)
        if is_silent(what):
            return await send(call)
        # What a look asks the server for itself is answered with the newest: only caches may be behind.
        if self._older is not None and what.verb in {"list", "watch"} and CAUSE.get() is None:
            send = self._seen_older(self._older, send)
        name, alias = books.recording.name_call(call)
        if books.count(name):
            return await faults.never_answered(call, send)
        await _slow_down(name)
        sent = _Sent(self.who, "call", call, name, alias)
        found = books.disturbing.take(name)
        return await (_recorded(books, sent, send) if found is None else self._disturbed(found, sent, send))

    def is_over(self, at: At, point: int) -> bool:
        """A look waits, or ends; whether the process dies of it."""
        found = self._books.disturbing.take_point(at, point)
        if found is None:
            return False
        self._books.recording.add(self.who, "disturb", at, disturbance=found.id)
        self._crash(at)
        return True

    async def _disturbed(self, found: Disturbance, sent: "_Sent", send: Send) -> Answer:
        if isinstance(found, CrashBefore | Takeover):
            _note(self._books, sent, outcome="-", disturbance=found.id)
            if isinstance(found, Takeover):
                self._cut_until = timing.now() + CUT_OFF
                return await faults.never_sent(sent.call, send)
            self._crash(sent.name)
            return await faults.never_answered(sent.call, send)

        async def through(call: Call) -> Answer:
            return await carry_out(found, call, send)

        self.is_slow = isinstance(found, Slow)
        try:
            answer = await _recorded(self._books, sent, through, disturbance=found.id)
        finally:
            self.is_slow = False
        if not isinstance(found, Away | CrashAfter | OlderAfterRestart):
            return answer
        if isinstance(found, OlderAfterRestart):
            self._look_back(found)
        if isinstance(found, Away):
            self.is_away, self._down = True, found.seconds
        self._crash(sent.name)
        return await faults.never_answered(sent.call, send)

    def _look_back(self, found: OlderAfterRestart) -> None:
        changes = self._books.following.changes
        back = min(found.back, len(changes))
        if back == 0:
            return
        revision, seconds = changes[-back].revision - 1, found.seconds + _DOWN
        self._older = _Older(revision, timing.now() + seconds, faults.older_list(revision))
        self._books.disturbing.keep_back_all(revision, seconds)

    def _seen_older(self, older: _Older, send: Send) -> Send:
        async def sending(call: Call) -> Answer:
            if timing.now() >= older.until:
                self._older = None
                return await send(call)
            return await older.hook(call, send)

        return sending

    def _crash(self, at: At) -> None:
        process = self._process
        assert process is not None, "who calls lives"
        self.up.clear()
        process.wire.is_cut = True
        self._books.recording.add(self.who, "crash", at)
        self._killing = asyncio.get_running_loop().create_task(process.kill(), name=f"kill {self.who}")


async def _slow_down(name: At) -> None:
    """Takes time for what is said very often.

    Nothing here takes time by itself. Who makes what the server deletes at once, as long as the cache is behind, would
    do so for ever in the same instant; with this the cache catches up.
    """
    if name.number > _OFTEN and CAUSE.get() is not None:
        await timing.sleep(min(_PACE * (name.number - _OFTEN), _SLOWEST))


@dataclass(frozen=True, slots=True)
class _Sent:
    """A call that somebody makes, and its name."""

    who: str
    act: Literal["call", "people"]
    call: Call
    name: At
    alias: str


async def _recorded(books: Books, sent: _Sent, send: Send, *, disturbance: str = "") -> Answer:
    """Sends a call, and writes down what came of it."""
    token = ACTING.set((sent.who, sent.name))
    outcome = "cancelled"
    try:
        answer = await send(sent.call)
        outcome = str(answer.status)
    except Exception as error:
        outcome = type(error).__name__
        raise
    finally:
        ACTING.reset(token)
        _note(books, sent, outcome=outcome, disturbance=disturbance)
    return answer


def _note(books: Books, sent: _Sent, *, outcome: str, disturbance: str) -> None:
    books.recording.add(
        sent.who,
        sent.act,
        sent.name,
        cause=CAUSE.get(),
        alias=sent.alias,
        is_write=is_write(sent.call),
        outcome=outcome,
        made=books.following.made[sent.name],
        disturbance=disturbance,
    )


def _is_lost_lease(error: BaseException) -> bool:
    """Whether somebody else leads: then to end is right."""
    if isinstance(error, BaseExceptionGroup):
        inside: Sequence[BaseException] = cast("BaseExceptionGroup[BaseException]", error).exceptions
        return any(map(_is_lost_lease, inside))
    return isinstance(error, LeaseLost)
