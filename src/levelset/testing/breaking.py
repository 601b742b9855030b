"""Watches that do not last: each breaks, or expires, some seconds after it was opened; the next may begin too early."""

import asyncio
from collections.abc import Callable
from urllib.parse import parse_qsl

from levelset.client.calls import Answer, Call, Hook, Send
from levelset.testing import effects
from levelset.testing.watches import Watches

__all__ = ["breaking", "expiring", "repeating"]


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
        earlier = effects.restarted_watch(int(version) - back)

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
