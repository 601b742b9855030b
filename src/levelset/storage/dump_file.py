"""A dump of a storage: all items with their revisions as lines of JSON, in the order of their revisions.

The first line says what the file is and of which revision; then comes a line for each item; the last one has their
number and a checksum of all lines before, so that a file that is cut or changed is noticed. Values that are UTF-8 are
text, others base64. The file may contain Secrets: it is readable by its owner only.
"""

import base64
import os
import secrets
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from levelset.errors import ConfigError
from levelset.storage.interface import Item

__all__ = ["read_dump", "write_dump"]

_FORMAT: Final = "levelset dump"
_VERSION: Final = 1


class _Head(msgspec.Struct):
    format: str
    version: int
    revision: int


class _Line(msgspec.Struct, omit_defaults=True):
    key: str
    revision: int
    created: int
    version: int
    value: str | None = None
    base64: str | None = None


class _End(msgspec.Struct):
    items: int
    checksum: int


def write_dump(path: Path, items: Sequence[Item], revision: int) -> None:
    """Writes a new file, complete or not at all; raises ConfigError if it cannot, or exists."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                for line in _lines(items, revision):
                    file.write(line)
                file.flush()
                os.fsync(file.fileno())
            path.hardlink_to(temporary)  # unlike a rename, it replaces nothing
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"The dump {path} cannot be written: {error.strerror or error}.") from error


def read_dump(path: Path) -> tuple[list[Item], int]:
    """The items of a dump and its revision; raises ConfigError if it is none, or not as it was written."""
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except OSError as error:
        raise ConfigError(f"The dump {path} cannot be read: {error.strerror or error}.") from error
    try:
        head = msgspec.json.decode(lines[0] if lines else b"", type=_Head)
        if head.format != _FORMAT:
            raise ConfigError(f"{path} is not a dump of levelset.")
        if head.version != _VERSION:
            raise ConfigError(f"The dump {path} has version {head.version}: use the levelset that wrote it.")
        items = [_item(line) for line in lines[1:-1]]
        end = msgspec.json.decode(lines[-1], type=_End)
    except (msgspec.MsgspecError, ValueError) as error:
        raise ConfigError(f"{path} is not a dump of levelset, or is cut: {error}.") from error
    if end != _End(len(items), _checksum(lines[:-1])):
        raise ConfigError(f"The dump {path} is not as it was written: restore it from a copy.")
    return items, head.revision


def _lines(items: Sequence[Item], revision: int) -> Iterator[bytes]:
    checksum = 0
    encode = msgspec.json.Encoder().encode
    for one in (_Head(_FORMAT, _VERSION, revision), *map(_line, items)):
        line = encode(one) + b"\n"
        checksum = zlib.crc32(line, checksum)
        yield line
    yield encode(_End(len(items), checksum)) + b"\n"


def _line(item: Item) -> _Line:
    line = _Line(item.key, item.revision, item.created, item.version)
    try:
        line.value = item.value.decode()
    except UnicodeDecodeError:
        line.base64 = base64.b64encode(item.value).decode("ascii")
    return line


def _item(content: bytes) -> Item:
    line = msgspec.json.decode(content, type=_Line)
    value = base64.b64decode(line.base64, validate=True) if line.base64 is not None else (line.value or "").encode()
    return Item(line.key, value, line.revision, line.created, line.version)


def _checksum(lines: Sequence[bytes]) -> int:
    checksum = 0
    for line in lines:
        checksum = zlib.crc32(line, checksum)
    return checksum
