"""A client of a terminal, for tests: it speaks the frames of its socket."""

import asyncio
import json
from pathlib import Path

from levelset_machine.process.terminal_frames import FrameReader, FrameType, encode_frame

__all__ = ["TerminalClient"]


class TerminalClient:
    """A client that is connected to a terminal."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.size: tuple[int, int] | None = None
        """The size in the first frame."""
        self.frames = list[int]()
        """The types of all frames, in their order."""
        self.exit_code: int | None = None
        self._reader, self._writer = reader, writer
        self._frames, self._shown = FrameReader(), bytearray()

    @classmethod
    async def connect(cls, path: Path | str) -> "TerminalClient":
        return cls(*await asyncio.open_unix_connection(path))

    async def read_until(self, text: bytes) -> bytes:
        """The output up to this text, with it."""
        async with asyncio.timeout(120):
            while text not in self._shown:
                assert await self._read(), bytes(self._shown)
        end = self._shown.index(text) + len(text)
        found = bytes(self._shown[:end])
        del self._shown[:end]
        return found

    async def read_to_end(self) -> bytes:
        """The rest of the output."""
        async with asyncio.timeout(120):
            while await self._read():
                pass
        await self.disconnect()
        return bytes(self._shown)

    def type(self, text: bytes) -> None:
        self.send(encode_frame(FrameType.INPUT, text))

    def resize(self, columns: int, rows: int) -> None:
        self.send(encode_frame(FrameType.RESIZE, columns.to_bytes(4, "little") + rows.to_bytes(4, "little")))

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def disconnect(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    async def _read(self) -> bool:
        data = await self._reader.read(65536)
        for kind, payload in self._frames.add(data):
            self.frames.append(kind)
            match kind:
                case FrameType.HELLO:
                    tree = json.loads(payload)
                    assert tree["version"] == 1
                    self.size = tree["width"], tree["height"]
                case FrameType.EXIT:
                    self.exit_code = int.from_bytes(payload, "little", signed=True)
                case _:
                    self._shown += payload
        return bool(data)
