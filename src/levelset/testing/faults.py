"""Fault injection: which calls between a controller and its server fail, how often, and in which way.

```python
async with cluster.running(websites, faults=[faults.conflict(share=0.2, verbs=("update", "patch"), seed=5)]):
    ...
```

A `Fault` is a value: it can be compared and reused, and its `repr` is the call that creates it. `hook()` returns a wire
hook that injects it into one client. Faults select calls by the keywords of `CallSelection`. They act on the wire, so a
call that the client retries by itself counts again. With several faults, the first that fires for a call wins.

The functions with a verb (`respond_status`, `drop_request`, `lose_response`, `break_watch`, ...) are the effects
without the selection: hooks `(call, send) -> Response` that act on every call, for use in `wire_hooks` or in your own
hooks.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, field, fields, replace
from random import Random
from typing import Any, Final, TypedDict, Unpack
from urllib.parse import parse_qsl, quote, urlencode

import msgspec

from levelset.aio import timing
from levelset.client.object_types import view_of
from levelset.client.transport.interface import Call, Hook, Response, Send
from levelset.errors import ConfigError, TimedOut, Unreachable
from levelset.http.messages import Headers
from levelset.runtime.controller import Action, Context, Controller, ControllerOptions
from levelset.testing.call_info import CallInfo, call_info
from levelset.testing.watch_control import DelayedWatches, WatchControl

__all__ = [
    "CONFLICT",
    "READS",
    "VERBS",
    "WRITES",
    "CallSelection",
    "CallSelector",
    "Fault",
    "FaultHook",
    "FaultTrigger",
    "break_watch",
    "can_conflict",
    "compaction",
    "conflict",
    "delay_call",
    "delayed_watch",
    "drop_request",
    "dropped_watch",
    "expire_watch",
    "expired_token",
    "hang",
    "hooks_of",
    "list_older_revision",
    "lose_response",
    "lost_leadership",
    "lost_response",
    "meet_conflict",
    "repeat_events",
    "repeated_events",
    "respond_conflict",
    "respond_expired_token",
    "respond_status",
    "select_calls",
    "server_error",
    "slow",
    "slow_handler",
    "time_out",
    "timeout",
    "too_many",
    "unreachable",
    "watch_from_older_revision",
    "wrap_controllers",
]

READS: Final = ("get", "list", "watch")
WRITES: Final = ("create", "update", "patch", "apply", "delete", "deletecollection")
VERBS: Final = (*READS, *WRITES)


class CallSelection(TypedDict, total=False):
    """The keywords by which a fault selects calls; by default it selects all calls of its default verbs.

    - `verbs`, `kinds` and `names` of the objects; a kind is a class, a GroupVersionKind or its name. `patch` is every
      patch but an apply, which is `apply`. Leases and Events are left alone unless `kinds` names them.
    - `share`: the probability with which a selected call fails, drawn from a generator seeded with `seed`.
    - `skip`: the number of selected calls that pass first; `count`: the maximum number of injected faults.
    - `after`: seconds after the first call before the fault is active; `during`: how many seconds it stays active.
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
class CallSelector:
    """A validated selection of calls; see `CallSelection`."""

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
        for is_right, values, rule in (
            (0 < self.share <= 1, f"share={self.share!r}", "above 0 and at most 1"),
            (self.skip >= 0, f"skip={self.skip!r}", "0 or more"),
            (self.count is None or self.count >= 1, f"count={self.count!r}", "1 or more, or None for all"),
            (self.after >= 0, f"after={self.after!r}", "a number of seconds, 0 or more"),
            (self.during is None or self.during > 0, f"during={self.during!r}", "a number of seconds above 0, or None"),
        ):
            if not is_right:
                raise ConfigError(f"{values}, but it must be {rule}")

    def matches(self, call: CallInfo) -> bool:
        """Whether verb, kind and name of a call match; calls without objects never match."""
        if not call.kind or call.verb not in self.verbs:
            return False
        if call.kind not in self.kinds if self.kinds else call.is_bookkeeping:
            return False
        return not self.names or call.name in self.names

    def arguments(self, default_verbs: tuple[str, ...] = VERBS) -> str:
        """The keywords that differ from the defaults, as they are written in a call."""
        plain = CallSelector(verbs=default_verbs)
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return ", ".join(f"{name}={value!r}" for name, value in values.items() if value != getattr(plain, name))


def select_calls(default_verbs: tuple[str, ...], choice: CallSelection) -> CallSelector:
    """Validates the keywords of a fault; `default_verbs` are the verbs if none are given. Raises ConfigError."""
    unknown = choice.keys() - CallSelection.__annotations__.keys()
    if unknown:
        raise ConfigError(
            f"unknown keywords {', '.join(sorted(unknown))}; a fault selects calls by {', '.join(_CHOICES)}"
        )
    values: dict[str, Any] = {"verbs": default_verbs, **choice}
    for name in ("verbs", "kinds", "names"):
        if isinstance(values.get(name), str | type):
            raise ConfigError(f"{name}={values[name]!r}: give several, such as ({values[name]!r},)")
        values[name] = tuple(values.get(name, ()))
    values["kinds"] = tuple(map(_kind_name, values["kinds"]))
    return CallSelector(**values)


_CHOICES: Final = tuple(CallSelection.__annotations__)


def _kind_name(kind: Any) -> str:
    return kind if isinstance(kind, str) else view_of(kind).gvk.kind


class FaultTrigger:
    """Decides call by call whether a fault is injected; counts calls and time."""

    __slots__ = ("_passed", "_random", "_started", "injected", "selector")

    def __init__(self, selector: CallSelector) -> None:
        self.selector = selector
        self.injected = 0
        self._random = Random(selector.seed)  # noqa: S311  # must be repeatable
        self._passed = 0
        self._started: float | None = None

    def fires(self, call: CallInfo, *, now: float) -> bool:
        """Whether the fault is injected into this call; counts the call."""
        self._started = now if self._started is None else self._started
        selector = self.selector
        if not selector.matches(call) or not self._is_time(now - self._started):
            return False
        if self._passed < selector.skip:
            self._passed += 1
            return False
        if selector.count is not None and self.injected >= selector.count:
            return False
        if selector.share < 1 and self._random.random() >= selector.share:
            return False
        self.injected += 1
        return True

    def _is_time(self, seconds: float) -> bool:
        selector = self.selector
        return selector.after <= seconds and (selector.during is None or seconds < selector.after + selector.during)


CONFLICT: Final = "the object has been modified; please apply your changes to the latest version and try again"
"""The message of kube-apiserver for a conflict."""

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


def respond_status(code: int, message: str = "", *, reason: str = "", retry_after: float | None = None) -> Hook:
    """Responds with a Status instead of sending the call to the server."""
    tree: dict[str, object] = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason or _REASONS.get(code, "InternalError"),
        "message": message or f"injected fault: {code}",
    }
    headers = {"content-type": "application/json"}
    if retry_after is not None:
        headers["retry-after"] = f"{retry_after:g}"
        tree["details"] = {"retryAfterSeconds": int(retry_after)}
    response = Response(status=code, headers=Headers(headers), body=msgspec.json.encode(tree))

    async def hook(call: Call, send: Send) -> Response:  # noqa: ARG001  # the shape of a hook
        return response

    return hook


respond_conflict: Final = respond_status(409, CONFLICT)
"""Responds 409 Conflict, as after a concurrent write of another client."""


async def can_conflict(call: Call, send: Send) -> bool:
    """Whether a server could respond 409 Conflict to a write, because another one came first.

    A create meets no conflict (its 409 is AlreadyExists), nor does a write to an object that does not exist, an update
    without a resourceVersion, or a delete without preconditions. Reads the object to find out.
    """
    match call_info(call).verb:
        case "update" if b'"resourceVersion"' not in call.body:
            return False
        case "delete":
            return b'"preconditions"' in call.body
        case "update" | "patch" | "apply":
            read = msgspec.structs.replace(call, method="GET", verb="get", query="", body=b"", headers={})
            return (await send(read)).status == _OK
        case _:
            return False


async def meet_conflict(call: Call, send: Send) -> Response:
    """Responds 409 Conflict where a server could (`can_conflict`); sends every other call."""
    return await (respond_conflict(call, send) if await can_conflict(call, send) else send(call))


_OK: Final = 200

respond_expired_token: Final = respond_status(401, "the token has expired")
"""Responds 401 Unauthorized, as for an expired token."""


async def drop_request(call: Call, send: Send) -> Response:  # noqa: ARG001  # the shape of a hook
    """Raises Unreachable without sending the call, so that it is safe to retry."""
    raise Unreachable(f"{call.words}: the network is unreachable", is_sent=False)


async def lose_response(call: Call, send: Send) -> Response:
    """Sends the call and raises Unreachable instead of returning the response: the outcome is unknown."""
    await _send_whole(call, send)
    raise Unreachable(f"{call.words}: the connection was lost before the response", is_sent=True)


def time_out(*, took_effect: bool) -> Hook:
    """Raises TimedOut after the timeout of the call, which did or did not take effect."""

    async def hook(call: Call, send: Send) -> Response:
        if took_effect:
            await _send_whole(call, send)
        await timing.sleep(call.timeout)
        raise TimedOut(f"{call.words}: no response within {call.timeout:g} seconds")

    return hook


async def hang(call: Call, send: Send) -> Response:  # noqa: ARG001  # the shape of a hook
    """Hangs until the call is cancelled; it is not sent."""
    never: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
    return await never


def delay_call(*, before: float = 0.0, after: float = 0.0) -> Hook:
    """Waits `before` seconds before sending the call and `after` seconds before returning its response."""

    async def hook(call: Call, send: Send) -> Response:
        if before > 0:
            await timing.sleep(before)
        response = await send(call)
        if after > 0:
            await timing.sleep(after)
        return response

    return hook


def list_older_revision(revision: int) -> Hook:
    """Serves lists at an older revision, so that the watches that follow start there.

    A streaming list (`sendInitialEvents`) is rejected with 400, as by a server without that feature, so that the client
    falls back to a list. Calls for single objects pass.
    """
    refuse = respond_status(400, "sendInitialEvents is not supported")

    async def hook(call: Call, send: Send) -> Response:
        query = dict(parse_qsl(call.query))
        if call.verb == "watch" and "sendInitialEvents" in query:
            return await refuse(call, send)
        if call.verb != "list" or "continue" in query:
            return await send(call)
        return await send(_with_query(call, query, resourceVersion=str(revision), resourceVersionMatch="Exact"))

    return hook


def watch_from_older_revision(revision: int) -> Hook:
    """Starts watches at an older revision than requested, so that events are delivered again."""

    async def hook(call: Call, send: Send) -> Response:
        query = dict(parse_qsl(call.query))
        requested = query.get("resourceVersion", "")
        if (
            call.verb != "watch"
            or "sendInitialEvents" in query
            or not requested.isdigit()
            or int(requested) <= revision
        ):
            return await send(call)
        return await send(_with_query(call, query, resourceVersion=str(revision)))

    return hook


def _with_query(call: Call, query: dict[str, str], **changes: str) -> Call:
    return msgspec.structs.replace(call, query=urlencode({**query, **changes}, quote_via=quote, safe=":,()!"))


async def _send_whole(call: Call, send: Send) -> None:
    response = await send(call)
    if response.stream is not None:
        await response.stream.aclose()


def break_watch(seconds: float) -> Hook:
    """Breaks a watch so many seconds after it was opened, as a lost connection does."""
    return _end_watch(seconds, WatchControl.cut)


def expire_watch(seconds: float) -> Hook:
    """Ends a watch with 410 Gone so many seconds after it was opened, as a compaction does; clients relist."""
    return _end_watch(seconds, WatchControl.expire)


def repeat_events(seconds: float, back: int) -> Hook:
    """Breaks a watch after so many seconds; the next one starts `back` revisions too early."""
    break_it = break_watch(seconds)

    async def hook(call: Call, send: Send) -> Response:
        version = dict(parse_qsl(call.query)).get("resourceVersion", "")
        if not version.isdigit() or int(version) <= back:
            return await break_it(call, send)
        earlier = watch_from_older_revision(int(version) - back)

        async def send_earlier(call: Call) -> Response:
            return await earlier(call, send)

        return await break_it(call, send_earlier)

    return hook


def _end_watch(seconds: float, end: Callable[[WatchControl], int]) -> Hook:
    async def hook(call: Call, send: Send) -> Response:
        watches = WatchControl()
        response = await watches(call, send)
        if response.stream is not None:
            asyncio.get_running_loop().call_later(seconds, end, watches)
        return response

    return hook


_WATCHES: Final = ("watch",)
_CONFLICTS: Final = tuple(verb for verb in WRITES if verb not in {"create", "deletecollection"})


@dataclass(frozen=True)
class Fault:
    """A fault to inject: its name, options and selected calls; created by the functions of this module."""

    name: str
    selector: CallSelector
    options: tuple[tuple[str, Any], ...] = ()
    default_verbs: tuple[str, ...] = field(default=VERBS, compare=False)
    effect: Hook | None = field(default=None, compare=False)
    is_possible: Callable[[Call, Send], Awaitable[bool]] | None = field(default=None, compare=False)
    """Whether a server could give this error for a call; None if it could for all."""

    def __repr__(self) -> str:
        own = ", ".join(f"{name}={value!r}" for name, value in self.options)
        return f"{self.name}({', '.join(part for part in (own, self.selector.arguments(self.default_verbs)) if part)})"

    def hook(self) -> "FaultHook":
        """A wire hook for one client, with its own counters and random generator."""
        return FaultHook(self)


class FaultHook:
    """The wire hook of a fault; calls that are not selected pass."""

    __slots__ = ("_trigger", "fault")

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self._trigger = FaultTrigger(fault.selector)

    @property
    def injected(self) -> int:
        """The number of calls the fault was injected into."""
        return self._trigger.injected

    async def __call__(self, call: Call, send: Send) -> Response:
        """Injects the fault into the call, or sends it."""
        effect, is_possible, what = self.fault.effect, self.fault.is_possible, call_info(call)
        # What is not possible is not counted: `count=1` is the first call that a server could have refused.
        if is_possible is not None and self.fault.selector.matches(what) and not await is_possible(call, send):
            return await send(call)
        if effect is None or not self._trigger.fires(what, now=timing.now()):
            return await send(call)
        return await effect(call, send)

    def __repr__(self) -> str:
        return f"<{self.fault!r}, injected {self.injected}>"


def hooks_of(faults: Iterable[Fault | Hook]) -> tuple[Hook, ...]:
    """The wire hooks of these faults for one client; hooks are returned unchanged."""
    return tuple(one.hook() if isinstance(one, Fault) else one for one in faults)


def wrap_controllers(controllers: Iterable[Controller[Any]], faults: Iterable[Fault | Hook]) -> list[Controller[Any]]:
    """The controllers, wrapped by those faults that do not act on the wire (`slow_handler`)."""
    made = list(controllers)
    for fault in faults:
        if isinstance(fault, Fault) and fault.name == "slow_handler":
            made = [_slowed(one, fault) for one in made]
    return made


def conflict(**choice: Unpack[CallSelection]) -> Fault:
    """409 Conflict, for updates, patches, applies and deletes by default, where a server could: see `can_conflict`."""
    made = replace(_fault("conflict", respond_conflict, _CONFLICTS, choice), is_possible=can_conflict)
    if not set(_CONFLICTS) & set(made.selector.verbs):
        verbs = ", ".join(made.selector.verbs)
        raise ConfigError(
            f"conflict: no server responds 409 Conflict to {verbs}; use server_error, or verbs of a change"
        )
    return made


def too_many(retry_after: float = 1.0, **choice: Unpack[CallSelection]) -> Fault:
    """429 with Retry-After: the server is overloaded and did nothing. The client retries by itself."""
    return _fault(
        "too_many",
        respond_status(429, retry_after=retry_after),
        VERBS,
        choice,
        retry_after=_seconds("retry_after", retry_after),
    )


def server_error(code: int = 500, **choice: Unpack[CallSelection]) -> Fault:
    """500, or another 5xx: the call had no effect, which the client cannot know."""
    if not 500 <= code <= 599:
        raise ConfigError(f"server_error(code={code}): give a code from 500 to 599")
    return _fault("server_error", respond_status(code), VERBS, choice, code=code)


def timeout(*, took_effect: bool = False, **choice: Unpack[CallSelection]) -> Fault:
    """No response within the timeout of the call, which did or did not take effect."""
    return _fault("timeout", time_out(took_effect=took_effect), VERBS, choice, took_effect=took_effect)


def unreachable(**choice: Unpack[CallSelection]) -> Fault:
    """The server is unreachable: nothing is sent. With `after` and `during`, an outage."""
    return _fault("unreachable", drop_request, VERBS, choice)


def lost_response(**choice: Unpack[CallSelection]) -> Fault:
    """The write takes effect, and the connection breaks before its response."""
    return _fault("lost_answer", lose_response, WRITES, choice)


def slow(seconds: float, *, response: bool = False, **choice: Unpack[CallSelection]) -> Fault:
    """The call is sent so many seconds later; with `response`, it is sent at once and its response is delayed."""
    return _fault(
        "slow",
        delay_call(after=seconds) if response else delay_call(before=seconds),
        VERBS,
        choice,
        seconds=_seconds("seconds", seconds),
        response=response,
    )


def expired_token(**choice: Unpack[CallSelection]) -> Fault:
    """401 Unauthorized: the token has expired."""
    return _fault("expired_token", respond_expired_token, VERBS, choice)


def delayed_watch(seconds: float, **choice: Unpack[CallSelection]) -> Fault:
    """Watch events are delivered so many seconds late, so that caches are stale."""
    return _fault("delayed_watch", DelayedWatches(seconds), _WATCHES, choice, seconds=_seconds("seconds", seconds))


def dropped_watch(seconds: float, **choice: Unpack[CallSelection]) -> Fault:
    """Every watch breaks so many seconds after it was opened."""
    return _fault("dropped_watch", break_watch(seconds), _WATCHES, choice, seconds=_seconds("seconds", seconds))


def compaction(seconds: float, **choice: Unpack[CallSelection]) -> Fault:
    """A watch ends with 410 Gone so many seconds after it was opened, as after a compaction: clients relist."""
    return _fault("compaction", expire_watch(seconds), _WATCHES, choice, seconds=_seconds("seconds", seconds))


def repeated_events(seconds: float, *, back: int = 3, **choice: Unpack[CallSelection]) -> Fault:
    """A watch breaks so many seconds after it was opened, and the next starts some revisions too early.

    The events of those revisions are delivered again.
    """
    if back < 1:
        raise ConfigError(f"repeated_events(back={back}): give the number of revisions, 1 or more")
    return _fault(
        "repeated_events",
        repeat_events(seconds, back),
        _WATCHES,
        choice,
        seconds=_seconds("seconds", seconds),
        back=back,
    )


def lost_leadership(*, after: float, during: float = 60.0) -> Fault:
    """No call for a Lease is sent for a while, so that the leader loses its Lease and another may lead."""
    return _fault("lost_leadership", drop_request, VERBS, {"kinds": ("Lease",), "after": after, "during": during})


def slow_handler(seconds: float, **choice: Unpack[CallSelection]) -> Fault:
    """Delays the reconcile and cleanup functions by so many seconds.

    Selects by the kind and name of the object, share, count and time; `verbs` have no effect.
    """
    return _fault("slow_handler", None, VERBS, {**choice, "verbs": VERBS}, seconds=_seconds("seconds", seconds))


def _fault(
    name: str, effect: Hook | None, default_verbs: tuple[str, ...], choice: CallSelection, **options: Any
) -> Fault:
    try:
        return Fault(name, select_calls(default_verbs, choice), tuple(options.items()), default_verbs, effect)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None


def _seconds(name: str, value: float) -> float:
    if not value >= 0:
        raise ConfigError(f"{name}={value!r}: give a number of seconds, 0 or more")
    return value


def _slowed(controller: Controller[Any], fault: Fault) -> Controller[Any]:
    """A copy of the controller with delayed functions; the controller itself if the fault does not match its kind."""
    if not fault.selector.matches(
        CallInfo("get", view_of(controller.kind).gvk.kind, name=next(iter(fault.selector.names), None))
    ):
        return controller
    trigger, seconds = FaultTrigger(fault.selector), dict(fault.options)["seconds"]
    options = {name: getattr(controller, name) for name in ControllerOptions.__annotations__}
    if controller.cleanup is not None:
        options["cleanup"] = _delayed(controller.cleanup, trigger, seconds)
    made: Any = Controller
    reconcile = _delayed(controller.reconcile, trigger, seconds)
    slowed: Controller[Any] = made(controller.kind, reconcile, *controller.relations, **options)
    return slowed


def _delayed(
    function: Callable[[Any, Context], Awaitable[Action | None]], trigger: FaultTrigger, seconds: float
) -> Callable[[Any, Context], Awaitable[Action | None]]:
    async def handler(obj: Any, ctx: Context) -> Action | None:
        ref = ctx.ref
        if trigger.fires(CallInfo("get", ref.gvk.kind, ref.namespace, ref.name), now=timing.now()):
            await timing.sleep(seconds)
        return await function(obj, ctx)

    return handler
