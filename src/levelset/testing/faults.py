"""Faults as values: what goes wrong between a controller and its server, for which calls, how often, by what chance.

```python
async with cluster.running(websites, faults=[faults.conflict(share=0.2, verbs=("update", "patch"), seed=5)]):
    ...
```

Each says in its `repr` what it is, can be written down, compared and used again: `hook()` makes it happen to one
client, from the beginning. All of them choose their calls by the keywords of `Choice`, as they go over the wire: one
that the client repeats by itself counts again. With several faults, the first that strikes a call is the one that is
seen.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Unpack

from levelset.aio import timing
from levelset.client.calls import Answer, Call, Hook, Send
from levelset.client.kinds import view_of
from levelset.controller import Action, Context, Controller, ControllerOptions
from levelset.errors import ConfigError
from levelset.testing import breaking, effects
from levelset.testing.calls import About, about
from levelset.testing.choosing import VERBS, WRITES, Choice, Chooser, Which, which
from levelset.testing.watches import LateWatches

__all__ = [
    "Fault",
    "Striking",
    "compaction",
    "conflict",
    "delayed_watch",
    "dropped_watch",
    "expired_token",
    "hooks_of",
    "lost_answer",
    "lost_leadership",
    "repeated_events",
    "server_error",
    "slow",
    "slow_handler",
    "timeout",
    "too_many",
    "unreachable",
    "wrapped",
]

_WATCHES: Final = ("watch",)
_CONFLICTS: Final = tuple(verb for verb in WRITES if verb not in {"create", "deletecollection"})


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong: `word` says what, `which` for whom; made by the functions of this module."""

    word: str
    which: Which
    options: tuple[tuple[str, Any], ...] = ()
    usual: tuple[str, ...] = field(default=VERBS, compare=False)
    effect: Hook | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        own = ", ".join(f"{name}={value!r}" for name, value in self.options)
        return f"{self.word}({', '.join(part for part in (own, self.which.words(self.usual)) if part)})"

    def hook(self) -> "Striking":
        """A wire hook for one client, for which it all begins anew; `struck` counts."""
        return Striking(self)


class Striking:
    """A fault at work, as a hook: what it does not strike passes."""

    __slots__ = ("_chooser", "fault")

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self._chooser = Chooser(fault.which)

    @property
    def struck(self) -> int:
        """How many calls it has struck."""
        return self._chooser.struck

    async def __call__(self, call: Call, send: Send) -> Answer:
        """Strikes the call, or sends it."""
        effect = self.fault.effect
        if effect is None or not self._chooser.chooses(about(call), now=timing.now()):
            return await send(call)
        return await effect(call, send)

    def __repr__(self) -> str:
        return f"<{self.fault!r}, struck {self.struck}>"


def hooks_of(faults: Iterable[Fault | Hook]) -> tuple[Hook, ...]:
    """The wire hooks that have these faults happen to one client; hooks of your own are left as they are."""
    return tuple(one.hook() if isinstance(one, Fault) else one for one in faults)


def wrapped(controllers: Iterable[Controller[Any]], faults: Iterable[Fault | Hook]) -> list[Controller[Any]]:
    """The controllers, with those faults around them that do not happen on the wire."""
    made = list(controllers)
    for fault in faults:
        if isinstance(fault, Fault) and fault.word == "slow_handler":
            made = [_slowed(one, fault) for one in made]
    return made


def conflict(**choice: Unpack[Choice]) -> Fault:
    """409: somebody else wrote first. Updates, patches, applies and deletes, unless it is told which."""
    return _fault("conflict", effects.answer_conflict, _CONFLICTS, choice)


def too_many(retry_after: float = 1.0, **choice: Unpack[Choice]) -> Fault:
    """429 with a Retry-After: the server has too much to do, and did nothing. The client asks again by itself."""
    return _fault(
        "too_many",
        effects.answer_status(429, retry_after=retry_after),
        VERBS,
        choice,
        retry_after=_seconds("retry_after", retry_after),
    )


def server_error(code: int = 500, **choice: Unpack[Choice]) -> Fault:
    """500, or another code from 500 on: nothing was done, but the client cannot know."""
    if not 500 <= code <= 599:
        raise ConfigError(f"server_error(code={code}): give a code from 500 to 599")
    return _fault("server_error", effects.answer_status(code), VERBS, choice, code=code)


def timeout(*, took_effect: bool = False, **choice: Unpack[Choice]) -> Fault:
    """No answer within the time of the call, which did or did not take effect before."""
    return _fault("timeout", effects.timed_out(took_effect=took_effect), VERBS, choice, took_effect=took_effect)


def unreachable(**choice: Unpack[Choice]) -> Fault:
    """The network is gone: nothing is sent. With `after` and `during`, an outage."""
    return _fault("unreachable", effects.never_sent, VERBS, choice)


def lost_answer(**choice: Unpack[Choice]) -> Fault:
    """The write takes effect, and the connection breaks before its answer."""
    return _fault("lost_answer", effects.lost_answer, WRITES, choice)


def slow(seconds: float, *, answer: bool = False, **choice: Unpack[Choice]) -> Fault:
    """The call is sent so many seconds later, or with `answer`, at once, and its answer comes later."""
    return _fault(
        "slow",
        effects.slow(after=seconds) if answer else effects.slow(before=seconds),
        VERBS,
        choice,
        seconds=_seconds("seconds", seconds),
        answer=answer,
    )


def expired_token(**choice: Unpack[Choice]) -> Fault:
    """401: the server does not know any more who asks."""
    return _fault("expired_token", effects.expired_token, VERBS, choice)


def delayed_watch(seconds: float, **choice: Unpack[Choice]) -> Fault:
    """Everything that comes on a watch is handed on so many seconds later: caches are behind by that."""
    return _fault("delayed_watch", LateWatches(seconds), _WATCHES, choice, seconds=_seconds("seconds", seconds))


def dropped_watch(seconds: float, **choice: Unpack[Choice]) -> Fault:
    """A watch breaks so many seconds after it was opened, each time."""
    return _fault("dropped_watch", breaking.breaking(seconds), _WATCHES, choice, seconds=_seconds("seconds", seconds))


def compaction(seconds: float, **choice: Unpack[Choice]) -> Fault:
    """A watch ends with 410 so many seconds after it was opened: its history is gone, and all is listed anew."""
    return _fault("compaction", breaking.expiring(seconds), _WATCHES, choice, seconds=_seconds("seconds", seconds))


def repeated_events(seconds: float, *, back: int = 3, **choice: Unpack[Choice]) -> Fault:
    """A watch breaks so many seconds after it was opened, and the next begins some revisions too early.

    What those brought comes once more, as a server may do that does not know where a client was.
    """
    if back < 1:
        raise ConfigError(f"repeated_events(back={back}): give the number of revisions, 1 or more")
    return _fault(
        "repeated_events",
        breaking.repeating(seconds, back),
        _WATCHES,
        choice,
        seconds=_seconds("seconds", seconds),
        back=back,
    )


def lost_leadership(*, after: float, during: float = 60.0) -> Fault:
    """Nothing about Leases is sent for a while: who leads loses that, and another may lead."""
    return _fault("lost_leadership", effects.never_sent, VERBS, {"kinds": ("Lease",), "after": after, "during": during})


def slow_handler(seconds: float, **choice: Unpack[Choice]) -> Fault:
    """The reconciler, and the cleanup, begin their work so many seconds after they were called.

    It is chosen by the kind and the name of the object, share, number and time; `verbs` mean nothing.
    """
    return _fault("slow_handler", None, VERBS, {**choice, "verbs": VERBS}, seconds=_seconds("seconds", seconds))


def _fault(word: str, effect: Hook | None, usual: tuple[str, ...], choice: Choice, **options: Any) -> Fault:
    try:
        return Fault(word, which(usual, choice), tuple(options.items()), usual, effect)
    except ConfigError as error:
        raise ConfigError(f"{word}: {error}") from None


def _seconds(name: str, value: float) -> float:
    if not value >= 0:
        raise ConfigError(f"{name}={value!r}: give a number of seconds, 0 or more")
    return value


def _slowed(controller: Controller[Any], fault: Fault) -> Controller[Any]:
    """The same controller, whose functions begin later."""
    if not fault.which.fits(About("get", view_of(controller.kind).gvk.kind, name=next(iter(fault.which.names), None))):
        return controller
    chooser, seconds = Chooser(fault.which), dict(fault.options)["seconds"]
    options = {name: getattr(controller, name) for name in ControllerOptions.__annotations__}
    if controller.cleanup is not None:
        options["cleanup"] = _later(controller.cleanup, chooser, seconds)
    made: Any = Controller
    reconcile = _later(controller.reconcile, chooser, seconds)
    slowed: Controller[Any] = made(controller.kind, reconcile, *controller.relations, **options)
    return slowed


def _later(
    function: Callable[[Any, Context], Awaitable[Action | None]], chooser: Chooser, seconds: float
) -> Callable[[Any, Context], Awaitable[Action | None]]:
    async def handler(obj: Any, ctx: Context) -> Action | None:
        ref = ctx.ref
        if chooser.chooses(About("get", ref.gvk.kind, ref.namespace, ref.name), now=timing.now()):
            await timing.sleep(seconds)
        return await function(obj, ctx)

    return handler
