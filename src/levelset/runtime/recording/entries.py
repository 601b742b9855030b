"""The entries of a recording: one process on one event loop, as the sequence of what it saw and did.

An entry is a msgpack array: a tag, the microseconds since the start, and its own fields in the order below. Readers
ignore fields that they do not know at the end of an entry, so a minor version may add some.

The frequent ones (`FLAT`) are written without that array, value after value, as they lie in the memory of the process:
an object for each would cost more than all else that a recording does. Such a row has the tag, the time in seconds on
the clock of the process (that of the start is in `Start`), and so many fields; a batch has only its first three, and
code and object of its events by turns.

*Inputs* made something happen in the process; *outputs* are what its reconciles did. Between two inputs there are only
the outputs that the first of them caused. A `task` is a reconcile or a task that one has started.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

__all__ = [
    "FLAT",
    "FORMAT",
    "Answer",
    "Batch",
    "BatchEvent",
    "Begin",
    "ControllerEntry",
    "Discovery",
    "End",
    "Entry",
    "Event",
    "Leader",
    "More",
    "OtherWrite",
    "ReasonEntry",
    "Request",
    "Resume",
    "ScopeEntry",
    "Spawn",
    "Start",
    "Stop",
    "Value",
    "WatchFailed",
    "entry_text",
    "rows_in",
]

FORMAT: Final = 4
"""The version of the format; a reader refuses a higher one.

In 1 no entry was flat, in 2 there was no `OtherWrite`, in 3 a `Resume` was not flat.
"""


class Entry(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The base of all entries: `at` is in microseconds since the start of the recording.

    Entries are nothing for the garbage collector: as tuples, the thousands that wait to be written made it run a sixth
    more often.
    """

    at: int


class Start(Entry, tag=0, array_like=True, frozen=True, gc=False):
    """The beginning: versions and options of the process.

    `wall` is the wall clock time. With `is_partial` the recording was switched on in a running process: the state that
    its controllers had in memory is not known.
    """

    format: int
    levelset: str
    python: str
    wall: str
    namespace: str
    only_namespace: str | None
    is_partial: bool = False
    redacted: list[str] = []
    clock: float = 0.0
    """The time on the clock of the process, in seconds."""


class ScopeEntry(Entry, tag=1, array_like=True, frozen=True, gc=False):
    """An informer: the entries of its cache have its number."""

    number: int
    group: str
    version: str
    kind: str
    namespace: str | None
    labels: str
    fields: str
    is_metadata: bool
    is_changed: bool


class BatchEvent(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """An event of a batch: what happened, and the object as JSON.

    The code is 0 if a list begins, 1 for an object of the list, 2 if the list ends (`raw` is its resourceVersion), 3 if
    an object was added or modified, 4 if it was deleted.
    """

    code: int
    raw: bytes


class Batch(Entry, tag=2, array_like=True, frozen=True, gc=False):
    """An informer applies a batch of events, or the first slice of it; afterwards it has everything up to `version`."""

    scope: int
    version: str | None
    events: list[BatchEvent]
    is_snapshot: bool = False
    """Whether it is what the cache held when the recording was switched on, all at once."""


class More(Entry, tag=3, array_like=True, frozen=True, gc=False):
    """An informer goes on with the next slice of its batch."""

    scope: int


class WatchFailed(Entry, tag=4, array_like=True, frozen=True, gc=False):
    """The watch of an informer has an error."""

    scope: int
    error: str
    is_persistent: bool


class ReasonEntry(msgspec.Struct, frozen=True, gc=False):
    """A reason of a reconcile, and the object that it is about: group, version, kind, namespace, name."""

    kind: str
    about: tuple[str, str, str, str | None, str] | None = None


class Begin(Entry, tag=5, array_like=True, frozen=True, gc=False):
    """A reconcile begins."""

    task: int
    controller: str
    key: str
    reasons: list[ReasonEntry]
    attempt: int
    priority: int


class Resume(Entry, tag=6, array_like=True, frozen=True, gc=False):
    """A task goes on after it has waited; with `is_yield` it had only let others run, or else it may be cancelled."""

    task: int
    is_yield: bool
    is_cancelled: bool = False


class Request(Entry, tag=7, array_like=True, frozen=True, gc=False):
    """A task sends a request to the API server, or calls a recorded client of the outside (method `CALL`)."""

    task: int
    number: int
    method: str
    path: str
    query: str
    content_type: str
    body: bytes


class Answer(Entry, tag=8, array_like=True, frozen=True, gc=False):
    """A task gets the answer to its request: a status with headers and body, or an error (status 0).

    The headers are those that clients read. An error is the name of its class, its text and its attributes, in `body`
    as JSON.
    """

    number: int
    status: int
    headers: dict[str, str]
    body: bytes


class Spawn(Entry, tag=9, array_like=True, frozen=True, gc=False):
    """A task starts another one."""

    task: int
    child: int


class Value(Entry, tag=10, array_like=True, frozen=True, gc=False):
    """A task gets a value that may differ from run to run, such as the time."""

    task: int
    name: str
    value: Any


class Event(Entry, tag=11, array_like=True, frozen=True, gc=False):
    """A task records a Kubernetes Event."""

    task: int
    about: str
    reason: str
    message: str
    is_warning: bool


class End(Entry, tag=12, array_like=True, frozen=True, gc=False):
    """A reconcile ends: its result, when it is reconciled again (None: when something changes), and its error."""

    task: int
    result: str
    after: float | None
    error: str | None
    seconds: float
    waited: float


class Discovery(Entry, tag=13, array_like=True, frozen=True, gc=False):
    """The process has read from the API server what that serves, outside of reconciles."""

    path: str
    accept: str
    status: int
    body: bytes


class Leader(Entry, tag=14, array_like=True, frozen=True, gc=False):
    """This process has become the leader, or is it no more."""

    is_leader: bool


class Stop(Entry, tag=15, array_like=True, frozen=True, gc=False):
    """The recording ends on purpose, for this reason; without this entry the process was killed."""

    reason: str


class ControllerEntry(Entry, tag=16, array_like=True, frozen=True, gc=False):
    """A controller that is recorded from now on; None stands for all namespaces."""

    name: str
    group: str
    version: str
    kind: str
    namespaces: list[str | None]
    concurrency: int


class OtherWrite(Entry, tag=17, array_like=True, frozen=True, gc=False):
    """A write of this client outside of the recorded reconciles: reads wait until the cache shows it.

    It is of a reconcile that had begun before the recording, or of code outside of reconciles; or the cache had not
    shown it yet when the recording began. Without a name it concerned many objects of the kind.
    """

    group: str
    version: str
    kind: str
    name: str | None
    namespace: str | None
    resource_version: str | None
    uid: str | None = None
    is_gone: bool = False


FLAT: Final[dict[int, tuple[type[Entry], int]]] = {
    2: (Batch, 5),
    5: (Begin, 8),
    6: (Resume, 5),
    7: (Request, 9),
    8: (Answer, 6),
    12: (End, 8),
}
"""The entries that are written as rows, by their tag: their class, and how many values a row has with tag and time."""


def rows_in(values: Sequence[Any]) -> Iterator[Any]:
    """The entries in the values of a block, each as a list or as it is; LookupError if it is none."""
    place = 0
    while place < len(values):
        first = values[place]
        if type(first) is not int:
            place += 1
            yield first
            continue
        end = place + FLAT[first][1]
        row = [*values[place:end]]
        if len(row) < end - place:
            raise IndexError("a row is cut off")
        if first == 2:
            row[4] = [*zip(row[4][::2], row[4][1::2], strict=True)]
        place = end
        yield row


INPUTS: Final = (
    Start,
    ControllerEntry,
    ScopeEntry,
    Batch,
    More,
    WatchFailed,
    Begin,
    Resume,
    Answer,
    Discovery,
    Leader,
    OtherWrite,
    Stop,
)
"""The entries that a replay performs; the others it compares."""


def entry_text(entry: Entry) -> str:
    """An entry in a few words, without its position."""
    match entry:
        case Begin():
            return f"reconcile of {entry.controller} for {entry.key}"
        case Request(method="CALL"):
            return f"call of {entry.path}"
        case Request():
            return f"{entry.method} {entry.path}{'?' if entry.query else ''}{entry.query}"
        case Answer():
            return f"answer {entry.status or 'without a response'}"
        case Value():
            return f"{entry.name} = {entry.value!r}"
        case Event():
            return f"event {entry.reason} about {entry.about}"
        case End():
            return f"end: {entry.result}{f', {entry.error}' if entry.error else ''}"
        case Spawn():
            return "start of a task"
        case Resume():
            return "continuation of a task"
        case _:
            return type(entry).__name__.lower()
