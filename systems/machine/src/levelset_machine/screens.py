"""What a terminal shows, and to whom: everything to all who look, and the last of it to who comes later."""

import asyncio
import os
from typing import Final

__all__ = ["Screen"]

_SHOWN_AGAIN: Final = 65536
_MOST_BEHIND: Final = 1 << 20
"""How many bytes a viewer may be behind; who is slower is cut off, as the process must not wait for him."""
_CHUNK: Final = 65536


class Screen:
    """Our end of a terminal, and those who look at it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.descriptor, self.far_end = os.openpty()
        self.name = os.ttyname(self.far_end)
        self._is_released = False
        self._last = bytearray()
        self._viewers = set[asyncio.StreamWriter]()
        self._over = asyncio.Event()
        self._typing = asyncio.Lock()
        self._waiting: asyncio.Future[None] | None = None
        os.set_blocking(self.descriptor, False)
        self._loop.add_reader(self.descriptor, self._read)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Shows everything to one viewer until it is over, and types what comes from him."""
        writer.write(bytes(self._last))
        self._viewers.add(writer)
        try:
            while not self._over.is_set() and (data := await reader.read(_CHUNK)):
                await self._type(data)
            # Who types no more may still look.
            await self._over.wait()
        except ConnectionError:
            pass
        finally:
            self._viewers.discard(writer)
            writer.close()

    def release(self) -> None:
        """Closes the far end here; a process has it, or nobody."""
        if not self._is_released:
            self._is_released = True
            os.close(self.far_end)

    def close(self) -> None:
        """Ends it for everybody: what still runs on the terminal is told that it is gone."""
        self.release()
        self._end()
        os.close(self.descriptor)

    def _end(self) -> None:
        """All was shown. Our end stays open: to close it would kill a process that is just about to exit by itself."""
        if self._over.is_set():
            return
        self._over.set()
        self._loop.remove_reader(self.descriptor)
        self._loop.remove_writer(self.descriptor)
        self._wake()
        for viewer in self._viewers:
            viewer.close()

    def _read(self) -> None:
        try:
            data = os.read(self.descriptor, _CHUNK)
        except BlockingIOError:
            return
        except OSError:  # so the kernel says that the last process has left
            data = b""
        if not data:
            self._end()
            return
        self._last += data
        del self._last[:-_SHOWN_AGAIN]
        for viewer in list(self._viewers):
            self._show(viewer, data)

    def _show(self, viewer: asyncio.StreamWriter, data: bytes) -> None:
        if viewer.transport.get_write_buffer_size() > _MOST_BEHIND:
            viewer.transport.abort()
        elif not viewer.is_closing():
            viewer.write(data)

    async def _type(self, data: bytes) -> None:
        """Types for one viewer after the other; a process that does not read makes them wait."""
        async with self._typing:
            while data and not self._over.is_set():
                try:
                    data = data[os.write(self.descriptor, data) :]
                except BlockingIOError:
                    await self._writable()
                except OSError:  # nobody is left who could read it
                    return

    async def _writable(self) -> None:
        """Returns when something can be typed again, or it is over."""
        waiter = self._waiting = self._loop.create_future()
        self._loop.add_writer(self.descriptor, self._wake)
        try:
            await waiter
        finally:
            if not self._over.is_set():
                self._loop.remove_writer(self.descriptor)

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)
