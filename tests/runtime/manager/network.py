"""A network that fails on demand: a wire hook for clients."""

from collections.abc import Callable

from levelset.aio import timing
from levelset.client.transport.interface import Call, Response, Send
from levelset.errors import Unreachable
from tests.client.fixtures import fake_response

__all__ = ["Network"]


class Network:
    """Passes everything until a fault is set; a fault holds for a number of writes, or until it is removed."""

    def __init__(self) -> None:
        self._fault: Callable[[Call, Send], object] | None = None
        self._left: int | None = None

    async def hook(self, call: Call, send: Send) -> Response:
        if self._fault is None or (self._left is not None and call.method == "GET"):
            return await send(call)
        fault = self._fault
        if self._left is not None:
            self._left -= 1
            self._fault = fault if self._left else None
        return await fault(call, send)  # type: ignore[misc,no-any-return]

    def breaks(self, error: Exception) -> None:
        async def fault(call: Call, send: Send) -> Response:
            raise error

        self._fault, self._left = fault, None

    def heals(self) -> None:
        self._fault = None

    def delays(self, seconds: float, *, times: int) -> None:
        async def fault(call: Call, send: Send) -> Response:
            await timing.sleep(seconds)
            return await send(call)

        self._fault, self._left = fault, times

    def loses_response(self, *, times: int) -> None:
        async def fault(call: Call, send: Send) -> Response:
            await send(call)
            raise Unreachable("the response was lost")

        self._fault, self._left = fault, times

    def conflicts(self, *, times: int) -> None:
        async def fault(call: Call, send: Send) -> Response:
            return fake_response(
                409, b'{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","code":409}'
            )

        self._fault, self._left = fault, times
