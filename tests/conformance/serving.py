"""Servers for clients that block: each runs in a thread of its own with its own event loop, on a loopback port."""

import asyncio
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from levelset.apiserver.server import ApiServer
from levelset.storage import MemoryStorage, SqliteStorage, Storage

__all__ = ["TOKEN", "failures", "serve"]

TOKEN = "a-token-of-the-conformance-tests"
_PATIENCE = 60.0  # for a machine that is busy with something else; it takes milliseconds


@contextmanager
def serve(data: Path | None, *, rbac: bool = False) -> Iterator[str]:
    """Serves an API over plain HTTP, with storage in memory or in an SQLite file; yields its URL."""
    serving = _Serving(data, rbac=rbac)
    thread = threading.Thread(target=asyncio.run, args=(serving.main(),), name="apiserver", daemon=True)
    thread.start()
    try:
        yield serving.wait_url()
    finally:
        serving.stop()
        thread.join(_PATIENCE)
        assert not thread.is_alive(), "the server does not stop"
    if serving.error is not None:
        raise serving.error


class _Failures(logging.Handler):
    """Collects what servers log when they answer 500; it cannot be assigned to one of the running tests."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = logging.Formatter().format(record)
        self.found.append(f"{getattr(record, 'audit_id', '')}: {text}")


@contextmanager
def failures() -> Iterator[list[str]]:
    """What servers of this process log as an error meanwhile, each with the audit id that the client got."""
    handler = _Failures()
    logger = logging.getLogger("levelset")
    logger.addHandler(handler)
    try:
        yield handler.found
    finally:
        logger.removeHandler(handler)


class _Serving:
    """The shared state of the server's thread and the tests' thread."""

    def __init__(self, data: Path | None, *, rbac: bool) -> None:
        self.data = data
        self.rbac = rbac
        self.error: BaseException | None = None
        self._url = ""
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over = asyncio.Event()

    async def main(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            storage: Storage = (
                MemoryStorage() if self.data is None else await asyncio.to_thread(SqliteStorage, self.data)
            )
            async with ApiServer(storage, token=TOKEN, tls=False, rbac=self.rbac) as server:
                self._url = server.url
                self._ready.set()
                await self._over.wait()
            await storage.close()
        except BaseException as error:  # noqa: BLE001 - raised again in the thread of the tests
            self.error = error
        finally:
            self._ready.set()

    def wait_url(self) -> str:
        assert self._ready.wait(_PATIENCE), "the server does not start"
        if self.error is not None:
            raise self.error
        return self._url

    def stop(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._over.set)
