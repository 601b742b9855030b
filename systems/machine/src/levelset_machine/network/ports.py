"""Free ports, each reserved for its caller long enough that it can be used before it is handed out again."""

import contextlib
import fcntl
import os
import socket
import time
from collections.abc import Generator
from pathlib import Path
from typing import Final

from msgspec import Struct

from levelset.errors import LevelsetError

__all__ = ["NoPort", "Reservation", "Reservations", "free_port", "read_reservations", "write_reservations"]

_RESERVED: Final = 120.0
"""For how many seconds a port is reserved for its caller."""

_TRIES: Final = 64
_MAX_RESERVATIONS: Final = 20_000
"""How many reservations the file holds; beyond that the oldest are dropped."""
_SIZE: Final = 64 * _MAX_RESERVATIONS


class NoPort(LevelsetError):
    """No free port was found."""


class Reservation(Struct, frozen=True):
    """A port that was handed out, and until when it is reserved (seconds since 1970)."""

    address: str
    port: int
    until: float


class Reservations:
    """The ports that were handed out recently: by this process, and by others that share the file."""

    def __init__(self, file: Path | None) -> None:
        self.file = file
        self._own: dict[tuple[str, int], float] = {}

    def find(self, address: str, *, udp: bool = False, now: float | None = None) -> int:
        """A port that is free and was not handed out within two minutes; raises NoPort if none was found."""
        now = time.time() if now is None else now
        self._own = {key: until for key, until in self._own.items() if until > now}
        with _shared(self.file) as others:
            reserved = [one for one in others.read() if one.until > now]
            taken = {one.port for one in reserved if one.address == address}
            taken |= {port for host, port in self._own if host == address}
            port = _unused(address, taken, udp=udp)
            self._own[address, port] = now + _RESERVED
            others.write([*reserved, Reservation(address, port, now + _RESERVED)], now=now)
        return port


def free_port(address: str = "127.0.0.1", *, udp: bool = False) -> int:
    """A port that is free at this address, reserved for the caller for two minutes.

    The system chooses it. Meanwhile neither this process nor another one of the same user hands it out again: a file in
    the folder for temporary files holds the reservations. If it cannot be used, only this process remembers them.
    """
    return _shared_reservations().find(address, udp=udp)


def read_reservations(text: str) -> list[Reservation]:
    """Parses the file of reservations; malformed lines are skipped."""
    found: list[Reservation] = []
    for line in text.splitlines():
        with contextlib.suppress(ValueError):
            address, port, until = line.split(" ")
            found.append(Reservation(address, int(port), float(until)))
    return found


def write_reservations(reservations: list[Reservation], *, now: float) -> str:
    """The text of the file, with the reservations that have not expired."""
    current = [one for one in reservations if one.until > now][-_MAX_RESERVATIONS:]
    return "".join(f"{one.address} {one.port} {one.until:.3f}\n" for one in current)


_instance: list[Reservations] = []


def _shared_reservations() -> Reservations:
    if not _instance:
        _instance.append(Reservations(_default_file()))
    return _instance[0]


def _default_file() -> Path:
    folder = os.environ.get("XDG_RUNTIME_DIR") or os.environ.get("TMPDIR") or "/tmp"  # noqa: S108 -- see _open_own
    return Path(folder) / f"levelset-ports-{os.getuid()}"


def _unused(address: str, taken: set[int], *, udp: bool) -> int:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    kind = socket.SOCK_DGRAM if udp else socket.SOCK_STREAM
    with contextlib.ExitStack() as stack:
        for _ in range(_TRIES):
            # Stays bound until the end, so that the system does not offer the same port again.
            sock = stack.enter_context(socket.socket(family, kind))
            try:
                sock.bind((address, 0))
            except OSError as error:
                raise NoPort(f"cannot bind a port of {address}: {error}") from error
            port: int = sock.getsockname()[1]
            if port not in taken:
                return port
    raise NoPort(f"{_TRIES} ports of {address} in a row were handed out within the last two minutes; try again later")


class _Shared:
    """The file of reservations while it is locked; without a descriptor, always empty."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def read(self) -> list[Reservation]:
        if self._descriptor is None:
            return []
        return read_reservations(os.pread(self._descriptor, _SIZE, 0).decode("ascii", "replace"))

    def write(self, reservations: list[Reservation], *, now: float) -> None:
        if self._descriptor is not None:
            text = write_reservations(reservations, now=now).encode("ascii", "replace")
            os.pwrite(self._descriptor, text, 0)
            os.ftruncate(self._descriptor, len(text))


@contextlib.contextmanager
def _shared(file: Path | None) -> Generator[_Shared, None, None]:
    descriptor = None if file is None else _open_own(file)
    try:
        yield _Shared(descriptor)
    finally:
        if descriptor is not None:
            os.close(descriptor)  # which releases the lock, too


def _open_own(file: Path) -> int | None:
    """Opens and locks the file; None if it is another user's, or locked by another process.

    The folder may be world-writable: symlinks are not followed, and a file of another user is not used. It never waits
    for the lock: without the file a collision is still unlikely, because the system offers each caller another port.
    """
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    try:
        if os.fstat(descriptor).st_uid == os.getuid():
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None
