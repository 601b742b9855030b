"""Threads under virtual time: the loop stands still while one works, and their results come in the order of asking."""

import asyncio
import contextlib
import select
import socket
import time
from collections.abc import Callable
from concurrent import futures
from typing import Any, Final, TypeVar

from levelset.testing.stuck import Stuck

__all__ = ["Jobs"]

T = TypeVar("T")

_PATIENCE: Final = 10.0
"""Real seconds after which a thread is taken to wait for the very loop that waits for it."""


class Jobs:
    """Functions that were handed to threads, one thread for all of them unless somebody brings an executor."""

    def __init__(self) -> None:
        self._pool: futures.ThreadPoolExecutor | None = None
        self._waiting: list[tuple[asyncio.Future[Any], futures.Future[Any], Callable[..., Any]]] = []
        self._bell: tuple[socket.socket, socket.socket] | None = None

    @property
    def are_waiting(self) -> bool:
        """Whether results have yet to be given to those who wait for them."""
        return bool(self._waiting)

    def add(
        self,
        loop: asyncio.AbstractEventLoop,
        executor: futures.Executor | None,
        func: Callable[..., T],
        *args: Any,
    ) -> "asyncio.Future[T]":
        """What the function gives; it begins at once."""
        if self._bell is None:
            self._bell = socket.socketpair()
            for end in self._bell:
                end.setblocking(False)
        if executor is None:
            executor = self._pool = self._pool or futures.ThreadPoolExecutor(1, "virtual-time")
        given: asyncio.Future[T] = loop.create_future()
        job = executor.submit(func, *args)
        self._waiting.append((given, job, func))
        job.add_done_callback(self._ring)
        return given

    def finish(self) -> None:
        """Waits for all of them, and hands out what they gave; Stuck if one does not come to its end."""
        until = time.monotonic() + _PATIENCE
        while not all(job.done() for _, job, _ in self._waiting):
            self._listen(until)
        waiting, self._waiting = self._waiting, []
        for given, job, _ in waiting:
            if not given.done():
                _pass_on(job, given)

    def close(self) -> None:
        """Ends the thread."""
        for _, job, _ in self._waiting:
            job.cancel()
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        for end in self._bell or ():
            end.close()
        self._bell = None

    def _ring(self, _: "futures.Future[Any]") -> None:
        # Closed, or full of rings that nobody has heard yet: either way there is nothing to add.
        with contextlib.suppress(OSError):
            if self._bell is not None:
                self._bell[1].send(b".")

    def _listen(self, until: float) -> None:
        assert self._bell is not None, "who waits has been added"
        if not select.select([self._bell[0]], [], [], max(0.0, until - time.monotonic()))[0]:
            names = ", ".join(_name(func) for _, job, func in self._waiting if not job.done())
            raise Stuck(
                f"a thread has worked for {_PATIENCE:g} real seconds at {names}: in virtual time the loop stands still "
                "meanwhile, and the thread must not wait for it"
            )
        self._bell[0].recv(4096)


def _name(func: Any) -> str:
    wrapped: tuple[Any, ...] = getattr(func, "args", ())  # as `to_thread` does it
    return str(getattr(wrapped[0] if wrapped else func, "__qualname__", func))


def _pass_on(job: "futures.Future[Any]", given: "asyncio.Future[Any]") -> None:
    if job.cancelled():
        given.cancel()
    elif (error := job.exception()) is not None:
        given.set_exception(error)
    else:
        given.set_result(job.result())
