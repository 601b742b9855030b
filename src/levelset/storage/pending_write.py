"""Accepted writes whose outcome is not known yet: an optional part of the storage interface."""

import asyncio
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from levelset.storage.interface import Change

__all__ = ["PendingWrite", "PendingWriter"]


class PendingWrite(asyncio.Future[Change]):
    """The future result of an accepted write, which can no longer be cancelled.

    A task that is cancelled while it awaits this continues to wait, and is cancelled when the write is done: asyncio
    does so if a future refuses to be cancelled.
    """

    _call: Callable[["PendingWrite"], object] | None = None

    def cancel(self, msg: object = None) -> bool:  # noqa: ARG002 - the signature is asyncio's
        """Never cancels."""
        return False

    def when_done(self, call: Callable[["PendingWrite"], object]) -> None:
        """Calls `call`, which must not raise, as soon as the write is done, not in the next loop iteration."""
        self._call = call

    def set_result(self, result: Change) -> None:
        """The write is done."""
        super().set_result(result)
        call = self._call
        if call is not None:
            call(self)

    def set_exception(self, exception: type[BaseException] | BaseException) -> None:
        """The write has failed."""
        super().set_exception(exception)
        if self._call is not None:
            self._call(self)


@runtime_checkable
class PendingWriter(Protocol):
    """Optional: a storage that accepts a write at once and resolves a future with its outcome.

    `Mismatch` and `NotFound` come from the call or from the future.
    """

    def put_pending(self, key: str, value: bytes, *, expected: int | None) -> PendingWrite:
        """As `Storage.put`."""
        ...

    def delete_pending(self, key: str, *, expected: int | None) -> PendingWrite:
        """As `Storage.delete`."""
        ...
