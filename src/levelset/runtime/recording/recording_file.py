r"""The file of a recording: written by a thread in blocks that are only appended, and readable up to a torn end.

    magic   b"levelset-recording\n", then one byte with the version of the format
    block   the length of the payload (4 bytes, big endian), its CRC-32 (4 bytes), its encoding (1 byte), the payload

The payload is a msgpack array of whole entries (`entries.py`), plain (encoding 0) or compressed by zlib (encoding 1). A
block that is cut off or damaged ends the recording there. While a process produces entries faster than `_BUSY`, blocks
are not compressed: compression would cost more than all the rest of the recording.
"""

import os
import struct
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final, Protocol

import msgspec

from levelset.errors import BadObject, ConfigError
from levelset.objects.json_tree import is_list
from levelset.objects.ref import Ref
from levelset.runtime.recording import entries
from levelset.runtime.recording.entries import FORMAT, Entry, rows_in

__all__ = [
    "MAGIC",
    "PART_VALUES",
    "BlockWriter",
    "Cleaner",
    "Part",
    "RecordingWriter",
    "read_beginning",
    "read_blocks",
    "read_recording",
    "rewrite",
]

MAGIC: Final = b"levelset-recording\n"
_HEADER: Final = struct.Struct(">IIB")
PART_VALUES: Final = 200
"""Values of entries that are encoded at once: so few that they are still in the caches of the processor."""
_BLOCK_SIZE: Final = 64 << 10
"""Bytes of a block before it is compressed: larger ones compress better."""
_MAX_PAYLOAD: Final = 256 << 20
"""Bytes of a block, also after it was decompressed: a small file must not fill the memory."""
_MAX_VALUES: Final = 10_000_000
"""Values of a block: each takes memory when it is decoded."""
_UNREADABLE: Final = "not a recording that this levelset can read"
_BUSY: Final = 512 * 1024
"""Bytes per second above which blocks are not compressed."""
_HEAD_SIZE: Final = 5
"""Bytes at the beginning of a block that say how many values it has."""
_REUSED: Final = 16
"""Parts whose memory is used again."""
_MAX_REUSED: Final = 4 * _BLOCK_SIZE
"""Bytes of such a part."""
_TOGETHER: Final = 40
"""Parts that are looked through for secrets before the first of them is written."""
_MAX_PENDING: Final = 1_500_000
"""Values that wait for the thread; if there are more, the disk is too slow and the recording ends."""


class Part:
    """Some whole entries, encoded as one array of so many values: objects, and flat rows.

    The event loop encodes them, a few at a time. Kept as objects until a thread has written them, they would cost more
    than that takes: what a process allocates meanwhile would not be in the caches of the processor. Its memory is used
    again for the same reason.

    `paths` are those of all requests, and one for each informer's kind: whether any of them may be about a secret kind
    is seen without looking through the entries.
    """

    __slots__ = ("_buffer", "count", "paths", "size")

    def __init__(self) -> None:
        self._buffer = bytearray(_HEAD_SIZE)
        self.size = _HEAD_SIZE
        """The bytes of the array so far."""
        self.count = 0
        self.paths: list[str] = []

    def add(self, values: Sequence[Any], paths: Iterable[str], scratch: bytearray) -> None:
        """Encodes whole entries; if that fails, nothing was added. `scratch` is used meanwhile."""
        _encode_into(values, scratch, 0)
        count, begin = len(values), self.size
        head = 3 if 16 <= count < 1 << 16 else 1 if count < 16 else 5  # of their array: not needed
        self.size = end = begin + len(scratch) - head
        buffer = self._buffer
        if end > len(buffer):
            buffer.extend(bytes(end - len(buffer)))
        memoryview(buffer)[begin:end] = memoryview(scratch)[head:]
        self.count += count
        self.paths += paths

    def payload(self) -> memoryview:
        """The array; to be let go of before anything is added."""
        self._buffer[:_HEAD_SIZE] = b"\xdd" + self.count.to_bytes(4, "big")
        return memoryview(self._buffer)[: self.size]

    def clear(self) -> None:
        """Removes all entries, and keeps the memory."""
        self.size, self.count, self.paths = _HEAD_SIZE, 0, []

    def entries(self) -> list[Entry]:
        """The entries, decoded."""
        return _entries_of(self.payload(), 0.0)


class Cleaner(Protocol):
    """Replaces what must not be in the file; called in the thread of the file."""

    def learn(self, parts: Sequence[Part], /) -> None:
        """Sees the next parts, before they are written."""
        ...

    def clean(self, payload: memoryview, /) -> bytes | memoryview:
        """The payload with everything replaced that is known so far, in the same length."""
        ...

    def finish(self, path: Path, /) -> None:
        """The file is complete and closed."""
        ...


class BlockWriter:
    """Appends blocks to a file that only its owner can read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.written = 0
        try:
            # A link that another user has put there would have their file overwritten, or ours made readable.
            number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            os.fchmod(number, 0o600)
        except OSError as error:
            raise ConfigError(f"{path}: the recording cannot be written: {error.strerror}") from error
        self._file = os.fdopen(number, "wb", buffering=0)
        self._write(MAGIC + bytes([FORMAT]))

    def append(self, payload: bytes | memoryview, *, compress: bool) -> None:
        """Appends one block."""
        packed = zlib.compress(payload, 1) if compress else payload
        self._write(_HEADER.pack(len(packed), zlib.crc32(packed), compress), packed)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _write(self, *pieces: bytes | memoryview) -> None:
        # All at once and without a copy; nearly always all of it is written.
        size = sum(map(len, pieces))
        done = os.writev(self._file.fileno(), pieces)
        if done < size:
            with memoryview(b"".join(pieces)) as view:
                while done < size:
                    done += self._file.write(view[done:])
        self.written += size


class RecordingWriter:
    """Takes entries from the event loop by `put`, which never waits; `write_pending` writes them, in a thread.

    Entries become `pending` when there is a block of them, or by `seal`.

    `end_reason` is set once it has ended by itself: the file is full, or cannot be written.
    """

    def __init__(self, path: Path, *, max_bytes: int | None = None, cleaner: Cleaner | None = None) -> None:
        self.pending: list[Part] = []
        """What is not written yet; the event loop appends to it, a thread takes from it."""
        self.end_reason: str | None = None
        self._part, self._scratch = Part(), bytearray()
        self._unused: list[Part] = []
        """What was written; a thread appends to it, the event loop takes from it."""
        self._blocks = BlockWriter(path)
        self._max_bytes = max_bytes
        self._cleaner = cleaner
        self._budget, self._last = float(_BUSY), time.monotonic()  # bytes to compress, as of that time

    @property
    def written(self) -> int:
        """How many bytes the file has."""
        return self._blocks.written

    def put(self, values: Sequence[Any], paths: Sequence[str]) -> None:
        """Encodes whole entries, and has them written next."""
        part = self._part
        try:
            part.add(values, paths, self._scratch)
        except Exception as error:  # noqa: BLE001 -- as below
            self.end_reason = self.end_reason or f"it could not be written: {error}"
        if part.size >= _BLOCK_SIZE:
            self.seal()

    def seal(self) -> None:
        """Has what was put so far be pending."""
        if self._part.count:
            self.pending.append(self._part)
            self._part = self._unused.pop() if self._unused else Part()

    def write_pending(self) -> None:
        """Writes what there is. Not to be called by two threads at once."""
        if self.end_reason is not None:
            self.pending.clear()
            return
        try:
            self._write_pending()
        except Exception as error:  # noqa: BLE001 -- the program goes on without its recording
            self.end_reason = f"it could not be written: {error}"

    def close(self, last: entries.Stop | None = None) -> None:
        """Writes the rest and closes the file. The last entry says why it ended, and is written in a full file, too."""
        self.seal()
        self.write_pending()
        if last is not None:
            with suppress(OSError):
                self._blocks.append(_encode([last]), compress=False)
        self._blocks.close()
        if self._cleaner is not None:
            self._cleaner.finish(self._blocks.path)

    def _write_pending(self) -> None:
        if sum(one.count for one in self.pending) > _MAX_PENDING:
            self.end_reason = "the disk was too slow"
            return
        now = time.monotonic()
        self._budget, self._last = min(_BUSY, self._budget + (now - self._last) * _BUSY), now
        for part in self._parts():
            payload = part.payload() if self._cleaner is None else self._cleaner.clean(part.payload())
            self._budget -= len(payload)
            self._blocks.append(payload, compress=self._budget >= 0)
            if self._max_bytes is not None and self._blocks.written >= self._max_bytes:
                self.end_reason = f"it has reached {self._max_bytes:,} bytes"
                return
            del payload
            if part.size < _MAX_REUSED and len(self._unused) < _REUSED:
                part.clear()
                self._unused.append(part)

    def _parts(self) -> Iterator[Part]:
        """The next parts to be written; the secret values in each are known."""
        pending, cleaner = self.pending, self._cleaner
        while pending:
            # Two steps that the event loop cannot interrupt; in between it may append.
            taken = pending[:_TOGETHER]
            del pending[: len(taken)]
            if cleaner is not None:
                cleaner.learn(taken)
            yield from taken


def _encode_ref(value: Any) -> Any:
    if isinstance(value, Ref):
        return *value.gvk, value.namespace, value.name
    # What msgspec expects of a hook; it adds the type to its message.
    raise NotImplementedError(f"an entry of a recording cannot hold {value!r:.80}")


_encoder: Final = msgspec.msgpack.Encoder(enc_hook=_encode_ref)
_encode: Final = _encoder.encode
_encode_into: Final = _encoder.encode_into
_decode: Final = msgspec.msgpack.Decoder(Annotated[list[Any], msgspec.Meta(max_length=_MAX_VALUES)]).decode
_Entries: Final = list[
    entries.Start
    | entries.ScopeEntry
    | entries.Batch
    | entries.More
    | entries.WatchFailed
    | entries.Begin
    | entries.Resume
    | entries.Request
    | entries.Answer
    | entries.Spawn
    | entries.Value
    | entries.Event
    | entries.End
    | entries.Discovery
    | entries.Leader
    | entries.Stop
    | entries.ControllerEntry
    | entries.OtherWrite
]


def read_blocks(path: str | Path) -> Iterator[bytes]:
    """The payloads of a recording, up to its end or to the first block that is cut off or damaged.

    BadObject if the file is no recording, or one of a newer format, or has a block that is too large.
    """
    try:
        file = Path(path).open("rb")  # noqa: SIM115 -- closed below; only opening it is checked
    except OSError as error:
        raise ConfigError(f"{path}: the recording cannot be read: {error.strerror}") from error
    with file:
        magic = file.read(len(MAGIC) + 1)
        if not magic.startswith(MAGIC) or len(magic) == len(MAGIC):
            raise BadObject(f"{path}: not a recording of levelset; write one with `levelset run --record {path}`")
        if magic[-1] > FORMAT:
            raise BadObject(f"{path}: a recording of format {magic[-1]}; this levelset reads {FORMAT}: use a newer one")
        size = os.fstat(file.fileno()).st_size
        while len(header := file.read(_HEADER.size)) == _HEADER.size:
            length, checksum, encoding = _HEADER.unpack(header)
            if length > size - file.tell():
                return
            if length > _MAX_PAYLOAD:
                raise BadObject(f"{path}: a block of more than {_MAX_PAYLOAD:,} bytes; it is not read")
            packed = file.read(length)
            if zlib.crc32(packed) != checksum:
                return
            yield _unpacked(packed, encoding, path)


def _unpacked(packed: bytes, encoding: int, path: str | Path) -> bytes:
    """The payload of a block whose checksum is right; a crafted one may be anything."""
    if encoding == 0:
        return packed
    unpacker = zlib.decompressobj()
    try:
        payload = unpacker.decompress(packed, _MAX_PAYLOAD) if encoding == 1 else b""
    except zlib.error as error:
        raise BadObject(f"{path}: {_UNREADABLE}: {error}") from error
    if unpacker.unconsumed_tail:
        raise BadObject(f"{path}: a block of more than {_MAX_PAYLOAD:,} bytes; it is not read")
    if not unpacker.eof:
        raise BadObject(f"{path}: {_UNREADABLE}: a block has an unknown encoding, or is cut off")
    return payload


def read_recording(path: str | Path) -> list[Entry]:
    """The entries of a recording, up to its end or to where it is cut off or damaged; BadObject if it is none."""
    return read_beginning(path)[0]


def read_beginning(path: str | Path, *, most_bytes: int | None = None) -> tuple[list[Entry], bool]:
    """The entries of the first blocks of a recording, of so many bytes when unpacked, and whether that is all."""
    found: list[Entry] = []
    read, clock = 0, 0.0
    try:
        for payload in read_blocks(path):
            read += len(payload)
            if most_bytes is not None and read > most_bytes:
                break
            if not found and (first := next(rows_in(_decode(payload)), None)) is not None:
                clock = msgspec.convert(first, entries.Start).clock
            found += _entries_of(payload, clock)
    except (msgspec.MsgspecError, LookupError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise BadObject(f"{path}: {_UNREADABLE}: {error}") from error
    if not found or not isinstance(found[0], entries.Start):
        raise BadObject(f"{path}: the recording is empty; the process ended before it wrote anything")
    return found, most_bytes is None or read <= most_bytes


def _entries_of(payload: bytes | memoryview, clock: float) -> list[Entry]:
    found: list[Entry] = [*msgspec.convert([_timed(row, clock) for row in rows_in(_decode(payload))], _Entries)]
    return found


def _timed(row: Any, clock: float) -> Any:
    """A row with its time in microseconds since the start, as objects have it."""
    if is_list(row) and len(row) > 1 and isinstance(row[1], float):
        at = max(0, int((row[1] - clock) * 1e6))
        if at >= 1 << 63:
            raise ValueError("a time that no clock has")
        return [row[0], at, *row[2:]]
    return row


def rewrite(path: Path, change: Callable[[bytes], bytes | memoryview]) -> None:
    """Rewrites a recording with changed payloads; the old file is replaced at once, when the new one is whole."""
    beside = path.with_name(f"{path.name}.new")
    writer = BlockWriter(beside)
    try:
        for payload in read_blocks(path):
            writer.append(change(payload), compress=True)
    finally:
        writer.close()
    beside.replace(path)
