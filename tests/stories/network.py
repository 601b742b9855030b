"""A client hook that cuts the network on demand; random faults are in `levelset.testing.faults`."""

from collections.abc import Callable

from levelset.client import Call, Response, Send
from levelset.errors import Unreachable

__all__ = ["CutOff"]


class CutOff:
    """Fails matching requests while `is_cut` is set."""

    def __init__(self, fits: Callable[[Call], bool] = lambda call: True) -> None:
        self.is_cut = False
        self._fits = fits

    async def __call__(self, call: Call, send: Send) -> Response:
        if self.is_cut and self._fits(call):
            raise Unreachable(f"{call.words}: the network is gone", is_sent=False)
        return await send(call)
