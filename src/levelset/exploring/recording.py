"""Writes down what happens in a run: gives each call and each look its name, and adds the steps to the trace.

A call is named by what it says and by how many calls have said the same before it, whatever process made them, so that
a name means the same in a run that was disturbed before.
"""

from collections import Counter
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final

import msgspec

from levelset.client.calls import Call
from levelset.exploring.plans import At
from levelset.exploring.traces import Cause, Step, Trace
from levelset.objects.identity import Ref
from levelset.testing.calls import OWN_KINDS, About, about
from levelset.testing.watches import WatchedEvent

__all__ = ["ACTING", "CAUSE", "GENERATED", "LEASE", "Recording", "is_silent"]

GENERATED: Final = "~"
"""Stands for the part of a name that the server made up."""
LEASE: Final = "explored"
"""The name of the Lease that processes are elected by."""

CAUSE: Final[ContextVar[Cause | None]] = ContextVar("cause", default=None)
"""The look inside which this code runs."""
ACTING: Final[ContextVar[tuple[str, At] | None]] = ContextVar("acting", default=None)
"""The process and the call on whose behalf the server works just now."""


class _Metadata(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    generateName: str = ""  # noqa: N815  # the name in the API
    namespace: str = ""


class _Object(msgspec.Struct, frozen=True, gc=False):
    metadata: _Metadata = _Metadata()


_objects: Final = msgspec.json.Decoder(_Object)


class Recording:
    """The trace of a run while it grows; `now` and `revision` say when something happens."""

    def __init__(self, now: Callable[[], float], revision: Callable[[], int]) -> None:
        self.trace = Trace()
        self.prefixes: dict[tuple[str, str, str], str] = {}
        """What the names that the server made up begin with, by kind, namespace and name."""
        self.generated: dict[str, str] = {}
        """The same by name alone."""
        self.failing: dict[str, Exception] = {}
        """The looks that failed the last time somebody looked, by what they are called without a number."""
        self.open: dict[At, str] = {}
        """The looks that have begun and not ended, each with its process."""
        self.now = now
        self._revision = revision
        self._said: Counter[str] = Counter()

    def name_call(self, call: Call, *, by: str = "") -> tuple[At, str]:
        """The name of a call that is made now, and the real name of its object if that is not in it."""
        what = about(call)
        said, alias = self._say(what, call)
        if by:
            said = f"{said} by {by}"
        self._said[said] += 1
        return At(said, self._said[said]), alias

    def name(self, said: str) -> At:
        """The name of something else that happens now."""
        self._said[said] += 1
        return At(said, self._said[said])

    def shown(self, ref: Ref[Any]) -> str:
        """An object as plans call it."""
        name = self._place(ref.kind, ref.namespace or "", ref.name)
        return "/".join(part for part in (ref.kind, ref.namespace, name) if part)

    def note_generated(self, kind: str, namespace: str, name: str, prefix: str) -> None:
        """The server has made up a name."""
        self.prefixes[kind, namespace, name] = self.generated[name] = prefix

    def add(self, process: str, act: Any, name: At, **more: Any) -> Step:
        """Adds a step that is over now."""
        step = Step(
            number=len(self.trace) + 1,
            at=self.now(),
            process=process,
            act=act,
            name=name,
            revision=self._revision(),
            **more,
        )
        self.trace.steps.append(step)
        return step

    def add_event(self, process: str, event: WatchedEvent) -> None:
        """Adds an event that was handed to a process; bookmarks say nothing."""
        if event.type == "BOOKMARK" or (event.group, event.kind) in OWN_KINDS:
            return
        where = self._place(event.kind, event.namespace or "", event.name)
        said = f"event {'/'.join(part for part in (event.kind, event.namespace, where) if part)}"
        alias = event.name if where != event.name else ""
        self.add(process, "event", self.name(said), outcome=event.type, seen=event.revision, alias=alias)

    def _say(self, what: About, call: Call) -> tuple[str, str]:
        name = what.name
        if name is None and what.verb == "create":
            name = _new_name(call.body)
        if name is None:
            return f"{what.verb} {'/'.join(part for part in (what.kind, what.namespace) if part)}", ""
        shown = self._place(what.kind, what.namespace or "", name)
        path = "/".join(part for part in (what.kind, what.namespace, shown, what.subresource) if part)
        return f"{what.verb} {path}", name if shown != name else ""

    def _place(self, kind: str, namespace: str, name: str) -> str:
        prefix = self.prefixes.get((kind, namespace, name))
        return name if prefix is None else prefix + GENERATED


def is_silent(what: About) -> bool:
    """Whether a call is never disturbed and never judged: Events and Leases tell of the work, and are no part of it."""
    return not what.kind or what.is_own


def _new_name(body: bytes) -> str:
    try:
        metadata = _objects.decode(body).metadata
    except msgspec.MsgspecError:
        return ""
    return metadata.name or metadata.generateName + GENERATED
