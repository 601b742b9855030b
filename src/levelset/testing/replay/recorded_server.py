"""The API server of a replay: a transport that compares requests with the recording, and gives the recorded answers."""

import asyncio
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, Protocol

import msgspec

from levelset.client.transport.interface import Call, Response
from levelset.errors import BadObject, LevelsetError, Unreachable
from levelset.http.messages import Headers
from levelset.runtime.controller.traced_tasks import TracedTask, Tracer, current_task
from levelset.runtime.recording.entries import Answer, Discovery

__all__ = ["Comparison", "GatedTask", "RecordedServer", "answer_of", "error_of"]

_CANCELLED: Final = "CancelledError"


class GatedTask(TracedTask):
    """A reconcile or a task of it; `gate` is what it waits for before it may go on, None while it runs or waits."""

    __slots__ = ("coroutine", "gate", "root")

    def __init__(self, number: int, tracer: Tracer, *, root: int, coroutine: Any = None) -> None:
        super().__init__(number, tracer)
        self.root = root
        self.gate: asyncio.Future[None] | None = None
        self.coroutine = coroutine
        """What it runs, to say where it waits."""

    def park(self) -> "asyncio.Future[None]":
        """A new gate."""
        self.gate = asyncio.get_running_loop().create_future()
        return self.gate

    def open(self) -> None:
        """Opens the gate."""
        gate, self.gate = self.gate, None
        if gate is not None and not gate.done():
            gate.set_result(None)


class Comparison(Protocol):
    """Compares what tasks do with what was recorded."""

    def requested(self, task: GatedTask, call: Call, /) -> int | None:
        """The number of the recorded request that this call is; None if it differs, and the replay ends."""
        ...

    def lacks(self, path: str, /) -> None:
        """The replay needs the discovery document at this path, which the recording does not have."""
        ...

    def may_cancel(self, number: int, /) -> bool:
        """Whether the next entry is of the task whose request with this number was cancelled."""
        ...


class RecordedServer:
    """A transport for the clients of a replay."""

    def __init__(self, comparison: Comparison, discovery: Mapping[tuple[str, str], Discovery]) -> None:
        self.waiting: dict[int, tuple[GatedTask, asyncio.Future[Response]]] = {}
        """The requests without an answer, by number."""
        self._comparison = comparison
        self._discovery = discovery

    async def send(self, call: Call, /) -> Response:
        """The recorded answer, when the recording has it; requests of informers wait for ever."""
        task = current_task()
        if not isinstance(task, GatedTask):
            return await self._send_outside(call)
        number = self._comparison.requested(task, call)
        if number is None:
            return await _never()
        return await self.wait(task, number)

    async def wait(self, task: GatedTask, number: int) -> Response:
        """The answer to a request with this number."""
        future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self.waiting[number] = task, future
        task.requests += 1
        try:
            return await future
        except asyncio.CancelledError:
            while not self._comparison.may_cancel(number):
                await self._wait_cancelled(task)
            raise
        finally:
            task.requests -= 1
            self.waiting.pop(number, None)

    async def aclose(self) -> None:
        """Does nothing: there are no connections."""

    @staticmethod
    async def _wait_cancelled(task: GatedTask) -> None:
        """Waits for the next entry of a task that was cancelled already, whatever else cancels it."""
        try:
            await task.park()
        except asyncio.CancelledError:
            return

    async def _send_outside(self, call: Call) -> Response:
        accept = call.headers.get("Accept", "") or call.headers.get("accept", "")
        found = self._discovery.get((call.path, accept)) or self._discovery.get((call.path, ""))
        if found is None:
            self._comparison.lacks(call.path)
            return await _never()
        return Response(status=found.status, body=found.body)


async def _never() -> Response:
    never: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
    return await never


def answer_of(entry: Answer) -> Response | BaseException:
    """What an answer entry stands for."""
    if entry.status == 0:
        return error_of(entry.body)
    return Response(status=entry.status, headers=Headers(list(entry.headers.items())), body=entry.body)


def error_of(body: bytes) -> BaseException:
    """The error of an answer: of the same class if that is imported, otherwise a LevelsetError."""
    try:
        tree = msgspec.json.decode(body, type=_RecordedError)
    except msgspec.MsgspecError as error:
        raise BadObject(f"the recording has an error that cannot be read: {error}") from error
    if tree.type == _CANCELLED:
        return asyncio.CancelledError(tree.message)
    # Only of modules that the program has imported: a recording must not have code run.
    found = getattr(sys.modules.get(tree.module), tree.type, None)
    if not (isinstance(found, type) and issubclass(found, Exception)):
        found = LevelsetError
    try:
        made = found.__new__(found, tree.message)
    except TypeError:  # a class that is made of more than a message
        made = LevelsetError(tree.message)
    made.args = (tree.message,)
    attributes = {"is_sent": True, **tree.attributes} if isinstance(made, Unreachable) else tree.attributes
    for attribute, value in attributes.items():
        if not attribute.startswith("__"):
            with suppress(AttributeError, TypeError):  # of another version of the class
                setattr(made, attribute, value)
    return made


class _RecordedError(msgspec.Struct):
    type: str
    message: str
    attributes: dict[str, Any]
    module: str = ""
