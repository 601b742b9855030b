"""A network that is cut at the moment a story wants it; what goes wrong by itself is in `levelset.testing.faults`."""

from collections.abc import Callable

from levelset.client import Answer, Call, Send
from levelset.errors import Unreachable

__all__ = ["CutOff"]


class CutOff:
    """Lets nothing through that fits, once it is told to."""

    def __init__(self, fits: Callable[[Call], bool] = lambda call: True) -> None:
        self.is_cut = False
        self._fits = fits

    async def __call__(self, call: Call, send: Send) -> Answer:
        if self.is_cut and self._fits(call):
            raise Unreachable(f"{call.words}: the network is gone", is_sent=False)
        return await send(call)
