"""Faults as values: what goes wrong between a controller and its server, for which calls, how often, by what chance.

```python
async with cluster.running(websites, faults=[faults.conflict(share=0.2, verbs=("update", "patch"), seed=5)]):
    ...
```

Each says in its `repr` what it is, can be written down, compared and used again: `hook()` makes it happen to one
client, from the beginning. All of them choose their calls by the keywords of `Choice`, as they go over the wire: one
that the client repeats by itself counts again. With several faults, the first that strikes a call is the one that is
seen.

Which calls a fault strikes: by verb, kind and name, a share of them, so many, from then on, for so long; pure.

What can go wrong with one call, each as a hook: refused, never sent, sent but never answered, slow, out of date.

A hook is an async function `(call, send) -> Answer`; give it to a client as one of its `wire_hooks`, or call it from a
hook of your own that chooses when. Those here ask nobody and happen every time: choosing is what `faults` are for.
What goes wrong with watches is in `watches`.

Watches that do not last: each breaks, or expires, some seconds after it was opened; the next may begin too early.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, field, fields
from random import Random
from typing import Any, Final, TypedDict, Unpack
from urllib.parse import parse_qsl, quote, urlencode

import msgspec

from levelset.aio import timing
from levelset.client.object_types import view_of
from levelset.client.transport.interface import Answer, Call, Hook, Send
from levelset.errors import ConfigError, TimedOut, Unreachable
from levelset.http.messages import Headers
from levelset.runtime.controller import Action, Context, Controller, ControllerOptions
from levelset.testing.call_info import About, about
from levelset.testing.watch_control import LateWatches, Watches

__all__ = [
    "CONFLICT",
    "READS",
    "VERBS",
    "WRITES",
    "Choice",
    "Chooser",
    "Fault",
    "Striking",
    "Which",
    "answer_conflict",
    "answer_status",
    "breaking",
    "compaction",
    "conflict",
    "delay_call",
    "delayed_watch",
    "dropped_watch",
    "expire_token",
    "expired_token",
    "expiring",
    "hooks_of",
    "lose_answer",
    "lost_answer",
    "lost_leadership",
    "never_answered",
    "never_sent",
    "older_list",
    "repeated_events",
    "repeating",
    "restarted_watch",
    "server_error",
    "slow",
    "slow_handler",
    "timed_out",
    "timeout",
    "too_many",
    "unreachable",
    "which",
    "wrapped",
]

READS: Final = ("get", "list", "watch")
WRITES: Final = ("create", "update", "patch", "apply", "delete", "deletecollection")
VERBS: Final = (*READS, *WRITES)


class Choice(TypedDict, total=False):
    """How a fault chooses its calls; what is left out chooses all.

    - `verbs`, `kinds` and `names` of the objects; a kind is a class, a GroupVersionKind or its name. `patch` is every
      patch but an apply, which is `apply`. Leases and Events are left alone unless `kinds` names them.
    - `share` of those calls, by the chance that `seed` makes the same each time.
    - `skip` lets so many pass first; `count` is how many are struck at most.
    - `after` so many seconds from the first call on, and `during` so many seconds.
    """

    verbs: Collection[str]
    kinds: Collection[Any]
    names: Collection[str]
    share: float
    skip: int
    count: int | None
    after: float
    during: float | None
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Which:
    """A choice as a value; see `Choice`."""

    verbs: tuple[str, ...] = VERBS
    kinds: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    share: float = 1.0
    skip: int = 0
    count: int | None = None
    after: float = 0.0
    during: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        unknown = [verb for verb in self.verbs if verb not in VERBS]
        if unknown or not self.verbs:
            raise ConfigError(f"verbs={self.verbs!r}: choose from {', '.join(VERBS)}")
        for is_right, said, rule in (
            (0 < self.share <= 1, f"share={self.share!r}", "above 0 and at most 1"),
            (self.skip >= 0, f"skip={self.skip!r}", "0 or more"),
            (self.count is None or self.count >= 1, f"count={self.count!r}", "1 or more, or None for all"),
            (self.after >= 0, f"after={self.after!r}", "a number of seconds, 0 or more"),
            (self.during is None or self.during > 0, f"during={self.during!r}", "a number of seconds above 0, or None"),
        ):
            if not is_right:
                raise ConfigError(f"{said}, but it must be {rule}")

    def fits(self, call: About) -> bool:
        """Whether a call is one of those that are chosen from; calls about no objects never are."""
        if not call.kind or call.verb not in self.verbs:
            return False
        if call.kind not in self.kinds if self.kinds else call.is_own:
            return False
        return not self.names or call.name in self.names

    def words(self, usual: tuple[str, ...] = VERBS) -> str:
        """What is chosen otherwise than usual, as it is written in a call."""
        plain = Which(verbs=usual)
        said = {one.name: getattr(self, one.name) for one in fields(self)}
        return ", ".join(f"{name}={value!r}" for name, value in said.items() if value != getattr(plain, name))


def which(usual: tuple[str, ...], choice: Choice) -> Which:
    """The value of what somebody chose, where `usual` are the verbs if he chose none."""
    unknown = choice.keys() - Choice.__annotations__.keys()
    if unknown:
        raise ConfigError(f"a fault cannot be chosen by {', '.join(sorted(unknown))}; by {', '.join(_CHOICES)}")
    said: dict[str, Any] = {"verbs": usual, **choice}
    for name in ("verbs", "kinds", "names"):
        if isinstance(said.get(name), str | type):
            raise ConfigError(f"{name}={said[name]!r}: give several, such as ({said[name]!r},)")
        said[name] = tuple(said.get(name, ()))
    said["kinds"] = tuple(map(_kind_name, said["kinds"]))
    return Which(**said)


_CHOICES: Final = tuple(Choice.__annotations__)


def _kind_name(kind: Any) -> str:
    return kind if isinstance(kind, str) else view_of(kind).gvk.kind


class Chooser:
    """Chooses among the calls that come, one after the other."""

    __slots__ = ("_begun", "_passed", "_random", "struck", "which")

    def __init__(self, which: Which) -> None:
        self.which = which
        self.struck = 0
        self._random = Random(which.seed)  # noqa: S311  # a chance that can be repeated is what is wanted
        self._passed = 0
        self._begun: float | None = None

    def chooses(self, call: About, *, now: float) -> bool:
        """Whether this one is struck."""
        self._begun = now if self._begun is None else self._begun
        which = self.which
        if not which.fits(call) or not self._is_time(now - self._begun):
            return False
        if self._passed < which.skip:
            self._passed += 1
            return False
        if which.count is not None and self.struck >= which.count:
            return False
        if which.share < 1 and self._random.random() >= which.share:
            return False
        self.struck += 1
        return True

    def _is_time(self, seconds: float) -> bool:
        which = self.which
        return which.after <= seconds and (which.during is None or seconds < which.after + which.during)


CONFLICT: Final = "the object has been modified; please apply your changes to the latest version and try again"
"""What a server says when somebody else was first."""

_REASONS: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


def answer_status(code: int, message: str = "", *, reason: str = "", retry_after: float | None = None) -> Hook:
    """Answers in the server's place with a Status; the server is not asked, and nothing happens there."""
    tree: dict[str, object] = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason or _REASONS.get(code, "InternalError"),
        "message": message or f"this call was made to fail with {code}",
    }
    headers = {"content-type": "application/json"}
    if retry_after is not None:
        headers["retry-after"] = f"{retry_after:g}"
        tree["details"] = {"retryAfterSeconds": int(retry_after)}
    answer = Answer(status=code, headers=Headers(headers), body=msgspec.json.encode(tree))

    async def hook(call: Call, send: Send) -> Answer:  # noqa: ARG001  # the shape of a hook
        return answer

    return hook


answer_conflict: Final = answer_status(409, CONFLICT)
"""Answers 409, as a server does when somebody else was first."""

expire_token: Final = answer_status(401, "the token has expired")
"""Answers 401, as a server does when it does not know who asks."""


async def never_sent(call: Call, send: Send) -> Answer:  # noqa: ARG001  # the shape of a hook
    """Raises Unreachable: the call has not left this process, and may be sent again."""
    raise Unreachable(f"{call.words}: the network is gone", is_sent=False)


async def lose_answer(call: Call, send: Send) -> Answer:
    """Sends the call, which takes effect, and raises Unreachable: nobody here knows how it ended."""
    await _send_whole(call, send)
    raise Unreachable(f"{call.words}: the connection broke before the answer", is_sent=True)


def timed_out(*, took_effect: bool) -> Hook:
    """Raises TimedOut when the time of the call is over, after it did or did not take effect."""

    async def hook(call: Call, send: Send) -> Answer:
        if took_effect:
            await _send_whole(call, send)
        await timing.sleep(call.timeout)
        raise TimedOut(f"{call.words}: no answer within {call.timeout:g} seconds")

    return hook


async def never_answered(call: Call, send: Send) -> Answer:  # noqa: ARG001  # the shape of a hook
    """Waits until it is cancelled; the call is not sent."""
    never: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    return await never


def delay_call(*, before: float = 0.0, after: float = 0.0) -> Hook:
    """Waits so many seconds before the call is sent, and before its answer is handed on."""

    async def hook(call: Call, send: Send) -> Answer:
        if before > 0:
            await timing.sleep(before)
        answer = await send(call)
        if after > 0:
            await timing.sleep(after)
        return answer

    return hook


def older_list(revision: int) -> Hook:
    """Lists are of an older revision, and what comes by watching them begins there.

    A watch that would bring the newest state first is refused, as by a server that does not know such watches, so that
    a list is asked for. Whatever is about one object passes.
    """
    refuse = answer_status(400, "sendInitialEvents is not known here")

    async def hook(call: Call, send: Send) -> Answer:
        query = dict(parse_qsl(call.query))
        if call.verb == "watch" and "sendInitialEvents" in query:
            return await refuse(call, send)
        if call.verb != "list" or "continue" in query:
            return await send(call)
        return await send(_asking(call, query, resourceVersion=str(revision), resourceVersionMatch="Exact"))

    return hook


def restarted_watch(revision: int) -> Hook:
    """Watches begin at an older revision than was asked for, so that events come again that have come before."""

    async def hook(call: Call, send: Send) -> Answer:
        query = dict(parse_qsl(call.query))
        asked = query.get("resourceVersion", "")
        if call.verb != "watch" or "sendInitialEvents" in query or not asked.isdigit() or int(asked) <= revision:
            return await send(call)
        return await send(_asking(call, query, resourceVersion=str(revision)))

    return hook


def _asking(call: Call, query: dict[str, str], **changes: str) -> Call:
    return msgspec.structs.replace(call, query=urlencode({**query, **changes}, quote_via=quote, safe=":,()!"))


async def _send_whole(call: Call, send: Send) -> None:
    answer = await send(call)
    if answer.pieces is not None:
        await answer.pieces.aclose()


def breaking(seconds: float) -> Hook:
    """Breaks a watch so many seconds after it was opened, as a lost connection does."""
    return _ending(seconds, Watches.cut)


def expiring(seconds: float) -> Hook:
    """Ends a watch with 410 so many seconds after it was opened, as a compaction does; what it shows is listed anew."""
    return _ending(seconds, Watches.expire)


def repeating(seconds: float, back: int) -> Hook:
    """Breaks a watch after so many seconds, and one that follows begins so many revisions too early."""
    break_it = breaking(seconds)

    async def hook(call: Call, send: Send) -> Answer:
        version = dict(parse_qsl(call.query)).get("resourceVersion", "")
        if not version.isdigit() or int(version) <= back:
            return await break_it(call, send)
        earlier = restarted_watch(int(version) - back)

        async def send_earlier(call: Call) -> Answer:
            return await earlier(call, send)

        return await break_it(call, send_earlier)

    return hook


def _ending(seconds: float, end: Callable[[Watches], int]) -> Hook:
    async def hook(call: Call, send: Send) -> Answer:
        watches = Watches()
        answer = await watches(call, send)
        if answer.pieces is not None:
            asyncio.get_running_loop().call_later(seconds, end, watches)
        return answer

    return hook


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
    return _fault("conflict", answer_conflict, _CONFLICTS, choice)


def too_many(retry_after: float = 1.0, **choice: Unpack[Choice]) -> Fault:
    """429 with a Retry-After: the server has too much to do, and did nothing. The client asks again by itself."""
    return _fault(
        "too_many",
        answer_status(429, retry_after=retry_after),
        VERBS,
        choice,
        retry_after=_seconds("retry_after", retry_after),
    )


def server_error(code: int = 500, **choice: Unpack[Choice]) -> Fault:
    """500, or another code from 500 on: nothing was done, but the client cannot know."""
    if not 500 <= code <= 599:
        raise ConfigError(f"server_error(code={code}): give a code from 500 to 599")
    return _fault("server_error", answer_status(code), VERBS, choice, code=code)


def timeout(*, took_effect: bool = False, **choice: Unpack[Choice]) -> Fault:
    """No answer within the time of the call, which did or did not take effect before."""
    return _fault("timeout", timed_out(took_effect=took_effect), VERBS, choice, took_effect=took_effect)


def unreachable(**choice: Unpack[Choice]) -> Fault:
    """The network is gone: nothing is sent. With `after` and `during`, an outage."""
    return _fault("unreachable", never_sent, VERBS, choice)


def lost_answer(**choice: Unpack[Choice]) -> Fault:
    """The write takes effect, and the connection breaks before its answer."""
    return _fault("lost_answer", lose_answer, WRITES, choice)


def slow(seconds: float, *, answer: bool = False, **choice: Unpack[Choice]) -> Fault:
    """The call is sent so many seconds later, or with `answer`, at once, and its answer comes later."""
    return _fault(
        "slow",
        delay_call(after=seconds) if answer else delay_call(before=seconds),
        VERBS,
        choice,
        seconds=_seconds("seconds", seconds),
        answer=answer,
    )


def expired_token(**choice: Unpack[Choice]) -> Fault:
    """401: the server does not know any more who asks."""
    return _fault("expired_token", expire_token, VERBS, choice)


def delayed_watch(seconds: float, **choice: Unpack[Choice]) -> Fault:
    """Everything that comes on a watch is handed on so many seconds later: caches are behind by that."""
    return _fault("delayed_watch", LateWatches(seconds), _WATCHES, choice, seconds=_seconds("seconds", seconds))


def dropped_watch(seconds: float, **choice: Unpack[Choice]) -> Fault:
    """A watch breaks so many seconds after it was opened, each time."""
    return _fault("dropped_watch", breaking(seconds), _WATCHES, choice, seconds=_seconds("seconds", seconds))


def compaction(seconds: float, **choice: Unpack[Choice]) -> Fault:
    """A watch ends with 410 so many seconds after it was opened: its history is gone, and all is listed anew."""
    return _fault("compaction", expiring(seconds), _WATCHES, choice, seconds=_seconds("seconds", seconds))


def repeated_events(seconds: float, *, back: int = 3, **choice: Unpack[Choice]) -> Fault:
    """A watch breaks so many seconds after it was opened, and the next begins some revisions too early.

    What those brought comes once more, as a server may do that does not know where a client was.
    """
    if back < 1:
        raise ConfigError(f"repeated_events(back={back}): give the number of revisions, 1 or more")
    return _fault(
        "repeated_events",
        repeating(seconds, back),
        _WATCHES,
        choice,
        seconds=_seconds("seconds", seconds),
        back=back,
    )


def lost_leadership(*, after: float, during: float = 60.0) -> Fault:
    """Nothing about Leases is sent for a while: who leads loses that, and another may lead."""
    return _fault("lost_leadership", never_sent, VERBS, {"kinds": ("Lease",), "after": after, "during": during})


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
