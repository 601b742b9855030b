"""What can go wrong with one call, each as a hook: refused, never sent, sent but never answered, slow, out of date.

A hook is an async function `(call, send) -> Answer`; give it to a client as one of its `wire_hooks`, or call it from a
hook of your own that chooses when. Those here ask nobody and happen every time: choosing is what `faults` are for.
What goes wrong with watches is in `watches`.
"""

import asyncio
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode

import msgspec

from levelset.aio import timing
from levelset.client.calls import Answer, Call, Hook, Send
from levelset.errors import TimedOut, Unreachable
from levelset.web.messages import Headers

__all__ = [
    "CONFLICT",
    "answer_conflict",
    "answer_status",
    "expired_token",
    "lost_answer",
    "never_answered",
    "never_sent",
    "older_list",
    "restarted_watch",
    "slow",
    "timed_out",
]

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

expired_token: Final = answer_status(401, "the token has expired")
"""Answers 401, as a server does when it does not know who asks."""


async def never_sent(call: Call, send: Send) -> Answer:  # noqa: ARG001  # the shape of a hook
    """Raises Unreachable: the call has not left this process, and may be sent again."""
    raise Unreachable(f"{call.words}: the network is gone", is_sent=False)


async def lost_answer(call: Call, send: Send) -> Answer:
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


def slow(*, before: float = 0.0, after: float = 0.0) -> Hook:
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
